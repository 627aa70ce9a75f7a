# SPDX-License-Identifier: Apache-2.0
"""Optimistic concurrency: against which instants a write is held at its commit, and when it conflicts (RFC-71).

Candidates are completed instants that this write could not have seen when it began, in one of two ways, and pending
ones by a matrix of three kinds. A candidate that touches a file group of ours, or a bucket, is a conflict.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from lakebraid.model.keys.buckets import bucket_of_file_id
from lakebraid.model.timeline.instant import Instant
from lakebraid.model.timeline.slicing import GroupId
from lakebraid.model.timeline.timeline import Timeline


class WriteKind(StrEnum):
    """What an instant does, as far as conflicts go; cleans, rollbacks and the like conflict with no write."""

    INGESTION = "ingestion"
    CLUSTERING = "clustering"
    COMPACTION = "compaction"


class Candidacy(StrEnum):
    """Whether a pending instant is a candidate."""

    NO = "no"
    YES = "yes"
    IF_UPDATES_ALLOWED = "yes if updates are allowed during clustering, else no"
    UNLESS_UPDATES_ALLOWED = "no if updates are allowed during clustering, else yes"


PENDING: Final[dict[WriteKind, dict[WriteKind, Candidacy]]] = {
    # this one \ pending      ingestion                     clustering                       compaction
    WriteKind.INGESTION:  dict(zip(WriteKind, (Candidacy.NO,                 Candidacy.UNLESS_UPDATES_ALLOWED, Candidacy.YES), strict=True)),
    WriteKind.CLUSTERING: dict(zip(WriteKind, (Candidacy.IF_UPDATES_ALLOWED, Candidacy.NO,                     Candidacy.NO), strict=True)),
}  # fmt: skip
"""The RFC's matrix. A compaction is never checked: whom it would meet is settled when it is planned."""


class Strategy(StrEnum):
    """How completed candidates are found; both find the same conflicts."""

    BY_REQUEST_TIME = "request time"
    """Began later and completed; or was pending when this one began, and has completed."""
    BY_COMPLETION = "completion"
    """Completed after this one began."""


STRATEGIES: Final = {
    "SimpleConcurrentFileWritesConflictResolutionStrategy": Strategy.BY_REQUEST_TIME,
    "BucketIndexConcurrentFileWritesConflictResolutionStrategy": Strategy.BY_REQUEST_TIME,
    "EndTimestampBasedConcurrentFileWritesConflictResolutionStrategy": Strategy.BY_COMPLETION,
    "PreferWriterConflictResolutionStrategy": Strategy.BY_COMPLETION,
    "IngestionPrimaryWriterBasedConflictResolutionStrategy": Strategy.BY_COMPLETION,
    "StateTransitionTimeBasedConflictResolutionStrategy": Strategy.BY_COMPLETION,
}
"""Hudi's and the RFC's class names, without their package."""
PREFERS_WRITERS: Final = "PreferWriterConflictResolutionStrategy"
"""With it Apache Hudi's table services look, before they publish, which writes were published after they began; without it they do not."""
UPDATES_ALLOWED: Final = {"SparkRejectUpdateStrategy": False, "SparkAllowUpdateStrategy": True}
"""Whether a write may touch file groups of a pending clustering, by Hudi's class names."""


@dataclass(frozen=True, slots=True)
class Begun:
    """What an optimistic write remembers of its beginning."""

    request_time: str
    pending: frozenset[str] | None
    """Request times of all that was under way then. None where times tell it, since all are given in the order of the decisions."""
    active_from: str = ""
    """Where the timeline began then, or earlier: what has left it since is looked up in the history."""

    def met(self, instant: Instant) -> bool:
        """Whether an instant was under way when this write began."""
        if self.pending is not None:
            return instant.request_time in self.pending
        is_older = instant.request_time < self.request_time
        return is_older and (not instant.is_completed or (instant.completion_time or "") > self.request_time)


@dataclass(frozen=True, slots=True)
class Clash:
    """Whom a write met, where, and by which rule."""

    other: Instant
    groups: tuple[GroupId, ...]
    rule: str


def kind_of(instant: Instant) -> WriteKind | None:
    """What kind of write an instant is; None for what conflicts with no write."""
    if instant.kind in ("compaction", "logcompaction"):
        return WriteKind.COMPACTION
    if instant.kind == "clustering":
        return WriteKind.CLUSTERING
    return WriteKind.INGESTION if instant.is_write else None


def candidates(
    timeline: Timeline, begun: Begun, current: WriteKind, strategy: Strategy, *, updates_allowed: bool
) -> Iterator[tuple[Instant, str]]:
    """The instants to be held against, each with the rule that names it; completed ones first, by completion."""
    for instant in timeline.writes:
        if instant.request_time != begun.request_time and (why := _completed_since(instant, begun, strategy)):
            yield instant, why
    for instant in timeline.pending:
        kind = kind_of(instant)
        if kind is None or instant.request_time == begun.request_time:
            continue
        if kind is WriteKind.COMPACTION and begun.met(instant):
            continue  # planned before this one began, which knew of it: its rows fall behind the plan by themselves
        chosen = PENDING[current][kind]
        allowed = Candidacy.IF_UPDATES_ALLOWED if updates_allowed else Candidacy.UNLESS_UPDATES_ALLOWED
        if chosen in (Candidacy.YES, allowed):
            yield instant, f"a pending {kind} against {current}: {chosen}"


def _completed_since(instant: Instant, begun: Begun, strategy: Strategy) -> str | None:
    if strategy is Strategy.BY_COMPLETION:
        return "it completed after this write began" if (instant.completion_time or "") > begun.request_time else None
    if instant.request_time > begun.request_time:
        return "it began after this write and has completed"
    return "it was under way when this write began, and has completed" if begun.met(instant) else None


def find_clash(
    found: Iterable[tuple[Instant, str]],
    own: Collection[GroupId],
    footprint: Callable[[Instant], Collection[GroupId]],
    *,
    by_bucket: bool,
    are_apart: Callable[[Instant], bool] = lambda _: False,
) -> Clash | None:
    """The first candidate that touches what is ours; `footprint` gives the groups that an instant touches.

    `are_apart` is asked about one that does, and says whether it has other keys there than we.
    """
    ours: dict[object, GroupId] = {place_of(group, by_bucket=by_bucket): group for group in own}
    for other, rule in found:
        places = {place_of(group, by_bucket=by_bucket) for group in footprint(other)}
        met = tuple(group for place, group in ours.items() if place in places)
        if met and not are_apart(other):
            return Clash(other, tuple(sorted(met)), rule)
    return None


def place_of(group: GroupId, *, by_bucket: bool) -> object:
    """What two writers must not both touch. Hudi may give a bucket a second file id: then the bucket is the place."""
    bucket = bucket_of_file_id(group.file_id) if by_bucket else None
    return group if bucket is None else (group.partition, bucket)
