# SPDX-License-Identifier: Apache-2.0
"""What the file of one instant says about it, as far as a person who looks at it wants to know."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from lakebraid.errors import CorruptFile
from lakebraid.format.names import parse_data_file
from lakebraid.format.timeline.commit import CommitMetadata, WriteStat, parse_commit
from lakebraid.format.timeline.plans import parse_compaction_plan, parse_requested_replace
from lakebraid.format.timeline.rollbacks import (
    InstantInfo,
    parse_restore_metadata,
    parse_rollback_metadata,
    parse_rollback_plan,
)
from lakebraid.format.timeline.services import parse_clean_metadata, parse_savepoint_metadata
from lakebraid.model.timeline.instant import WRITE_ACTIONS, Instant
from lakebraid.model.timeline.slicing import GroupId
from lakebraid.txn.refusals import parse_story

SERVICE_OPERATIONS = {"COMPACT": "compaction", "LOG_COMPACT": "logcompaction", "CLUSTER": "clustering"}
PLANNED = frozenset({"compaction", "logcompaction", "clustering"})


@dataclass(frozen=True, slots=True)
class MadeFile:
    """A file that an instant made."""

    group: GroupId
    name: str
    """Without its folder."""
    bytes: int
    rows: int | None = None


@dataclass(frozen=True, slots=True)
class PlannedGroup:
    """A file group that a plan reads, and how many files of it."""

    group: GroupId
    logs: int
    has_base: bool


@dataclass(frozen=True, slots=True)
class Details:
    """What is known of an instant beside its times. Everything is empty where nothing was said or could be read."""

    operation: str | None = None
    writer: str | None = None
    rows: int | None = None
    files: tuple[MadeFile, ...] = ()
    replaced: int = 0
    """File groups that it retires."""
    victims: tuple[InstantInfo, ...] = ()
    """Writes and plans that it removes."""
    removed: int | None = None
    """Files that it deleted."""
    plan: tuple[PlannedGroup, ...] = ()
    story: Mapping[str, Any] = field(default_factory=dict)
    """Of a rollback: why, by whom, because of whom, as far as its plan says."""
    note: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Contents:
    """The bytes of an instant's completed and requested file, where they are there."""

    completed: bytes | None = None
    requested: bytes | None = None
    problem: str = ""


def parse_details(instant: Instant, contents: Contents, where: str) -> Details:
    """The details; damage becomes `problem`, for one bad file must not hide the table."""
    try:
        said = _completed(instant, contents.completed, where)
        plan = _plan(instant, said, contents.requested, where)
        story = _story(instant, contents.requested, where)
    except CorruptFile as error:
        return Details(problem=error.message)
    return replace(said, plan=plan, story=story, problem=contents.problem)


def kind_of(instant: Instant, details: Details) -> str:
    """What a person calls the instant; of an archived one only its operation tells a compaction from a commit."""
    return instant.planned or SERVICE_OPERATIONS.get(details.operation or "", instant.action)


def _completed(instant: Instant, data: bytes | None, where: str) -> Details:
    if data is None:
        return Details()
    if instant.action in WRITE_ACTIONS:
        return _of_commit(parse_commit(data, where))
    match instant.action:
        case "rollback":
            rolled_back = parse_rollback_metadata(data, where)
            return Details(victims=rolled_back.instants, removed=rolled_back.files_deleted)
        case "restore":
            restored = parse_restore_metadata(data, where)
            return Details(victims=restored.instants)
        case "clean":
            cleaned = parse_clean_metadata(data, where)
            note = f"keeps everything from {cleaned.earliest_commit_to_retain}" * bool(
                cleaned.earliest_commit_to_retain
            )
            return Details(removed=cleaned.files_deleted, note=note)
        case "savepoint":
            saved = parse_savepoint_metadata(data, where)
            return Details(note=" · ".join(text for text in (saved.comment, saved.user) if text))
    return Details()


def _of_commit(metadata: CommitMetadata) -> Details:
    files = [
        file
        for partition, stats in metadata.write_stats.items()
        for s in stats
        if (file := _file(partition, s)) is not None
    ]
    return Details(
        operation=metadata.operation,
        writer=metadata.writer,
        rows=metadata.rows_written,
        files=tuple(files),
        replaced=sum(map(len, metadata.replaced.values())),
    )


def _file(partition: str, stat: WriteStat) -> MadeFile | None:
    name = (stat.path or "").rpartition("/")[2]
    if parse_data_file(name) is None:
        return None
    size = stat.file_size_in_bytes or stat.total_write_bytes or 0
    return MadeFile(GroupId(partition, stat.file_id or ""), name, size, stat.num_writes)


def _plan(instant: Instant, said: Details, data: bytes | None, where: str) -> tuple[PlannedGroup, ...]:
    kind = kind_of(instant, said)
    if not data or kind not in PLANNED:
        return ()
    if kind == "clustering":
        plan = parse_requested_replace(data, where).plan
        parts = [part for group in (plan.groups if plan else ()) for part in group.slices]
        return tuple(
            PlannedGroup(GroupId(p.partition_path, p.file_id), len(p.delta_file_names), p.data_file_name is not None)
            for p in parts
        )
    return tuple(
        PlannedGroup(GroupId(o.partition_path, o.file_id), len(o.delta_file_names), o.data_file_name is not None)
        for o in parse_compaction_plan(data, where).operations
    )


def _story(instant: Instant, data: bytes | None, where: str) -> dict[str, Any]:
    return parse_story(parse_rollback_plan(data, where).story) if data and instant.action == "rollback" else {}
