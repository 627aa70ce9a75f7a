# SPDX-License-Identifier: Apache-2.0
"""File groups that a completed overwrite, partition delete or clustering took away."""

from __future__ import annotations

from collections import defaultdict

from lakebraid.model.timeline.instant import Instant
from lakebraid.model.timeline.slicing import GroupId
from lakebraid.model.timeline.timeline import Timeline
from lakebraid.storage.parallel import map_calls
from lakebraid.table.at import TableAt
from lakebraid.table.loading import load_commit


def load_replaced(table: TableAt, timeline: Timeline) -> dict[GroupId, Instant]:
    """The replaced groups, each with the instant that replaced it (the last one, if several did)."""
    return {group: found[-1] for group, found in load_replacements(table, timeline).items()}


def load_replacements(table: TableAt, timeline: Timeline) -> dict[GroupId, list[Instant]]:
    """The replaced groups, each with all instants that replaced it, in the order of their completion."""
    replaced: dict[GroupId, list[Instant]] = defaultdict(list)
    instants = [i for i in (*_archived(timeline), *timeline.writes) if i.action == "replacecommit"]
    groups = map_calls(table.storage, lambda instant: load_commit(table, instant).replaced, instants)
    for instant, taken in zip(instants, groups, strict=True):
        for partition, file_ids in taken.items():
            for file_id in file_ids:
                replaced[GroupId(partition, file_id)].append(instant)
    return {g: sorted(found, key=lambda i: i.completion_time or i.request_time) for g, found in replaced.items()}


def _archived(timeline: Timeline) -> list[Instant]:
    return [i for i in timeline.archived if timeline.completion_of(i.request_time) is not None]
