# SPDX-License-Identifier: Apache-2.0
"""The types that Apache Hudi 1.2 has and Avro has not, and how Arrow holds their values.

    VECTOR    a fixed number of floats, doubles or bytes, little-endian, back to back    fixed_size_list
    BLOB      bytes, or where they lie                                                   struct<type, data, reference>
    VARIANT   a value of any type, as Spark 4 and Parquet encode it                      struct<metadata, value>

The field of such a column says so in its metadata, under the name by which Hudi's Spark columns say it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

VECTOR: Final = "vector"
BLOB: Final = "blob"
VARIANT: Final = "variant"
VECTOR_FOOTER_KEY: Final = b"hoodie.vector.columns"
"""Names the vectors of a Parquet file, in its footer."""

_FIELD_KEY: Final = b"hudi_type"
_SHREDDED: Final = "typed_value"
_VARIANT_FIELDS: Final = {"metadata": pa.binary(), "value": pa.binary()}
_ELEMENTS: Final = {"FLOAT": pa.float32(), "DOUBLE": pa.float64(), "INT8": pa.int8()}


@dataclass(frozen=True, slots=True)
class Vector:
    """A VECTOR, as Hudi's properties of an Avro type describe it."""

    arrow: pa.DataType
    name: str


def vector_of(schema: Mapping[str, Any], size: int) -> Vector | None:
    """The vector that takes `size` bytes; None if the properties say otherwise, or what is not known.

    >>> vector_of({"dimension": 3, "elementType": "FLOAT", "storageBacking": "FIXED_BYTES"}, 12).name
    'VECTOR(3)'
    """
    dimension, element = schema.get("dimension"), schema.get("elementType")
    kind = _ELEMENTS.get(element) if isinstance(element, str) else None
    if type(dimension) is not int or kind is None or schema.get("storageBacking") != "FIXED_BYTES":
        return None
    if dimension < 1 or dimension * kind.bit_width // 8 != size:
        return None
    name = f"VECTOR({dimension})" if element == "FLOAT" else f"VECTOR({dimension}, {element})"
    return Vector(pa.list_(pa.field("element", kind, nullable=False), dimension), name)


def record_type(logical: object, struct: pa.DataType) -> str | None:
    """What Hudi calls a record of this logical type, empty if it is a mere record; None if it is a VARIANT of a kind that is not read.

    >>> record_type("variant", pa.struct([("metadata", pa.binary()), ("value", pa.binary())]))
    'VARIANT'
    """
    if logical == VARIANT:
        return "VARIANT" if {field.name: field.type for field in struct} == _VARIANT_FIELDS else None
    return "BLOB" if logical == BLOB else ""


def is_vector(kind: pa.DataType) -> bool:
    """Whether a column of a table is a vector: no other has lists of one length."""
    return bool(pa.types.is_fixed_size_list(kind))


def vector_bytes(kind: pa.DataType) -> pa.DataType:
    """The bytes in which files hold the vectors of a type."""
    return pa.binary(kind.list_size * kind.value_type.bit_width // 8)


def to_vectors(column: pa.Array | pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Bytes as vectors; ValueError if they are of another length."""
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    return pa.chunked_array([_to_vectors(chunk, kind) for chunk in chunks], kind)


def _to_vectors(column: pa.Array, kind: pa.DataType) -> pa.Array:
    element, stored = np.dtype(kind.value_type.to_pandas_dtype()), vector_bytes(kind)
    if column.type != stored:
        raise ValueError(f"{kind.list_size} elements take {stored.byte_width:,} bytes")
    if len(column) == 0:
        return pa.array([], kind)  # there may be no memory at all
    count = len(column) * kind.list_size
    numbers = np.frombuffer(column.buffers()[1], element.newbyteorder("<"), count, column.offset * stored.byte_width)
    own = np.ascontiguousarray(numbers, element)
    values = pa.Array.from_buffers(kind.value_type, count, [None, pa.py_buffer(own)])
    return pa.FixedSizeListArray.from_arrays(values, type=kind, mask=column.is_null())


def decoded(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """The rows, with vectors in place of the bytes that `schema` wants as such."""
    for at, field in enumerate(schema):
        if is_vector(field.type):
            rows = rows.set_column(at, field, to_vectors(rows.column(at), field.type))
    return rows


def is_shredded(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether values are kept apart by their types in what is wanted as a whole VARIANT: `value` is not all of them then."""
    types = pa.types
    if types.is_struct(found) and types.is_struct(wanted):
        names = {field.name: field.type for field in found}
        if _SHREDDED in names and {field.name: field.type for field in wanted} == _VARIANT_FIELDS:
            return True
        return any(is_shredded(names[field.name], field.type) for field in wanted if field.name in names)
    if types.is_list(found) and types.is_list(wanted):
        return is_shredded(found.value_type, wanted.value_type)
    return bool(types.is_map(found) and types.is_map(wanted) and is_shredded(found.item_type, wanted.item_type))


def field_of(name: str, kind: pa.DataType, hudi_type: str, *, nullable: bool = True) -> pa.Field:
    """The field, with what Hudi calls its type."""
    return pa.field(name, kind, nullable, {_FIELD_KEY: hudi_type.encode()} if hudi_type else None)


def hudi_type_of(field: pa.Field) -> str:
    """What Hudi calls the type of the column; empty if Avro knows it."""
    return ((field.metadata or {}).get(_FIELD_KEY) or b"").decode()


def hudi_types(fields: Iterable[pa.Field]) -> Iterator[tuple[str, str]]:
    """Names of the columns of such types, those inside of others included, and what Hudi calls them."""
    for field in fields:
        if found := hudi_type_of(field):
            yield field.name, found
        elif pa.types.is_nested(field.type):
            inside = (field.type.field(at) for at in range(field.type.num_fields))
            yield from ((f"{field.name}.{name}", kind) for name, kind in hudi_types(inside))
