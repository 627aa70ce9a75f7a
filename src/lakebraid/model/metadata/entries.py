# SPDX-License-Identifier: Apache-2.0
"""What one instant adds to each partition of the metadata table: records by their keys, for `format_metadata_log`.

All of it follows from the instant's own files, so it can be made before anything is decided (MDT, section 5).
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence

from lakebraid.format.metadata.records import ALL_PARTITIONS, ColumnStats, Files, RowPlace
from lakebraid.model.metadata.keys import column_stats_key, partition_key, partition_stats_key
from lakebraid.model.metadata.ranges import ColumnRange, unite_all
from lakebraid.model.metadata.statistics import stats_of_range
from lakebraid.model.metadata.value_types import V2


def files_records(
    added: Mapping[str, Mapping[str, int]],
    removed: Mapping[str, Collection[str]] | None = None,
    *,
    dropped: Collection[str] = (),
) -> dict[str, Files]:
    """The records of the partition `files`: of each data partition the new files with their sizes and those that were removed.

    Names are without their folder, and logs keep their leading dot. `dropped` partitions are gone; their own records are
    deleted keys of the log: `files_deleted(dropped)`.
    """
    taken = removed or {}
    records = {}
    for path in sorted({*added, *taken}):
        records[partition_key(path)] = Files(dict(added.get(path, {})), frozenset(taken.get(path, ())))
    if added or dropped:
        partitions = {partition_key(path): 0 for path in sorted(added)}
        gone = frozenset(partition_key(path) for path in dropped)
        records[ALL_PARTITIONS] = Files(partitions, gone, is_partitions=True)
    return records


def files_deleted(dropped: Iterable[str]) -> list[str]:
    """The keys of the partition `files` that go with dropped data partitions."""
    return [partition_key(path) for path in dropped]


def column_stats_records(
    files: Mapping[tuple[str, str], Sequence[ColumnRange]], *, version: str = V2
) -> dict[str, ColumnStats]:
    """The records of the partition `column_stats`: for each new file, given as partition and name, the ranges of its columns.

    Hudi's readers go by the name alone: it must be the only one in the whole table (MDT, T1).
    """
    return {
        column_stats_key(found.column, partition, name): stats_of_range(found, name, version=version)
        for (partition, name), ranges in files.items()
        for found in ranges
    }


def column_stats_deleted(files: Iterable[tuple[str, str]], columns: Collection[str]) -> list[str]:
    """The keys of the partition `column_stats` that go with removed files, given as partition and name."""
    return [column_stats_key(column, partition, name) for partition, name in files for column in columns]


def partition_stats_records(
    files: Mapping[tuple[str, str], Sequence[ColumnRange]], *, version: str = V2
) -> dict[str, ColumnStats]:
    """The records of the partition `partition_stats`, from the ranges of the new files alone: loose, so they are united with
    what is known (MDT, M6). A column of which a partition gets no row is left out.
    """
    by_partition: dict[str, list[Sequence[ColumnRange]]] = {}
    for (partition, _), ranges in files.items():
        by_partition.setdefault(partition, []).append(ranges)
    return {
        partition_stats_key(found.column, partition): stats_of_range(
            found, partition_key(partition), version=version, is_of_partition=True
        )
        for partition, ranges in by_partition.items()
        for found in unite_all(ranges)
        if found.value_count
    }


def row_place(partition: str, file_id: str, instant_ms: int) -> RowPlace:
    """The entry of the record index for a key: where its row is, and since when, in milliseconds since 1970.

    >>> row_place("p0", "4951c1b5-fe0e-44d6-a43d-1e1dd5dff92f-3", 1794962767300).file_index
    3
    """
    text, _, index = file_id.rpartition("-")
    try:
        number = uuid.UUID(text)
    except ValueError:
        number = None
    if number is None or str(number) != text or not (index.isascii() and index.isdigit()):
        return RowPlace(partition, -1, -1, -1, file_id, instant_ms, encoding=1)
    halves = (number.int >> 64, number.int & (1 << 64) - 1)
    high, low = (half - (1 << 64) if half >> 63 else half for half in halves)
    return RowPlace(partition, high, low, int(index), "", instant_ms)


def file_id_of_place(place: RowPlace) -> str:
    """The file id that an entry of the record index names."""
    if place.encoding:
        return place.file_id
    number = uuid.UUID(int=(place.high & (1 << 64) - 1) << 64 | place.low & (1 << 64) - 1)
    return f"{number}-{place.file_index}" if place.file_index >= 0 else str(number)
