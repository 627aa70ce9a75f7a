# SPDX-License-Identifier: Apache-2.0
"""What pending plans of services are about: their file groups, and the files that they are going to read."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lakebraid import limits
from lakebraid.errors import CorruptFile, ObjectNotFound
from lakebraid.format.names import State, in_partition
from lakebraid.format.timeline.plans import (
    ClusteringSlice,
    CompactionOperation,
    parse_compaction_plan,
    parse_requested_replace,
)
from lakebraid.model.timeline.instant import COMPLETED_AS, Instant
from lakebraid.model.timeline.slicing import GroupId
from lakebraid.model.timeline.timeline import Timeline
from lakebraid.table.at import TableAt


@dataclass(frozen=True, slots=True)
class PlannedPart:
    """One file group of a plan, and the files of it that the plan names, by their full names."""

    group: GroupId
    files: tuple[str, ...]


def load_planned(table: TableAt, instant: Instant) -> list[PlannedPart]:
    """The parts of one plan. CorruptFile if it is torn, ObjectNotFound if it is there no more."""
    name = f"{table.config.timeline_folder}/{instant.file_name(State.REQUESTED)}"
    data = table.storage.read(name, limits.TIMELINE_FILE_BYTES_MAX)
    if instant.kind == "clustering":
        plan = parse_requested_replace(data, name).plan
        parts: Sequence[ClusteringSlice | CompactionOperation] = [
            part for group in (plan.groups if plan else ()) for part in group.slices
        ]
    else:
        parts = parse_compaction_plan(data, name).operations
    return [
        PlannedPart(
            GroupId(part.partition_path, part.file_id),
            tuple(in_partition(part.partition_path, n) for n in (part.data_file_name, *part.delta_file_names) if n),
        )
        for part in parts
    ]


def planned_parts(table: TableAt, timeline: Timeline) -> Iterator[PlannedPart]:
    """Those of all pending plans. A torn plan is passed over, as readers do: it cannot be executed (scenario F20)."""
    for instant in timeline.pending:
        if instant.kind in COMPLETED_AS:
            with contextlib.suppress(CorruptFile, ObjectNotFound):
                yield from load_planned(table, instant)
