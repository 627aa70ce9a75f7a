# SPDX-License-Identifier: Apache-2.0
"""Asking: how a process gets a wish decided by whichever process creates the next entry, itself among them.

When to ask, how long to wait and who decides are hints: any other choice is as safe. What must hold is that a wish is decided
once, however late its objects appear (LEDGER, G1 and G2), and that it is told only when it is so (LEDGER, G7).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from lakebraid import limits
from lakebraid.clock import Clock
from lakebraid.errors import DecisionUnknown, ObjectNotFound, OutcomeUnknown
from lakebraid.format.times import format_instant_time, next_instant_time
from lakebraid.storage.parallel import map_calls
from lakebraid.table.at import TableAt
from lakebraid.txn.ledger.asks import Ask, counting, mark_name, parse_asks, wish_text
from lakebraid.txn.ledger.entries import Decided, Entry, LedgerState
from lakebraid.txn.ledger.rounds import Already, Wanted
from lakebraid.txn.ledger.wishes import AGAIN, PUBLISHING, Wish, apply

if TYPE_CHECKING:
    from lakebraid.txn.ledger.ledger import Ledger

T = TypeVar("T")


@dataclass
class Company:
    """Whether others decide at the same time as a process, over all its decisions on a table."""

    met: int = 0
    """For how many more decisions others are reckoned with."""
    call_seconds: float = 0.0
    """How long the last listing of the ledger took."""

    @property
    def is_there(self) -> bool:
        """Whether to ask first: others decide, too, and calls take so long that a lost round is dear."""
        return self.met > 0 and self.call_seconds >= limits.ASK_CALL_SECONDS_MIN

    def meet(self) -> None:
        self.met = limits.ASK_COMPANY_DECISIONS

    def part(self) -> None:
        """After a decision that met nobody."""
        self.met = max(0, self.met - 1)


@dataclass
class Attempted:
    """What one call of `Ledger.decide` has sent so far."""

    slot: int | None = None
    """For which slot a create was sent whose end is not known; None if there is no such one."""
    time: str = ""
    """The time of an entry whose create was sent in this attempt."""
    has_waited: bool = False
    """Whether those who asked for their turn were let go first; once is enough."""
    wish: str = ""
    """The id of a wish that was asked for and is not known to be decided, nor too old to be."""
    undecided: int = 0
    """The last entry in whose state it was not decided."""

    @property
    def is_unsettled(self) -> bool:
        """Whether it may have been decided without our knowing."""
        return self.slot is not None or bool(self.wish)

    def settle(self, newest: int) -> None:
        """Forgets the slot once it is taken, and the rule has not found it to be taken by us."""
        if self.slot is not None and self.slot <= newest:
            self.slot = None


def is_to_ask(ledger: Ledger, wish: Wish, attempted: Attempted) -> bool:
    """Whether a wish is put as an ask: it must be, once it was, so that it is decided once (LEDGER, G2)."""
    is_wanted = bool(attempted.wish) or ledger.company.is_there
    return is_wanted and not ledger.is_shared and wish_text(wish) is not None


def ask(
    ledger: Ledger, wanted: Wanted[T], before_told: Callable[[T], object] | None, attempted: Attempted
) -> Already[T] | None:
    """What became of the wish; None if its rule has to look again."""
    begun = ledger.clock.monotonic()
    for _ in range(limits.DECIDE_ATTEMPTS_MAX):
        entry = ledger.newest()
        told = entry.state.decided.get(attempted.wish)
        if told is not None:
            return _told(ledger, entry, told, wanted, before_told, attempted)
        if attempted.wish and entry.number - attempted.undecided > limits.ASK_ENTRIES_MAX:
            attempted.wish = ""  # it may have been decided and forgotten; none of its asks counts any more
            return None
        attempted.undecided = entry.number
        with contextlib.suppress(OutcomeUnknown):
            _further(ledger, entry, wanted, attempted, begun)
    return None


def carry(
    table: TableAt, state: LedgerState, slot: int, names: Collection[str]
) -> tuple[LedgerState, tuple[tuple[str, str], ...]]:
    """The state with the asks decided that count among these names, and the timeline files of these with their sources."""
    remembered = {w: d for w, d in state.decided.items() if d.number > slot - limits.ASK_ENTRIES_MAX}
    state, files = replace(state, decided=remembered), list[tuple[str, str]]()
    wanted = [(one, one.wish()) for one in counting(parse_asks(names), state, slot)] if names else []
    clock = format_instant_time(table.clock.now_ms(), table.config.zone) if wanted else ""
    # What begins comes before what is published: so files that need not wait for each other lie side by side, and still
    # times appear on the timeline in the order in which they were given.
    for one, wish in sorted(wanted, key=lambda item: item[1] is not None and item[1].kind in PUBLISHING):
        done = None if wish is None else apply(state, slot, wish, max(clock, next_instant_time(state.last)))
        if done is not None:
            state = replace(done.state, decided={**state.decided, one.id: Decided(slot, done.outcome)})
            files += [(one.name(part), f"{table.config.timeline_folder}/{name}") for part, name in done.files]
    return state, tuple(files)


def _told(
    ledger: Ledger,
    entry: Entry,
    told: Decided,
    wanted: Wanted[T],
    before_told: Callable[[T], object] | None,
    attempted: Attempted,
) -> Already[T] | None:
    _await_applied(ledger, told.number)
    attempted.wish = ""
    if told.outcome == AGAIN:
        return None
    ledger.entered = entry
    if entry.number != told.number:
        with contextlib.suppress(ObjectNotFound):
            ledger.entered = ledger.read(told.number)
    value = wanted.value_of(told.outcome)
    if before_told is not None:
        before_told(value)
    return Already(value)


def _further(ledger: Ledger, entry: Entry, wanted: Wanted[T], attempted: Attempted, begun: float) -> None:
    """Brings an undecided wish one step on: puts its ask, decides all asks that are there, or lets others do so."""
    clock = ledger.clock
    attempted.wish = attempted.wish or clock.token()
    waiting = [one.id for one in counting(parse_asks(ledger.names), entry.state, entry.number + 1)]
    if attempted.wish not in waiting:
        # An unanswered one is not put again under its name: it may still come. (LEDGER, G2)
        one = Ask(entry.number, attempted.wish, clock.token(), wish_text(wanted.wish) or "", len(wanted.parts))
        map_calls(ledger.storage, lambda at: ledger.storage.create(one.name(at), wanted.parts[at]), range(one.parts))
        return
    is_early = clock.monotonic() - begun < _help_seconds(waiting.index(attempted.wish))
    if ledger.is_asked_to_wait or is_early or not ledger.decide_asks(entry, attempted):
        _poll(clock)


def _await_applied(ledger: Ledger, number: int) -> None:
    """Returns once an entry is applied: a process is told of its outcome no sooner (LEDGER, G7)."""
    until = ledger.clock.monotonic() + limits.ASK_HELP_SECONDS
    while number > ledger.applied:
        entry = ledger.newest()
        if entry.number > number or mark_name(number) in ledger.names:
            ledger.applied = max(ledger.applied, number)
        elif ledger.clock.monotonic() > until:
            ledger.settled()
        else:
            _poll(ledger.clock)


def unknown_decision(url: str, reason: str) -> DecisionUnknown:
    """What to raise if a decision may or may not have been made."""
    return DecisionUnknown(
        f"{url} stopped answering while a decision was being made. It may or may not have been made. "
        f"Nothing was removed. Ask again when the store answers. ({reason})",
        path=url,
    )


def _help_seconds(rank: int) -> float:
    """How long a process waits for the authors of so many older asks before it decides by itself."""
    return limits.ASK_HELP_SECONDS + limits.ASK_HELP_SECONDS_EACH * rank if rank else 0.0


def _poll(clock: Clock) -> None:
    """Waits a moment between two looks."""
    least, most = limits.ASK_POLL_SECONDS
    clock.sleep(least + (most - least) * clock.random())
