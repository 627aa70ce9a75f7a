# SPDX-License-Identifier: Apache-2.0
"""What can be asked of a metadata table: the files of the table, ranges of columns, and where the rows of keys are."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from lakebraid.format.damage import damaged
from lakebraid.format.hfile.read import Selection
from lakebraid.format.metadata.records import ALL_PARTITIONS, ColumnStats, Files, RowPlace
from lakebraid.model.keys.partitions import check_partition_path
from lakebraid.model.metadata.keys import (
    COLUMN_STATS,
    FILES,
    PARTITION_STATS,
    RECORD_INDEX,
    column_stats_key,
    id64,
    partition_key,
    partition_of_key,
    partition_stats_key,
)
from lakebraid.model.metadata.ranges import ColumnRange
from lakebraid.model.metadata.statistics import range_of_stats
from lakebraid.table.metadata.opening import MetadataTable, load_records

_FIRST_UNSURE: str = "\ue000"
"""From this character on Java orders texts otherwise than their bytes, so that a file of Hudi's may hide such a key from us."""


def load_files(opened: MetadataTable) -> dict[str, dict[str, int]] | None:
    """The base and log files of each partition with their sizes, names without folder; None if the metadata table lists none.

    A file is there from the moment at which its write was completed until it was cleaned.
    """
    if FILES not in opened.partitions:
        return None
    records = load_records(opened, FILES, Files)
    everything = records.pop(ALL_PARTITIONS, None)
    where = f"The metadata table of {opened.validity.where}"
    if everything is None:
        raise damaged(where, f"it has no record {ALL_PARTITIONS}")
    listed: dict[str, dict[str, int]] = {}
    for key in everything.live:
        path = partition_of_key(key)
        check_partition_path(path)
        found = records.get(key)
        listed[path] = dict(found.live) if found is not None else {}
        if any("/" in name or not name for name in listed[path]):
            raise damaged(where, f"a file of the partition {key[:80]!r} has a name with a folder")
    return listed


@dataclass(frozen=True, slots=True)
class Statistics:
    """Ranges of columns in files or in partitions. What is not known may be anything, and must be read."""

    records: Mapping[str, ColumnStats] = field(repr=False)

    def of_file(self, column: str, partition: str, file_name: str) -> ColumnRange | None:
        """The range of a column in a base or log file; the name is without its folder."""
        return self._range(column_stats_key(column, partition, file_name), column, file_name)

    def of_partition(self, column: str, partition: str) -> ColumnRange | None:
        """The range of a column in all files of a partition."""
        return self._range(partition_stats_key(column, partition), column, partition_key(partition))

    def _range(self, key: str, column: str, name: str) -> ColumnRange | None:
        found = self.records.get(key)
        # The key is made of hashes; the record says of what it is.
        return (
            range_of_stats(found) if found is not None and (found.column, found.file_name) == (column, name) else None
        )


def load_column_stats(opened: MetadataTable, columns: Collection[str]) -> Statistics | None:
    """The ranges of these columns in each file; None if the metadata table has none. Only blocks that hold them are read."""
    return _load_statistics(opened, COLUMN_STATS, columns)


def load_partition_stats(opened: MetadataTable, columns: Collection[str]) -> Statistics | None:
    """The same for partitions as a whole."""
    return _load_statistics(opened, PARTITION_STATS, columns)


def _load_statistics(opened: MetadataTable, partition: str, columns: Collection[str]) -> Statistics | None:
    if partition not in opened.partitions:
        return None
    selection = Selection.of_prefixes(id64(column).encode() for column in columns)
    return Statistics(load_records(opened, partition, ColumnStats, selection=selection))


def load_row_places(opened: MetadataTable, keys: Collection[str]) -> dict[str, RowPlace] | None:
    """Where the rows of these record keys are, without keys that have no row; None if the metadata table has no such index.

    Only the blocks in which the keys would lie are read.
    """
    if RECORD_INDEX not in opened.partitions:
        return None
    for key in keys:
        if key and max(key) >= _FIRST_UNSURE:
            raise opened.validity.not_understood("keys with rare characters are not looked up in it")
    return load_records(opened, RECORD_INDEX, RowPlace, keys=list(keys))
