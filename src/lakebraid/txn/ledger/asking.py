# SPDX-License-Identifier: Apache-2.0
"""Asking: how a process gets a wish decided by whichever process creates the next entry, itself among them.

When to ask, how long to wait and who decides are hints: any other choice is as safe. What must hold is that a wish is decided
once, however late its objects appear (LEDGER, G1 and G2), and that it is told only when it is so (LEDGER, G7).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from lakebraid import limits
from lakebraid.clock import Clock
from lakebraid.errors import DecisionUnknown, ObjectExists, ObjectNotFound, OutcomeUnknown, StorageError
from lakebraid.format.times import format_instant_time, next_instant_time
from lakebraid.storage.parallel import map_calls
from lakebraid.storage.tries import Patience
from lakebraid.table.at import TableAt
from lakebraid.txn.ledger.asks import Ask, counting, mark_name, parse_asks, wish_text
from lakebraid.txn.ledger.entries import Decided, Entry, LedgerState
from lakebraid.txn.ledger.rounds import Already, Attempted, Wanted
from lakebraid.txn.ledger.turns import patience_seconds
from lakebraid.txn.ledger.wishes import AGAIN, BEGINNING, PUBLISHING, TELLING, Applied, Wish, apply

if TYPE_CHECKING:
    from lakebraid.txn.ledger.ledger import Ledger

T = TypeVar("T")


@dataclass(frozen=True)
class Asked(Generic[T]):
    """How a decision is wanted."""

    before_applied: Callable[[T], object] | None = None
    lazily: bool = False


def is_to_ask(ledger: Ledger, wish: Wish) -> bool:
    """Whether a wish is put as an ask if calls take long. Once it was it must be, so that it is decided once (LEDGER, G2)."""
    return not ledger.is_shared and wish_text(wish) is not None


def put_ask(ledger: Ledger, entry: Entry, wanted: Wanted[Any], attempted: Attempted) -> list[str]:
    """Puts a wish where every process lists; the names of its objects, none if it is not known whether they are there."""
    clock, is_fresh = ledger.clock, not attempted.wish
    if is_fresh:
        attempted.wish, attempted.undecided = clock.token(), entry.number
    # An unanswered one is not put again under its name: it may still come. (LEDGER, G2)
    one = Ask(entry.number, attempted.wish, clock.token(), wish_text(wanted.wish) or "", len(wanted.parts))

    def put(part: int) -> None:
        with contextlib.suppress(ObjectExists):  # the name is fresh: the store has sent it twice, and it is there
            ledger.storage.create(one.name(part), wanted.parts[part])

    try:
        map_calls(ledger.storage, put, range(one.parts))
    except OutcomeUnknown:
        return []
    except StorageError:
        if is_fresh:
            attempted.wish = ""  # certainly not asked for
        raise
    return [one.name(part) for part in range(one.parts)]


def ask(ledger: Ledger, entry: Entry, wanted: Wanted[T], asked: Asked[T], attempted: Attempted) -> Already[T] | None:
    """What became of the wish; None if its rule has to look again."""
    seen, since, patience = entry.number, ledger.clock.monotonic(), Patience(ledger.clock)
    for _ in range(limits.DECIDE_ATTEMPTS_MAX):
        told = entry.state.decided.get(attempted.wish)
        if told is not None:
            return _told(ledger, entry, told, wanted, asked, attempted)
        if attempted.wish and entry.number - attempted.undecided > limits.ASK_ENTRIES_MAX:
            attempted.wish = ""  # it may have been decided and forgotten; none of its asks counts any more
            return None
        attempted.undecided = entry.number
        if entry.number != seen:
            seen, since = entry.number, ledger.clock.monotonic()
        is_answered = _rank(ledger, entry, attempted) is not None
        if not is_answered:
            names = put_ask(ledger, entry, wanted, attempted)
            ledger.watch.names += names
            is_answered = bool(names)
        try:
            entry = _further(ledger, entry, wanted, asked, attempted, since)
        except OutcomeUnknown:
            is_answered = False
        if is_answered:
            patience.renew()
        elif not patience.wait():
            raise unknown_decision(ledger.storage.url, "Several asks in a row were not answered.")
    return None


def carry(
    table: TableAt, state: LedgerState, slot: int, names: Iterable[str]
) -> tuple[LedgerState, tuple[tuple[str, str], ...]]:
    """The state with the asks decided that count among these names, and the timeline files of these with their sources."""
    files = list[tuple[str, str]]()
    wanted = [(one, one.wish()) for one in counting(parse_asks(names), state, slot)[: limits.ASKS_DECIDED_MAX]]
    clock = format_instant_time(table.clock.now_ms(), table.config.zone) if wanted else ""
    # What begins comes before what is published: so files that need not wait for each other lie side by side, and still
    # times appear on the timeline in the order in which they were given.
    for one, wish in sorted(wanted, key=lambda item: item[1] is not None and item[1].kind in PUBLISHING):
        done = None if wish is None else apply(state, slot, wish, max(clock, next_instant_time(state.last)))
        if done is not None and wish is not None and wish.kind in TELLING and table.config.metadata_partitions:
            done = Applied(state, AGAIN)  # of an author that has not seen the metadata table (LEDGER, P4)
        if done is not None:
            state = replace(done.state, decided={**state.decided, one.id: Decided(slot, done.outcome)})
            files += [(one.name(part), f"{table.config.timeline_folder}/{name}") for part, name in done.files]
    return state, tuple(files)


def _told(
    ledger: Ledger, entry: Entry, told: Decided, wanted: Wanted[T], asked: Asked[T], attempted: Attempted
) -> Already[T] | None:
    is_own = ledger.entered is not None and ledger.entered.number == told.number
    if not (asked.lazily and wanted.wish.kind == BEGINNING):
        _await_applied(ledger, told.number)
    attempted.wish = ""
    if told.outcome == AGAIN:
        return None
    value = wanted.value_of(told.outcome)
    if not is_own:
        ledger.entered = entry
        if entry.number != told.number:
            with contextlib.suppress(ObjectNotFound):
                ledger.entered = ledger.watch.read(told.number)
        if asked.before_applied is not None:
            asked.before_applied(value)
    return Already(value)


def _rank(ledger: Ledger, entry: Entry, attempted: Attempted) -> int | None:
    """How many older asks wait to be decided; None if that of this wish is not there."""
    waiting = [one.id for one in counting(parse_asks(ledger.watch.names), entry.state, entry.number + 1)]
    return waiting.index(attempted.wish) if attempted.wish in waiting else None


def _further(
    ledger: Ledger, entry: Entry, wanted: Wanted[T], asked: Asked[T], attempted: Attempted, since: float
) -> Entry:
    """The newest entry, after a process whose wish is undecided has decided all asks that are there, or has let others do so."""
    clock, rank = ledger.clock, _rank(ledger, entry, attempted)
    if rank is None:
        _poll(clock)
        return ledger.newest()
    turn_seconds = patience_seconds(ledger.watch.turns) if ledger.watch.turns else 0.0
    until = since + max(_help_seconds(ledger, entry, rank), turn_seconds)
    if until <= since or clock.monotonic() >= until:
        wish = attempted.wish

        def shown(state: LedgerState) -> object:
            told = state.decided.get(wish)
            if told is not None and told.outcome != AGAIN and asked.before_applied is not None:
                return asked.before_applied(wanted.value_of(told.outcome))
            return None

        is_made = ledger.decide_asks(entry, attempted, shown, lazily=asked.lazily and wanted.wish.kind == BEGINNING)
        return ledger.known if is_made and ledger.known is not None else ledger.newest()
    _poll(clock)
    while rank and clock.monotonic() < until and not ledger.watch.peek(entry.number + 1):
        _poll(clock)
    return ledger.newest()


def _await_applied(ledger: Ledger, number: int) -> None:
    """Returns once an entry is applied: a process is told of its outcome no sooner (LEDGER, G7)."""
    until = ledger.clock.monotonic() + limits.ASK_HELP_SECONDS
    while number > ledger.applied:
        if mark_name(number) in ledger.watch.names or ledger.watch.has(mark_name(number)):
            ledger.applied = max(ledger.applied, number)
        elif ledger.clock.monotonic() > until:
            entry = ledger.settled()
            ledger.applied = max(ledger.applied, entry.number)
        else:
            _poll(ledger.clock)


def unknown_decision(url: str, reason: str) -> DecisionUnknown:
    """What to raise if a decision may or may not have been made."""
    return DecisionUnknown(
        f"{url} stopped answering while a decision was being made. It may or may not have been made. "
        f"Nothing was removed. Ask again when the store answers. ({reason})",
        path=url,
    )


def _help_seconds(ledger: Ledger, entry: Entry, rank: int) -> float:
    """How long a process lets others decide: the authors of older asks, and the process that applies a large entry."""
    is_applied = entry.number <= ledger.applied or mark_name(entry.number) in ledger.watch.names
    if is_applied:
        ledger.applied = max(ledger.applied, entry.number)
    if not rank and (is_applied or len(entry.files) <= limits.ASK_HELP_FILES_MAX):
        return 0.0
    applying = 0.0 if is_applied else limits.ASK_HELP_SECONDS_FILE * len(entry.files)
    return limits.ASK_HELP_SECONDS + applying + limits.ASK_HELP_SECONDS_EACH * rank


def _poll(clock: Clock) -> None:
    """Waits a moment between two looks."""
    least, most = limits.ASK_POLL_SECONDS
    clock.sleep(least + (most - least) * clock.random())
