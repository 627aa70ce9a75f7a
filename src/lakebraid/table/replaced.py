# SPDX-License-Identifier: Apache-2.0
"""File groups that a completed overwrite, partition delete or clustering took away."""

from __future__ import annotations

from lakebraid.clock import Clock
from lakebraid.format.commit import parse_commit
from lakebraid.model.config import TableConfig
from lakebraid.model.instant import Instant
from lakebraid.model.slicing import GroupId
from lakebraid.model.timeline import Timeline
from lakebraid.storage.protocol import Storage
from lakebraid.table.history import load_history
from lakebraid.table.loading import load_commit


def load_replaced(storage: Storage, config: TableConfig, clock: Clock, timeline: Timeline) -> dict[GroupId, Instant]:
    """The replaced groups, each with the instant that replaced it (the last one, if several did)."""
    replaced: dict[GroupId, Instant] = {}
    for instant in _archived(timeline):
        _note(replaced, instant, storage, config)
    for instant in timeline.writes:
        if instant.action == "replacecommit":
            metadata = load_commit(storage, config, instant, clock)
            for partition, file_ids in metadata.replaced.items():
                replaced |= {GroupId(partition, file_id): instant for file_id in file_ids}
    return replaced


def _archived(timeline: Timeline) -> list[Instant]:
    return [
        i
        for i in timeline.archived
        if i.action == "replacecommit" and timeline.completion_of(i.request_time) is not None
    ]


def _note(replaced: dict[GroupId, Instant], instant: Instant, storage: Storage, config: TableConfig) -> None:
    actions = frozenset({"replacecommit"})
    for row in load_history(storage, config, instant.request_time, actions=actions, with_metadata=True):
        if row.instant.request_time == instant.request_time and row.metadata:
            metadata = parse_commit(row.metadata, f"archived {instant.request_time}.replacecommit")
            for partition, file_ids in metadata.replaced.items():
                replaced |= {GroupId(partition, file_id): instant for file_id in file_ids}
