# SPDX-License-Identifier: Apache-2.0
"""Incoming rows put in order: by partition and bucket, in each by key, of every key only the row that wins.

So what is written is a function of the rows, not of the order they came in, and a second attempt of a task that got
the same rows makes the same bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakebraid.model.keys.order import sort_keys
from lakebraid.model.ordering import Ints, OrderKeys, order_keys, ranks, winners
from lakebraid.model.values.arrow_numpy import to_arrow, to_ints


@dataclass(frozen=True, slots=True)
class Group:
    """The rows of one file group: places `start` to `stop` in the order."""

    partition: str
    bucket: int
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Grouping:
    """Which rows to write, in which order, and where each file group begins among them."""

    rows: Ints
    groups: tuple[Group, ...]


def group_rows(keys: pa.Array, partitions: pa.Array, buckets: Ints, order: OrderKeys) -> Grouping:
    """The order to write rows in. Of equal keys the greatest ordering value stays, and of equal values the later row."""
    paths, codes = _partition_codes(partitions)
    count = int(buckets.max(initial=0)) + 1
    codes = codes * count + buckets
    rows, numbers = _by_group_and_key(keys, codes)
    rows = _without_losers(rows, numbers, codes, order)
    return Grouping(rows, _groups(codes[rows], paths, count))


def join_group(rows: pa.Table, keys: pa.Array, partitions: pa.Array, by: str, columns: tuple[str, ...]) -> pa.Table:
    """The rows; those with equal keys all have the values of these columns that rank highest by the column `by`."""
    own = [name for name in columns if name in rows.column_names]
    encoded = keys.dictionary_encode()
    pairs = _partition_codes(partitions)[1] * len(encoded.dictionary) + to_ints(encoded.indices)
    different, codes = np.unique(pairs, return_inverse=True)
    count = len(different)
    if by not in rows.column_names or count == rows.num_rows:
        return rows
    best = winners(codes, order_keys([rows.column(by)], rows.num_rows), np.zeros(rows.num_rows, np.bool_), count)
    joined = rows.select(own).take(to_arrow(best[codes]))
    columns_now = [joined.column(f.name) if f.name in own else rows.column(f.name) for f in rows.schema]
    return pa.Table.from_arrays(columns_now, schema=rows.schema)


def _partition_codes(partitions: pa.Array) -> tuple[list[str], Ints]:
    """The different partitions by name, and each row's number among them."""
    encoded = partitions.dictionary_encode()
    found = encoded.dictionary.to_pylist()
    if len(found) == 1:
        return found, np.zeros(len(partitions), np.int64)
    by_name = np.argsort(np.array(found, dtype=object), kind="stable")
    place = np.empty(len(found), np.int64)
    place[by_name] = np.arange(len(found))
    return [found[i] for i in by_name], place[np.asarray(encoded.indices)]


def _by_group_and_key(keys: pa.Array, codes: Ints) -> tuple[Ints, Ints]:
    """All rows in order, and the number of each one's key."""
    rows, numbers = sort_keys(keys)
    groups = codes[rows]
    if groups.max(initial=0) < 1 << 16:
        groups = groups.astype(np.uint16)  # numpy sorts these by counting
    by_group = np.argsort(groups, kind="stable")
    return rows[by_group], numbers[by_group]


def _without_losers(rows: Ints, numbers: Ints, codes: Ints, order: OrderKeys) -> Ints:
    """The rows without those that another of the same group and key outranks."""
    same = (numbers[1:] == numbers[:-1]) & (codes[rows[1:]] == codes[rows[:-1]])
    if not same.any():
        return rows
    place = np.r_[0, np.cumsum(~same)]  # of the key, in the order of `rows`
    # Within a key by ordering values, then by place in the input; the last of each key stays.
    ranked = rows[np.lexsort([rows, *(rank[rows] for rank in reversed(ranks(order))), place])]
    return ranked[np.r_[~same, True]]


def _groups(codes: Ints, paths: list[str], count: int) -> tuple[Group, ...]:
    starts = np.flatnonzero(np.r_[len(codes) > 0, codes[1:] != codes[:-1]])
    stops = np.r_[starts[1:], len(codes)][: len(starts)]
    return tuple(
        Group(paths[codes[start] // count], int(codes[start] % count), int(start), int(stop))
        for start, stop in zip(starts, stops, strict=True)
    )
