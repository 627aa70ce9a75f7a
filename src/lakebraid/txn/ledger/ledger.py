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
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

from lakebraid import limits
from lakebraid.clock import Clock
from lakebraid.errors import (
    CommitRefused,
    CorruptFile,
    DecisionUnknown,
    LakebraidError,
    ObjectExists,
    ObjectNotFound,
    OutcomeUnknown,
    StorageError,
)
from lakebraid.format.names import parse_timeline_file
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
    stop_writers,
    wait_out_skew,
)
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
from lakebraid.txn.ledger.timeline_copies import check_clock, copied, stage, sweep
from lakebraid.txn.ledger.turns import Turn, asking, patience_seconds

T = TypeVar("T")
_GENESIS: Final = Entry(0, "", "genesis", "0" * 17, 0)


@dataclass
class _Attempted:
    """What one call of `decide` has sent so far."""

    slot: int | None = None
    """For which slot a create was sent whose end is not known; None if there is no such one."""
    time: str = ""
    """The time of an entry whose create was sent in this attempt."""
    has_waited: bool = False
    """Whether those who asked for their turn were let go first; once is enough."""

    def settle(self, newest: int) -> None:
        """Forgets it once the slot is taken, and the rule has not found it to be taken by us."""
        if self.slot is not None and self.slot <= newest:
            self.slot = None


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
    may_ask: bool = False
    """Whether its decisions take long to think about, so that it may ask others to wait when it loses rounds."""
    _asking: list[str] = field(default_factory=list)
    """Marks of those who ask for their turn, as the last listing showed them."""
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
                self._check_remains(least)
                continue
            newer = [number for number in numbers if number > least]
            if not newer:
                self.known = found or _GENESIS
                return self.known
            # Between listing and reading it may be trimmed, and a sleeper may have put a dead one under its number:
            # so whatever was read counts only if nothing lies above it. (LEDGER, H3)
            with contextlib.suppress(ObjectNotFound):
                found = self._read(newer[-1])

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
        attempted = _Attempted()
        with Turn(self.storage, self.clock, self.may_ask and not self.is_shared) as turn:
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
                    if attempted.slot is not None:
                        raise self._unknown(error.message) from error
                    raise
                if found is not None:
                    return found.value
                turn.lost(attempt + 1)
                self._stand_back(attempt)
        reason = (
            f"No decision was reached in {limits.DECIDE_ATTEMPTS_MAX:,} attempts: others were faster, or no answer."
        )
        if attempted.slot is not None:
            raise self._unknown(reason)
        raise StorageError(
            f"{reason} Nothing was decided; {self.storage.url} is as before. Try again with fewer writers.",
            path=self.storage.url,
        )

    def _unknown(self, reason: str) -> DecisionUnknown:
        return DecisionUnknown(
            f"{self.storage.url} stopped answering while a decision was being made. It may or may not have been made. "
            f"Nothing was removed. Ask again when the store answers. ({reason})",
            path=self.storage.url,
        )

    def sweep_staged(self, below: int) -> None:
        """Removes staged objects of slots below: their entries are applied, or void."""
        sweep(self.storage, below)

    def _try(
        self,
        decider: str,
        rule: Rule[T],
        before_applied: Callable[[T], object] | None,
        attempted: _Attempted,
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
        if self.is_shared:
            check_settings(self.table, outcome.kind)
        mine = self._stage(entry, decider, outcome, voids)
        if not _is_held(hold):
            self._beaten(mine)
            return None
        attempted.slot = mine.number
        attempted.time = mine.time if mine.time > entry.time else ""
        try:
            self.storage.create(entry_name(mine.number), format_entry(mine))
        except ObjectExists:
            self._beaten(mine)
            return None  # if it was our own, unanswered or repeated by the store, the rule will see it
        if self._numbers_after(mine.number) and self.newest().floor > mine.number:
            return None  # the slot had been trimmed: this entry may mean nothing (LEDGER, H2)
        if voids is not None:
            self.sweep_staged(mine.number)  # a late copy for the void entry must find no source
        if before_applied is not None:
            before_applied(outcome.value)
        if not (_is_held(hold) and (self._apply(mine) or not self.is_shared)):
            return None  # the next holder of the lock applies it, or finds it void if Hudi went on; the rule will see
        self._note_applied(entry, mine)
        return Already(outcome.value)

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
        self.applied = max(self.applied, mine.number)
        if self.known is None or self.known.number < mine.number:
            self.known = mine
        self._tidy(before, mine)

    def _let_clocks_pass(self, attempted: _Attempted) -> None:
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
        return self._copy(entry)

    def _apply_restore(self, entry: Entry) -> bool:
        is_true = self._copy(entry)
        if is_true:
            stop_writers(self.table, min(entry.state.restores))
        return is_true

    def _copy(self, entry: Entry) -> bool:
        return all(copied(self.storage, self.clock, source, target) for source, target in entry.files)

    def _stage(self, newest: Entry, decider: str, outcome: Decision[object], voids: int | None) -> Entry:
        number = newest.number + 1
        staged: dict[bytes, str] = {}
        for data, _ in outcome.files:
            # Equal bytes (the empty files of a beginning) share one object: it is read, never changed.
            staged[data] = staged.get(data) or stage(self.storage, self.clock, number, data)
        if staged and outcome.kind == "begin":
            check_clock(self.storage, self.clock, next(iter(staged.values())))
        folder = f"{self.config.timeline_folder}/"
        files = tuple((staged[data], name if "/" in name else folder + name) for data, name in outcome.files)
        floor = newest.floor
        if outcome.kind != "begin" and number - floor >= 2 * limits.LEDGER_ENTRIES_KEPT:
            floor = number - limits.LEDGER_ENTRIES_KEPT
        return Entry(number, decider, outcome.kind, outcome.state.last, floor, files, outcome.state, voids)

    def _tidy(self, before: Entry, mine: Entry) -> None:
        """Removes staged objects and old entries; what a failure leaves is swept later."""
        self._dead_staged += sorted({source for source, _ in mine.files})
        if mine.kind == "begin" and len(self._dead_staged) < limits.STAGED_HELD_MAX and not self.is_shared:
            return  # together with those of its publishing: one call less
        with contextlib.suppress(StorageError):
            names, self._dead_staged = self._dead_staged, []
            if mine.floor > before.floor:
                names += [entry_name(number) for number in self._numbers_below(mine.floor)]
                self.sweep_staged(mine.number)
            self.storage.delete(names)

    def _check_remains(self, known: int) -> None:
        """Raises if neither an entry that we know is there nor any after it: then the table was deleted under us.

        Without this a writer would go on by what it knows, and publish into a folder in which there is no table.
        """
        if not self._numbers_after(known - 1):
            raise StorageError(
                f"{self.storage.url} was deleted while it was in use, or put back to an earlier state: its ledger has no "
                f"entry {known} any more. Nothing was decided. If there is a table at this place now, open it again.",
                path=self.storage.url,
            )

    def _let_others_go(self, entry: Entry, attempted: _Attempted) -> Entry:
        """The newest entry, after those had their turn who asked for it (turns.py), or a moment of waiting."""
        until = self.clock.monotonic() + patience_seconds(self._asking)
        while self._asking and not (attempted.has_waited or self.may_ask or self.is_shared):
            self.clock.sleep(0.005 + 0.02 * self.clock.random())
            entry = self.newest()
            attempted.has_waited = self.clock.monotonic() > until
        attempted.has_waited = True
        return entry

    def _numbers_after(self, number: int) -> list[int]:
        infos = self.storage.list(LEDGER, after=entry_name(number))
        self._asking, stale = asking(infos)
        if stale:
            with contextlib.suppress(StorageError):
                self.storage.delete(stale)
        return sorted(n for info in infos if (n := parse_entry_name(info.name)) is not None)

    def _numbers_below(self, number: int) -> Iterator[int]:
        return (
            n for info in self.storage.list(LEDGER) if (n := parse_entry_name(info.name)) is not None and n < number
        )

    def _read(self, number: int) -> Entry:
        name = entry_name(number)
        return parse_entry(self.storage.read(name, limits.LEDGER_ENTRY_BYTES_MAX), f"{self.storage.url}/{name}")

    def _minding_others(self, state: LedgerState) -> LedgerState:
        """The state with `last` moved past every time on the timeline that was not given here: Hudi was at work."""
        if self.is_shared:
            return mind_others(self.table, state)
        folder = self.config.timeline_folder
        # '~' sorts after every character of a timeline file's name: what starts at `last` is known.
        newer = self.storage.list(folder, after=f"{folder}/{state.last}~")
        if not any(info.name.count("/") == folder.count("/") + 1 and _is_timeline_file(info.name) for info in newer):
            return state
        return replace(state, last=max(state.last, greatest_time(load_timeline(self.table))))

    def _exists(self, name: str) -> bool:
        try:
            self.storage.info(name)
        except ObjectNotFound:
            return False
        return True

    def _before(self, entry: Entry) -> Entry:
        if entry.number == 1:
            return _GENESIS
        before = self._read(entry.number - 1)
        return self._before(before) if entry.voids == before.number else before

    def _stand_back(self, attempt: int) -> None:
        """Lets others go first after some lost races; the first ones are simply tried again."""
        if attempt >= 2:
            self.clock.sleep(min(0.001 * 2 ** min(attempt, 10), 0.25) * self.clock.random())


def _is_held(hold: Hold | None) -> bool:
    return hold is None or hold.check()


def _is_timeline_file(name: str) -> bool:
    return parse_timeline_file(name.rpartition("/")[2]) is not None
