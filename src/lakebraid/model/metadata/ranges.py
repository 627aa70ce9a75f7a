# SPDX-License-Identifier: Apache-2.0
"""The range of a column's values in a file or a partition, and how many rows have none.

Values are plain: whole numbers for dates, times and timestamps, decimals, floats, texts, bytes. They are compared as Spark
compares them: texts by their UTF-8 bytes, NaN greater than every number. A range may be wider than the values, never narrower:
the ends of long texts are cut, the lower one to where it begins, the upper one to what is just above that.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from lakebraid.limits import RANGE_END_MAX
from lakebraid.model.config import RECORD_KEY
from lakebraid.model.metadata.value_types import (
    NOTHING,
    ValueType,
    extremes,
    plain_arrow_type,
    value_type,
    wider_type,
)

INDEXED_META: Final = ("_hoodie_commit_time", "_hoodie_partition_path", RECORD_KEY)
INDEXED_COLUMNS: Final = 32
"""How many columns Hudi indexes where the table names none, its own three besides."""


@dataclass(frozen=True, slots=True)
class ColumnRange:
    """What the values of a column are, at the widest."""

    column: str
    min: Any
    """None if no row has a value."""
    max: Any
    null_count: int
    value_count: int
    """All rows, those without a value included."""
    type: ValueType = NOTHING

    @property
    def has_values(self) -> bool:
        """Whether a row may have a value."""
        return self.min is not None


def indexed_columns(schema: pa.Schema) -> tuple[str, ...]:
    """The columns that Hudi indexes if the table names none; `schema` is without Hudi's own columns."""
    chosen = [field.name for field in schema if value_type(field.type) is not None]
    return (*INDEXED_META, *chosen[:INDEXED_COLUMNS])


def column_ranges(rows: pa.Table | pa.RecordBatch, columns: Iterable[str]) -> list[ColumnRange]:
    """The ranges of those of the columns that can be indexed. A column that the rows lack is null in each of them."""
    found = []
    for name in columns:
        values = column_values(rows, name)
        made = column_range(name, values) if values is not None else absent_range(name, rows.num_rows)
        if made is not None:
            found.append(made)
    return found


def column_values(rows: pa.Table | pa.RecordBatch, name: str) -> pa.Array | pa.ChunkedArray | None:
    """A column, or with dots in its name a field inside of one, null where what holds it is; None if there is none."""
    at = rows.schema.get_field_index(name)
    if at >= 0:
        return rows.column(at)
    first, *inner = name.split(".")
    at = rows.schema.get_field_index(first)
    values = rows.column(at) if at >= 0 and inner else None
    for step in inner:
        if values is None or not pa.types.is_struct(values.type) or values.type.get_field_index(step) < 0:
            return None
        values = pc.struct_field(values, step)
    return values


def column_range(name: str, values: pa.Array | pa.ChunkedArray) -> ColumnRange | None:
    """The range of a column's values; None if columns of its type are not indexed.

    >>> column_range("price", pa.array([2.5, None, float("nan"), -1.0]))
    ColumnRange(column='price', min=-1.0, max=nan, null_count=1, value_count=4, type=ValueType(ordinal=6, more=None))
    """
    kind = value_type(values.type)
    if kind is None:
        return None
    if not len(values):
        return absent_range(name, 0)
    low, high = _bounds(values, kind)
    return ColumnRange(name, low, high, values.null_count, len(values), kind)


def absent_range(name: str, rows: int, kind: pa.DataType | None = None) -> ColumnRange:
    """The range of a column that a file of so many rows does not have, or of any column of a log file of deletes alone."""
    known = value_type(kind) if kind is not None and rows else None
    return ColumnRange(name, None, None, rows, rows, known or NOTHING)


def widest_range(name: str, kind: ValueType, rows: int) -> ColumnRange:
    """The range of a column of which so many rows, or more, may hold anything, or nothing: there are rows with and without a value.

    If the table has no such column, none of them has a value, whatever is asked.
    """
    if kind == NOTHING:
        return absent_range(name, rows)
    low, high = extremes(kind)
    return ColumnRange(name, low, high, max(rows, 1), 2 * max(rows, 1), kind)


def _bounds(values: pa.Array | pa.ChunkedArray, kind: ValueType) -> tuple[Any, Any]:
    plain = _plain(values, kind)
    found = pc.min_max(plain)
    low, high = found["min"].as_py(), found["max"].as_py()
    if isinstance(high, float) and pc.any(pc.is_nan(plain)).as_py():
        # Arrow passes over it; to Spark it is the greatest number. Of nothing else, pyarrow up to 21 tells infinities.
        low, high = math.nan if low > high else low, math.nan
    if isinstance(low, str | bytes):
        return low[:RANGE_END_MAX], _cut_above(high)
    return low, high


def _cut_above(high: Any) -> Any:
    """A short value that is not less than this one; a long one only if all its characters are the greatest there is.

    >>> _cut_above("a" * 1000)[-2:]
    'ab'
    """
    if len(high) <= RANGE_END_MAX:
        return high
    if isinstance(high, bytes):
        kept = high[:RANGE_END_MAX].rstrip(b"\xff")
        return kept[:-1] + bytes((kept[-1] + 1,)) if kept else high
    text = high[:RANGE_END_MAX].rstrip("\U0010ffff")
    if not text:
        return high
    above = ord(text[-1]) + 1
    return text[:-1] + chr(0xE000 if above == 0xD800 else above)  # no text holds what lies between


def _plain(values: pa.Array | pa.ChunkedArray, kind: ValueType) -> pa.Array | pa.ChunkedArray:
    """The values in a type that Arrow can order, with whole numbers for what is counted from 1970 or midnight."""
    wanted = plain_arrow_type(kind)
    if pa.types.is_fixed_size_binary(values.type) or wanted is None:
        return values
    if pa.types.is_timestamp(wanted):
        return values.cast(pa.timestamp(wanted.unit, values.type.tz)).cast(pa.int64())
    plain = values if values.type == wanted else values.cast(pa.large_string() if wanted == pa.string() else wanted)
    if pa.types.is_date(wanted) or pa.types.is_time32(wanted):
        return plain.cast(pa.int32())
    return plain.cast(pa.int64()) if pa.types.is_time64(wanted) else plain


def arrow_bounds(found: ColumnRange, kind: pa.DataType) -> tuple[pa.Scalar, pa.Scalar] | None:
    """Both ends as values of a column of that Arrow type, null if no row has a value; None if they cannot be told.

    They cannot where the column's type has changed in a way that changes the order of its values.
    """
    wanted = value_type(kind)
    if not found.has_values:
        return pa.scalar(None, kind), pa.scalar(None, kind)
    if wanted is None or wider_type(found.type, wanted) != wanted:
        return None
    own = plain_arrow_type(found.type)
    try:
        low, high = (_scalar(value, own).cast(kind) for value in (found.min, found.max))
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        return None
    return low, high


def _scalar(value: Any, kind: pa.DataType) -> pa.Scalar:
    """A plain value in its own Arrow type."""
    if isinstance(value, int) and not isinstance(value, bool):
        return pa.scalar(value, pa.int32() if kind.bit_width == 32 else pa.int64()).cast(kind)
    return pa.scalar(value, kind)


def unite(first: ColumnRange, second: ColumnRange) -> ColumnRange | None:
    """The range of the values of both, and their rows together; None if their types cannot be compared.

    >>> a, b = column_range("id", pa.array([3, None])), column_range("id", pa.array([1, 2]))
    >>> unite(a, b)
    ColumnRange(column='id', min=1, max=3, null_count=1, value_count=4, type=ValueType(ordinal=4, more=None))
    """
    kind = wider_type(first.type, second.type)
    if kind is None:
        return None
    counts = first.null_count + second.null_count, first.value_count + second.value_count
    if not (first.has_values and second.has_values):
        given = first if first.has_values else second
        return replace(given, null_count=counts[0], value_count=counts[1], type=kind)
    low, high = min(first.min, second.min, key=_order), max(first.max, second.max, key=_order)
    return ColumnRange(first.column, low, high, *counts, kind)


def _order(value: Any) -> tuple[bool, Any]:
    is_nan = isinstance(value, float) and math.isnan(value)
    return is_nan, 0 if is_nan else value


def unite_all(ranges: Iterable[Sequence[ColumnRange]]) -> list[ColumnRange]:
    """One range for each column out of those of several files; without columns whose types cannot be compared."""
    united: dict[str, ColumnRange | None] = {}
    for of_file in ranges:
        for found in of_file:
            known = united.get(found.column, found)
            is_first = found.column not in united
            united[found.column] = found if is_first else None if known is None else unite(known, found)
    return [found for found in united.values() if found is not None]
