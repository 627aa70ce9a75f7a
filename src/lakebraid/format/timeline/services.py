# SPDX-License-Identifier: Apache-2.0
"""What cleaning, savepoints and indexing leave on the timeline (rollback and restore: rollbacks.py).

As in plans, paths lose their folders on reading; the plan of a clean takes the table's address on writing, because
Hudi deletes exactly the paths it names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lakebraid.format.avro.container import read_record, write_record
from lakebraid.format.names import State
from lakebraid.format.timeline.plans import file_names, file_path
from lakebraid.format.timeline.rollbacks import InstantInfo

_SERVICE_VERSION = 2  # of clean plans and clean metadata, since they hold file names rather than paths


@dataclass(frozen=True, slots=True)
class CleanPlan:
    """Which files (names per partition) and whole partitions a clean is to delete."""

    policy: str
    files: dict[str, tuple[str, ...]] = field(default_factory=dict)
    partitions: tuple[str, ...] = ()
    earliest_to_retain: InstantInfo | None = None
    last_completed: str = ""
    extra: dict[str, str] = field(default_factory=dict)


def parse_clean_plan(data: bytes, where: str) -> CleanPlan:
    """The plan in a `clean.requested` file."""
    record = read_record(data, where, "HoodieCleanerPlan")
    earliest = record.get("earliestInstantToRetain")
    files = {key: list(paths) for key, paths in (record.get("filesToBeDeletedPerPartition") or {}).items()}
    for partition, infos in (record.get("filePathsToBeDeletedPerPartition") or {}).items():
        files.setdefault(partition, []).extend(info.get("filePath") for info in infos)
    return CleanPlan(
        policy=record["policy"],
        files={partition: file_names(paths, where) for partition, paths in files.items()},
        partitions=tuple(record.get("partitionsToBeDeleted") or ()),
        earliest_to_retain=None if earliest is None else InstantInfo(earliest["timestamp"], earliest["action"]),
        last_completed=record.get("lastCompletedCommitTimestamp", ""),
        extra=record.get("extraMetadata") or {},
    )


def format_clean_plan(plan: CleanPlan, table_url: str) -> bytes:
    """The content of the requested file."""
    earliest = plan.earliest_to_retain
    return write_record(
        "HoodieCleanerPlan",
        {
            "earliestInstantToRetain": None
            if earliest is None
            else {"timestamp": earliest.request_time, "action": earliest.action, "state": State.COMPLETED.value},
            "lastCompletedCommitTimestamp": plan.last_completed,
            "policy": plan.policy,
            "filesToBeDeletedPerPartition": {},
            "version": _SERVICE_VERSION,
            "filePathsToBeDeletedPerPartition": {
                partition: [
                    {"filePath": file_path(table_url, partition, name), "isBootstrapBaseFile": False} for name in names
                ]
                for partition, names in plan.files.items()
            },
            "partitionsToBeDeleted": list(plan.partitions),
            "extraMetadata": plan.extra,
        },
    )


@dataclass(frozen=True, slots=True)
class CleanedPartition:
    """What a clean did in one partition: names of the files it deleted and of those it could not."""

    policy: str
    deleted: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    is_partition_deleted: bool = False


@dataclass(frozen=True, slots=True)
class CleanMetadata:
    """What a finished clean did. Nothing before `earliest_commit_to_retain` can be relied on any more."""

    request_time: str
    earliest_commit_to_retain: str
    partitions: dict[str, CleanedPartition] = field(default_factory=dict)
    files_deleted: int = 0
    time_taken_ms: int = 0
    last_completed: str = ""
    extra: dict[str, str] = field(default_factory=dict)

    @property
    def deleted_files(self) -> dict[str, tuple[str, ...]]:
        """Names of the files that may be gone, by partition: also those it failed on, for Hudi counts a file that
        was gone already as a failure.
        """
        return {partition: part.deleted + part.failed for partition, part in self.partitions.items()}

    @property
    def deleted_partitions(self) -> tuple[str, ...]:
        return tuple(partition for partition, part in self.partitions.items() if part.is_partition_deleted)


def parse_clean_metadata(data: bytes, where: str) -> CleanMetadata:
    """The metadata of a finished clean."""
    record = read_record(data, where, "HoodieCleanMetadata")
    return CleanMetadata(
        request_time=record["startCleanTime"],
        earliest_commit_to_retain=record["earliestCommitToRetain"],
        partitions={
            partition: CleanedPartition(
                policy=part["policy"],
                deleted=file_names(part["successDeleteFiles"], where),
                failed=file_names(part["failedDeleteFiles"], where),
                is_partition_deleted=bool(part.get("isPartitionDeleted")),
            )
            for partition, part in record["partitionMetadata"].items()
        },
        files_deleted=record["totalFilesDeleted"],
        time_taken_ms=record["timeTakenInMillis"],
        last_completed=record.get("lastCompletedCommitTimestamp", ""),
        extra=record.get("extraMetadata") or {},
    )


def format_clean_metadata(metadata: CleanMetadata) -> bytes:
    """The content of the completed file."""
    return write_record(
        "HoodieCleanMetadata",
        {
            "startCleanTime": metadata.request_time,
            "timeTakenInMillis": metadata.time_taken_ms,
            "totalFilesDeleted": metadata.files_deleted,
            "earliestCommitToRetain": metadata.earliest_commit_to_retain,
            "lastCompletedCommitTimestamp": metadata.last_completed,
            "partitionMetadata": {
                partition: {
                    "partitionPath": partition,
                    "policy": part.policy,
                    "deletePathPatterns": [*part.deleted, *part.failed],
                    "successDeleteFiles": list(part.deleted),
                    "failedDeleteFiles": list(part.failed),
                    "isPartitionDeleted": part.is_partition_deleted,
                }
                for partition, part in metadata.partitions.items()
            },
            "version": _SERVICE_VERSION,
            "bootstrapPartitionMetadata": {},
            "extraMetadata": metadata.extra,
        },
    )


@dataclass(frozen=True, slots=True)
class SavepointMetadata:
    """The files (names per partition) that a savepoint keeps from being cleaned."""

    files: dict[str, tuple[str, ...]] = field(default_factory=dict)
    user: str = ""
    comment: str = ""
    epoch_ms: int = 0


def parse_savepoint_metadata(data: bytes, where: str) -> SavepointMetadata:
    """The metadata of a savepoint."""
    record = read_record(data, where, "HoodieSavepointMetadata")
    return SavepointMetadata(
        files={key: file_names(part["savepointDataFile"], where) for key, part in record["partitionMetadata"].items()},
        user=record["savepointedBy"],
        comment=record["comments"],
        epoch_ms=record["savepointedAt"],
    )


def format_savepoint_metadata(metadata: SavepointMetadata) -> bytes:
    """The content of the completed file."""
    return write_record(
        "HoodieSavepointMetadata",
        {
            "savepointedBy": metadata.user,
            "savepointedAt": metadata.epoch_ms,
            "comments": metadata.comment,
            "partitionMetadata": {
                partition: {"partitionPath": partition, "savepointDataFile": list(names)}
                for partition, names in metadata.files.items()
            },
            "version": 1,
        },
    )


@dataclass(frozen=True, slots=True)
class IndexPartition:
    """One partition of the metadata table that is being built, up to which instant."""

    metadata_partition: str | None = None
    up_to_instant: str | None = None
    extra: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Indexing:
    """An indexing plan, or with `operation` the metadata of a finished one."""

    partitions: tuple[IndexPartition, ...] = ()
    operation: str | None = None


def parse_index_plan(data: bytes, where: str) -> Indexing:
    """The plan in an `indexing.requested` file."""
    return _indexing(read_record(data, where, "HoodieIndexPlan"))


def parse_index_metadata(data: bytes, where: str) -> Indexing:
    """The metadata of a finished indexing."""
    return _indexing(read_record(data, where, "HoodieIndexCommitMetadata"))


def _indexing(record: dict[str, Any]) -> Indexing:
    return Indexing(
        partitions=tuple(
            IndexPartition(
                part.get("metadataPartitionPath"), part.get("indexUptoInstant"), part.get("extraMetadata") or {}
            )
            for part in record.get("indexPartitionInfos") or ()
        ),
        operation=record.get("operationType"),
    )


def format_index_plan(plan: Indexing) -> bytes:
    """The content of the requested file."""
    return write_record("HoodieIndexPlan", {"version": 1, "indexPartitionInfos": _index_records(plan)})


def format_index_metadata(metadata: Indexing) -> bytes:
    """The content of the completed file."""
    record = {"version": 1, "operationType": metadata.operation, "indexPartitionInfos": _index_records(metadata)}
    return write_record("HoodieIndexCommitMetadata", record)


def _index_records(indexing: Indexing) -> list[dict[str, Any]]:
    return [
        {
            "version": 1,
            "metadataPartitionPath": part.metadata_partition,
            "indexUptoInstant": part.up_to_instant,
            "extraMetadata": dict(part.extra),
        }
        for part in indexing.partitions
    ]
