# SPDX-License-Identifier: Apache-2.0
"""What one action says in the metadata table: records and deleted keys, and the log files that hold them.

All of it follows from the action's own files, so it is made before anything is decided; what several actions say at the same
time is united, in any order (MDT, section 5). Nothing here reads a file.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from lakebraid.errors import InvalidArgument
from lakebraid.format.metadata.log import format_metadata_log
from lakebraid.format.metadata.records import Record
from lakebraid.format.names import LogFileName
from lakebraid.model.metadata.entries import (
    column_stats_deleted,
    column_stats_records,
    files_deleted,
    files_records,
    partition_stats_records,
)
from lakebraid.model.metadata.keys import COLUMN_STATS, FILES, PARTITION_STATS, by_group, keys_by_group
from lakebraid.model.metadata.ranges import ColumnRange, unite, widest_range
from lakebraid.model.metadata.scope import IndexedColumn, MetadataScope
from lakebraid.model.metadata.value_types import NOTHING, wider_type

_TOKEN: Final = "0-0-0"  # noqa: S105 - part of a name
"""Of one instant each file group of the metadata table has one log file, under one name (MDT, M0)."""


@dataclass(frozen=True, slots=True)
class AddedFile:
    """A data file that an action adds."""

    partition: str
    """Empty in a table without partitions."""
    name: str
    """Without its folder; the only one of this name in the action (MDT, T1)."""
    size: int
    ranges: tuple[ColumnRange, ...] | None = ()
    """What is known of its columns: one of which there is no range may hold anything. None for a file that no query reads
    rows from, as those beside base files that tell changes: it has no statistics."""
    inherited: frozenset[str] = frozenset()
    """Columns of which its rows have values that are in other files of the group: a partial update brings some only."""


@dataclass(frozen=True, slots=True)
class MetadataDelta:
    """Records and deleted keys, by the partition of the metadata table."""

    records: Mapping[str, Mapping[str, Record]]
    deleted: Mapping[str, frozenset[str]] = field(default_factory=dict)


def delta_of_commit(
    added: Iterable[AddedFile], scope: MetadataScope, *, touched: Collection[str] = ()
) -> MetadataDelta:
    """What a commit, of a write or of a service that merges, says of the files that it adds; files that it replaces stay
    until they are cleaned. `touched` are further partitions that it names, as a delete of a whole partition does.

    InvalidArgument if two files have one name.
    """
    files = list(added)
    sizes: dict[str, dict[str, int]] = {path: {} for path in touched}
    for file in files:
        sizes.setdefault(file.partition, {})[file.name] = file.size
    records: dict[str, Mapping[str, Record]] = {FILES: files_records(sizes)}
    told = [(file, file.ranges) for file in files if file.ranges is not None]
    if scope.has_statistics:
        _check_names(files)
        of_files = {(file.partition, file.name): _of_file(file, ranges, scope) for file, ranges in told}
        records[COLUMN_STATS] = column_stats_records(of_files, version=scope.version)
    if PARTITION_STATS in scope.partitions:
        of_partitions = _by_partition(told, scope)
        records[PARTITION_STATS] = partition_stats_records(of_partitions, version=scope.version)
    return MetadataDelta({name: found for name, found in records.items() if found and name in scope.partitions})


def delta_of_clean(
    removed: Mapping[str, Collection[str]], scope: MetadataScope, *, dropped: Collection[str] = ()
) -> MetadataDelta:
    """What a clean says of the files that it removes, names by partition. `dropped` partitions are gone with all their files.

    Ranges of partitions stay as wide as they are.
    """
    gone = {path: names for path, names in removed.items() if path not in dropped}
    deleted = {FILES: frozenset(files_deleted(dropped))}
    if scope.has_statistics:
        files = [(path, name) for path, names in removed.items() for name in names]
        deleted[COLUMN_STATS] = frozenset(column_stats_deleted(files, [column.name for column in scope.columns]))
    records = {FILES: files_records({}, gone, dropped=dropped)}
    return MetadataDelta(
        {name: found for name, found in records.items() if found and name in scope.partitions},
        {name: keys for name, keys in deleted.items() if keys and name in scope.partitions},
    )


def loose_partition_stats(delta: MetadataDelta) -> MetadataDelta:
    """What a later instant repeats, because a record of Hudi's between the two would replace it (MDT, section 4, point 3)."""
    return MetadataDelta({name: found for name, found in delta.records.items() if name == PARTITION_STATS})


def logs_of_delta(
    delta: MetadataDelta, groups: Mapping[str, Sequence[str]], request_time: str
) -> tuple[tuple[str, bytes], ...]:
    """The log files of the instant that began at `request_time`, each with its name below the metadata table's folder.

    `groups` are the file ids in each partition of the metadata table: how many there are decides where a key lies. Equal calls
    give equal bytes. InvalidArgument for a partition that has no groups.
    """
    logs = []
    for partition in sorted({*delta.records, *delta.deleted}):
        ids = sorted(groups.get(partition, ()))
        if not ids:
            raise InvalidArgument(
                f"The metadata table has no file groups in its partition {partition}, into which {request_time} has to write. "
                "Nothing was written.",
                partition=partition,
            )
        records = by_group(delta.records.get(partition, {}), len(ids))
        deleted = keys_by_group(sorted(delta.deleted.get(partition, ())), len(ids))
        for file_id, own, gone in zip(ids, records, deleted, strict=True):
            if own or gone:
                name = LogFileName(file_id, request_time, 1, _TOKEN, "").format()
                data = format_metadata_log(own, request_time, deleted=gone, partition=partition)
                logs.append((f"{partition}/{name}", data))
    return tuple(logs)


def _check_names(files: Iterable[AddedFile]) -> None:
    seen: dict[str, str] = {}
    for file in files:
        if seen.setdefault(file.name, file.partition) != file.partition:
            raise InvalidArgument(
                f"The partitions {seen[file.name]!r} and {file.partition!r} would each get a file {file.name!r}: readers of the "
                "metadata table take the statistics of one for both. Nothing was published.",
                name=file.name,
            )


def _of_file(file: AddedFile, ranges: Iterable[ColumnRange], scope: MetadataScope) -> list[ColumnRange]:
    """One range for each indexed column: a reader takes a column without one for a column without values."""
    known = {found.column: found for found in ranges}
    rows = max((found.value_count for found in known.values()), default=1)
    return [
        _fitted(None if column.name in file.inherited else known.get(column.name), column, rows)
        for column in scope.columns
    ]


def _by_partition(
    told: Iterable[tuple[AddedFile, Sequence[ColumnRange]]], scope: MetadataScope
) -> dict[tuple[str, str], list[ColumnRange]]:
    """The ranges of each partition as if it had one file. Values that a row has from another file are in that one's ranges."""
    united: dict[str, dict[str, ColumnRange]] = defaultdict(dict)
    for file, ranges in told:
        known = {found.column: found for found in ranges}
        so_far = united[file.partition]
        for column in scope.columns:
            found = _fitted(known.get(column.name), column, 1)
            first = so_far.get(column.name)
            both = found if first is None else unite(first, found)
            so_far[column.name] = both or widest_range(column.name, column.type, 1)
    return {(partition, ""): list(found.values()) for partition, found in united.items()}


def _fitted(found: ColumnRange | None, column: IndexedColumn, rows: int) -> ColumnRange:
    """The range in the type that the column has in the table: what cannot be compared with other values of it says nothing."""
    if found is None:
        return widest_range(column.name, column.type, rows)
    if NOTHING in (column.type, found.type) and not found.has_values:
        return replace(found, type=column.type if found.value_count else NOTHING)
    if wider_type(found.type, column.type) != column.type:
        return widest_range(column.name, column.type, rows)
    return replace(found, type=column.type)
