# SPDX-License-Identifier: Apache-2.0
import contextlib
import doctest
from decimal import Decimal
from types import ModuleType

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebraid.errors import InvalidArgument
from lakebraid.format.avro.types import parse_avro_schema
from lakebraid.limits import SCHEMA_DEPTH_WRITTEN_MAX, SCHEMA_FIELDS_WRITTEN_MAX
from lakebraid.model.schema import ddl, user_schema
from lakebraid.model.schema.avro_text import table_schema_text
from lakebraid.model.schema.ddl import parse_ddl
from lakebraid.model.schema.user_schema import fit_schema, read_schema

pytestmark = pytest.mark.unit

UTC = pa.timestamp("us", tz="UTC")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("boolean", pa.bool_()),
        ("tinyint", pa.int32()),
        ("BYTE", pa.int32()),
        ("smallint", pa.int32()),
        ("short", pa.int32()),
        ("int", pa.int32()),
        ("Integer", pa.int32()),
        ("bigint", pa.int64()),
        ("long", pa.int64()),
        ("float", pa.float32()),
        ("real", pa.float32()),
        ("double", pa.float64()),
        ("string", pa.string()),
        ("char(3)", pa.string()),
        ("character( 3 )", pa.string()),
        ("varchar(300)", pa.string()),
        ("binary", pa.binary()),
        ("date", pa.date32()),
        ("timestamp", UTC),
        ("timestamp_ltz", UTC),
        ("timestamp with local time zone", UTC),
        ("timestamp_ntz", pa.timestamp("us")),
        ("timestamp without time zone", pa.timestamp("us")),
        ("time(6)", pa.time64("us")),
        ("decimal", pa.decimal128(10, 0)),
        ("dec(5)", pa.decimal128(5, 0)),
        ("numeric(38, 38)", pa.decimal128(38, 38)),
        ("array<array<int>>", pa.list_(pa.list_(pa.int32()))),
        ("map<string,map<string, double>>", pa.map_(pa.string(), pa.map_(pa.string(), pa.float64()))),
        ("struct<a:int,b:decimal(10,2)>", pa.struct([("a", pa.int32()), ("b", pa.decimal128(10, 2))])),
        ("struct<a int not null comment 'x', `b`: string>", pa.struct([("a", pa.int32()), ("b", pa.string())])),
    ],
)
def test_every_type_name_of_spark_sql_is_understood(text: str, kind: pa.DataType) -> None:
    assert read_schema(f"c {text}").field("c").type == kind
    assert read_schema(f"c {text} NOT NULL COMMENT 'it''s', d int").names == ["c", "d"]


@pytest.mark.parametrize(
    "text",
    [
        "struct<id:bigint,`order`:string>",
        "id bigint, `order` string",
        "ID",
        "id: bigint,\n-- the order\n order\tstring",
    ],
)
def test_the_ways_to_spell_columns_mean_the_same(text: str) -> None:
    if text == "ID":
        with pytest.raises(InvalidArgument, match="expected a type"):
            read_schema(text)
        return
    assert read_schema(text) == pa.schema([("id", pa.int64()), ("order", pa.string())])


def test_a_column_may_have_the_name_of_a_type() -> None:
    assert read_schema("date date, struct int, `map` string, array array<date>").names == [
        "date",
        "struct",
        "map",
        "array",
    ]


@pytest.mark.parametrize(
    ("text", "at", "why"),
    [
        ("", 0, "expected the name"),
        ("id", 2, "expected a type"),
        ("id bigint,", 10, "expected the name"),
        ("id bigint name string", 10, "expected a comma"),
        ("id bigint, name strin", 16, "'strin' is no type"),
        ("id decimal(39,2)", 3, "1 to 38 digits"),
        ("id decimal(0)", 3, "1 to 38 digits"),
        ("id decimal(4,5)", 3, "after the point"),
        ("id decimal(4,2,1)", 14, "expected '\\)'"),
        ("id decimal(-4)", 11, "no meaning"),
        ("id varchar", 10, "expected '\\('"),
        ("id int not", 10, "expected NULL"),
        ("id int comment x", 15, "quotes"),
        ("a array", 7, "expected '<'"),
        ("a array<int", 11, "expected '>'"),
        ("a map<string>", 12, "expected a comma"),
        ("a struct<>", 9, "needs a field"),
        ("a struct<b int c int>", 15, "expected a comma or '>'"),
        ("a interval day", 2, "bigint"),
        ("a void", 2, "no values"),
        ("a variant", 2, "JSON"),
        ("a string collate utf8_lcase", 9, "collation"),
        ("id bigint primary key", 10, "expected a comma"),
        ("id bigint; drop", 9, "no meaning"),
        ("`id bigint", 0, "no meaning"),
        ("a 'int'", 2, "expected a type"),
    ],
)
def test_text_that_is_not_understood_is_refused_at_its_place(text: str, at: int, why: str) -> None:
    with pytest.raises(InvalidArgument, match=why) as caught:
        read_schema(text)
    assert caught.value.position == at
    caret = caught.value.message.splitlines()[-1]
    assert caret == " " * (at + 2) + "^"


@given(st.text(alphabet="aint<>(),:`' \n1struct", max_size=40))
def test_no_text_ends_in_anything_but_a_schema_or_a_refusal(text: str) -> None:
    with contextlib.suppress(InvalidArgument):
        assert len(parse_ddl(text)) > 0


def test_text_that_nests_without_end_is_refused_before_it_exhausts_the_stack() -> None:
    with pytest.raises(InvalidArgument, match="deeper"):
        read_schema("a " + "array<" * 100_000)


@pytest.mark.parametrize(
    ("given_type", "held"),
    [
        (pa.int8(), pa.int32()),
        (pa.int16(), pa.int32()),
        (pa.float16(), pa.float32()),
        (pa.large_string(), pa.string()),
        (pa.string_view(), pa.string()),
        (pa.large_binary(), pa.binary()),
        (pa.binary(16), pa.binary()),
        (pa.uuid(), pa.binary()),
        (pa.date64(), pa.date32()),
        (pa.time32("s"), pa.time64("us")),
        (pa.timestamp("ns"), pa.timestamp("us")),
        (pa.timestamp("s", tz="Europe/Oslo"), UTC),
        (pa.dictionary(pa.int32(), pa.large_string()), pa.string()),
        (pa.run_end_encoded(pa.int32(), pa.int8()), pa.int32()),
        (pa.decimal256(38, 2), pa.decimal128(38, 2)),
        (pa.decimal32(5, 2), pa.decimal128(5, 2)),
        (pa.large_list(pa.field("item", pa.int8(), nullable=False)), pa.list_(pa.field("element", pa.int32()))),
        (pa.list_(pa.int64(), 3), pa.list_(pa.field("element", pa.int64()))),
        (pa.list_view(pa.int64()), pa.list_(pa.field("element", pa.int64()))),
        (pa.map_(pa.large_string(), pa.int16()), pa.map_(pa.string(), pa.int32())),
        (pa.struct([pa.field("x", pa.int8(), nullable=False)]), pa.struct([("x", pa.int32())])),
    ],
)
def test_arrow_types_become_the_ones_that_the_table_will_give_back(given_type: pa.DataType, held: pa.DataType) -> None:
    fitted = read_schema(pa.schema([pa.field("c", given_type, nullable=False, metadata={"k": "v"})], {"m": "n"}))
    assert fitted.equals(pa.schema([("c", held)]), check_metadata=True)
    assert parse_avro_schema(table_schema_text(fitted, "t"), "here") == fitted


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        (pa.uint8(), "int32"),
        (pa.uint32(), "int64"),
        (pa.uint64(), r"decimal128\(20, 0\)"),
        (pa.null(), "the type that it will have"),
        (pa.duration("us"), "Cast it"),
        (pa.month_day_nano_interval(), "Cast it"),
        (pa.decimal256(39, 0), "38"),
        (pa.decimal128(5, -2), "scale"),
        (pa.decimal128(2, 5), "scale"),
        (pa.map_(pa.int32(), pa.int32()), "keys of type int32"),
        (pa.struct([]), "without fields"),
        (pa.dense_union([pa.field("a", pa.int32())]), "Cast it"),
    ],
)
def test_types_that_no_table_can_hold_are_refused_with_advice_wherever_they_sit(kind: pa.DataType, says: str) -> None:
    for whole, path in ((kind, "c"), (pa.list_(kind), "c"), (pa.struct([("x", kind)]), "c.x")):
        with pytest.raises(InvalidArgument, match=says) as caught:
            fit_schema(pa.schema([("c", whole)]))
        assert caught.value.column == path


@pytest.mark.parametrize("names", [["a", "a"], ["name", "NAME"], ["É", "é"]])
def test_columns_that_differ_in_case_at_most_are_refused(names: list[str]) -> None:
    with pytest.raises(InvalidArgument, match="two columns"):
        fit_schema(pa.schema([(n, pa.int32()) for n in names]))
    with pytest.raises(InvalidArgument, match="two columns"):
        fit_schema(pa.schema([("s", pa.struct([(n, pa.int32()) for n in names]))]))
    fit_schema(pa.schema([(names[0], pa.struct([(names[0], pa.int32())]))]))


@pytest.mark.parametrize("name", ["", "1a", "a b", "a-b", "a.b", "a,b", "²", "a²", "Ⅷ", "😀", "𝒳", "a\n", "a:b"])
def test_names_that_avro_in_java_does_not_take_are_refused(name: str) -> None:
    for schema in (pa.schema([(name, pa.int32())]), pa.schema([("s", pa.struct([(name, pa.int32())]))])):
        with pytest.raises(InvalidArgument, match="name of a column"):
            fit_schema(schema)


@pytest.mark.parametrize("name", ["_", "a1", "größe", "名前", "_hoodie_mine", "ID"])
def test_names_that_avro_takes_are_kept(name: str) -> None:
    schema = fit_schema(pa.schema([(name, pa.int32())]))
    assert parse_avro_schema(table_schema_text(schema, "t"), "here").names == [name]


@pytest.mark.parametrize(
    "name", ["_hoodie_commit_time", "_HOODIE_Record_Key", "_hoodie_file_name", "_hoodie_operation"]
)
def test_the_columns_that_hudi_adds_are_refused(name: str) -> None:
    with pytest.raises(InvalidArgument, match="Hudi itself"):
        read_schema(f"id int, {name} string")


def test_the_mark_of_deleted_rows_must_be_a_boolean() -> None:
    assert read_schema("id int, _hoodie_is_deleted boolean").names[1] == "_hoodie_is_deleted"
    for column in ("_hoodie_is_deleted string", "_Hoodie_is_deleted boolean"):
        with pytest.raises(InvalidArgument, match="boolean"):
            read_schema(f"id int, {column}")


@pytest.mark.slow
def test_limits_of_a_schema_hold_before_anything_is_made_of_it() -> None:
    deep = pa.int32()
    for _ in range(SCHEMA_DEPTH_WRITTEN_MAX - 1):
        deep = pa.list_(deep)
    fitted = fit_schema(pa.schema([("c", deep)]))
    assert parse_avro_schema(table_schema_text(fitted, "t"), "here") == fitted
    with pytest.raises(InvalidArgument, match="deeper"):
        fit_schema(pa.schema([("c", pa.list_(deep))]))
    wide = pa.struct([(f"c{i}", pa.int32()) for i in range(SCHEMA_FIELDS_WRITTEN_MAX)])
    with pytest.raises(InvalidArgument, match="fields"):
        fit_schema(pa.schema([("s", wide)]))
    with pytest.raises(InvalidArgument, match="no columns"):
        fit_schema(pa.schema([]))


def test_anything_that_exports_an_arrow_schema_is_taken_and_the_rest_is_refused() -> None:
    assert read_schema(pa.struct([("id", pa.int8())])).field("id").type == pa.int32()
    for given_value in (pa.int32(), 7, None, ["id"], {"id": "int"}, Decimal(1)):
        with pytest.raises(InvalidArgument, match="schema"):
            read_schema(given_value)


_LEAVES = st.sampled_from([pa.int8(), pa.int64(), pa.large_string(), pa.timestamp("ns", "UTC"), pa.decimal128(9, 3)])
_TYPES = st.recursive(
    _LEAVES,
    lambda inner: st.one_of(
        inner.map(pa.list_),
        inner.map(lambda kind: pa.map_(pa.string(), kind)),
        st.lists(inner, min_size=1, max_size=3).map(
            lambda kinds: pa.struct([pa.field(f"f{i}", kind, bool(i)) for i, kind in enumerate(kinds)])
        ),
    ),
    max_leaves=8,
)


@given(st.lists(_TYPES, min_size=1, max_size=4))
def test_a_fitted_schema_is_read_back_from_the_table_as_it_is_and_stays_as_it_is(kinds: list[pa.DataType]) -> None:
    fitted = fit_schema(pa.schema([pa.field(f"c{i}", kind) for i, kind in enumerate(kinds)]))
    assert parse_avro_schema(table_schema_text(fitted, "t"), "here").equals(fitted)
    assert fit_schema(fitted).equals(fitted)


@pytest.mark.parametrize("module", [ddl, user_schema])
def test_the_examples_hold(module: ModuleType) -> None:
    results = doctest.testmod(module, optionflags=doctest.ELLIPSIS)
    assert results.attempted > 0 and results.failed == 0
