# SPDX-License-Identifier: Apache-2.0
"""Hudi's own types in schemas and in bytes: what they become in Arrow, and which are refused."""

from __future__ import annotations

import json
import struct
from typing import Any

import pyarrow as pa
import pytest

from lakebraid.errors import CorruptFile, EnvironmentProblem, InvalidArgument, UnsupportedTable
from lakebraid.format.avro.rows import parse_avro_block
from lakebraid.format.avro.types import parse_avro_schema
from lakebraid.format.hudi_types import hudi_types, is_shredded, to_vectors
from lakebraid.model.schema.conform import conform
from lakebraid.model.schema.ddl import parse_ddl
from lakebraid.model.schema.readable import can_read

pytestmark = pytest.mark.unit

BYTES = {"name": "metadata", "type": "bytes"}, {"name": "value", "type": "bytes"}
BLOB = {
    "type": "record",
    "name": "blob",
    "logicalType": "blob",
    "fields": [{"name": "data", "type": ["null", "bytes"]}],
}
VARIANT = {"type": "record", "name": "variant", "logicalType": "variant", "fields": [*BYTES]}
THREE_FLOATS = pa.list_(pa.field("element", pa.float32(), nullable=False), 3)


def vector(dimension: Any = 3, element: Any = "FLOAT", size: int = 12, backing: str = "FIXED_BYTES") -> dict[str, Any]:
    said = {"logicalType": "vector", "dimension": dimension, "elementType": element, "storageBacking": backing}
    return {"type": "fixed", "name": "v", "size": size} | said


def text(kind: Any) -> str:
    return json.dumps({"type": "record", "name": "t", "fields": [{"name": "c", "type": ["null", kind]}]})


def parse(kind: Any) -> pa.Field:
    return parse_avro_schema(text(kind), "the table t").field("c")


@pytest.mark.parametrize(
    ("kind", "values", "name"),
    [
        (vector(), pa.float32(), "VECTOR(3)"),
        (vector(2, "DOUBLE", 16), pa.float64(), "VECTOR(2, DOUBLE)"),
        (vector(4, "INT8", 4), pa.int8(), "VECTOR(4, INT8)"),
    ],
)
def test_a_vector_is_a_list_of_one_length_and_says_what_hudi_calls_it(
    kind: Any, values: pa.DataType, name: str
) -> None:
    field = parse(kind)
    assert field.type == pa.list_(pa.field("element", values, nullable=False), kind["dimension"])
    assert list(hudi_types([field])) == [("c", name)]


@pytest.mark.parametrize(
    "kind",
    [
        vector(element="HALF", size=6),
        vector(element=["FLOAT"]),
        vector(dimension="3"),
        vector(dimension=True, size=4),
        vector(dimension=0, size=0),
        vector(dimension=-3),
        vector(size=16),
        vector(backing="LIST"),
        {"type": "fixed", "name": "v", "size": 12, "logicalType": "vector"},
    ],
)
def test_a_vector_whose_bytes_are_not_known_is_refused_and_not_read_as_bytes(kind: Any) -> None:
    with pytest.raises(UnsupportedTable, match=r"table t.*VECTOR.*Nothing was read"):
        parse(kind)


@pytest.mark.parametrize(
    "kind",
    [
        {"type": "array", "items": vector()},
        {"type": "map", "values": ["null", vector()]},
        {"type": "record", "name": "r", "fields": [{"name": "inner", "type": vector()}]},
    ],
)
def test_a_vector_inside_of_another_column_is_refused_as_in_hudi(kind: Any) -> None:
    with pytest.raises(UnsupportedTable, match="VECTOR inside"):
        parse(kind)


def test_blobs_and_variants_are_structs_wherever_they_are_and_are_found_there() -> None:
    assert list(hudi_types([parse(BLOB)])) == [("c", "BLOB")]
    assert parse(VARIANT).type == pa.struct([("metadata", pa.binary()), ("value", pa.binary())])
    record = {"type": "record", "name": "r", "fields": [{"name": "b", "type": BLOB}, {"name": "n", "type": "int"}]}
    nested = parse({"type": "array", "items": {"type": "map", "values": ["null", record]}})
    assert list(hudi_types([nested])) == [("c.element.entries.value.b", "BLOB")]
    assert list(hudi_types([parse({"type": "array", "items": VARIANT})])) == [("c.element", "VARIANT")]


@pytest.mark.parametrize(
    "fields",
    [
        [*BYTES, {"name": "typed_value", "type": ["null", "long"]}],
        [BYTES[0]],
        [BYTES[0], {"name": "value", "type": "string"}],
    ],
)
def test_a_variant_that_is_shredded_or_of_another_kind_is_refused(fields: list[Any]) -> None:
    with pytest.raises(UnsupportedTable, match="VARIANT that is shredded"):
        parse(VARIANT | {"fields": fields})


def test_a_shredded_variant_is_told_from_a_struct_that_has_lost_a_field() -> None:
    whole = pa.struct([("metadata", pa.binary()), ("value", pa.binary())])
    apart = pa.struct([*whole, pa.field("typed_value", pa.int64())])
    assert is_shredded(apart, whole)
    assert is_shredded(pa.struct([("v", pa.list_(apart))]), pa.struct([("v", pa.list_(whole))]))
    assert not is_shredded(whole, whole)
    assert not is_shredded(apart, apart)
    assert not is_shredded(apart, pa.struct([("value", pa.binary())]))


def test_vectors_of_an_avro_block_are_read_and_damaged_ones_are_named() -> None:
    row = b"\x02" + struct.pack("<3f", 1.5, -2.25, float("inf"))
    rows = [row, b"\x00", row]
    content = struct.pack(">ii", 3, 3) + b"".join(struct.pack(">i", len(r)) + r for r in rows)
    found = parse_avro_block(content, text(vector()), "block").column("c")
    assert found.to_pylist() == [[1.5, -2.25, float("inf")], None, [1.5, -2.25, float("inf")]]
    short = struct.pack(">ii", 3, 1) + struct.pack(">i", 9) + row[:9]
    with pytest.raises(CorruptFile, match="record 1 of an Avro block"):
        parse_avro_block(short, text(vector()), "block")


@pytest.mark.parametrize(("text", "instead"), [("vector(3)", "array<float>"), ("blob", "binary"), ("variant", "JSON")])
def test_a_column_of_such_a_type_cannot_be_created_and_what_can_be_is_said(text: str, instead: str) -> None:
    with pytest.raises(InvalidArgument, match=f"is read and not written: keep it as .*{instead}.*Nothing was created"):
        parse_ddl(f"id int, c {text}")


def test_absent_vectors_are_counted_before_memory_is_taken_for_them() -> None:
    rows = pa.table({"id": pa.nulls(10**6, pa.int32())})
    schema = pa.schema([("id", pa.int32()), parse(vector(2**24, size=2**26))])
    with pytest.raises(EnvironmentProblem, match="Column c of a block takes 67,108,864,000,000 bytes"):
        conform(rows, schema, "a block")


def test_bytes_become_vectors_from_any_slice_and_other_lengths_do_not() -> None:
    values = pa.array([struct.pack("<3f", n, n, n) if n else None for n in range(5)], pa.binary(12))
    assert to_vectors(values.slice(2, 3), THREE_FLOATS).to_pylist() == [[2.0] * 3, [3.0] * 3, [4.0] * 3]
    assert to_vectors(values.slice(0, 0), THREE_FLOATS).to_pylist() == []
    assert to_vectors(values[:2], THREE_FLOATS).null_count == 1
    with pytest.raises(ValueError, match="12 bytes"):
        to_vectors(values.cast(pa.binary()), THREE_FLOATS)
    assert can_read(pa.binary(12), THREE_FLOATS)
    assert not can_read(pa.binary(16), THREE_FLOATS)
    assert not can_read(pa.list_(pa.float32(), 4), THREE_FLOATS)
