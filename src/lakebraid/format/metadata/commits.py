# SPDX-License-Identifier: Apache-2.0
"""Timeline files of a metadata table: what a delta commit or a compaction of it says to Hudi (MDT, section 2)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from lakebraid.errors import InvalidArgument
from lakebraid.format.metadata.schema import plain_schema_text
from lakebraid.format.names import BaseFileName, LogFileName, parse_data_file
from lakebraid.format.timeline.commit import CommitMetadata, WriteStat, format_commit

FOLDER: Final = ".hoodie/metadata"
TIMELINE: Final = f"{FOLDER}/.hoodie/timeline"


def format_metadata_delta_commit(logs: Iterable[tuple[str, int]]) -> bytes:
    """The completed file of a delta commit that wrote these logs, given by their names below the metadata table and sizes."""
    return _format([_log_stat(name, size) for name, size in logs], "UPSERT_PREPPED")


def format_metadata_compaction(bases: Iterable[tuple[str, int]]) -> bytes:
    """The same for a compaction that wrote these base files."""
    return _format([_base_stat(name, size) for name, size in bases], "COMPACT", compacted=True)


def _format(stats: list[WriteStat], operation: str, *, compacted: bool = False) -> bytes:
    by_partition: dict[str, tuple[WriteStat, ...]] = {}
    for stat in stats:
        partition = stat.partition_path or ""
        by_partition[partition] = (*by_partition.get(partition, ()), stat)
    extra = {"schema": plain_schema_text()}
    return format_commit(CommitMetadata(by_partition, compacted=compacted, extra=extra, operation=operation))


def _log_stat(name: str, size: int) -> WriteStat:
    partition, _, file = name.rpartition("/")
    parsed = parse_data_file(file)
    if not isinstance(parsed, LogFileName):
        raise InvalidArgument(f"{name} is no log file of a metadata table. Nothing was written.", name=name)
    return WriteStat(
        file_id=parsed.file_id,
        path=name,
        prev_commit=parsed.request_time,
        partition_path=partition,
        total_write_bytes=size,
        file_size_in_bytes=size,
        log_version=parsed.version,
        log_offset=0,
        base_file="",
        log_files=(file,),
    )


def _base_stat(name: str, size: int) -> WriteStat:
    partition, _, file = name.rpartition("/")
    parsed = parse_data_file(file)
    if not isinstance(parsed, BaseFileName):
        raise InvalidArgument(f"{name} is no base file of a metadata table. Nothing was written.", name=name)
    return WriteStat(
        file_id=parsed.file_id,
        path=name,
        partition_path=partition,
        total_write_bytes=size,
        file_size_in_bytes=size,
    )
