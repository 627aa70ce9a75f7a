# SPDX-License-Identifier: Apache-2.0
"""What the table must contain: noted at the moment of publishing, merged naively, by nobody's code but its own.

It watches the disk. A completed timeline file that appears is a publication, whatever its author believes; a requested
rollback that appears is a death sentence, a requested restore takes back what it names, a requested clean dooms files.
Rows are known from what writers said they were going to write.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC
from functools import lru_cache

from lakebraid.format.names import parse_entry_name
from lakebraid.format.timeline.publication import parse_publication
from lakebraid.format.timeline.rollbacks import parse_restore_plan, parse_rollback_plan
from lakebraid.format.timeline.services import parse_clean_plan
from lakebraid.format.times import parse_instant_time
from lakebraid.storage.disk import TEMPORARY_SUFFIX
from simulator.world.violation import Violation

TIMELINE = ".hoodie/timeline/"
HEARTBEATS = ".hoodie/.heartbeat/"
LEASES = ".hoodie/.lakebraid/leases/"
WRITES = frozenset({"commit", "deltacommit", "replacecommit"})
_FILE = re.compile(r"(\d{17})(?:_(\d{17}))?\.([a-z]+)(?:\.(requested|inflight))?")


@dataclass(frozen=True, slots=True)
class Change:
    """One row as one write puts or deletes it. `order` is None for a delete without an ordering value."""

    key: str
    order: int | None
    value: str | None
    """None deletes the row."""


Rows = dict[str, tuple[int, str, str]]
"""Key to ordering value, request time of the write, and value."""


@dataclass(slots=True)
class Note:
    """A published write, compaction, rollback."""

    request_time: str
    completion: str
    action: str
    step: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Undoing:
    """A restore: what it names never was, from its request on."""

    request_time: str
    undone: frozenset[str]
    until: str
    """The greatest completion that stays."""
    step: int


@dataclass(frozen=True, slots=True)
class Group:
    """Completions of one entry of the ledger that appear side by side, in any order."""

    since: str
    """The time of the entry before."""
    completions: tuple[str, ...]
    step: int


@dataclass(slots=True)
class Intent:
    """What a writer is going to write, and how it believes it ended: open, published, refused, unknown, dead."""

    owner: str
    changes: tuple[Change, ...]
    began_ms: float
    replaces: frozenset[str] | None = frozenset()
    """The partitions that it takes the place of; None: all there are."""
    outcome: str = "open"
    beats_ms: list[float] = field(default_factory=list)


class Oracle:
    """Watches one history."""

    def __init__(self, now: Callable[[], float], step: Callable[[], int], *, by_event: bool) -> None:
        self._now, self._step, self.by_event = now, step, by_event
        self.notes: list[Note] = []
        self.published: dict[str, Note] = {}
        self.intents: dict[str, Intent] = {}
        self.first_seen_ms: dict[str, float] = {}
        """When a request time appeared on the timeline."""
        self.sentenced: dict[str, float] = {}
        """Request times for which a rollback was requested, and when it was decided."""
        self.restores: list[Undoing] = []
        self.undone: dict[str, str] = {}
        """Request times that a restore took back, and its own request time."""
        self.groups: list[Group] = []
        self.before = "0"
        """The time of the entry before the newest one."""
        self.last = "0"
        """The time of the newest entry."""
        self._entries = 0
        self.archived: set[str] = set()
        """Request times of writes that left the timeline for the history."""
        self.doomed: dict[str, str] = {}
        """Data files that a clean was decided to remove, and its request time."""
        self.retained = 1
        """Versions that a clean leaves readable."""
        self.let_go = ""
        """Cleans were free to take what is older. A restore that makes fewer versions count brings none of it back."""
        self.beats_ms: dict[str, list[float]] = {}
        self.own_beats_ms: dict[tuple[str, str], list[float]] = {}
        """The same by process, of those that reached the store while their process waited for it."""
        self.who: Callable[[], str | None] = lambda: None
        """The name of the process whose call it is."""
        self.leases_ms: dict[str, list[float]] = {}
        """When each lease beat."""
        self.listeners: list[object] = []
        self._hooks: dict[str, list[Callable[..., None]]] = {}
        self._tables: dict[tuple[str, frozenset[str]], Rows] = {}
        self.is_serial = False
        """Whether writers of one row come one after the other, and a delete leaves nothing behind: copy-on-write tables."""
        self.partition_of: Callable[[str], str] = lambda _: ""
        """Of a key."""

    # --- what happens -----------------------------------------------------------------------------------------------

    def observe(self, what: str, name: str, data: bytes) -> None:
        if name.startswith(HEARTBEATS):
            if what != "delete":
                request_time = name[len(HEARTBEATS) :]
                self.beats_ms.setdefault(request_time, []).append(self._now())
                self.own_beats_ms.setdefault((request_time, self.who() or ""), []).append(self._now())
        elif name.startswith(LEASES):
            if what != "delete":
                self.leases_ms.setdefault(name[len(LEASES) :], []).append(self._now())
        elif what == "create" and (number := parse_entry_name(name) or 0) > self._entries:
            self._entries = number
            self._enter(data)
        elif name.startswith(TIMELINE) and "/" not in name[len(TIMELINE) :] and not name.endswith(TEMPORARY_SUFFIX):
            found = _FILE.fullmatch(name[len(TIMELINE) :])
            if found is None:
                raise Violation("the timeline is well-formed", f"{name} is no timeline file")
            self._timeline(what, found, data)

    def _enter(self, data: bytes) -> None:
        entry = parse_publication(data, "the newest entry")
        self.before, self.last = self.last, entry.last
        if entry.since is not None:
            self.groups.append(Group(entry.since, tuple(time for time, _ in entry.completions), self._step()))

    def _timeline(self, what: str, found: re.Match[str], data: bytes) -> None:
        request_time, completion, action, state = found.groups()
        if what == "delete":
            self._tell("withdrawn", request_time, completion, action, state)
            return
        self.first_seen_ms.setdefault(request_time, self._now())
        if completion is not None and what == "replace":
            self._filled(request_time, data)
        elif completion is not None:
            note = Note(request_time, completion, action, self._step(), data)
            self._tell("publishing", note)
            if completion < self.newest:
                self._tables.clear()  # as of what had appeared before, it was not there
            self.notes.append(note)
            if action in WRITES:
                self.published[request_time] = note
            self._tell("published", note)
        elif action == "rollback" and state == "requested":
            if not data:
                return  # Hudi makes the name first and fills it afterwards
            plan = parse_rollback_plan(data, "the rollback plan")
            victim = plan.instant.request_time if plan.instant else ""
            if plan.instant and plan.instant.action == "compaction":
                self._tell("appeared", request_time, action, state)  # it ends an attempt; the plan stays
                return
            self._tell("sentenced", request_time, victim)
            self.sentenced.setdefault(victim, min(self._now(), parse_instant_time(request_time, UTC)))
        else:
            self._tell("appeared", request_time, action, state)
            if action == "clean" and state == "requested":
                self._clean(request_time, data)
            elif action == "restore" and state == "requested":
                self._restore(request_time, data)

    def _clean(self, request_time: str, data: bytes) -> None:
        plan = parse_clean_plan(data, "the clean plan")
        names = {f"{partition}/{name}": request_time for partition, files in plan.files.items() for name in files}
        self._tell("cleaning", request_time, names)
        self.doomed |= names
        self.let_go = max(self.let_go, *self.retained_moments()[:1])

    def _restore(self, request_time: str, data: bytes) -> None:
        plan = parse_restore_plan(data, "the restore plan")
        undone = frozenset(instant.request_time for instant in plan.instants)
        self._tell("restoring", request_time, undone)
        staying = [
            n.completion for n in self.writes() if n.request_time not in undone and n.request_time not in self.undone
        ]
        self.restores.append(Undoing(request_time, undone, max(staying, default=""), self._step()))
        self.undone |= dict.fromkeys(undone, request_time)

    def _filled(self, request_time: str, data: bytes) -> None:
        """Hudi has put its bytes into a completed file that was there."""
        note = next(n for n in reversed(self.notes) if n.request_time == request_time)
        note.data = data
        self._tell("filled", note)

    def _tell(self, what: str, *facts: object) -> None:
        hooks = self._hooks.get(what)
        if hooks is None:
            hooks = self._hooks[what] = [getattr(x, what) for x in self.listeners if hasattr(x, what)]
        for hook in hooks:
            hook(*facts)

    def intend(
        self, request_time: str, owner: str, changes: Iterable[Change], replaces: frozenset[str] | None = frozenset()
    ) -> Intent:
        intent = self.intents[request_time] = Intent(owner, tuple(changes), self._now(), replaces)
        return intent

    # --- what must be so --------------------------------------------------------------------------------------------

    @property
    def newest(self) -> str:
        """The greatest completion time published so far, of any action; "0" before the first."""
        return max((n.completion for n in self.notes), default="0")

    def newest_at(self, step: int) -> str:
        """The same, as it was when that step began; without what a restore has taken back since, and without what appeared
        before something that was decided with it and completed earlier.
        """
        missing = self.missing_at(step)
        return max((n.completion for n in self._lasting(step) if n.completion < missing), default="0")

    def missing_at(self, step: int) -> str:
        """The first completion of the newest entry that had not appeared when that step began; "9" if all had."""
        group = next((g for g in reversed(self.groups) if g.step < step), None)
        there = {n.completion for n in self.notes if n.step < step}
        return next((c for c in (() if group is None else group.completions) if c not in there), "9")

    def group_of(self, completion: str) -> Group | None:
        """With which others a completion appeared."""
        return next((g for g in self.groups if completion in g.completions), None)

    def may_be_refused(self, time: str, step: int) -> bool:
        """Whether a time lies between the moment a restore returned to and the restore."""
        return any(r.step <= step and r.until < time < r.request_time for r in self.restores)

    def _lasting(self, step: int) -> list[Note]:
        """Publications before that step; savepoints come and go."""
        return [
            n for n in self.notes if n.step < step and n.request_time not in self.undone and n.action != "savepoint"
        ]

    def undone_between(self, began: int, ended: int) -> list[frozenset[str]]:
        """What restores had taken back at each moment between two steps."""
        found = [frozenset[str]().union(*(r.undone for r in self.restores if r.step <= began))]
        for restore in self.restores:
            if began < restore.step <= ended:
                found.append(found[-1] | restore.undone)
        return found

    def is_lost(self, time: str, step: int) -> bool:
        """Whether a restore that was requested before that step took back what was visible at that time."""
        taken = [r for r in self.restores if r.step <= step and time < r.request_time]
        return any(s in self.published and self.published[s].completion <= time for r in taken for s in r.undone)

    def writes(self, after: str = "", until: str = "9") -> list[Note]:
        """Publications of rows with completion times in (after, until], by completion."""
        found = [n for n in self.notes if n.action in WRITES and after < n.completion <= until]
        return sorted(found, key=lambda n: n.completion)

    def retained_moments(self) -> list[str]:
        """Completions that no clean has been free to take, in turn."""
        lasting = [n.completion for n in self.writes() if n.request_time not in self.undone]
        return [time for time in lasting[-self.retained :] if time >= self.let_go]

    def table(self, completion: str, undone: frozenset[str] | None = None) -> Rows:
        """The rows of the table as of a completion time, without what was undone by now, or by whenever."""
        undone = frozenset(self.undone) if undone is None else undone
        known = self._tables.get((completion, undone))
        if known is None:
            writes = [n for n in self.writes(until=completion) if n.request_time not in undone]
            lasting = [(n.request_time, self._lasting_changes(n, writes)) for n in writes]
            if self.is_serial:
                known = merged_serially(lasting, by_event=self.by_event)
            else:
                known = merged(sorted(lasting), by_event=self.by_event)
            self._tables[completion, undone] = known
        return known

    def tables(self, completion: str, began: int, ended: int) -> list[Rows]:
        """What the table as of that time may look like to somebody who reads between two steps."""
        return [self.table(completion, undone) for undone in self.undone_between(began, ended)]

    def _lasting_changes(self, note: Note, writes: list[Note]) -> tuple[Change, ...]:
        """What a write changed, without the rows of partitions that were replaced after it."""
        changes = self._changes(note.request_time)
        later = [
            self.intents[n.request_time]
            for n in writes
            if n.completion > note.completion and n.request_time in self.intents
        ]
        for replaces in (i.replaces for i in later if i.replaces != frozenset()):
            changes = tuple(c for c in changes if replaces is not None and self.partition_of(c.key) not in replaces)
        return changes

    def _changes(self, request_time: str) -> tuple[Change, ...]:
        intent = self.intents.get(request_time)
        return intent.changes if intent is not None else ()


def merged(writes: Iterable[tuple[str, tuple[Change, ...]]], *, by_event: bool) -> Rows:
    """The rows after these writes, given by request time. FORMAT, section 10, one row after the other.

    Event time: what is new replaces what is old unless the old has a greater ordering value; a delete with an ordering
    value stays behind as a tombstone; one without removes what came before and leaves nothing behind.
    """
    state: dict[str, tuple[int, str, str | None]] = {}
    for request_time, changes in writes:
        for change in changes:
            old = state.get(change.key)
            if change.value is None and (change.order is None or not by_event):
                state.pop(change.key, None)
            elif old is None or not by_event or (change.order or 0) >= old[0]:
                state[change.key] = (change.order or 0, request_time, change.value)
    return {
        key: (order, request_time, value)
        for key, (order, request_time, value) in sorted(state.items())
        if value is not None
    }


def merged_serially(writes: Iterable[tuple[str, tuple[Change, ...]]], *, by_event: bool) -> Rows:
    """The rows after these writes, given by completion: each rewrites what is there, and a delete is over when it is done."""
    rows: Rows = {}
    for request_time, changes in writes:
        for change in changes:
            old = rows.get(change.key)
            if old is not None and by_event and (change.order or 0) < old[0] and change.order is not None:
                continue
            if change.value is None:
                rows.pop(change.key, None)
            else:
                rows[change.key] = (change.order or 0, request_time, change.value)
    return dict(sorted(rows.items()))


@lru_cache(maxsize=4096)
def describe(request_time: str) -> str:
    """An instant time as people read it in a story: minutes, seconds, milliseconds."""
    return f"{request_time[10:12]}:{request_time[12:14]}.{request_time[14:]}"
