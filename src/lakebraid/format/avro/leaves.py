# SPDX-License-Identifier: Apache-2.0
"""The types of an Avro schema that hold one value each, and what all types have in common."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa

from lakebraid.format.hudi_types import VECTOR, vector_bytes, vector_of


@dataclass(frozen=True, slots=True)
class AvroType:
    """One type of a schema, with all that decoding its values needs."""

    arrow: pa.DataType
    """What the rows are given as."""
    stored: pa.DataType
    """The same in the units of the bytes: milliseconds stay milliseconds."""
    plain: Any
    """Avro JSON for the same bytes, with unique names, no references, defaults or foreign properties."""
    bytes_min: int
    """The fewest bytes of an encoded value."""
    slot_bytes: int
    """What one slot takes in Arrow, absent or present, without what lists and texts add."""
    spread: float = 0.0
    """Arrow bytes that lists and maps inside may need at worst for each encoded byte."""
    nullable: bool = False
    hudi_type: str = ""
    """What Apache Hudi calls it, if it is of a type that Avro does not know."""


class SchemaProblem(Exception):
    """Why a schema has no columns: it is damaged, or holds what is not supported."""

    def __init__(self, reason: str, *, unsupported: bool = False) -> None:
        super().__init__(reason)
        self.unsupported = unsupported


def leaf(arrow: pa.DataType, plain: Any, bytes_min: int, slot_bytes: int, stored: pa.DataType = None) -> AvroType:
    return AvroType(arrow, arrow if stored is None else stored, plain, bytes_min, slot_bytes + 1)


def _logical(base: str, name: str, arrow: pa.DataType, stored: pa.DataType) -> AvroType:
    return leaf(arrow, {"type": base, "logicalType": name}, 1, 4 if base == "int" else 8, stored)


_MICROS, _MILLIS = pa.timestamp("us"), pa.timestamp("ms")
_MICROS_UTC, _MILLIS_UTC = pa.timestamp("us", tz="UTC"), pa.timestamp("ms", tz="UTC")

PRIMITIVES: Final = {
    "null": replace(leaf(pa.null(), "null", 0, 0), nullable=True),
    "boolean": leaf(pa.bool_(), "boolean", 1, 1),
    "int": leaf(pa.int32(), "int", 1, 4),
    "long": leaf(pa.int64(), "long", 1, 8),
    "float": leaf(pa.float32(), "float", 4, 4),
    "double": leaf(pa.float64(), "double", 8, 8),
    "bytes": leaf(pa.binary(), "bytes", 1, 4),
    "string": leaf(pa.string(), "string", 1, 4),
}

_LOGICAL_TYPES: Final = {
    ("int", "date"): _logical("int", "date", pa.date32(), pa.date32()),
    ("int", "time-millis"): _logical("int", "time-millis", pa.time64("us"), pa.time32("ms")),
    ("long", "time-micros"): _logical("long", "time-micros", pa.time64("us"), pa.time64("us")),
    ("long", "timestamp-millis"): _logical("long", "timestamp-millis", _MICROS_UTC, _MILLIS_UTC),
    ("long", "timestamp-micros"): _logical("long", "timestamp-micros", _MICROS_UTC, _MICROS_UTC),
    ("long", "local-timestamp-millis"): _logical("long", "local-timestamp-millis", _MICROS, _MILLIS),
    ("long", "local-timestamp-micros"): _logical("long", "local-timestamp-micros", _MICROS, _MICROS),
}


def primitive(name: str, schema: dict[str, Any]) -> AvroType:
    logical = schema.get("logicalType")
    if name == "bytes" and logical == "decimal":
        return _decimal(schema, {"type": "bytes"}, 1) or PRIMITIVES[name]
    if isinstance(logical, str):
        return _LOGICAL_TYPES.get((name, logical), PRIMITIVES[name])
    return PRIMITIVES[name]


def fixed(schema: dict[str, Any], size: int, name: str) -> AvroType:
    plain = {"type": "fixed", "name": name, "size": size}
    if schema.get("logicalType") == VECTOR:
        vector = vector_of(schema, size)
        if vector is None:
            raise SchemaProblem(f"it has a VECTOR of a kind that is not known: {schema!s:.300}", unsupported=True)
        return replace(leaf(vector.arrow, plain, size, size, vector_bytes(vector.arrow)), hudi_type=vector.name)
    decimal = _decimal(schema, plain, size) if schema.get("logicalType") == "decimal" and size else None
    return decimal or leaf(pa.binary(), plain, size, 4 + size)


def _decimal(schema: dict[str, Any], plain: dict[str, Any], bytes_min: int) -> AvroType | None:
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    if type(precision) is not int or type(scale) is not int or not 0 <= scale <= precision or precision < 1:
        return None
    if precision > 38:
        raise SchemaProblem(f"it has a decimal of {precision} digits; 38 are the limit of Spark", unsupported=True)
    meaning = {"logicalType": "decimal", "precision": precision, "scale": scale}
    return leaf(pa.decimal128(precision, scale), plain | meaning, bytes_min, 16)
