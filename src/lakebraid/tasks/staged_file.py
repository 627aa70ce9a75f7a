# SPDX-License-Identifier: Apache-2.0
"""What a task tells of a data file that it wrote and no reader sees yet, and what the commit then says of it (FORMAT, section 4)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from lakebraid.errors import InvalidArgument
from lakebraid.format.metadata.records import ColumnStats, RecordParser, format_record
from lakebraid.format.names import in_partition
from lakebraid.format.timeline.commit import WriteStat
from lakebraid.model.metadata.delta import AddedFile
from lakebraid.model.metadata.file_ranges import NOT_KNOWN, FileRanges
from lakebraid.model.metadata.statistics import range_of_stats, stats_of_range


@dataclass(frozen=True, slots=True)
class StagedFile:
    """One data file of a write that is not published; `name` is without its folder."""

    partition: str
    file_id: str
    name: str
    size: int
    rows: int
    deletes: int
    is_base: bool
    min_key: str | None = None
    max_key: str | None = None
    new_keys: int = 0
    """Rows of a partial update whose keys had no row when its writer looked."""
    previous: str = ""
    """The request time of the base file that this one takes the place of; empty if there was none."""
    inserts: int = -1
    """Rows of a base file whose keys are new; -1 if all are."""
    updates: int = 0
    """Rows of a base file that this write has changed."""
    changes: str = ""
    """The log file beside a base file that tells its changes to Hudi's CDC query; empty if there is none."""
    changes_size: int = 0
    takes_all: bool = False
    """Whether some of its deletes have no ordering value: they take every row that began before."""
    ranges: FileRanges = NOT_KNOWN
    """What is known of its columns, if the table keeps statistics of them."""

    @property
    def rows_written(self) -> int:
        """Rows that are of this write: a base file may hold those of others as well."""
        return self.rows if self.inserts < 0 else self.inserts + self.updates

    @property
    def names(self) -> tuple[str, ...]:
        """All files that were written, without their folder."""
        return (self.name, self.changes) if self.changes else (self.name,)

    @property
    def path(self) -> str:
        """The name below the table."""
        return in_partition(self.partition, self.name)


def write_stats(files: Iterable[StagedFile], request_time: str) -> dict[str, tuple[WriteStat, ...]]:
    """One stat for each file of the write that began at `request_time`, by partition.

    InvalidArgument if two base files are of one file group: readers would take one of them, and half of the rows.
    """
    stats: dict[str, list[WriteStat]] = {}
    based: set[tuple[str, str]] = set()
    for file in files:
        if file.is_base and (file.partition, file.file_id) in based:
            raise InvalidArgument(
                f"The write {request_time} made two base files of the file group {file.file_id} in partition "
                f"{file.partition!r}; readers take one only. Nothing was published. Write all rows of a bulk load at "
                "once, or upsert them.",
                request_time=request_time,
                file_id=file.file_id,
                partition=file.partition,
            )
        if file.is_base:
            based.add((file.partition, file.file_id))
        stat = _base_stat(file) if file.is_base else _log_stat(file, request_time)
        stats.setdefault(file.partition, []).append(stat)
    return {partition: tuple(found) for partition, found in stats.items()}


def added_files(files: Iterable[StagedFile]) -> list[AddedFile]:
    """What a metadata table is told of these files, and of the logs of changes beside them, which have no statistics."""
    added = []
    for file in files:
        known = file.ranges
        added.append(AddedFile(file.partition, file.name, file.size, known.columns, known.inherited))
        if file.changes:
            added.append(AddedFile(file.partition, file.changes, file.changes_size, None))
    return added


def brings_keys(stat: WriteStat) -> bool:
    """Whether a file may hold keys that were not there before; log files hold none where keys are looked up."""
    is_rewrite = stat.prev_commit not in (None, "", "null")
    return stat.path is not None and stat.path.endswith(".parquet") and not (is_rewrite and stat.num_inserts == 0)


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


def _log_stat(file: StagedFile, request_time: str) -> WriteStat:
    return WriteStat(
        file_id=file.file_id,
        path=file.path,
        prev_commit=request_time,
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


STAGED_SCHEMA: Final = pa.schema(
    [
        ("partition", pa.string()),
        ("file_id", pa.string()),
        ("name", pa.string()),
        ("size", pa.int64()),
        ("rows", pa.int64()),
        ("deletes", pa.int64()),
        ("is_base", pa.bool_()),
        ("min_key", pa.string()),
        ("max_key", pa.string()),
        ("new_keys", pa.int64()),
        ("previous", pa.string()),
        ("inserts", pa.int64()),
        ("updates", pa.int64()),
        ("changes", pa.string()),
        ("changes_size", pa.int64()),
        ("takes_all", pa.bool_()),
        ("ranges", pa.list_(pa.binary())),
        ("inherited", pa.list_(pa.string())),
    ]
)
"""Staged files as rows: this is how Spark tasks hand them back."""
_PLAIN: Final = tuple(field.name for field in STAGED_SCHEMA)[:-2]


def staged_to_arrow(files: Iterable[StagedFile]) -> pa.RecordBatch:
    """One row for each file; ranges as the records of a metadata table, which hold every kind of value."""
    rows = [
        {
            **{name: getattr(file, name) for name in _PLAIN},
            "ranges": [format_record(stats_of_range(found, file.name)) for found in file.ranges.columns],
            "inherited": sorted(file.ranges.inherited),
        }
        for file in files
    ]
    return pa.RecordBatch.from_pylist(rows, schema=STAGED_SCHEMA)


def staged_from_arrow(rows: pa.Table | pa.RecordBatch) -> list[StagedFile]:
    """The files again, in the order of the rows."""
    columns = [rows.column(name).to_pylist() for name in _PLAIN]
    known = map(_ranges, rows.column("ranges").to_pylist(), rows.column("inherited").to_pylist())
    return [StagedFile(*values) for values in zip(*columns, known, strict=True)]


def _ranges(records: Iterable[bytes], inherited: Iterable[str]) -> FileRanges:
    parser = RecordParser("what a task reported")
    stats = [record for record in map(parser.parse, records) if isinstance(record, ColumnStats)]
    known = [found for found in map(range_of_stats, stats) if found is not None]
    return FileRanges(tuple(known), frozenset(inherited))
