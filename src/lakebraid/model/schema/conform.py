# SPDX-License-Identifier: Apache-2.0
"""Schemas of different ages: a row of any age is read with the table's schema."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebraid.errors import CorruptFile, UnsupportedTable
from lakebraid.format.hudi_types import is_shredded, is_vector, to_vectors, vector_bytes
from lakebraid.memory import check_needed
from lakebraid.model.config import META_COLUMNS
from lakebraid.model.keys.keys import render_values

META_FIELDS = tuple(pa.field(name, pa.string()) for name in META_COLUMNS)


def with_meta(schema: pa.Schema) -> pa.Schema:
    """The schema as it lies in files: Hudi's five columns first."""
    names = set(META_COLUMNS)
    return pa.schema([*META_FIELDS, *(f for f in schema if f.name not in names)])


def without_meta(schema: pa.Schema) -> pa.Schema:
    names = set(META_COLUMNS)
    return pa.schema([f for f in schema if f.name not in names])


def conform(rows: pa.Table | pa.RecordBatch, schema: pa.Schema, where: str) -> pa.Table:
    """The rows with exactly the columns of `schema`: by name, missing ones null, narrower types widened, nested too."""
    columns = []
    for field in schema:
        at = rows.schema.get_field_index(field.name)
        if at < 0:
            columns.append(_absent(rows.num_rows, field, where))
        else:
            columns.append(widen(rows.column(at), field.type, f"column {field.name} of {where}"))
    return pa.Table.from_arrays(columns, schema=schema) if columns else rows.select([])


def _absent(count: int, field: pa.Field, where: str) -> pa.Array:
    """Nulls, which take as much memory as values in a vector: no file bounds their number."""
    if is_vector(field.type):
        check_needed(count * vector_bytes(field.type).byte_width, f"Column {field.name:.200} of {where}")
    return pa.nulls(count, field.type)


def widen(column: pa.Array | pa.ChunkedArray, target: pa.DataType, where: str) -> pa.Array | pa.ChunkedArray:
    """The values in a wider type; CorruptFile if a value does not fit, since nothing may be cut off silently."""
    if column.type == target:
        return column
    if is_shredded(column.type, target):
        raise UnsupportedTable(
            f"{where} is a VARIANT whose values are kept apart by their types (shredded); such values are not read. Nothing was "
            "changed. Read the table with Apache Hudi on Spark 4, or let it write the files anew without shredding.",
            path=where,
            feature="a shredded VARIANT",
        )
    try:
        if is_vector(target) and pa.types.is_fixed_size_binary(column.type):
            return to_vectors(column, target)
        if _has_floats_to_spell(column.type, target):
            chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
            return pa.chunked_array([_spelled(chunk, target) for chunk in chunks], target)
        return pc.cast(column, target)
    except (pa.ArrowException, ValueError) as error:
        raise CorruptFile(
            f"{where} holds {column.type!s:.200}, which cannot be read as {target!s:.200}: {error!s:.200}. Nothing was "
            "changed. The file was written with a schema that the table's schema did not evolve from.",
            where=where,
        ) from None


def _has_floats_to_spell(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether somewhere inside a float becomes a double or a text: Hudi goes by its digits, Arrow by its bits."""
    if pa.types.is_struct(source) and pa.types.is_struct(target):
        shared = (f for f in source if target.get_field_index(f.name) >= 0)
        return any(_has_floats_to_spell(f.type, target.field(f.name).type) for f in shared)
    if pa.types.is_map(source) and pa.types.is_map(target):
        return _has_floats_to_spell(source.item_type, target.item_type)
    if pa.types.is_list(source) and pa.types.is_list(target):
        return _has_floats_to_spell(source.value_type, target.value_type)
    is_wider = pa.types.is_float32(source) and pa.types.is_float64(target)
    return bool(is_wider or (pa.types.is_floating(source) and pa.types.is_string(target)))


def _spelled(column: pa.Array, target: pa.DataType) -> pa.Array:
    """The values in the target type, floats by way of their digits: 1.1f becomes 1.1, not 1.10000002384."""
    source = column.type
    if not _has_floats_to_spell(source, target):
        return column.cast(target)
    if pa.types.is_struct(source):
        fields = [_spelled_field(column, f) for f in target]
        return pa.StructArray.from_arrays(fields, fields=list(target), mask=column.is_null())
    if pa.types.is_map(source):
        items = _spelled(column.items, target.item_type)
        return pa.MapArray.from_arrays(_offsets(column), column.keys.cast(target.key_type), items, type=target)
    if pa.types.is_list(source):
        return pa.ListArray.from_arrays(_offsets(column), _spelled(column.values, target.value_type), type=target)
    return render_values(column) if pa.types.is_string(target) else column.cast(pa.string()).cast(target)


def _spelled_field(column: pa.StructArray, field: pa.Field) -> pa.Array:
    at = column.type.get_field_index(field.name)
    return pa.nulls(len(column), field.type) if at < 0 else _spelled(column.field(at), field.type)


def _offsets(column: pa.Array) -> pa.Array:
    """Where each list or map begins among all values; null where it is null. Right for slices of a larger array."""
    nulls = np.concatenate([column.is_null().to_numpy(zero_copy_only=False), [False]])
    return pa.array(column.offsets.to_numpy(), pa.int32(), mask=nulls)
