# SPDX-License-Identifier: Apache-2.0
"""What a commit says of the files that its tasks wrote (FORMAT, section 4)."""

from __future__ import annotations

from collections.abc import Iterable

from lakebraid.format.commit import WriteStat
from lakebraid.format.names import LogFileName, parse_data_file
from lakebraid.tasks.staged_file import StagedFile


def write_stats(files: Iterable[StagedFile], start: str) -> dict[str, tuple[WriteStat, ...]]:
    """One stat for each file of the write that began at `start`, by partition."""
    stats: dict[str, list[WriteStat]] = {}
    for file in files:
        stat = _base_stat(file) if file.is_base else _log_stat(file, start)
        stats.setdefault(file.partition, []).append(stat)
    return {partition: tuple(found) for partition, found in stats.items()}


def _base_stat(file: StagedFile) -> WriteStat:
    return WriteStat(
        file_id=file.file_id,
        path=file.path,
        prev_commit="null",  # Hudi's own word for "there was no base file before"
        num_writes=file.rows,
        num_deletes=file.deletes,
        num_update_writes=0,
        num_inserts=file.rows,
        total_write_bytes=file.size,
        total_write_errors=0,
        partition_path=file.partition,
        file_size_in_bytes=file.size,
    )


def _log_stat(file: StagedFile, start: str) -> WriteStat:
    name = parse_data_file(file.name)
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
        log_version=name.version if isinstance(name, LogFileName) else None,
        log_offset=0,
        base_file="",
        log_files=(file.name,),
    )
