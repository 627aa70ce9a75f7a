# SPDX-License-Identifier: Apache-2.0
"""Executing a clustering plan: from its groups to tasks, from the files they wrote to commit metadata, and to a result."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from lakebraid import limits
from lakebraid.errors import CorruptFile
from lakebraid.format.timeline.commit import CommitMetadata
from lakebraid.format.timeline.plans import ClusteringPlan, ClusteringSlice, CompactionOperation
from lakebraid.model.config import TableConfig
from lakebraid.model.timeline.timeline import Visibility
from lakebraid.services.merging.tasks import ALL_COUNT, slice_task_of
from lakebraid.tasks.merging.cluster import ClusterTask
from lakebraid.tasks.staged_file import StagedFile
from lakebraid.txn.stats import write_stats


@dataclass(frozen=True, slots=True)
class Clustered:
    """A clustering that was executed and published."""

    instant: str
    completion_time: str
    replaced: int
    """File groups that were put together."""
    groups: int
    """File groups that hold their rows now."""
    rows: int
    bytes: int


def cluster_tasks(
    plan: ClusteringPlan, config: TableConfig, sizes: Mapping[str, int], visible: Visibility | None = None
) -> list[ClusterTask]:
    """One task for each group of slices, largest first; `sizes` are those of the files in the plan's partitions.

    `visible` says which writes count in log files that hold several; without it all do.
    """
    tasks = []
    for number, group in enumerate(plan.groups):
        parts = tuple(slice_task_of(_operation(s), config, sizes, visible or ALL_COUNT, "") for s in group.slices)
        outputs = min(max(group.output_file_groups, 1), limits.CLUSTER_OUTPUTS_MAX)
        by_partition = {part.partition for part in parts}
        if len(by_partition) > 1:
            raise CorruptFile("A clustering plan puts slices of several partitions together. Nothing was changed.")
        if parts:
            tasks.append(ClusterTask(number, parts[0].partition, parts, outputs))
    return sorted(tasks, key=lambda task: -task.size)


def _operation(part: ClusteringSlice) -> CompactionOperation:
    return CompactionOperation(part.file_id, part.partition_path, None, part.delta_file_names, part.data_file_name)


def clustering_metadata(plan: ClusteringPlan, files: list[StagedFile], start: str, schema: str) -> CommitMetadata:
    """What the completed clustering says: the files it wrote, and the groups that they replace."""
    replaced: dict[str, list[str]] = defaultdict(list)
    for group in plan.groups:
        for part in group.slices:
            replaced[part.partition_path].append(part.file_id)
    return CommitMetadata(
        write_stats(files, start),
        extra={"schema": schema} if schema else {},
        operation="CLUSTER",
        replaced={partition: tuple(ids) for partition, ids in replaced.items()},
    )


def clustered(start: str, completion: str, metadata: CommitMetadata) -> Clustered:
    """The result of a clustering by its commit: the same that its executor was given."""
    stats = [stat for found in metadata.write_stats.values() for stat in found]
    return Clustered(
        start,
        completion,
        replaced=sum(len(ids) for ids in metadata.replaced.values()),
        groups=len(stats),
        rows=sum(stat.num_writes or 0 for stat in stats),
        bytes=sum(stat.file_size_in_bytes or 0 for stat in stats),
    )
