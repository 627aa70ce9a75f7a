# SPDX-License-Identifier: Apache-2.0
"""Avro schemas as texts: what is read back, how Spark and Hudi write them, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakebraid import limits
from lakebraid.errors import CorruptFile, InvalidArgument, LakebraidError
from lakebraid.format.avro.types import format_avro_schema, parse_avro_schema
from tests.unit.format.test_avro_rows import encode, scanned
from tests.unit.format.test_avro_rows_damaged import block_of, record_of

pytestmark = pytest.mark.unit

arrow_types = st.recursive(
    st.sampled_from(
        [pa.bool_(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.string(), pa.binary(), pa.date32(),
         pa.time64("us"), pa.timestamp("us"), pa.timestamp("us", tz="UTC"), pa.decimal128(10, 2), pa.decimal128(38, 38)]
    ),
    lambda inner: st.one_of(
        st.tuples(inner, st.booleans()).map(lambda t: pa.list_(pa.field("element", *t))),
        st.tuples(inner, st.booleans()).map(lambda t: pa.map_(pa.string(), pa.field("value", *t))),
        st.lists(inner, min_size=1, max_size=3).map(
            lambda types: pa.struct([pa.field(f"same{n}", t) for n, t in enumerate(types)])
        ),
    ),
    max_leaves=6,
)  # fmt: skip


@settings(deadline=None)
@given(st.lists(arrow_types, min_size=1, max_size=4))
def test_an_arrow_schema_is_read_back_from_its_avro_text_and_avro_accepts_it(types: list[pa.DataType]) -> None:
    schema = pa.schema([pa.field(f"größe{n}", kind) for n, kind in enumerate(types)])

    text = format_avro_schema(schema, "t_record", "hoodie.t")

    assert parse_avro_schema(text, "table") == schema
    fastavro.parse_schema(json.loads(text))  # refuses two definitions of one name


def test_the_text_of_a_schema_is_as_spark_and_hudi_write_it() -> None:
    schema = pa.schema([("id", pa.int32()), ("items", pa.list_(pa.struct([("price", pa.decimal128(10, 2))])))])

    text = format_avro_schema(schema, "t_record", "hoodie.t")

    assert json.loads(text) == {
        "type": "record",
        "name": "t_record",
        "namespace": "hoodie.t",
        "fields": [
            {"name": "id", "type": ["null", "int"], "default": None},
            {
                "name": "items",
                "type": ["null", {"type": "array", "items": ["null", {
                    "type": "record",
                    "name": "items",
                    "namespace": "hoodie.t.t_record",
                    "fields": [{"name": "price", "default": None, "type": ["null", {
                        "type": "fixed",
                        "name": "fixed",
                        "namespace": "hoodie.t.t_record.items.price",
                        "size": 5,
                        "logicalType": "decimal",
                        "precision": 10,
                        "scale": 2,
                    }]}],
                }]}],
                "default": None,
            },
        ],
    }  # fmt: skip


@pytest.mark.parametrize("name", ["", "a b", "1a", "a-b", "a.b"])
def test_a_column_name_that_java_would_refuse_is_not_written(name: str) -> None:
    with pytest.raises(InvalidArgument, match="cannot be the name"):
        format_avro_schema(pa.schema([(name, pa.int32())]), "t", "n")


def test_a_type_that_no_hudi_table_has_is_not_written() -> None:
    with pytest.raises(InvalidArgument, match="uint64"):
        format_avro_schema(pa.schema([("a", pa.uint64())]), "t", "n")


def test_a_named_type_may_be_used_again() -> None:
    point = {"type": "record", "name": "point", "fields": [{"name": "x", "type": "int"}]}
    schema = {
        "type": "record",
        "name": "r",
        "namespace": "n",
        "fields": [
            {"name": "a", "type": point},
            {"name": "b", "type": "point"},
            {"name": "c", "type": ["null", "n.point"]},
        ],
    }
    rows: list[dict[str, Any]] = [
        {"a": {"x": 1}, "b": {"x": 2}, "c": None},
        {"a": {"x": 3}, "b": {"x": 4}, "c": {"x": 5}},
    ]

    assert scanned(encode(schema, rows), json.dumps(schema)).to_pylist() == rows


def test_a_name_defined_twice_means_its_nearest_definition() -> None:
    fields = [
        {"name": "a", "type": {"type": "record", "name": "p", "fields": [{"name": "x", "type": "int"}]}},
        {"name": "b", "type": {"type": "record", "name": "p", "fields": [{"name": "y", "type": "string"}]}},
        {"name": "c", "type": "p"},
    ]
    text = json.dumps({"type": "record", "name": "r", "fields": fields})

    table = scanned(block_of(b"\x02" + b"\x02s" + b"\x02t"), text)

    assert table.to_pylist() == [{"a": {"x": 1}, "b": {"y": "s"}, "c": {"y": "t"}}]


def _nest(levels: int) -> str:
    return '{"type":"array","items":' * levels + '"int"' + "}" * levels


def _laughs() -> str:
    """A schema of a few lines that has 10^12 fields once its references are written out."""
    kind: object = "int"
    for level in range(12):
        first = {"name": "f0", "type": kind}
        rest = [{"name": f"f{n}", "type": f"r{level - 1}" if level else "int"} for n in range(1, 10)]
        kind = {"type": "record", "name": f"r{level}", "fields": [first, *rest]}
    return json.dumps(kind)


@pytest.mark.hostile
@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        ("1" * 10_000, "not JSON"),
        ('"string"', "does not describe a record"),
        ("[]", "union"),
        ("null", "in the place of a type"),
        ('{"type":"record","name":"r"}', "incomplete"),
        ('{"type":"record","name":"r","fields":[{"name":"a"}]}', "without a type"),
        ('{"type":"record","name":"r","fields":[{"name":"\\ud800","type":"int"}]}', "without a name"),
        (record_of("nonsense"), "does not define"),
        (record_of([["int"]]), "union"),
        (record_of({"type": "array", "items": "null"}), "take no bytes"),
        (record_of({"type": "array", "items": {"type": "record", "name": "e", "fields": []}}), "take no bytes"),
        (record_of(json.loads(_nest(40))), f"deeper than {limits.SCHEMA_DEPTH_MAX}"),
        (record_of("int").replace('"int"', _nest(100_000)), f"deeper than {limits.SCHEMA_DEPTH_MAX}"),
        ("[" * 1_000_000, f"deeper than {limits.SCHEMA_DEPTH_MAX}"),
        (_laughs(), f"more than {limits.SCHEMA_FIELDS_MAX:,} fields"),
        ("x" * (limits.SCHEMA_BYTES_MAX + 1), "characters"),
    ],
    ids=range(18),
)
def test_a_schema_that_makes_no_sense_is_refused(text: str, problem: str) -> None:
    with pytest.raises(CorruptFile, match=problem):
        parse_avro_schema(text, "log")


@pytest.mark.parametrize(
    "kind",
    [["int", "string"], ["null", "int", "string"], {"type": "bytes", "logicalType": "decimal", "precision": 39}, "r"],
)
def test_what_has_no_arrow_type_is_refused_by_name(kind: dict[str, int | str] | list[str] | str) -> None:
    with pytest.raises(LakebraidError, match=r"several types|39 digits|contains itself"):
        parse_avro_schema(record_of(kind), "log")


def test_brackets_in_texts_do_not_count_as_nesting() -> None:
    text = json.dumps({"type": "record", "name": "r", "doc": "[" * 1000 + '\\"' + "{" * 1000, "fields": []})

    assert parse_avro_schema(text, "log") == pa.schema([])


def test_the_schema_of_32_levels_is_still_read() -> None:
    assert parse_avro_schema(record_of(json.loads(_nest(31))), "log").names == ["c"]
