# SPDX-License-Identifier: Apache-2.0
"""The timeline: an immutable list of instants, active and archived."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from lakebraid.format.names import State, parse_timeline_file
from lakebraid.model.timeline.instant import Instant, action_family

_RANK = {State.REQUESTED: 0, State.INFLIGHT: 1, State.COMPLETED: 2}
_COMPLETED_WRITES: Final = frozenset({".commit", ".deltacommit", ".replacecommit"})
_COMPLETED_OTHERS: Final = frozenset({".clean", ".rollback", ".restore", ".indexing"})
# A savepoint has the request time of the write that it pins, and says nothing about that one's end.


def build_timeline(
    names: Iterable[str],
    *,
    layout: int = 2,
    completion_times: Mapping[str, str] | None = None,
    archived: Iterable[Instant] = (),
    undone: frozenset[str] = frozenset(),
) -> Timeline:
    """The timeline that these file names spell. Names that are none of a timeline's are passed over.

    `completion_times` gives the completion of files whose name has none (layout 1, upgraded tables). `undone` are the
    request times of writes that an unfinished restore removes: they count as if they had never been, whatever still lies there.
    """
    best: dict[tuple[str, str], Instant] = {}
    for name in names:
        parsed = parse_timeline_file(name, layout)
        if parsed is None or (parsed.request_time in undone and action_family(parsed.action) == "write"):
            continue
        completion = parsed.completion_time
        if parsed.state is State.COMPLETED and completion is None:
            completion = (completion_times or {}).get(name, parsed.request_time)
        planned = None if parsed.state is State.COMPLETED else parsed.action
        seen = Instant(parsed.request_time, parsed.action, parsed.state, completion, planned)
        key = (parsed.request_time, action_family(parsed.action))
        best[key] = _further(best.get(key), seen)
    return Timeline(tuple(sorted(best.values())), tuple(sorted(archived)), undone=undone)


def _further(known: Instant | None, seen: Instant) -> Instant:
    """The instant in the further of two states, remembering the action word of its plan. Of two savepoints of a write,
    one of which is deleted and still to go, the later.
    """
    if known is None:
        return seen
    first, last = (known, seen) if _rank(known) <= _rank(seen) else (seen, known)
    if last.planned is not None or first.planned is None:
        return last
    return Instant(last.request_time, last.action, last.state, last.completion_time, first.planned)


def _rank(instant: Instant) -> tuple[int, str]:
    return _RANK[instant.state], instant.completion_time or ""


def recent_names(names: Collection[str], since: str, request_times: Collection[str] = ()) -> list[str]:
    """The names of instants that are pending, began or completed after `since`, or have one of these request times; and of the
    first completed write, which says where the timeline begins: the part of a timeline that matters to a write.

    A timeline has thousands of names, and all but a few are of writes that had completed before this one began. They are
    told apart by comparing text, before anything is made of them.

    All names of an instant, or none. A name that is not spelled as usual stays: the parser judges it.

    >>> old = ["20260102000000001.deltacommit.requested", "20260102000000001_20260102000000002.deltacommit"]
    >>> late = ["20260102000000003.deltacommit.requested", "20260102000000003_20260102000000009.deltacommit"]
    >>> open = ["20260102000000005.deltacommit.inflight"]
    >>> first = ["20260101000000000_20260101000000001.deltacommit"]
    >>> recent_names([*first, *old, *late, *open], "20260102000000007") == [*first, *late, *open]
    True
    """
    # By position, not by pattern: request time, '_', completion, action. There are thousands, and nearly all of them go.
    old = [n for n in names if n[17:18] == "_" and n <= since and n[18:] <= since and n[18:35].isdecimal()]
    writes = {n[:17] for n in old if n[35:] in _COMPLETED_WRITES}
    writes.discard(min(writes, default=""))
    passed = writes.union(n[:17] for n in old if n[35:] in _COMPLETED_OTHERS).difference(request_times)
    return [n for n in names if n[:17] not in passed]


@dataclass(frozen=True)
class Timeline:
    """All instants a reader knows of, in the order of their request times."""

    active: tuple[Instant, ...]
    archived: tuple[Instant, ...] = ()
    until: str | None = None
    """Only completions up to this time count; None for all."""
    undone: frozenset[str] = frozenset()
    """Request times of writes that an unfinished restore removes; they are in neither list."""
    _by_request: dict[str, Instant] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        for instant in (*self.archived, *self.active):
            if action_family(instant.action) == "write":
                self._by_request[instant.request_time] = instant

    def __iter__(self) -> Iterator[Instant]:
        return iter(self.active)

    def __len__(self) -> int:
        return len(self.active)

    def as_of(self, completion_time: str | None) -> Timeline:
        """The same instants, but only completions up to that time count."""
        return Timeline(self.active, self.archived, completion_time, self.undone)

    def write(self, request_time: str) -> Instant | None:
        """The write, compaction or replacement with that request time, active or archived."""
        return self._by_request.get(request_time)

    @cached_property
    def completed(self) -> tuple[Instant, ...]:
        """Completed active instants that count, by completion time."""
        done = (i for i in self.active if self._counts(i))
        return tuple(sorted(done, key=lambda i: (i.completion_time or "", i.request_time)))

    @cached_property
    def writes(self) -> tuple[Instant, ...]:
        """Completed commits, delta commits and replace commits that count, by completion time."""
        return tuple(i for i in self.completed if i.is_write)

    @cached_property
    def pending(self) -> tuple[Instant, ...]:
        """Instants that have not completed (by `until`), by request time."""
        return tuple(i for i in self.active if not self._counts(i))

    @cached_property
    def first_active_write(self) -> str | None:
        """The smallest request time of a write in the active timeline: whatever is older was archived, so it is committed."""
        request_times = [i.request_time for i in self.active if action_family(i.action) == "write"]
        return min(request_times, default=None)

    @cached_property
    def last_completion(self) -> str | None:
        """The greatest completion time that counts, of any action."""
        return max((i.completion_time or "" for i in self.completed), default=None)

    def is_archived_request_time(self, request_time: str) -> bool:
        """Whether a request time that is nowhere on the timeline is older than it, hence committed (FORMAT, section 9)."""
        if self.first_active_write is None or request_time in self.undone:
            return False
        return request_time < self.first_active_write

    def completion_of(self, request_time: str) -> str | None:
        """When the write with that request time completed, or None if it has not (by `until`).

        A request time that is not on the timeline but which is older than the active timeline is committed: scenario F4 says never to
        take it for pending. Its completion is then unknown, and its request time is the best lower bound.
        """
        instant = self._by_request.get(request_time)
        if instant is None:
            return self._within(request_time) if self.is_archived_request_time(request_time) else None
        if not instant.is_completed:
            return None
        return self._within(instant.completion_time or request_time)

    def visibility(self) -> Visibility:
        """The same question for a task, which never sees the timeline."""
        known = (*self.archived, *self.active)
        completed = frozenset(i.request_time for i in known if i.is_write and self._counts(i))
        return Visibility(completed, self.first_active_write or "", self.until or "9")

    def _within(self, completion_time: str) -> str | None:
        return completion_time if self.until is None or completion_time <= self.until else None

    def _counts(self, instant: Instant) -> bool:
        return instant.is_completed and self._within(instant.completion_time or instant.request_time) is not None


@dataclass(frozen=True, slots=True)
class Visibility:
    """Which writes count at one moment."""

    completed: frozenset[str]
    archived_before: str
    """Whatever started before this was archived, so it is committed."""
    until: str

    def counts(self, request_time: str) -> bool:
        """Whether rows of the write with that request time are visible."""
        return request_time in self.completed or (request_time < self.archived_before and request_time <= self.until)
