# SPDX-License-Identifier: Apache-2.0
"""Incoming rows put in order: by partition and bucket, in each by key, of every key only the row that wins.

So what is written is a function of the rows, not of the order they came in, and a second attempt of a task that got
the same rows makes the same bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakebraid.model.ordering import Bools, Ints, OrderKeys, order_keys, ranks, winners
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


def sort_keys(keys: pa.Array) -> tuple[Ints, Ints]:
    """The rows in the order of their keys' UTF-8 bytes, equal keys in the order of the rows; and for each of them in
    that order the number of its key, equal for equal keys only.

    Eight bytes of each key are compared as a number first, whole texts only where these are equal.

    >>> [list(map(int, found)) for found in sort_keys(pa.array(["b", "a", "b"]))]
    [[1, 0, 2], [0, 1, 1]]
    """
    heads = _heads(keys)
    order = np.argsort(heads, kind="stable")
    tied = _tied(heads[order])
    differs = np.ones(len(keys), np.bool_)
    if tied.any():
        # The order of heads is that of keys as far as it goes, so tied rows only change places among themselves.
        rows = order[tied]
        texts = keys.take(pa.array(rows))
        by_text = np.asarray(pc.sort_indices(texts)).astype(np.int64)
        order[tied] = rows[by_text]
        differs[np.flatnonzero(tied)[1:]] = _differs(texts.take(pa.array(by_text)))
    return order, np.cumsum(differs) - 1


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


def _heads(keys: pa.Array) -> npt.NDArray[np.uint64]:
    """The eight bytes of each key that follow what all keys begin with, as a number; zeros behind its end."""
    if len(keys) == 0:
        return np.zeros(0, np.uint64)
    _, offsets, data = keys.buffers()
    ends = np.frombuffer(offsets, np.int32)[keys.offset : keys.offset + len(keys) + 1].astype(np.int64)
    starts = ends[:-1] + _common(keys)
    units = np.zeros(int(ends[-1]) + 8, np.uint8)
    units[:-8] = np.frombuffer(data or b"", np.uint8)[: ends[-1]]
    eights = np.lib.stride_tricks.sliding_window_view(units, 8)
    heads = eights[starts].view(">u8").ravel().astype(np.uint64)
    beyond = np.uint64(8) * np.maximum(8 - (ends[1:] - starts), 0).astype(np.uint64)
    return np.where(beyond < 64, heads >> np.minimum(beyond, 63) << np.minimum(beyond, 63), np.uint64(0))


def _common(keys: pa.Array) -> int:
    """How many bytes all keys begin with: as many as the least and the greatest do."""
    found = pc.min_max(keys.cast(pa.binary())).as_py()
    least, greatest = found["min"], found["max"]
    differing = (at for at, (a, b) in enumerate(zip(least, greatest, strict=False)) if a != b)
    return next(differing, min(len(least), len(greatest)))


def _tied(heads: npt.NDArray[np.uint64]) -> Bools:
    """Which of the sorted heads have an equal neighbour."""
    same = heads[1:] == heads[:-1]
    return np.r_[same, False] | np.r_[False, same] if len(heads) else np.zeros(0, np.bool_)


def _differs(texts: pa.Array) -> Bools:
    """Whether each text but the first is another than the one before it."""
    return np.asarray(pc.not_equal(texts[1:], texts[:-1]).cast(pa.uint8())).astype(np.bool_)
