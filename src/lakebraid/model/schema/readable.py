# SPDX-License-Identifier: Apache-2.0
"""Whether rows that were written with one schema can be read with another: by columns of the same name."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from lakebraid.format.hudi_types import is_vector, vector_bytes
from lakebraid.model.schema.growth import is_wider


def unreadable_columns(written: pa.Schema, table: pa.Schema) -> Iterator[tuple[str, str]]:
    """The columns that the table's schema cannot read, each with what does not fit."""
    for field in written:
        at = table.get_field_index(field.name)
        if at >= 0 and not can_read(field.type, table.field(at).type):
            yield field.name, f"written as {field.type!s:.200}, read as {table.field(at).type!s:.200}"


def can_read(written: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether values of one type are read as another, as Apache Hudi promotes them.

    >>> can_read(pa.int32(), pa.int64()), can_read(pa.int64(), pa.int32()), can_read(pa.int32(), pa.string())
    (True, False, True)
    """
    types = pa.types
    if types.is_dictionary(written):
        return can_read(written.value_type, wanted)
    if types.is_struct(written) and types.is_struct(wanted):
        names = {field.name: field.type for field in wanted}
        return all(can_read(field.type, names[field.name]) for field in written if field.name in names)
    if is_vector(wanted):
        return bool(written == wanted or written == vector_bytes(wanted))
    if _is_list(written) and _is_list(wanted):
        return can_read(written.value_type, wanted.value_type)
    if types.is_map(written) and types.is_map(wanted):
        return can_read(written.key_type, wanted.key_type) and can_read(written.item_type, wanted.item_type)
    return _can_read_leaf(written, wanted)


def _can_read_leaf(written: pa.DataType, wanted: pa.DataType) -> bool:
    types = pa.types
    if written == wanted or is_wider(wanted, written):
        return True
    if types.is_null(written) or (_is_text(written) and _is_text(wanted)):
        return True
    if _is_text(wanted):
        return not types.is_nested(written)
    if types.is_timestamp(written) and types.is_timestamp(wanted):
        return True
    if types.is_integer(written) and types.is_integer(wanted):
        return bool(written.bit_width <= wanted.bit_width)
    if types.is_integer(written) and (types.is_floating(wanted) or types.is_decimal(wanted)):
        return True
    return bool(types.is_floating(written) and types.is_floating(wanted) and written.bit_width <= wanted.bit_width)


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _is_text(kind: pa.DataType) -> bool:
    types = pa.types
    is_text = types.is_string(kind) or types.is_large_string(kind)
    return bool(is_text or types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind))
