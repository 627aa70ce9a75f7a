# SPDX-License-Identifier: Apache-2.0
"""The one total order of row versions: which of several versions of a row is the row.

A version's rank is (ordering values if the table orders by event time, request time, log version, token, position).
The last four are its place in `sequence`; no rank depends on the slice in which a version sits, so compaction cannot
change an answer. Among the logs an unconditional delete (no ordering value) removes whatever comes before it in
sequence, and whatever comes after it begins afresh (FORMAT, section 10).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakebraid.errors import UnsupportedTable
from lakebraid.model.values.arrow_numpy import filled, to_arrow, to_bools, to_doubles, to_ints

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_LOWEST = np.iinfo(np.int64).min


@dataclass(frozen=True, slots=True)
class OrderKeys:
    """Ordering values of rows, one entry per ordering field: int64 where the type allows it, else Arrow arrays."""

    fields: tuple[Ints | pa.Array, ...]
    length: int

    def take(self, rows: Ints) -> OrderKeys:
        index = to_arrow(rows)
        fields = tuple(f[rows] if isinstance(f, np.ndarray) else f.take(index) for f in self.fields)
        return OrderKeys(fields, len(rows))

    def then(self, other: OrderKeys) -> OrderKeys:
        """These rows followed by the other's."""
        fields = tuple(
            np.concatenate([a, b])
            if isinstance(a, np.ndarray) and isinstance(b, np.ndarray)
            else pa.concat_arrays([a, b])
            for a, b in zip(self.fields, other.fields, strict=True)
        )
        return OrderKeys(fields, self.length + other.length)


def order_keys(columns: Sequence[pa.Array | pa.ChunkedArray], length: int) -> OrderKeys:
    """Comparable forms of ordering columns. A null number counts as 0, as in Hudi; any other null is below everything.

    NaN is above every number, as in Java.
    """
    return OrderKeys(tuple(_comparable(_one_chunk(column)) for column in columns), length)


def _one_chunk(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _comparable(column: pa.Array) -> Ints | pa.Array:
    kind = column.type
    if pa.types.is_nested(kind):
        raise UnsupportedTable(
            f"The table orders its rows by a column of type {kind!s:.200}, whose values have no order. Nothing was "
            "changed. Correct hoodie.table.ordering.fields."
        )
    if pa.types.is_floating(kind):
        return _ordered_bits(column)
    if pa.types.is_integer(kind):
        return to_ints(filled(column.cast(pa.int64()), 0))
    if pa.types.is_boolean(kind):
        numbers = column.cast(pa.int64())
    elif pa.types.is_timestamp(kind) or pa.types.is_time64(kind):
        numbers = column.view(pa.int64())
    elif pa.types.is_date32(kind) or pa.types.is_time32(kind):
        numbers = column.view(pa.int32()).cast(pa.int64())
    else:
        return column
    return to_ints(filled(numbers, _LOWEST))


def _ordered_bits(column: pa.Array) -> Ints:
    """Doubles as integers of the same order: -inf … -0.0 < 0.0 … inf < NaN."""
    values = to_doubles(filled(column.cast(pa.float64()), 0.0)).copy()
    values[np.isnan(values)] = np.nan  # one bit pattern
    bits = values.view(np.int64)
    return np.where(bits < 0, bits ^ np.int64(np.iinfo(np.int64).max), bits)


def compare(left: OrderKeys, right: OrderKeys) -> tuple[Bools, Bools]:
    """Row by row: whether left's ordering values are greater, and whether they are equal; the first field decides."""
    greater = np.zeros(left.length, np.bool_)
    equal = np.ones(left.length, np.bool_)
    for a, b in zip(left.fields, right.fields, strict=True):
        field_greater, field_equal = _compare(a, b)
        greater |= equal & field_greater
        equal &= field_equal
    return greater, equal


def _compare(a: Ints | pa.Array, b: Ints | pa.Array) -> tuple[Bools, Bools]:
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return a > b, a == b
    a_null, b_null = to_bools(pc.is_null(a)), to_bools(pc.is_null(b))
    greater = to_bools(filled(pc.greater(a, b), False)) | (~a_null & b_null)
    equal = to_bools(filled(pc.equal(a, b), False)) | (a_null & b_null)
    return greater, equal


def ranks(keys: OrderKeys) -> tuple[Ints, ...]:
    """The same order as integers, for sorting."""
    return tuple(f if isinstance(f, np.ndarray) else _dense_rank(f) for f in keys.fields)


def _dense_rank(values: pa.Array) -> Ints:
    dense = to_ints(pc.rank(values, sort_keys="ascending", tiebreaker="dense"))
    return np.where(to_bools(values.is_null()), 0, dense)


def winners(codes: Ints, order: OrderKeys, unconditional: Bools, count: int) -> Ints:
    """For each key code in [0, count): the row that wins, or -1.

    Rows stand in sequence. Rows before the last unconditional delete of their key do not count; among the rest the
    greatest ordering value wins, and of equals the later one.
    """
    rows = np.arange(len(codes), dtype=np.int64)
    if unconditional.any():
        cut = np.full(count, -1, np.int64)
        at = np.flatnonzero(unconditional)
        np.maximum.at(cut, codes[at], at)
        rows = rows[rows >= cut[codes]]
    best = np.full(count, -1, np.int64)
    if order.fields:
        # The cutting delete itself ranks below every row after it.
        keys = [np.where(unconditional[rows], _LOWEST, rank[rows]) for rank in ranks(order)]
        sequence: list[Any] = [rows, *reversed(keys), codes[rows]]
        rows = rows[np.lexsort(sequence)]
    best[codes[rows]] = rows  # numpy keeps the last assignment of equal indices: the one that ranks highest
    return best
