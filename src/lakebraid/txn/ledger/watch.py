# SPDX-License-Identifier: Apache-2.0
"""What one process has seen of a ledger: its newest entry, what lies beside the entries, and what of it is no longer needed."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Final

from lakebraid import limits
from lakebraid.clock import Clock
from lakebraid.errors import ObjectNotFound, StorageError
from lakebraid.storage.parallel import delete_later
from lakebraid.storage.protocol import Storage
from lakebraid.txn.ledger.asks import dead_names, mark_name
from lakebraid.txn.ledger.entries import (
    LEDGER,
    Entry,
    entry_name,
    parse_entry,
    parse_entry_name,
    parse_staged_name,
)
from lakebraid.txn.ledger.timeline_copies import deleted, sweep
from lakebraid.txn.ledger.turns import asking

GENESIS: Final = Entry(0, "", "genesis", "0" * 17, 0)
"""What the newest entry is where nothing was ever decided."""


@dataclass
class Company:
    """What the decisions of a process on one table have in common."""

    call_seconds: tuple[float, ...] = ()
    """How long the last listings of the ledger took."""
    clock_offset_ms: float | None = None
    """By how much this machine's clock was ahead of one that only runs, when a new entry last showed that it is not ahead of the
    storage's: of this process or of another, so that a process asks from its first write on where others are at work."""

    @property
    def is_far(self) -> bool:
        """Whether calls take so long that a lost round, or a call that could go on beside another, is dear: each of the last ones."""
        return min(self.call_seconds, default=0.0) >= limits.ASK_CALL_SECONDS_MIN

    @property
    def call_seconds_mean(self) -> float:
        """How long a call takes, by the last listings."""
        return sum(self.call_seconds) / max(len(self.call_seconds), 1)

    def is_clock_right(self, clock: Clock) -> bool:
        """Whether this machine's clock is known not to be ahead of the storage's: other processes may get their times from it.

        Unless that is known, a write begins by a staged object, which tells it.
        """
        offset_ms = self.clock_offset_ms
        return offset_ms is not None and _offset_ms(clock) - offset_ms <= limits.CLOCK_AHEAD_MS_MAX

    def took(self, seconds: float) -> None:
        """Notes how long a listing took."""
        self.call_seconds = (*self.call_seconds[1 - limits.ASK_CALLS_TIMED :], seconds)


@dataclass
class Watch:
    """Looks at a ledger, and remembers what it saw; all that it removes are turns that dead processes asked for. Not for several threads at once."""

    storage: Storage
    clock: Clock
    company: Company
    known: Entry | None = None
    names: list[str] = field(default_factory=list)
    """What the last listing showed beside the entries: asks, marks, and those who ask for their turn."""
    turns: list[str] = field(default_factory=list)
    """Marks of those who ask for their turn, as the last listing showed them."""
    _peeked: Entry | None = None
    _newest_ms: int = 0
    """When the newest entry was made that the last listing showed, by the storage's clock."""

    def newest(self) -> Entry:
        """The newest entry; `GENESIS` if nothing was ever decided here."""
        found, peeked, self._peeked = self.known, self._peeked, None
        while True:
            least = found.number if found else 0
            numbers = self.numbers_after(max(least - 1, 0))
            if not numbers and least:
                if not self.numbers_after(least - 1):
                    raise deleted(self.storage.url, least)
                continue
            newer = [number for number in numbers if number > least]
            if not newer:
                self.known = found or GENESIS
                return self.known
            # Between listing and reading it may be trimmed, and a sleeper may have put a dead one under its number:
            # so whatever was read counts only if nothing lies above it afterwards. (LEDGER, H3)
            if peeked is not None and peeked.number == newer[-1]:
                self.known = peeked
                return self.known
            with contextlib.suppress(ObjectNotFound):
                found = self.read(newer[-1])

    def peek(self, number: int) -> bool:
        """Whether the entry of this number seems to be there; `newest` says whether it counts."""
        with contextlib.suppress(ObjectNotFound):
            self._peeked = self.read(number)
            return True
        return False

    def read(self, number: int) -> Entry:
        """The entry of this number; ObjectNotFound if it is not there any more."""
        name = entry_name(number)
        return parse_entry(self.storage.read(name, limits.LEDGER_ENTRY_BYTES_MAX), f"{self.storage.url}/{name}")

    def before(self, entry: Entry) -> Entry:
        """The entry on which this one follows."""
        if entry.number == 1:
            return GENESIS
        before = self.read(entry.number - 1)
        return self.before(before) if entry.voids == before.number else before

    def counts(self, mine: Entry) -> bool:
        """Whether an entry that was created means something: not if its slot had been trimmed (LEDGER, H2)."""
        is_newest = self.numbers_after(mine.number - 1)[-1:] == [mine.number]
        if is_newest:
            self.company.clock_offset_ms = _offset_ms(self.clock) if self._is_clock_right() else None
        return is_newest or self.newest().floor <= mine.number

    def note(self, mine: Entry) -> None:
        """Takes an entry of this process for the newest, if no newer one was seen."""
        if self.known is None or self.known.number < mine.number:
            self.known = mine

    def numbers_after(self, number: int) -> list[int]:
        """The numbers of later entries, as one listing shows them."""
        begun = self.clock.monotonic()
        infos = self.storage.list(LEDGER, after=entry_name(number))
        self.company.took(self.clock.monotonic() - begun)
        self.names = [info.name for info in infos if parse_entry_name(info.name) is None]
        self.turns, stale = asking(infos) if self.names else ([], [])
        if stale:
            with contextlib.suppress(StorageError):
                self.storage.delete(stale)
        entries = sorted((n, info.modified_ms) for info in infos if (n := parse_entry_name(info.name)) is not None)
        self._newest_ms = entries[-1][1] if entries else 0
        if entries and self.company.is_far and self._is_clock_right():
            self.company.clock_offset_ms = _offset_ms(self.clock)
        return [number for number, _ in entries]

    def numbers_below(self, number: int) -> Iterator[int]:
        """The numbers of earlier entries that are there."""
        return (
            n for info in self.storage.list(LEDGER) if (n := parse_entry_name(info.name)) is not None and n < number
        )

    def _is_clock_right(self) -> bool:
        return self.clock.now_ms() - self._newest_ms <= limits.CLOCK_AHEAD_MS_MAX

    def has(self, name: str) -> bool:
        """Whether an object is there."""
        try:
            self.storage.info(name)
        except ObjectNotFound:
            return False
        return True


@dataclass
class Leftovers:
    """What is no longer needed: staged objects, asks, marks and old entries. What a failure leaves is swept later."""

    watch: Watch
    held: list[str] = field(default_factory=list)
    """Names that are to be removed, together with the next ones."""

    def add(self, entry: Entry) -> None:
        """Takes the staged objects of an entry that is not made. The asks that it carried can still be decided (LEDGER, G3)."""
        self.held += sorted({source for source, _ in entry.files if parse_staged_name(source) is not None})

    def after(self, before: Entry, mine: Entry, own: Collection[str], *, may_wait: bool, is_far: bool) -> None:
        """Removes what is dead once an entry is applied, and says by a mark that it is, if others have asked in it.

        `own` are the wishes of this process; what is left of a beginning `may_wait` for the next decision.
        """
        watch, storage = self.watch, self.watch.storage
        dead = [source for source, _ in mine.files]
        dead += dead_names(watch.names, mine.state, mine.number) if watch.names else []
        self.held += sorted({*dead}.difference(self.held))
        if any(told.number == mine.number and other not in own for other, told in mine.state.decided.items()):
            with contextlib.suppress(StorageError):
                storage.create(mark_name(mine.number), b"")
        elif mine.kind == "begin" and len(self.held) < limits.STAGED_HELD_MAX and may_wait:
            return  # together with those of its publishing: one call less
        names, self.held = self.held, []
        if mine.floor > before.floor:
            with contextlib.suppress(StorageError):
                names += [entry_name(number) for number in watch.numbers_below(mine.floor)]
                self.sweep(mine.number, mine)
        delete_later(storage, names, is_far=is_far)

    def sweep(self, below: int, known: Entry) -> None:
        """Removes staged objects of slots below, whose entries are applied or void, and asks that can no longer be decided."""
        storage = self.watch.storage
        sweep(storage, below)
        names = [info.name for info in storage.list(LEDGER, after=entry_name(known.number))]
        # The newest entry need not be applied yet: an ask that it decides is still the source of a copy. (LEDGER, G4)
        doomed = dead_names(names, known.state, min(known.number, below) - 1)
        if doomed:
            storage.delete(doomed)


def _offset_ms(clock: Clock) -> float:
    return clock.now_ms() - 1000 * clock.monotonic()
