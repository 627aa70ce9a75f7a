# SPDX-License-Identifier: Apache-2.0
"""Executing plans: from their file groups to tasks, from the files that the tasks wrote to commit metadata.

Plans of Apache Hudi are executed like our own; of the paths in them only the names count.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from lakebraid import limits
from lakebraid.errors import CorruptFile
from lakebraid.format.names import BaseFileName, LogFileName, in_partition, parse_data_file, partition_numbers
from lakebraid.format.timeline.commit import CommitMetadata, WriteStat
from lakebraid.format.timeline.plans import ClusteringPlan, ClusteringSlice, CompactionOperation, CompactionPlan
from lakebraid.model.config import TableConfig
from lakebraid.model.merge_rules import merge_rules
from lakebraid.model.metadata.file_ranges import NO_COLUMNS, range_rules
from lakebraid.model.schema.conform import with_meta
from lakebraid.model.timeline.slicing import BaseFile, FileSlice, GroupId, LogFile
from lakebraid.model.timeline.timeline import Visibility
from lakebraid.reading.plan import slice_task
from lakebraid.services.merging.choose_groups import CARRIES, NEWEST_OPEN
from lakebraid.storage.protocol import Storage
from lakebraid.tasks.merging.cluster import ClusterTask
from lakebraid.tasks.merging.compact import CompactTask, MergeContext
from lakebraid.tasks.slice_task import ReadPlan, SliceTask
from lakebraid.tasks.staged_file import StagedFile, write_stats

ALL_COUNT = Visibility(frozenset(), "9", "9")
"""Whatever a plan names was committed when it was made."""


def merge_context(
    storage: Storage,
    options: Mapping[str, str],
    config: TableConfig,
    schema: pa.Schema,
    request_time: str,
    epoch: int,
    sort_by: Sequence[str] = (),
    oldest_open: str = "",
    indexed: tuple[str, ...] = (),
) -> MergeContext:
    """What the tasks of one execution share; `schema` is the table's. Columns that it has no more sort nothing. `indexed` are
    those of which the metadata table keeps statistics.
    """
    stored = with_meta(schema)
    read = ReadPlan(
        url=storage.url,
        options=tuple(options.items()),
        rules=merge_rules(config, schema),
        schema=stored,
        columns=tuple(stored.names),
        where=None,
        layout=config.layout,
    )
    sorting = tuple(n for n in sort_by if n in schema.names)
    ranges = range_rules(indexed, config, schema) if indexed else NO_COLUMNS
    return MergeContext(
        read, schema, config.name, request_time, epoch, sorting, config.has_filters, oldest_open, ranges
    )


def compact_tasks(
    plan: CompactionPlan, config: TableConfig, sizes: Mapping[str, int], visible: Visibility | None = None
) -> list[CompactTask]:
    """One task for each operation, largest first; `sizes` are those of the files in the plan's partitions.

    `visible` says which writes count in log files that hold several; without it all do.
    """
    newest_open = plan.extra.get(NEWEST_OPEN, "")
    parts = [(o.file_id, slice_task_of(o, config, sizes, visible or ALL_COUNT, newest_open)) for o in plan.operations]
    numbers = partition_numbers(part.partition for _, part in parts)
    tasks = [CompactTask(file_id, part, numbers[part.partition]) for file_id, part in parts]
    return sorted(tasks, key=lambda task: -task.slice.size)


def cluster_tasks(
    plan: ClusteringPlan, config: TableConfig, sizes: Mapping[str, int], visible: Visibility | None = None
) -> list[ClusterTask]:
    """One task for each group of slices, largest first; `sizes` are those of the files in the plan's partitions.

    `visible` says which writes count in log files that hold several; without it all do.
    """
    tasks = []
    for number, group in enumerate(plan.groups):
        parts = tuple(slice_task_of(_as_operation(s), config, sizes, visible or ALL_COUNT, "") for s in group.slices)
        outputs = min(max(group.output_file_groups, 1), limits.CLUSTER_OUTPUTS_MAX)
        by_partition = {part.partition for part in parts}
        if len(by_partition) > 1:
            raise CorruptFile("A clustering plan puts slices of several partitions together. Nothing was changed.")
        if parts:
            tasks.append(ClusterTask(number, parts[0].partition, parts, outputs))
    return sorted(tasks, key=lambda task: -task.size)


def _as_operation(part: ClusteringSlice) -> CompactionOperation:
    return CompactionOperation(part.file_id, part.partition_path, None, part.delta_file_names, part.data_file_name)


def slice_task_of(
    operation: CompactionOperation,
    config: TableConfig,
    sizes: Mapping[str, int],
    visible: Visibility,
    newest_open: str,
) -> SliceTask:
    """What to read of a group, as a plan has it."""
    task = slice_task(_slice_of(operation, sizes), config, visible)
    # A merge writes what the rows say. Where a row of a partial update says nothing, the folder does.
    fillings = tuple((name, value) for name, value in (*task.constants, *task.fillings) if value is not None)
    before = newest_open if CARRIES in operation.metrics else ""
    return replace(task, constants=(), fillings=fillings, before=before)


def _slice_of(operation: CompactionOperation, sizes: Mapping[str, int]) -> FileSlice:
    """The files that a plan names, all of them committed when it was made; CorruptFile for one of another group."""
    partition, base = operation.partition_path, None
    if operation.data_file_name is not None:
        name = in_partition(partition, operation.data_file_name)
        base = BaseFile(name, _parsed_base(operation.data_file_name, operation), sizes.get(name, 0), "")
    parsed = sorted((_parsed_log(name, operation) for name in operation.delta_file_names), key=lambda log: log.sort_key)
    named = ((in_partition(partition, log.format()), log) for log in parsed)
    logs = tuple(LogFile(name, log, sizes.get(name, 0), "") for name, log in named)
    return FileSlice(GroupId(partition, operation.file_id), operation.base_instant_time or "", base, logs)


def _parsed_log(name: str, operation: CompactionOperation) -> LogFileName:
    parsed = parse_data_file(name)
    if isinstance(parsed, LogFileName) and parsed.file_id == operation.file_id:
        return parsed
    raise _misnamed(name, operation)


def _parsed_base(name: str, operation: CompactionOperation) -> BaseFileName:
    parsed = parse_data_file(name)
    if isinstance(parsed, BaseFileName) and parsed.file_id == operation.file_id:
        return parsed
    raise _misnamed(name, operation)


def _misnamed(name: str, operation: CompactionOperation) -> CorruptFile:
    return CorruptFile(
        f"A compaction plan names {name[:200]!r} as a file of the group {operation.file_id[:100]!r}, which it is not. "
        "Nothing was written. Roll the plan back with the tool that made it.",
        file=name,
    )


def compaction_metadata(
    plan: CompactionPlan, files: Iterable[StagedFile], request_time: str, schema: str
) -> CommitMetadata:
    """What the completed compaction says (FORMAT, sections 4 and 14): a stat for each file, logs of deletes too."""
    files = list(files)
    operations = {(o.partition_path, o.file_id): o for o in plan.operations}
    bases = {(f.partition, f.file_id): f.name for f in files if f.is_base}
    stats: dict[str, list[WriteStat]] = defaultdict(list)
    for partition, found in write_stats(files, request_time).items():
        for stat in found:
            group = (partition, stat.file_id or "")
            is_log = stat.log_files is not None
            stats[partition].append(
                replace(stat, base_file=bases.get(group, "")) if is_log else _base_stat(stat, operations[group])
            )
    return _metadata(stats, schema, "COMPACT")


def log_compaction_metadata(
    plan: CompactionPlan, files: Iterable[StagedFile], request_time: str, schema: str
) -> CommitMetadata:
    """What the completed log compaction says: a stat for each file it wrote."""
    operations = {(o.partition_path, o.file_id): o for o in plan.operations}
    stats: dict[str, list[WriteStat]] = defaultdict(list)
    for partition, found in write_stats(files, request_time).items():
        stats[partition] += [_log_stat(stat, operations[partition, stat.file_id or ""]) for stat in found]
    return _metadata(stats, schema, "LOG_COMPACT")


def clustering_metadata(
    plan: ClusteringPlan, files: Iterable[StagedFile], request_time: str, schema: str
) -> CommitMetadata:
    """What the completed clustering says: the files it wrote, and the groups that they replace."""
    replaced: dict[str, list[str]] = defaultdict(list)
    for group in plan.groups:
        for part in group.slices:
            replaced[part.partition_path].append(part.file_id)
    return CommitMetadata(
        write_stats(files, request_time),
        extra={"schema": schema} if schema else {},
        operation="CLUSTER",
        replaced={partition: tuple(ids) for partition, ids in replaced.items()},
    )


def _metadata(stats: Mapping[str, Sequence[WriteStat]], schema: str, operation: str) -> CommitMetadata:
    extra = {"schema": schema} if schema else {}
    return CommitMetadata({p: tuple(found) for p, found in stats.items()}, True, extra, operation)


def _base_stat(stat: WriteStat, operation: CompactionOperation) -> WriteStat:
    base, logs = operation.data_file_name, len(operation.delta_file_names)
    return replace(
        stat,
        prev_commit="null" if base is None else _parsed_base(base, operation).request_time,
        num_inserts=0,
        total_log_files=logs,
        total_log_files_compacted=logs,
        total_log_size_compacted=int(operation.metrics.get("TOTAL_LOG_FILES_SIZE", 0)),
    )


def _log_stat(stat: WriteStat, operation: CompactionOperation) -> WriteStat:
    return replace(
        stat,
        prev_commit=operation.base_instant_time or stat.prev_commit,
        num_update_writes=stat.num_writes,
        num_inserts=0,
        base_file=operation.data_file_name or "",
        total_log_files_compacted=len(operation.delta_file_names),
        total_log_size_compacted=int(operation.metrics.get("TOTAL_LOG_FILES_SIZE", 0)),
    )
