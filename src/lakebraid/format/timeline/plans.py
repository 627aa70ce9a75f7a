# SPDX-License-Identifier: Apache-2.0
"""Plans of compaction, log compaction and clustering: the content of their requested files.

Plans name files; where the table stood when the plan was made is of no use later. So folders are stripped on
reading, and clustering plans, whose paths Hudi wants absolute, take the table's address on writing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from lakebraid.format.avro.container import read_record, write_record
from lakebraid.format.damage import damaged
from lakebraid.format.names import file_name


@dataclass(frozen=True, slots=True)
class CompactionOperation:
    """One file group to compact: the log files to merge into the base file, if there is one."""

    file_id: str
    partition_path: str
    base_instant_time: str | None
    delta_file_names: tuple[str, ...] = ()
    data_file_name: str | None = None
    metrics: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PlanStrategy:
    """The Java class that is to run a plan, with its settings."""

    class_name: str | None = None
    params: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """What a compaction or log compaction is to do."""

    operations: tuple[CompactionOperation, ...] = ()
    version: int = 2
    extra: dict[str, str] = field(default_factory=dict)
    strategy: PlanStrategy | None = None
    preserve_metadata: bool = False
    missing_partitions: tuple[str, ...] = ()


def parse_compaction_plan(data: bytes, where: str) -> CompactionPlan:
    """The plan in a `compaction.requested` or `logcompaction.requested` file."""
    record = read_record(data, where, "HoodieCompactionPlan")
    version = record.get("version")
    return CompactionPlan(
        operations=tuple(_operation(item, where) for item in record.get("operations") or ()),
        version=1 if version is None else version,
        extra=record.get("extraMetadata") or {},
        strategy=_strategy(record.get("strategy"), "compactorClassName"),
        preserve_metadata=bool(record.get("preserveHoodieMetadata")),
        missing_partitions=tuple(record.get("missingSchedulePartitions") or ()),
    )


def _operation(record: dict[str, Any], where: str) -> CompactionOperation:
    return CompactionOperation(
        file_id=_file_id(record, where),
        partition_path=record.get("partitionPath") or "",
        base_instant_time=record.get("baseInstantTime"),
        delta_file_names=file_names(record.get("deltaFilePaths"), where),
        data_file_name=_base_file_name(record, where),
        metrics=record.get("metrics") or {},
    )


def format_compaction_plan(plan: CompactionPlan) -> bytes:
    """The content of the requested file."""
    return write_record(
        "HoodieCompactionPlan",
        {
            "operations": [_operation_record(operation) for operation in plan.operations],
            "extraMetadata": plan.extra,
            "version": plan.version,
            "strategy": _strategy_record(plan.strategy, "compactorClassName"),
            "preserveHoodieMetadata": plan.preserve_metadata,
            "missingSchedulePartitions": list(plan.missing_partitions),
        },
    )


def _operation_record(operation: CompactionOperation) -> dict[str, Any]:
    return {
        "baseInstantTime": operation.base_instant_time,
        "deltaFilePaths": list(operation.delta_file_names),
        "dataFilePath": operation.data_file_name,
        "fileId": operation.file_id,
        "partitionPath": operation.partition_path,
        "metrics": operation.metrics,
        "bootstrapFilePath": None,
    }


@dataclass(frozen=True, slots=True)
class ClusteringSlice:
    """One file slice that clustering reads."""

    file_id: str
    partition_path: str
    data_file_name: str | None = None
    delta_file_names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ClusteringGroup:
    """Slices that are rewritten together, and into how many file groups."""

    slices: tuple[ClusteringSlice, ...] = ()
    metrics: dict[str, float] = field(default_factory=dict)
    output_file_groups: int = 1
    extra: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ClusteringPlan:
    """What a clustering is to do."""

    groups: tuple[ClusteringGroup, ...] = ()
    strategy: PlanStrategy | None = None
    extra: dict[str, str] = field(default_factory=dict)
    version: int = 1
    preserve_metadata: bool = False
    missing_partitions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RequestedReplace:
    """A requested replace commit: empty for an insert overwrite, with a plan for clustering."""

    operation: str | None = None
    plan: ClusteringPlan | None = None
    extra: dict[str, str] = field(default_factory=dict)


def parse_requested_replace(data: bytes, where: str) -> RequestedReplace:
    """The content of a `replacecommit.requested` or `clustering.requested` file; no bytes mean no plan."""
    if not data:
        return RequestedReplace()
    record = read_record(data, where, "HoodieRequestedReplaceMetadata")
    plan = record.get("clusteringPlan")
    return RequestedReplace(
        operation=record.get("operationType"),
        plan=None if plan is None else _clustering_plan(plan, where),
        extra=record.get("extraMetadata") or {},
    )


def _clustering_plan(record: dict[str, Any], where: str) -> ClusteringPlan:
    version = record.get("version")
    return ClusteringPlan(
        groups=tuple(_group(item, where) for item in record.get("inputGroups") or ()),
        strategy=_strategy(record.get("strategy"), "strategyClassName"),
        extra=record.get("extraMetadata") or {},
        version=1 if version is None else version,
        preserve_metadata=bool(record.get("preserveHoodieMetadata")),
        missing_partitions=tuple(record.get("missingSchedulePartitions") or ()),
    )


def _group(record: dict[str, Any], where: str) -> ClusteringGroup:
    output_file_groups = record.get("numOutputFileGroups")
    return ClusteringGroup(
        slices=tuple(_slice(item, where) for item in record.get("slices") or ()),
        metrics=record.get("metrics") or {},
        output_file_groups=1 if output_file_groups is None else output_file_groups,
        extra=record.get("extraMetadata") or {},
    )


def _slice(record: dict[str, Any], where: str) -> ClusteringSlice:
    return ClusteringSlice(
        file_id=_file_id(record, where),
        partition_path=record.get("partitionPath") or "",
        data_file_name=_base_file_name(record, where),
        delta_file_names=file_names(record.get("deltaFilePaths"), where),
    )


def format_requested_replace(requested: RequestedReplace, table_url: str) -> bytes:
    """The content of the requested file, with the absolute paths that Hudi expects."""
    return write_record(
        "HoodieRequestedReplaceMetadata",
        {
            "operationType": requested.operation,
            "clusteringPlan": _clustering_plan_record(requested.plan, table_url),
            "extraMetadata": requested.extra,
            "version": 1,
        },
    )


def _clustering_plan_record(plan: ClusteringPlan | None, table_url: str) -> dict[str, Any] | None:
    if plan is None:
        return None
    return {
        "inputGroups": [_group_record(group, table_url) for group in plan.groups],
        "strategy": _strategy_record(plan.strategy, "strategyClassName"),
        "extraMetadata": plan.extra,
        "version": plan.version,
        "preserveHoodieMetadata": plan.preserve_metadata,
        "missingSchedulePartitions": list(plan.missing_partitions),
    }


def _group_record(group: ClusteringGroup, table_url: str) -> dict[str, Any]:
    return {
        "slices": [_slice_record(part, table_url) for part in group.slices],
        "metrics": group.metrics,
        "numOutputFileGroups": group.output_file_groups,
        "extraMetadata": group.extra,
        "version": 1,
    }


def _slice_record(part: ClusteringSlice, table_url: str) -> dict[str, Any]:
    def path(name: str) -> str:
        return file_path(table_url, part.partition_path, name)

    return {
        "dataFilePath": None if part.data_file_name is None else path(part.data_file_name),
        "deltaFilePaths": [path(name) for name in part.delta_file_names],
        "fileId": part.file_id,
        "partitionPath": part.partition_path,
        "bootstrapFilePath": "",
        "version": 1,
    }


def file_path(table_url: str, partition_path: str, name: str) -> str:
    """The absolute path under which Hudi finds a data file.

    >>> file_path("s3://lake/trips/", "", "x.parquet"), file_path("/lake/trips", "p0", "x.parquet")
    ('s3://lake/trips/x.parquet', '/lake/trips/p0/x.parquet')
    """
    return "/".join(part for part in (table_url.rstrip("/"), partition_path, name) if part)


def _strategy(record: dict[str, Any] | None, class_field: str) -> PlanStrategy | None:
    if record is None:
        return None
    return PlanStrategy(class_name=record.get(class_field), params=record.get("strategyParams") or {})


def _strategy_record(strategy: PlanStrategy | None, class_field: str) -> dict[str, Any] | None:
    if strategy is None:
        return None
    return {class_field: strategy.class_name, "strategyParams": strategy.params, "version": 1}


def _file_id(record: dict[str, Any], where: str) -> str:
    file_id = record.get("fileId")
    if not file_id or not isinstance(file_id, str):
        raise damaged(where, "it plans work on a file group without an id")
    return file_id


def _base_file_name(record: dict[str, Any], where: str) -> str | None:
    path = record.get("dataFilePath")  # null or the empty text where there is no base file
    return file_names((path,), where)[0] if path else None


def file_names(paths: Iterable[str | None] | None, where: str) -> tuple[str, ...]:
    """The names at the end of the paths in a record; CorruptFile if one names no file."""
    names = tuple(file_name(path or "") for path in paths or ())
    if any(name in {"", ".", ".."} for name in names):
        raise damaged(where, "one of its paths does not end in a file's name")
    return names
