# SPDX-License-Identifier: Apache-2.0
"""What optimistic concurrency control would have made of a history: which of its writes would have been refused."""

from __future__ import annotations

from dataclasses import dataclass

from lakebraid.model.conflicts import Begun, Strategy, WriteKind, candidates, find_clash, kind_of
from lakebraid.model.timeline.instant import Instant
from lakebraid.model.timeline.slicing import GroupId
from lakebraid.model.timeline.timeline import Timeline
from lakebraid.table.at import TableAt
from lakebraid.table.loading import load_commit, load_timeline


@dataclass(frozen=True, slots=True)
class Hindsight:
    """How many writes there were on the active timeline, and the request times of those that would have been refused."""

    writes: int
    refused: tuple[str, ...]


def look_back(table: TableAt) -> Hindsight:
    """Holds every completed write against those that completed while it ran, by RFC-71, as if each had been checked.

    A write that would have been refused stands in no other's way, and is not thought to be tried again.
    """
    timeline = load_timeline(table)
    writes = [w for w in timeline.writes if kind_of(w) is WriteKind.INGESTION]
    touched = {w.request_time: _groups(table, w) for w in writes}
    published: list[Instant] = []
    refused: list[Instant] = []
    for write in sorted(writes, key=lambda w: w.completion_time or ""):
        before = Timeline(tuple(sorted(published)))
        begun = Begun(write.request_time, frozenset())
        found = candidates(before, begun, WriteKind.INGESTION, Strategy.BY_COMPLETION, updates_allowed=True)
        own = touched[write.request_time]
        clash = find_clash(
            found, own, lambda other: touched[other.request_time], by_bucket=table.config.buckets is not None
        )
        (published if clash is None else refused).append(write)
    return Hindsight(len(writes), tuple(write.request_time for write in refused))


def _groups(table: TableAt, write: Instant) -> frozenset[GroupId]:
    stats = load_commit(table, write).write_stats
    return frozenset(GroupId(partition, stat.file_id or "") for partition, found in stats.items() for stat in found)
