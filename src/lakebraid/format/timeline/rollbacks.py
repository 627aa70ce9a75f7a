# SPDX-License-Identifier: Apache-2.0
"""Rollback and restore on the timeline: what is to be undone, and what was."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from lakebraid.format.avro.container import read_record, write_record
from lakebraid.format.timeline.plans import file_names, file_path


@dataclass(frozen=True, slots=True)
class InstantInfo:
    """One instant as a plan or its result names it."""

    request_time: str
    action: str


@dataclass(frozen=True, slots=True)
class RollbackRequest:
    """Files (names) to delete in one partition. `log_blocks` (name to size) exists in version 6 tables only."""

    partition_path: str
    file_id: str | None = None
    latest_base_instant: str | None = None
    files: tuple[str, ...] = ()
    log_blocks: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RollbackPlan:
    """The instant to undo, and what to delete for it."""

    instant: InstantInfo | None = None
    requests: tuple[RollbackRequest, ...] = ()
    story: str = ""
    """Why it is undone, in our own words; Hudi writes and reads none."""


def parse_rollback_plan(data: bytes, where: str) -> RollbackPlan:
    """The plan in a `rollback.requested` file."""
    record = read_record(data, where, "HoodieRollbackPlan")
    instant = record.get("instantToRollback")
    return RollbackPlan(
        instant=None if instant is None else _instant(instant),
        requests=tuple(
            RollbackRequest(
                partition_path=request["partitionPath"],
                file_id=request.get("fileId"),
                latest_base_instant=request.get("latestBaseInstant"),
                files=file_names(request.get("filesToBeDeleted"), where),
                log_blocks=_sizes(request.get("logBlocksToBeDeleted"), where),
            )
            for request in record.get("RollbackRequests") or ()
        ),
        story=record.get("lakebraidStory") or "",
    )


def format_rollback_plan(plan: RollbackPlan, table_url: str) -> bytes:
    """The content of the requested file; Hudi deletes exactly these paths when it finishes the rollback."""
    return write_record(
        "HoodieRollbackPlan",
        {
            "instantToRollback": None if plan.instant is None else _instant_record(plan.instant),
            "RollbackRequests": [_request_record(request, table_url) for request in plan.requests],
            "version": 1,
            "lakebraidStory": plan.story or None,
        },
    )


def _request_record(request: RollbackRequest, table_url: str) -> dict[str, Any]:
    def path(name: str) -> str:
        return file_path(table_url, request.partition_path, name)

    return {
        "partitionPath": request.partition_path,
        "fileId": request.file_id,
        "latestBaseInstant": request.latest_base_instant,
        "filesToBeDeleted": [path(name) for name in request.files],
        "logBlocksToBeDeleted": {path(name): size for name, size in request.log_blocks.items()},
    }


@dataclass(frozen=True, slots=True)
class RolledBackPartition:
    """What a rollback did in one partition: names of the files it deleted and of those it could not."""

    deleted: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    rollback_log_files: dict[str, int] = field(default_factory=dict)
    failed_commit_log_files: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RollbackMetadata:
    """What a finished rollback did."""

    request_time: str
    instants: tuple[InstantInfo, ...] = ()
    partitions: dict[str, RolledBackPartition] = field(default_factory=dict)
    files_deleted: int = 0
    time_taken_ms: int = 0


def parse_rollback_metadata(data: bytes, where: str) -> RollbackMetadata:
    """The metadata of a finished rollback."""
    return _rollback(read_record(data, where, "HoodieRollbackMetadata"), where)


def _rollback(record: dict[str, Any], where: str) -> RollbackMetadata:
    instants = tuple(map(_instant, record.get("instantsRollback") or ()))
    return RollbackMetadata(
        request_time=record["startRollbackTime"],
        # Old releases name only the times.
        instants=instants or tuple(InstantInfo(time, "") for time in record["commitsRollback"]),
        partitions={
            partition: RolledBackPartition(
                deleted=file_names(part["successDeleteFiles"], where),
                failed=file_names(part["failedDeleteFiles"], where),
                rollback_log_files=_sizes(part.get("rollbackLogFiles"), where),
                failed_commit_log_files=_sizes(part.get("logFilesFromFailedCommit"), where),
            )
            for partition, part in record["partitionMetadata"].items()
        },
        files_deleted=record["totalFilesDeleted"],
        time_taken_ms=record["timeTakenInMillis"],
    )


def format_rollback_metadata(metadata: RollbackMetadata) -> bytes:
    """The content of the completed file."""
    return write_record("HoodieRollbackMetadata", _rollback_record(metadata))


def _rollback_record(metadata: RollbackMetadata) -> dict[str, Any]:
    return {
        "startRollbackTime": metadata.request_time,
        "timeTakenInMillis": metadata.time_taken_ms,
        "totalFilesDeleted": metadata.files_deleted,
        "commitsRollback": [instant.request_time for instant in metadata.instants],
        "partitionMetadata": {
            partition: {
                "partitionPath": partition,
                "successDeleteFiles": list(part.deleted),
                "failedDeleteFiles": list(part.failed),
                "rollbackLogFiles": part.rollback_log_files,
                "logFilesFromFailedCommit": part.failed_commit_log_files,
            }
            for partition, part in metadata.partitions.items()
        },
        "version": 1,
        "instantsRollback": [_instant_record(instant) for instant in metadata.instants],
    }


@dataclass(frozen=True, slots=True)
class RestorePlan:
    """The instants to undo, newest first, and the savepoint to return to."""

    instants: tuple[InstantInfo, ...] = ()
    savepoint: str | None = None


def parse_restore_plan(data: bytes, where: str) -> RestorePlan:
    """The plan in a `restore.requested` file."""
    record = read_record(data, where, "HoodieRestorePlan")
    instants = tuple(map(_instant, record.get("instantsToRollback") or ()))
    return RestorePlan(instants, record.get("savepointToRestoreTimestamp"))


def format_restore_plan(plan: RestorePlan) -> bytes:
    """The content of the requested file."""
    return write_record(
        "HoodieRestorePlan",
        {
            "instantsToRollback": [_instant_record(instant) for instant in plan.instants],
            "version": 2,
            "savepointToRestoreTimestamp": plan.savepoint,
        },
    )


@dataclass(frozen=True, slots=True)
class RestoreMetadata:
    """What a finished restore did: the rollbacks it made, by the request time of the instant undone."""

    request_time: str
    instants: tuple[InstantInfo, ...] = ()
    rollbacks: dict[str, tuple[RollbackMetadata, ...]] = field(default_factory=dict)
    time_taken_ms: int = 0


def parse_restore_metadata(data: bytes, where: str) -> RestoreMetadata:
    """The metadata of a finished restore."""
    record = read_record(data, where, "HoodieRestoreMetadata")
    instants = tuple(map(_instant, record.get("restoreInstantInfo") or ()))
    return RestoreMetadata(
        request_time=record["startRestoreTime"],
        instants=instants or tuple(InstantInfo(time, "") for time in record["instantsToRollback"]),
        rollbacks={
            time: tuple(_rollback(item, where) for item in items if item is not None)
            for time, items in record["hoodieRestoreMetadata"].items()
        },
        time_taken_ms=record["timeTakenInMillis"],
    )


def format_restore_metadata(metadata: RestoreMetadata) -> bytes:
    """The content of the completed file."""
    return write_record(
        "HoodieRestoreMetadata",
        {
            "startRestoreTime": metadata.request_time,
            "timeTakenInMillis": metadata.time_taken_ms,
            "instantsToRollback": [instant.request_time for instant in metadata.instants],
            "hoodieRestoreMetadata": {
                time: [_rollback_record(item) for item in items] for time, items in metadata.rollbacks.items()
            },
            "version": 1,
            "restoreInstantInfo": [_instant_record(instant) for instant in metadata.instants],
        },
    )


def _instant(record: dict[str, Any]) -> InstantInfo:
    return InstantInfo(record["commitTime"], record["action"])


def _instant_record(instant: InstantInfo) -> dict[str, Any]:
    return {"commitTime": instant.request_time, "action": instant.action}


def _sizes(by_path: dict[str, int] | None, where: str) -> dict[str, int]:
    sizes = by_path or {}
    return dict(zip(file_names(sizes, where), sizes.values(), strict=True))
