# SPDX-License-Identifier: Apache-2.0
"""Spark's schemas and Arrow's: the same columns in both languages."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql.types import ArrayType, DataType, MapType, StructType, UserDefinedType

from lakebraid.errors import InvalidArgument
from lakebraid.format.hudi_types import is_vector
from lakebraid.limits import SCHEMA_DEPTH_WRITTEN_MAX
from lakebraid.model.schema.ddl import parse_ddl_type


def from_spark(schema: StructType) -> pa.Schema:
    """The Arrow schema with the columns of a Spark schema; InvalidArgument for types that no table can hold."""
    return pa.schema(_fields(schema, "", 1))


def spark_rows(rows: pa.Table) -> pa.Table:
    """The rows as Spark's side in Java takes them, which has no lists of one length."""
    schema = rows.schema
    for at, field in enumerate(schema):
        schema = schema.set(at, field.with_type(spark_list(field.type)))
    return rows.cast(schema) if schema != rows.schema else rows


def spark_list(kind: pa.DataType) -> pa.DataType:
    """The type of a column for Spark: a list instead of a vector."""
    return pa.list_(kind.value_field) if is_vector(kind) else kind


def _fields(struct: StructType, parent: str, depth: int) -> list[pa.Field]:
    return [pa.field(f.name, _type(f.dataType, f"{parent}{f.name}", depth), f.nullable) for f in struct.fields]


def _type(kind: DataType, path: str, depth: int) -> pa.DataType:
    if depth > SCHEMA_DEPTH_WRITTEN_MAX:
        raise InvalidArgument(
            f"The column {path!r:.200} is nested deeper than {SCHEMA_DEPTH_WRITTEN_MAX} levels. Flatten it."
        )
    match kind:
        case StructType():
            return pa.struct(_fields(kind, f"{path}.", depth + 1))
        case ArrayType():
            return pa.list_(pa.field("element", _type(kind.elementType, path, depth + 1), kind.containsNull))
        case MapType():
            value = pa.field("value", _type(kind.valueType, path, depth + 1), kind.valueContainsNull)
            return pa.map_(_type(kind.keyType, path, depth + 1), value)
        case UserDefinedType():
            return _type(kind.sqlType(), path, depth + 1)
        case _:
            return _leaf(kind, path)


def _leaf(kind: DataType, path: str) -> pa.DataType:
    """Spark spells its plain types as its SQL does, so there is one list of them."""
    try:
        return parse_ddl_type(kind.simpleString())
    except InvalidArgument as error:
        why = error.message.partition(": ")[2].partition(". ")[0]
        raise InvalidArgument(
            f"The column {path!r:.200} has the Spark type {kind.simpleString()}: {why}. Nothing was created.",
            column=path,
        ) from error
