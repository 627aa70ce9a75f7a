# SPDX-License-Identifier: Apache-2.0
"""What a commit says of the files that its tasks wrote (FORMAT, section 4)."""

from __future__ import annotations

from collections.abc import Iterable

from lakebraid.errors import InvalidArgument
from lakebraid.format.timeline.commit import WriteStat
from lakebraid.tasks.data_files import in_partition
from lakebraid.tasks.staged_file import StagedFile


def write_stats(files: Iterable[StagedFile], start: str) -> dict[str, tuple[WriteStat, ...]]:
    """One stat for each file of the write that began at `start`, by partition.

    InvalidArgument if two base files are of one file group: readers would take one of them, and half of the rows.
    """
    stats: dict[str, list[WriteStat]] = {}
    based: set[tuple[str, str]] = set()
    for file in files:
        if file.is_base and (file.partition, file.file_id) in based:
            raise InvalidArgument(
                f"The write {start} made two base files of the file group {file.file_id} in partition "
                f"{file.partition!r}; readers take one only. Nothing was published. Write all rows of a bulk load at "
                "once, or upsert them.",
                start=start,
                file_id=file.file_id,
                partition=file.partition,
            )
        if file.is_base:
            based.add((file.partition, file.file_id))
        stat = _base_stat(file) if file.is_base else _log_stat(file, start)
        stats.setdefault(file.partition, []).append(stat)
    return {partition: tuple(found) for partition, found in stats.items()}


def _base_stat(file: StagedFile) -> WriteStat:
    return WriteStat(
        file_id=file.file_id,
        path=file.path,
        prev_commit=file.previous or "null",  # Hudi's own word for "there was no base file before"
        num_writes=file.rows,
        num_deletes=file.deletes,
        num_update_writes=file.updates,
        num_inserts=file.rows if file.inserts < 0 else file.inserts,
        total_write_bytes=file.size,
        total_write_errors=0,
        partition_path=file.partition,
        file_size_in_bytes=file.size,
        cdc_stats={in_partition(file.partition, file.changes): file.changes_size} if file.changes else None,
    )


def _log_stat(file: StagedFile, start: str) -> WriteStat:
    return WriteStat(
        file_id=file.file_id,
        path=file.path,
        prev_commit=start,
        num_writes=file.rows,
        num_deletes=file.deletes,
        total_write_bytes=file.size,
        total_write_errors=0,
        partition_path=file.partition,
        file_size_in_bytes=file.size,
        log_version=1,
        log_offset=0,
        base_file="",
        log_files=(file.name,),
    )
