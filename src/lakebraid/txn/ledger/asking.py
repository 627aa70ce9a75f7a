# SPDX-License-Identifier: Apache-2.0
"""Asking: how a process gets a wish decided by whichever process creates the next entry, itself among them.

When to ask, how long to wait and who decides are hints: any other choice is as safe. What must hold is that a wish is decided
once, however late its objects appear (LEDGER, G1 and G2), and that it is told only when it is so (LEDGER, G7).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from lakebraid import limits
from lakebraid.clock import Clock
from lakebraid.errors import DecisionUnknown, ObjectExists, ObjectNotFound, OutcomeUnknown, StorageError
from lakebraid.format.timeline.publication import completed_files
from lakebraid.format.times import format_instant_time, next_instant_time
from lakebraid.storage.parallel import map_calls, together
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


@dataclass
class Beside:
    """A wish that is asked for beside another one of the same process, which waits for the other one only."""

    wanted: Wanted[str]
    seen: Callable[[str], object]
    """Called with its outcome as soon as that is seen; the entry may still turn out to mean nothing."""
    attempted: Attempted = field(default_factory=Attempted)
    """With this it is asked for further, if it is not decided by then."""

    def put(self, ledger: Ledger, entry: Entry) -> list[str]:
        """Puts it where every process lists; the names of its objects. If that fails, nothing was asked for."""
        if not self.attempted.is_first():
            return []
        with contextlib.suppress(StorageError):
            return put_ask(ledger, entry, self.wanted, self.attempted)
        return []

    def outcome(self, state: LedgerState) -> str | None:
        """What became of it, by the state of an entry; None if it is not decided, or nothing came of it."""
        told = state.decided.get(self.attempted.wish)
        return None if told is None or told.outcome == AGAIN else told.outcome

    def look(self, state: LedgerState) -> None:
        """Says what became of it to those who want to know."""
        found = self.outcome(state)
        if found is not None:
            self.seen(found)


@dataclass(frozen=True)
class Asked(Generic[T]):
    """How a decision is wanted."""

    before_applied: Callable[[T], object] | None = None
    lazily: bool = False
    beside: Beside | None = None


def is_to_ask(ledger: Ledger, wish: Wish) -> bool:
    """Whether a wish is put as an ask if calls take long. Once it was it must be, so that it is decided once (LEDGER, G2)."""
    return not ledger.is_shared and wish_text(wish) is not None


def look_and_ask(ledger: Ledger, wanted: Wanted[Any] | None, asked: Asked[Any], attempted: Attempted) -> Entry:
    """The newest entry, looked for while a wish is asked for that no process has seen before, and what is wanted beside it."""
    known, calls = ledger.known or ledger.watch.newest(), list[Callable[[], list[str]]]()
    if wanted is not None:
        calls.append(partial(put_ask, ledger, known, wanted, attempted))
    if asked.beside is not None:
        calls.append(partial(asked.beside.put, ledger, known))
    *names, entry = together(ledger.storage, *calls, ledger.look)
    ledger.watch.names += chain.from_iterable(names)
    if asked.beside is not None:
        attempted.beside = asked.beside.attempted.wish
    return cast("Entry", entry)


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
    if asked.beside is not None:
        asked.beside.look(entry.state)
    is_own = ledger.entered is not None and ledger.entered.number == told.number
    if not (asked.lazily and wanted.wish.kind == BEGINNING):
        _await_applied(ledger, entry, told.number)
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
    """How many authors of older asks wait for them to be decided; None if the ask of this wish is not there."""
    wish, there = attempted.wish, counting(parse_asks(ledger.watch.names), entry.state, entry.number + 1)
    waiting = [one.id for one in there if one.id == wish or not one.is_ahead]
    return waiting.index(attempted.wish) if attempted.wish in waiting else None


def _further(
    ledger: Ledger, entry: Entry, wanted: Wanted[T], asked: Asked[T], attempted: Attempted, since: float
) -> Entry:
    """The newest entry, after a process whose wish is undecided has decided all asks that are there, or has let others do so."""
    clock, rank = ledger.clock, _rank(ledger, entry, attempted)
    if rank is None:
        _poll(clock, since)
        return ledger.newest()
    turn_seconds = patience_seconds(ledger.watch.turns) if ledger.watch.turns else 0.0
    until = since + max(_help_seconds(ledger, entry, rank), turn_seconds)
    if until <= since or clock.monotonic() >= until:
        wish = attempted.wish

        def shown(state: LedgerState) -> object:
            if asked.beside is not None:
                asked.beside.look(state)
            told = state.decided.get(wish)
            if told is not None and told.outcome != AGAIN and asked.before_applied is not None:
                return asked.before_applied(wanted.value_of(told.outcome))
            return None

        is_made = ledger.decide_asks(entry, attempted, shown, lazily=asked.lazily and wanted.wish.kind == BEGINNING)
        return ledger.known if is_made and ledger.known is not None else ledger.newest()
    seconds = min(_applying_seconds(ledger, entry), until - clock.monotonic()) if rank else 0.0
    _poll(clock, since, seconds)
    while rank and clock.monotonic() < until and not ledger.watch.peek(entry.number + 1):
        _poll(clock, since)
    return ledger.newest()


def _await_applied(ledger: Ledger, entry: Entry, number: int) -> None:
    """Returns once the newest entry, or one before it, is applied: a process is told of its outcome no sooner (LEDGER, G7)."""
    ledger.applied = max(ledger.applied, entry.number - 1)
    clock = ledger.clock
    since = clock.monotonic()
    until = since + _patience_seconds(entry, 8 * clock.random())
    if number > ledger.applied and (seconds := _applying_seconds(ledger, entry)):
        clock.sleep(seconds)
    while number > ledger.applied:
        if mark_name(number) in ledger.watch.names or ledger.watch.has(mark_name(number)):
            ledger.applied = max(ledger.applied, number)
        elif clock.monotonic() > until:
            entry = ledger.settled()
            ledger.applied = max(ledger.applied, entry.number)
        else:
            _poll(clock, since)


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
    return (
        limits.ASK_HELP_SECONDS + limits.ASK_HELP_SECONDS_EACH * rank if is_applied else _patience_seconds(entry, rank)
    )


def _patience_seconds(entry: Entry, rank: float) -> float:
    """How long the process that made an entry is left alone with its copies by the one of this rank among those that wait."""
    copying = limits.ASK_HELP_SECONDS_FILE * _copies_in_a_row(entry)
    return limits.ASK_HELP_SECONDS + copying + limits.ASK_HELP_SECONDS_EACH * rank


def _applying_seconds(ledger: Ledger, entry: Entry) -> float:
    """About how long its process still copies the files of the newest entry: to look before that is in vain."""
    if entry.number <= ledger.applied or mark_name(entry.number) in ledger.watch.names:
        return 0.0
    return _copies_in_a_row(entry) * ledger.company.call_seconds_mean


def _copies_in_a_row(entry: Entry) -> int:
    completed = len(completed_files([target for _, target in entry.files])) if entry.since is None else 0
    return completed + -(-(len(entry.files) - completed) // limits.STORE_CALLS_AT_ONCE_MAX)


def _poll(clock: Clock, since: float, seconds: float = 0.0) -> None:
    """Waits a moment between two looks, the longer the longer it has waited, and so many seconds at least."""
    least, most = limits.ASK_POLL_SECONDS
    moment = least + (most - least) * clock.random()
    clock.sleep(max(moment, seconds, limits.ASK_POLL_SHARE * (clock.monotonic() - since)))
