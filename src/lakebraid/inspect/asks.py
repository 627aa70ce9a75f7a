# SPDX-License-Identifier: Apache-2.0
"""What was asked for: asks that wait to be decided, and which entry of the ledger decided an instant. Looking changes nothing."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from lakebraid import limits
from lakebraid.errors import CorruptFile, ObjectNotFound
from lakebraid.format.times import is_instant_time
from lakebraid.model.config import TableConfig
from lakebraid.storage.protocol import Storage
from lakebraid.txn.ledger.asks import Ask, is_dead, parse_asks
from lakebraid.txn.ledger.entries import (
    LEDGER,
    Entry,
    LedgerState,
    entry_name,
    parse_entry,
    parse_entry_name,
)
from lakebraid.txn.liveness.heartbeat import silence_ms_max

KINDS: Final[Mapping[str, str]] = {
    "begin": "begin a write",
    "ahead": "begin a write ahead",
    "publish": "publish a write",
    "claim": "execute a plan",
    "release": "give a plan back",
    "finish": "publish a plan",
    "undo": "roll back a write",
    "done": "end a rollback",
    "cleaned": "end a clean",
    "lease": "hold versions back",
    "drop": "hold versions back no more",
    "consumer": "note how far a consumer has read",
    "forget": "forget a writer's batches",
}
"""For people: what each kind of wish is about."""
_ASKS: Final = f"{LEDGER}/a."
_TOGETHER: Final = "asks"
"""The kind of an entry that decides what was asked for, and nothing else: one of those who asked has made it."""
_WRITER: Final = 4
"""Where a wish to begin names its writer."""


@dataclass(frozen=True, slots=True)
class WaitingStatus:
    """A wish that was asked for and that no entry has decided."""

    kind: str
    what: str
    """The kind, for people."""
    instant: str | None
    """The instant that it is about, if it exists already."""
    writer: str | None
    """Who asks, as far as that is told."""
    age_ms: int
    """Since it was first asked for."""
    is_expired: bool = False
    """Whether no entry can decide it any more."""
    is_stale: bool = False
    """Whether it waits for longer than a living writer may be silent."""


def load_waiting(storage: Storage, config: TableConfig, entry: Entry, now_ms: int) -> tuple[WaitingStatus, ...]:
    """The wishes that wait beside this newest entry, the oldest first; one for each, however often it was asked for."""
    infos = [i for i in storage.list(LEDGER, after=entry_name(entry.number)) if i.name.startswith(_ASKS)]
    times = {info.name: info.modified_ms for info in infos}
    found: dict[str, WaitingStatus] = {}
    for ask in parse_asks(times):
        if ask.id in entry.state.decided:
            continue  # and about to be removed
        since = min(times[ask.name(part)] for part in range(ask.parts))
        told = _waiting(ask, entry, max(now_ms - since, 0), silence_ms_max(config))
        known = found.get(ask.id, told)
        found[ask.id] = replace(told if known.is_expired else known, age_ms=max(known.age_ms, told.age_ms))
    return tuple(sorted(found.values(), key=lambda one: -one.age_ms))


def _waiting(ask: Ask, entry: Entry, age_ms: int, silence_ms: int) -> WaitingStatus:
    wish = ask.wish()
    kind, params = ("unreadable", ()) if wish is None else (wish.kind, tuple(wish.params))
    instant = next((value for value in params if isinstance(value, str) and is_instant_time(value)), None)
    return WaitingStatus(
        kind,
        KINDS.get(kind, kind),
        instant,
        _writer(kind, params, instant, entry.state),
        age_ms,
        is_dead(ask, entry.state, entry.number),
        age_ms >= silence_ms,
    )


def _writer(kind: str, params: tuple[object, ...], instant: str | None, state: LedgerState) -> str | None:
    if kind in ("begin", "ahead"):
        named = params[_WRITER] if len(params) > _WRITER else None
        return named if isinstance(named, str) and named else None
    return None if instant is None else state.writer_of(instant)


@dataclass(frozen=True, slots=True)
class DecidedIn:
    """The entry of the ledger that gave a time."""

    entry: int
    kind: str
    """Of the decision that its process had made for itself; "asks" if it decided nothing but what was asked for."""
    decider: str
    """That process; empty if it decided nothing but what was asked for."""
    own: tuple[str, ...] = ()
    """The instants of that decision."""
    was_asked: bool = False
    """Whether it was decided for its author, who had asked for it."""
    asks: int = 0
    """How many wishes the entry decided along, this one among them if it was asked for."""

    @property
    def is_by_another(self) -> bool:
        """Whether a process decided it along with a decision of its own, which was another one."""
        return self.was_asked and self.kind != _TOGETHER

    @property
    def others(self) -> int:
        """How many other wishes the entry decided."""
        return self.asks - self.was_asked


def find_entry(storage: Storage, time: str) -> DecidedIn | int | None:
    """Which entry gave this time; the number of the oldest entry that is left if it was an older one, None if there is none.

    Times of entries rise with their numbers, so this takes as many reads as the number of entries has binary digits.
    """
    numbers = [n for info in storage.list(LEDGER) if (n := parse_entry_name(info.name)) is not None]
    read = _reader(storage)
    try:
        at = bisect.bisect_left(numbers, time, key=lambda number: read(number).time)
        if at == len(numbers):
            return None
        if at == 0 and numbers[0] > 1:
            return numbers[0]
        return _decided(read(numbers[at]), time)
    except (ObjectNotFound, CorruptFile):
        return None  # trimmed since, or damaged: audits tell


def _reader(storage: Storage) -> Callable[[int], Entry]:
    known: dict[int, Entry] = {}

    def read(number: int) -> Entry:
        if number not in known:
            name = entry_name(number)
            known[number] = parse_entry(storage.read(name, limits.LEDGER_ENTRY_BYTES_MAX), name)
        return known[number]

    return read


def _decided(entry: Entry, time: str) -> DecidedIn | None:
    """None if the entry passes over this time, which was given by Apache Hudi."""
    named = [(source.startswith(_ASKS), target.rpartition("/")[2]) for source, target in entry.files]
    mine = [(was_asked, name) for was_asked, name in named if time in _times(name)]
    if not mine:
        return None
    own = dict.fromkeys(_times(name)[0] for was_asked, name in named if not was_asked and _times(name))
    asks = sum(told.number == entry.number for told in entry.state.decided.values())
    return DecidedIn(entry.number, entry.kind, entry.decider, tuple(own), mine[0][0], asks)


def _times(name: str) -> list[str]:
    """The request time of a timeline file, and its completion time if it has one."""
    return [part for part in name.partition(".")[0].split("_") if is_instant_time(part)]
