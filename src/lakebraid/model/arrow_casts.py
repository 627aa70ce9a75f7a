# SPDX-License-Identifier: Apache-2.0
"""Which Arrow types can become which without loss, value by value checked by the cast itself."""

from __future__ import annotations

from typing import Any

import pyarrow as pa


def can_become(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether a safe cast from `source` to `target` keeps every value as it is, or fails.

    >>> can_become(pa.int32(), pa.int64()), can_become(pa.float64(), pa.float32()), can_become(pa.string(), pa.int64())
    (True, False, False)
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
    return any(of(target) and any(other(source) for other in sources) for of, sources in _FAMILIES)


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
    lists = is_.is_list(source) or is_.is_large_list(source) or is_.is_fixed_size_list(source)
    return bool(is_.is_list(target) and lists and can_become(source.value_type, target.value_type))


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    is_ = pa.types
    plain = is_.is_binary(kind) or is_.is_large_binary(kind) or is_.is_binary_view(kind)
    return bool(plain or is_.is_fixed_size_binary(kind))


_FAMILIES: tuple[tuple[Any, tuple[Any, ...]], ...] = (
    (pa.types.is_integer, (pa.types.is_integer,)),
    (pa.types.is_float64, (pa.types.is_floating, pa.types.is_integer)),
    (pa.types.is_float32, (pa.types.is_float16, pa.types.is_integer)),
    (_is_text, (_is_text,)),
    (_is_bytes, (_is_bytes,)),
    (pa.types.is_date, (pa.types.is_date,)),
    (pa.types.is_time, (pa.types.is_time,)),
    (pa.types.is_decimal, (pa.types.is_decimal,)),
)
"""Targets and what may become them. A cast that would lose something of a value fails."""


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
