# SPDX-License-Identifier: Apache-2.0
"""Arrow's columns in the table's types, by the rule of `model.values.exact`: each value as it is, or Inexact.

A column that has the table's type already is passed on as it is. Where Arrow's own cast is exact or fails it is used;
where it rounds (a double into a float, a decimal into a double and back) values are compared or looked at one by one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebraid.errors import InvalidArgument
from lakebraid.model.values.exact import Inexact, exact_array, is_bytes, is_list, is_text, refused

_DIGITS_MAX: Final = 38
"""Of a decimal128."""


def conformed(column: pa.Array | pa.ChunkedArray, kind: pa.DataType, name: str) -> pa.Array | pa.ChunkedArray:
    """The column in this type; InvalidArgument names the first value that it cannot hold as it is."""
    if column.type == kind:
        return column
    if not can_become(column.type, kind):
        raise InvalidArgument(
            f"Column {name!r} has the type {column.type!s:.300}; the table's is {kind!s:.300}. Nothing was "
            "written. Cast it in the rows, so that you decide what happens to values that do not fit.",
            column=name,
            given=str(column.type),
            wanted=str(kind),
        )
    try:
        return exact_cast(column, kind)
    except Inexact as trouble:
        raise refused(trouble, name) from None


def can_become(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether values of `source` can be values of `target`; whether all of them are, `exact_cast` finds out.

    >>> can_become(pa.int32(), pa.int64()), can_become(pa.float64(), pa.int32()), can_become(pa.string(), pa.int64())
    (True, True, False)
    """
    is_ = pa.types
    if source == target or is_.is_null(source):
        return True
    if is_.is_dictionary(source):
        return can_become(source.value_type, target)
    if is_.is_nested(target):
        return _nested_can_become(source, target)
    if is_.is_timestamp(target):
        # The same instant in another zone is the same value; without a zone it is no instant.
        return is_.is_timestamp(source) and (source.tz is None) == (target.tz is None)
    return any(
        family(source) and family(target) for family in (_is_number, is_text, is_bytes, is_.is_date, is_.is_time)
    )


def _nested_can_become(source: pa.DataType, target: pa.DataType) -> bool:
    is_ = pa.types
    if is_.is_struct(target):
        names = {field.name for field in target}
        return (
            is_.is_struct(source)
            and len({field.name for field in source}) == source.num_fields
            and all(f.name in names and can_become(f.type, target.field(f.name).type) for f in source)
        )
    if is_.is_map(target):
        return (
            is_.is_map(source)
            and can_become(source.key_type, target.key_type)
            and can_become(source.item_type, target.item_type)
        )
    return bool(is_.is_list(target) and is_list(source) and can_become(source.value_type, target.value_type))


def exact_cast(column: pa.Array | pa.ChunkedArray, kind: pa.DataType) -> pa.Array | pa.ChunkedArray:
    """The values in this type, which they can become; Inexact tells the first that it cannot hold as it is."""
    if isinstance(column, pa.Array):
        return _cast(column, kind)
    return pa.chunked_array(list(_cast_chunks(column, kind)), kind)


def _cast_chunks(column: pa.ChunkedArray, kind: pa.DataType) -> Iterator[pa.Array]:
    start = 0
    for chunk in column.chunks:
        try:
            yield _cast(chunk, kind)
        except Inexact as trouble:
            raise trouble.at(start + (trouble.row or 0)) from None
        start += len(chunk)


def _cast(array: pa.Array, kind: pa.DataType) -> pa.Array:
    is_ = pa.types
    source = array.type
    if source == kind:
        return array
    if is_.is_null(source):
        return pa.nulls(len(array), kind)
    if is_.is_dictionary(source):
        return _cast(array.cast(source.value_type), kind)
    if is_.is_nested(kind):
        return _cast_nested(array, kind)
    if _is_number(kind):
        return _cast_numbers(array, kind)
    try:
        return pc.cast(array, kind)
    except pa.ArrowException as error:
        raise _first_changed(array, kind, error) from None


def _cast_numbers(array: pa.Array, kind: pa.DataType) -> pa.Array:
    is_ = pa.types
    if is_.is_floating(array.type) and is_.is_floating(kind):
        return _cast_floats(array, kind)
    if is_.is_integer(array.type) and is_.is_decimal(kind):
        array = pc.cast(array, pa.decimal128(20, 0))  # else Arrow goes by the digits that the type may have
    if not _may_be_wrong(array.type, kind):
        with contextlib.suppress(
            pa.ArrowException
        ):  # one does not fit, or Arrow is too strict, as with 2**54 into a double
            return pc.cast(array, kind)
    return exact_array(array.to_pylist(), kind)


def _may_be_wrong(source: pa.DataType, kind: pa.DataType) -> bool:
    """Whether Arrow's cast rounds, or gives other digits without a word where those that there may be are more than 38."""
    is_ = pa.types
    if is_.is_decimal(source) and is_.is_decimal(kind):
        return bool(source.precision + kind.scale - source.scale > _DIGITS_MAX)
    return bool(is_.is_floating(source if is_.is_decimal(kind) else kind if is_.is_decimal(source) else pa.null()))


def _cast_floats(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Doubles as floats, which Arrow rounds and lets become infinite without a word."""
    cast = pc.cast(array, kind)
    if kind.bit_width > array.type.bit_width:
        return cast
    given, kept = (np.asarray(part.cast(pa.float64()).fill_null(0.0)) for part in (array, cast))
    is_other = (given != kept) & ~np.isnan(given)
    if not is_other.any():
        return cast
    is_beyond = is_other & np.isinf(kept)
    row = int(np.argmax(is_beyond if is_beyond.any() else is_other))
    shown = f"{float(given[row])!r} ({array.type})"
    raise Inexact(shown, kind, "no float has exactly that value", "Cast the column, or widen the table's to double").at(
        row
    )


def _first_changed(array: pa.Array, kind: pa.DataType, error: pa.ArrowException) -> Inexact:
    """The first value that is another one after a cast there and back."""
    trouble = Inexact(f"all of its {array.type} values", kind, f"{error!s:.200}", "Round or correct them")
    try:
        back = pc.cast(pc.cast(array, kind, safe=False), array.type, safe=False)
        row = pc.index(pc.fill_null(pc.not_equal(back, array), fill_value=False), value=True).as_py()
        if row >= 0:
            trouble.shown = f"{array[row].cast(pa.string())} ({array.type})"
            trouble.at(row)
    except pa.ArrowException:
        pass  # told without the value
    return trouble


def _cast_nested(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_struct(kind):
        return _cast_struct(array, kind)
    if pa.types.is_map(kind):
        start, count = _stretch(array)
        offsets = _offsets(np.asarray(array.offsets) - start, array)
        keys = _within("key", offsets, lambda: _cast(array.keys.slice(start, count), kind.key_type))
        items = _within("value", offsets, lambda: _cast(array.items.slice(start, count), kind.item_type))
        return pa.MapArray.from_arrays(offsets, keys, items, type=kind)
    lengths = np.asarray(pc.fill_null(pc.list_value_length(array), 0))
    offsets = _offsets(np.concatenate([[0], np.cumsum(lengths)]), array)
    values = _within("element", offsets, lambda: _cast(array.flatten(), kind.value_type))
    return pa.ListArray.from_arrays(offsets, values, type=kind)


def _cast_struct(array: pa.StructArray, kind: pa.DataType) -> pa.Array:
    given = {field.name: part for field, part in zip(array.type, array.flatten(), strict=True)}
    parts = []
    for field in kind:
        part = given.get(field.name)
        try:
            parts.append(pa.nulls(len(array), field.type) if part is None else _cast(part, field.type))
        except Inexact as trouble:
            raise trouble.inside(field.name) from None
    return pa.StructArray.from_arrays(parts, fields=list(kind), mask=array.is_null())


def _within(name: str, offsets: pa.Array, cast: Callable[[], pa.Array]) -> pa.Array:
    """What is inside of lists or maps; the row of a value that does not fit is that of its list."""
    try:
        return cast()
    except Inexact as trouble:
        starts = np.asarray(offsets.fill_null(-1))
        known = np.flatnonzero(starts[:-1] >= 0)
        at = int(np.searchsorted(starts[known], trouble.row or 0, side="right")) - 1
        raise trouble.inside(name).at(int(known[at])) from None


def _offsets(starts: Any, array: pa.Array) -> pa.Array:
    """Where each list or map begins among all values; null where it is null."""
    nulls = np.concatenate([np.asarray(array.is_null()), [False]])
    return pa.array(starts.astype(np.int32), pa.int32(), mask=nulls)


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def missing_inside(column: pa.Array | pa.ChunkedArray, target: pa.DataType) -> bool:
    """Whether an element of a list or a value of a map is null that may not be."""
    if not pa.types.is_nested(target):
        return False
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    return any(_missing(chunk, target) for chunk in chunks)


def _missing(array: pa.Array, kind: pa.DataType) -> bool:
    if pa.types.is_struct(kind):
        # `flatten` takes the nulls of the struct into its fields, whose own types allow nulls.
        return any(_missing(part, field.type) for part, field in zip(array.flatten(), kind, strict=True))
    if pa.types.is_map(kind):
        items = array.items.slice(*_stretch(array))
        return (items.null_count > 0 and not kind.item_field.nullable) or _missing(items, kind.item_type)
    if pa.types.is_list(kind):
        values = array.flatten()
        return (values.null_count > 0 and not kind.value_field.nullable) or _missing(values, kind.value_type)
    return False


def _stretch(array: pa.Array) -> tuple[int, int]:
    """Where the entries of a slice of maps begin among all, and how many there are."""
    offsets = array.offsets
    return offsets[0].as_py(), offsets[-1].as_py() - offsets[0].as_py()
