# SPDX-License-Identifier: Apache-2.0
"""What the table must contain: noted at the moment of publishing, merged naively, by nobody's code but its own.

It watches the disk. A completed timeline file that appears is a publication, whatever its author believes; a requested
rollback that appears is a death sentence. Rows are known from what writers said they were going to write.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache

from lakebraid.format.rollbacks import parse_rollback_plan
from simulator.violation import Violation

TIMELINE = ".hoodie/timeline/"
HEARTBEATS = ".hoodie/.heartbeat/"
_FILE = re.compile(r"(\d{17})(?:_(\d{17}))?\.([a-z]+)(?:\.(requested|inflight))?")


@dataclass(frozen=True, slots=True)
class Change:
    """One row as one write puts or deletes it. `order` is None for a delete without an ordering value."""

    key: str
    order: int | None
    value: str | None
    """None deletes the row."""


Rows = dict[str, tuple[int, str, str]]
"""Key to ordering value, start of the write, and value."""


@dataclass(slots=True)
class Note:
    """A published write, compaction, rollback."""

    start: str
    completion: str
    action: str
    step: int
    data: bytes


@dataclass(slots=True)
class Intent:
    """What a writer is going to write, and how it believes it ended: open, published, refused, unknown, dead."""

    owner: str
    changes: tuple[Change, ...]
    began_ms: float
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
        """When a start appeared on the timeline."""
        self.sentenced: dict[str, float] = {}
        """Starts for which a rollback was requested, and when."""
        self.beats_ms: dict[str, list[float]] = {}
        self.listeners: list[object] = []
        self._tables: dict[str, Rows] = {}

    # --- what happens -----------------------------------------------------------------------------------------------

    def observe(self, what: str, name: str, data: bytes) -> None:
        if name.startswith(HEARTBEATS):
            if what != "delete":
                self.beats_ms.setdefault(name[len(HEARTBEATS) :], []).append(self._now())
        elif name.startswith(TIMELINE) and "/" not in name[len(TIMELINE) :]:
            found = _FILE.fullmatch(name[len(TIMELINE) :])
            if found is None:
                raise Violation("the timeline is well-formed", f"{name} is no timeline file")
            self._timeline(what, found, data)

    def _timeline(self, what: str, found: re.Match[str], data: bytes) -> None:
        start, completion, action, state = found.groups()
        if what == "delete":
            self._tell("withdrawn", start, completion, action, state)
            return
        self.first_seen_ms.setdefault(start, self._now())
        if completion is not None:
            note = Note(start, completion, action, self._step(), data)
            self._tell("publishing", note)
            self.notes.append(note)
            if action != "rollback":
                self.published[start] = note
            self._tell("published", note)
        elif action == "rollback" and state == "requested":
            plan = parse_rollback_plan(data, "the rollback plan")
            victim = plan.instant.request_time if plan.instant else ""
            self._tell("sentenced", start, victim)
            self.sentenced.setdefault(victim, self._now())
        else:
            self._tell("appeared", start, action, state)

    def _tell(self, what: str, *facts: object) -> None:
        for listener in self.listeners:
            hook = getattr(listener, what, None)
            if hook is not None:
                hook(*facts)

    def intend(self, start: str, owner: str, changes: Iterable[Change]) -> Intent:
        intent = self.intents[start] = Intent(owner, tuple(changes), self._now())
        return intent

    # --- what must be so --------------------------------------------------------------------------------------------

    @property
    def newest(self) -> str:
        """The greatest completion time published so far, of any action; "0" before the first."""
        return max((n.completion for n in self.notes), default="0")

    def newest_at(self, step: int) -> str:
        """The same, as it was when that step began."""
        return max((n.completion for n in self.notes if n.step < step), default="0")

    def writes(self, after: str = "", until: str = "9") -> list[Note]:
        """Publications of rows with completion times in (after, until], by completion."""
        found = [n for n in self.notes if n.action != "rollback" and after < n.completion <= until]
        return sorted(found, key=lambda n: n.completion)

    def table(self, completion: str) -> Rows:
        """The rows of the table as of a completion time."""
        known = self._tables.get(completion)
        if known is None:
            starts = sorted(n.start for n in self.writes(until=completion))
            known = merged([(s, self._changes(s)) for s in starts], by_event=self.by_event)
            self._tables[completion] = known
        return known

    def _changes(self, start: str) -> tuple[Change, ...]:
        intent = self.intents.get(start)
        return intent.changes if intent is not None else ()


def merged(writes: Iterable[tuple[str, tuple[Change, ...]]], *, by_event: bool) -> Rows:
    """The rows after these writes, given by start. FORMAT, section 10, one row after the other.

    Event time: what is new replaces what is old unless the old has a greater ordering value; a delete with an ordering
    value stays behind as a tombstone; one without removes what came before and leaves nothing behind.
    """
    state: dict[str, tuple[int, str, str | None]] = {}
    for start, changes in writes:
        for change in changes:
            old = state.get(change.key)
            if change.value is None and (change.order is None or not by_event):
                state.pop(change.key, None)
            elif old is None or not by_event or (change.order or 0) >= old[0]:
                state[change.key] = (change.order or 0, start, change.value)
    return {key: (order, start, value) for key, (order, start, value) in sorted(state.items()) if value is not None}


@lru_cache(maxsize=4096)
def describe(start: str) -> str:
    """An instant time as people read it in a story: minutes, seconds, milliseconds."""
    return f"{start[10:12]}:{start[12:14]}.{start[14:]}"
