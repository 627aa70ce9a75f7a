# SPDX-License-Identifier: Apache-2.0
"""Ranges as records of the metadata table, both ways, and how a newer record meets an older one (MDT, section 3)."""

from __future__ import annotations

from lakebraid.format.metadata.records import ColumnStats, Files
from lakebraid.model.metadata.ranges import ColumnRange, unite
from lakebraid.model.metadata.value_types import V1, V2, unwrap, wider_type, wrap


def stats_of_range(
    found: ColumnRange,
    file_name: str,
    *,
    version: str = V2,
    is_of_partition: bool = False,
    is_tight: bool = False,
    sizes: tuple[int, int] = (0, 0),
) -> ColumnStats:
    """The record of a range; of a partition, `file_name` is its path as the metadata table spells it."""
    low, high = wrap(found.min, found.type, version), wrap(found.max, found.type, version)
    kind = tuple(found.type) if version == V2 else None
    return ColumnStats(
        file_name, found.column, low, high, found.value_count, found.null_count, *sizes, value_type=kind,  # type: ignore[arg-type]
        is_tight=is_tight, is_of_partition=is_of_partition,
    )  # fmt: skip


def range_of_stats(stats: ColumnStats) -> ColumnRange | None:
    """The range that a record tells of; None if it says that it counts no more, or is not understood: then nothing is known.

    A column without values may have the ends 0.0, as Hudi writes them; they mean nothing.
    """
    low, high = unwrap(stats.min, stats.value_type), unwrap(stats.max, stats.value_type)
    if stats.is_deleted or low is None or high is None or not 0 <= stats.null_count <= stats.value_count:
        return None
    kind = wider_type(low[1], high[1])
    if kind is None or (low[0] is None) != (high[0] is None):
        return None
    if stats.null_count == stats.value_count:
        return ColumnRange(stats.column, None, None, stats.null_count, stats.value_count, kind)
    if low[0] is None:
        return None  # rows with values, and no range of them: says nothing
    return ColumnRange(stats.column, low[0], high[0], stats.null_count, stats.value_count, kind)


def merge_stats(older: ColumnStats, newer: ColumnStats) -> ColumnStats:
    """What both say together: a tight record, and one beside a deleted one, replaces; a loose one is united with the older.

    Where the two cannot be united, the result says that nothing is known.
    """
    if newer.is_tight or newer.is_deleted or older.is_deleted:
        return newer
    first, second = range_of_stats(older), range_of_stats(newer)
    united = unite(first, second) if first is not None and second is not None else None
    if united is None:
        return newer.without_range()
    version = V1 if older.value_type is None and newer.value_type is None else V2
    sizes = older.total_size + newer.total_size, older.total_uncompressed_size + newer.total_uncompressed_size
    return stats_of_range(united, newer.file_name, version=version, is_of_partition=newer.is_of_partition, sizes=sizes)


def merge_files(older: Files, newer: Files) -> Files:
    """The files after both: sizes only grow, and what is gone takes its older entry with it or waits for one to come."""
    live = dict(older.live)
    gone = set(older.gone)
    for name, size in newer.live.items():
        live[name] = max(size, live.get(name, 0))
        gone.discard(name)
    for name in newer.gone:
        if live.pop(name, None) is None:
            gone.add(name)
    return Files(live, frozenset(gone), newer.is_partitions)
