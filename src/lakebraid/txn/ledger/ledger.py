# SPDX-License-Identifier: Apache-2.0
"""The ledger: one place where everything is decided, by creating the next numbered entry.

The process that creates entry n+1 has decided; all others look again. No lock, lease or clock is part of the argument why
this is safe: docs/decisions/0007-ledger.md. Before a process decides n+1, it applies entry n: the files of that entry are
copied onto Hudi's timeline, which any process can do, so a stalled writer blocks no other.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Final, TypeVar

from lakebraid import limits
from lakebraid.clock import Clock
from lakebraid.errors import (
    CommitRefused,
    CorruptFile,
    LakebraidError,
    ObjectExists,
    ObjectNotFound,
    OutcomeUnknown,
    StorageError,
)
from lakebraid.model.config import TableConfig
from lakebraid.storage.protocol import Storage
from lakebraid.table.at import TableAt
from lakebraid.table.loading import load_timeline
from lakebraid.txn.hudi.lock import Hold
from lakebraid.txn.hudi.reconcile import (
    check_settings,
    greatest_time,
    insist,
    is_archived,
    mind_others,
    past_strangers,
    stop_writers,
    wait_out_skew,
)
from lakebraid.txn.ledger.asking import Attempted, Company, ask, carry, is_to_ask, unknown_decision
from lakebraid.txn.ledger.asks import dead_names, mark_name
from lakebraid.txn.ledger.entries import (
    LEDGER,
    Entry,
    LedgerState,
    entry_name,
    format_entry,
    parse_entry,
    parse_entry_name,
)
from lakebraid.txn.ledger.rounds import Already, Decision, Outcome, Round, Rule
from lakebraid.txn.ledger.timeline_copies import check_clock, copy_all, deleted, stage_all, sweep
from lakebraid.txn.ledger.turns import Turn, asking, patience_seconds

T = TypeVar("T")
_GENESIS: Final = Entry(0, "", "genesis", "0" * 17, 0)


@dataclass
class Ledger:
    """The ledger of one table, as one process knows it. Not for several threads at once."""

    table: TableAt
    lock: Callable[[Callable[[], None]], AbstractContextManager[Hold | None]] = lambda _: contextlib.nullcontext()
    """Hudi's own lock, where the table is shared with Apache Hudi writers."""
    is_shared: bool = False
    known: Entry | None = None
    applied: int = 0
    """The number of the last entry that is known to be applied."""
    entered: Entry | None = None
    """The entry in which the last decision was made."""
    may_ask: bool = False
    """Whether its decisions take long to think about, so that it may ask others to wait when it loses rounds."""
    company: Company = field(default_factory=Company)
    _asking: list[str] = field(default_factory=list)
    """Marks of those who ask for their turn, as the last listing showed them."""
    names: list[str] = field(default_factory=list)
    """What the last listing showed beside the entries: asks, marks, and those who ask for their turn."""
    _dead_staged: list[str] = field(default_factory=list)
    """Staged objects that are no longer needed; removed with the next ones."""

    @property
    def storage(self) -> Storage:
        return self.table.storage

    @property
    def clock(self) -> Clock:
        return self.table.clock

    @property
    def config(self) -> TableConfig:
        return self.table.config

    def newest(self) -> Entry:
        """The newest entry; `genesis` if nothing was ever decided here."""
        found = self.known
        while True:
            least = found.number if found else 0
            numbers = self._numbers_after(max(least - 1, 0))
            if not numbers and least:
                if not self._numbers_after(least - 1):
                    raise deleted(self.storage.url, least)
                continue
            newer = [number for number in numbers if number > least]
            if not newer:
                self.known = found or _GENESIS
                return self.known
            # Between listing and reading it may be trimmed, and a sleeper may have put a dead one under its number:
            # so whatever was read counts only if nothing lies above it. (LEDGER, H3)
            with contextlib.suppress(ObjectNotFound):
                found = self.read(newer[-1])

    def settled(self) -> Entry:
        """The newest entry, applied: needed to act on a decision outside of `decide`."""
        entry = self.newest()
        self._apply_newest(entry)
        return entry

    def looked(self) -> Round | None:
        """The newest round for a process that may only read; None while its entry is not applied yet."""
        entry = self.newest()
        is_true = all(self._exists(target) for _, target in entry.files)
        return Round(self, entry.state, entry.number + 1) if is_true else None

    def decide(self, decider: str, rule: Rule[T], *, before_applied: Callable[[T], object] | None = None) -> T:
        """What the rule's decision gave: made now, or found to be made already. The rule may refuse by raising.

        DecisionUnknown if the store stopped answering while the decision may have been made.
        """
        attempted = Attempted()
        with (
            Turn(self.storage, self.clock) if self.may_ask and not self.is_shared else contextlib.nullcontext() as turn
        ):
            for attempt in range(limits.DECIDE_ATTEMPTS_MAX):
                try:
                    with self.lock(self._stand_in) as hold:
                        try:
                            found = self._try(decider, rule, before_applied, attempted, hold)
                        finally:
                            self._let_clocks_pass(attempted)
                except OutcomeUnknown:
                    found = None
                except StorageError as error:
                    if attempted.is_unsettled:
                        raise unknown_decision(self.storage.url, error.message) from error
                    raise
                if found is not None:
                    return found.value
                if turn is not None:
                    turn.lost(attempt + 1)
                self._stand_back(attempt)
        reason = (
            f"No decision was reached in {limits.DECIDE_ATTEMPTS_MAX:,} attempts: others were faster, or no answer."
        )
        if attempted.is_unsettled:
            raise unknown_decision(self.storage.url, reason)
        raise StorageError(
            f"{reason} Nothing was decided; {self.storage.url} is as before. Try again with fewer writers.",
            path=self.storage.url,
        )

    def sweep_staged(self, below: int) -> None:
        """Removes staged objects of slots below, whose entries are applied or void, and asks that can no longer be decided."""
        sweep(self.storage, below)
        known = self.known or self.newest()
        names = [info.name for info in self.storage.list(LEDGER, after=entry_name(known.number))]
        # The newest entry need not be applied yet: an ask that it decides is still the source of a copy. (LEDGER, G4)
        dead = dead_names(names, known.state, min(known.number, below) - 1)
        if dead:
            self.storage.delete(dead)

    def _try(
        self,
        decider: str,
        rule: Rule[T],
        before_applied: Callable[[T], object] | None,
        attempted: Attempted,
        hold: Hold | None,
    ) -> Already[T] | None:
        """What is decided now; None if another process took the slot, or it is to be seen in the next round who did."""
        entry = self._let_others_go(self.newest(), attempted)
        state, voids = self._apply_newest(entry)
        outcome = self._asked(rule, Round(self, self._minding_others(state), entry.number + 1))
        if outcome is None:
            return None
        if isinstance(outcome, Already):
            return outcome
        attempted.settle(entry.number)
        if outcome.wanted is not None and is_to_ask(self, outcome.wanted.wish, attempted):
            return ask(self, outcome.wanted, before_applied, attempted)
        if self.is_shared:
            check_settings(self.table, outcome.kind)
        return self._enter(entry, self._stage(entry, decider, outcome, voids), outcome, before_applied, attempted, hold)

    def _enter(
        self,
        entry: Entry,
        mine: Entry,
        outcome: Decision[T],
        before_applied: Callable[[T], object] | None,
        attempted: Attempted,
        hold: Hold | None,
    ) -> Already[T] | None:
        """Creates the next entry and applies it; None if another process took the slot, or it is to be seen who did."""
        if not _is_held(hold):
            self._beaten(mine)
            return None
        attempted.slot = mine.number
        attempted.time = mine.time if mine.time > entry.time else ""
        try:
            self.storage.create(entry_name(mine.number), format_entry(mine))
        except ObjectExists:
            self._beaten(mine)
            self.company.meet()
            return None  # if it was our own, unanswered or repeated by the store, the rule will see it
        if self._numbers_after(mine.number) and self.newest().floor > mine.number:
            return None  # the slot had been trimmed: this entry may mean nothing (LEDGER, H2)
        if mine.voids is not None:
            self.sweep_staged(mine.number)  # a late copy for the void entry must find no source
        if before_applied is not None:
            before_applied(outcome.value)
        if not (_is_held(hold) and (self._apply(mine) or not self.is_shared)):
            return None  # the next holder of the lock applies it, or finds it void if Hudi went on; the rule will see
        self._note_applied(entry, mine)
        self.entered = mine
        return Already(outcome.value)

    def decide_asks(self, entry: Entry, attempted: Attempted) -> bool:
        """Whether the next entry decides the asks that are there, and nothing else."""
        state, _ = self._apply_newest(entry)
        together: Decision[None] = Decision("asks", self._minding_others(state), value=None)
        mine = self._stage(entry, "", together, None)
        return self._enter(entry, mine, together, None, attempted, None) is not None

    @property
    def is_asked_to_wait(self) -> bool:
        """Whether another process asks for its turn."""
        return bool(self._asking)

    def read(self, number: int) -> Entry:
        """The entry of this number; ObjectNotFound if it is not there any more."""
        name = entry_name(number)
        return parse_entry(self.storage.read(name, limits.LEDGER_ENTRY_BYTES_MAX), f"{self.storage.url}/{name}")

    def _asked(self, rule: Rule[T], now: Round) -> Outcome[T] | None:
        """What the rule says; None if it failed over what only a newer entry explains.

        A round's timeline and files may be newer than its state: another process has decided since, and a file was
        removed, or a time was given that the state does not know. Refusals stay true, so they count at once.
        """
        try:
            return rule(now)
        except (OutcomeUnknown, CommitRefused):
            raise
        except LakebraidError:
            if self._numbers_after(now.number - 1):
                return None
            raise

    def _note_applied(self, before: Entry, mine: Entry) -> None:
        self.company.part()
        self.applied = max(self.applied, mine.number)
        if self.known is None or self.known.number < mine.number:
            self.known = mine
        self._tidy(before, mine)

    def _let_clocks_pass(self, attempted: Attempted) -> None:
        """Before Hudi's lock passes on, however the attempt ended: a time that may have been given counts as given."""
        if self.is_shared and attempted.time:
            wait_out_skew(self.clock, self.config, attempted.time)
            attempted.time = ""

    def _stand_in(self) -> None:
        """What a dead holder of Hudi's lock would have done before it passes on: a job of Hudi may be the next holder."""
        with contextlib.suppress(CorruptFile):  # of the ledger: the next decision tells
            entry = self.settled()
            if entry.time > _GENESIS.time:
                wait_out_skew(self.clock, self.config, entry.time)

    def _beaten(self, mine: Entry) -> None:
        self._dead_staged += sorted({source for source, _ in mine.files})

    def _apply_newest(self, entry: Entry) -> tuple[LedgerState, int | None]:
        """The state to go on from; on a shared table also the number of an entry that is void."""
        if entry.number <= self.applied:
            return entry.state, None
        if self.is_shared and entry.files and not self._exists(entry.files[0][1]):
            if self._was_applied(entry):
                return entry.state, None
            if greatest_time(load_timeline(self.table)) >= entry.time:
                # Hudi went on before it was applied: its decider lost the lock, or died. It may not come after Hudi.
                return self._before(entry).state, entry.number
        self._apply(entry)
        self.applied = entry.number
        return entry.state, None

    def _was_applied(self, entry: Entry) -> bool:
        """Whether an entry was applied, though its first file is not there: Hudi took it off the timeline.

        Then its staged objects are gone; if its decider died before it removed them, it is in the history. Taking it for
        void would take back what was acknowledged, copying it again would bring back what was archived.
        """
        source, target = entry.files[0]
        return not self._exists(source) or is_archived(self.table, target)

    def _apply(self, entry: Entry) -> bool:
        """False if a staged object is gone: then it was applied before, or, on a shared table, it is void."""
        if self.is_shared and entry.kind == "restore":
            return insist(self.clock, lambda: self._apply_restore(entry))
        return copy_all(self.storage, self.clock, entry.files)

    def _apply_restore(self, entry: Entry) -> bool:
        is_true = copy_all(self.storage, self.clock, entry.files)
        if is_true:
            stop_writers(self.table, min(entry.state.restores))
        return is_true

    def _stage(self, newest: Entry, decider: str, outcome: Decision[object], voids: int | None) -> Entry:
        number = newest.number + 1
        staged = stage_all(self.storage, self.clock, number, [data for data, _ in outcome.files])
        if staged and outcome.kind == "begin":
            check_clock(self.storage, self.clock, next(iter(staged.values())))
        folder = f"{self.config.timeline_folder}/"
        files = tuple((staged[data], name if "/" in name else folder + name) for data, name in outcome.files)
        state, asked = carry(self.table, outcome.state, number, () if self.is_shared else self.names)
        floor = newest.floor
        if outcome.kind != "begin" and number - floor >= 2 * limits.LEDGER_ENTRIES_KEPT:
            floor = number - limits.LEDGER_ENTRIES_KEPT
        return Entry(number, decider, outcome.kind, state.last, floor, (*files, *asked), state, voids)

    def _tidy(self, before: Entry, mine: Entry) -> None:
        """Removes staged objects and old entries; what a failure leaves is swept later."""
        dead = [source for source, _ in mine.files] + (
            dead_names(self.names, mine.state, mine.number) if self.names else []
        )
        self._dead_staged += sorted({*dead}.difference(self._dead_staged))
        if any(told.number == mine.number for told in mine.state.decided.values()):
            with contextlib.suppress(StorageError):
                self.storage.create(mark_name(mine.number), b"")
        elif mine.kind == "begin" and len(self._dead_staged) < limits.STAGED_HELD_MAX and not self.is_shared:
            return  # together with those of its publishing: one call less
        with contextlib.suppress(StorageError):
            names, self._dead_staged = self._dead_staged, []
            if mine.floor > before.floor:
                names += [entry_name(number) for number in self._numbers_below(mine.floor)]
                self.sweep_staged(mine.number)
            self.storage.delete(names)

    def _let_others_go(self, entry: Entry, attempted: Attempted) -> Entry:
        """The newest entry, after those had their turn who asked for it (turns.py), or a moment of waiting."""
        until = self.clock.monotonic() + (patience_seconds(self._asking) if self._asking else 0)
        while self._asking and not (attempted.has_waited or self.may_ask or self.is_shared):
            self.clock.sleep(0.005 + 0.02 * self.clock.random())
            entry = self.newest()
            attempted.has_waited = self.clock.monotonic() > until
        attempted.has_waited = True
        return entry

    def _numbers_after(self, number: int) -> list[int]:
        begun = self.clock.monotonic()
        infos = self.storage.list(LEDGER, after=entry_name(number))
        self.company.call_seconds = self.clock.monotonic() - begun
        self.names = [info.name for info in infos if parse_entry_name(info.name) is None]
        self._asking, stale = asking(infos) if self.names else ([], [])
        if stale:
            with contextlib.suppress(StorageError):
                self.storage.delete(stale)
        return sorted(n for info in infos if (n := parse_entry_name(info.name)) is not None)

    def _numbers_below(self, number: int) -> Iterator[int]:
        return (
            n for info in self.storage.list(LEDGER) if (n := parse_entry_name(info.name)) is not None and n < number
        )

    def _minding_others(self, state: LedgerState) -> LedgerState:
        """The state with `last` moved past every time on the timeline that was not given here: Hudi was at work."""
        if self.is_shared:
            return mind_others(self.table, state)
        return past_strangers(self.table, state)

    def _exists(self, name: str) -> bool:
        try:
            self.storage.info(name)
        except ObjectNotFound:
            return False
        return True

    def _before(self, entry: Entry) -> Entry:
        if entry.number == 1:
            return _GENESIS
        before = self.read(entry.number - 1)
        return self._before(before) if entry.voids == before.number else before

    def _stand_back(self, attempt: int) -> None:
        """Lets others go first after some lost races; the first ones are simply tried again."""
        if attempt >= 2:
            self.clock.sleep(min(0.001 * 2 ** min(attempt, 10), 0.25) * self.clock.random())


def _is_held(hold: Hold | None) -> bool:
    return hold is None or hold.check()
