# SPDX-License-Identifier: Apache-2.0
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebraid.errors import InvalidArgument
from lakebraid.model.keys.keys import java_double_text, parse_record_key, record_keys, render_values

pytestmark = pytest.mark.unit


def utc(
    year: int, month: int, day: int, hour: int = 0, minute: int = 0, second: int = 0, microsecond: int = 0
) -> datetime:
    return datetime(year, month, day, hour, minute, second, microsecond, UTC)


# What Hudi 1.2.0 (upsert) wrote into _hoodie_record_key for these values.
SEEN_IN_HUDI = [
    (pa.bool_(), [True, False], ["true", "false"]),
    (pa.int8(), [-5], ["-5"]),
    (pa.int64(), [9007199254740993], ["9007199254740993"]),
    (pa.decimal128(10, 2), [Decimal("4.25"), Decimal(7), Decimal("-0.5")], ["4.25", "7.00", "-0.50"]),
    (
        pa.decimal128(38, 10),
        [Decimal("1E-10"), Decimal("12345678901234567890.5"), Decimal(0), Decimal("1E-7")],
        ["1E-10", "12345678901234567890.5000000000", "0E-10", "1.000E-7"],
    ),
    (pa.date32(), [date(2024, 2, 29), date(1, 1, 1), date(1969, 12, 31)], ["2024-02-29", "0001-01-01", "1969-12-31"]),
    (
        pa.timestamp("us", "UTC"),
        [utc(2024, 2, 29, 12, 34, 56, 123456), utc(1969, 12, 31, 23, 59, 59, 999999)],
        ["1709210096123456", "-1"],
    ),
    (pa.timestamp("us"), [datetime(2024, 2, 29, 12, 34, 56, 123456)], ["1709210096123456"]),
    (pa.string(), ["a b", "é😀", "x/y"], ["a b", "é😀", "x/y"]),
    (pa.binary(), [b"ab"], ["6162"]),
    (
        pa.float32(),
        [1.5, 1e10, 1e-5, 0.1, 16777216.0, 0.001, float("nan"), float("-inf"), 1.401298464324817e-45, -0.0, 0.0],
        ["1.5", "1.0E10", "1.0E-5", "0.1", "1.6777216E7", "0.001", "NaN", "-Infinity", "1.4E-45", "-0.0", "0.0"],
    ),
    (
        pa.float64(),
        [1.5, 1e7, 9999999.0, 0.0009999, 5e-324, 1.7976931348623157e308, 123456789.125, float("inf"), -0.0, 0.0],
        [
            "1.5",
            "1.0E7",
            "9999999.0",
            "9.999E-4",
            "4.9E-324",
            "1.7976931348623157E308",
            "1.23456789125E8",
            "Infinity",
            "-0.0",
            "0.0",
        ],
    ),
]


@pytest.mark.parametrize(("kind", "values", "texts"), SEEN_IN_HUDI, ids=lambda part: str(part)[:20])
def test_values_are_rendered_as_hudi_renders_them(kind: pa.DataType, values: list[Any], texts: list[str]) -> None:
    column = pa.array([*values, None], kind)
    assert render_values(column).to_pylist() == [*texts, None]


def test_the_logical_form_of_timestamps_has_milliseconds_cut_toward_zero() -> None:
    # As seen in Hudi with consistent.logical.timestamp.enabled; timestamps without a zone stay numbers there too.
    moments = [utc(2024, 2, 29, 12, 34, 56, 123456), utc(1969, 12, 31, 23, 59, 59, 999999), utc(2024, 1, 1)]
    texts = ["2024-02-29 12:34:56.123", "1970-01-01 00:00:00.0", "2024-01-01 00:00:00.0"]
    assert render_values(pa.array(moments, pa.timestamp("us", "UTC")), consistent_timestamps=True).to_pylist() == texts
    plain = pa.array([120_000], pa.timestamp("us"))
    assert render_values(plain, consistent_timestamps=True).to_pylist() == ["120000"]
    assert render_values(plain.cast(pa.timestamp("us", "UTC")), consistent_timestamps=True).to_pylist() == [
        "1970-01-01 00:00:00.12"
    ]


def test_every_unit_of_time_gives_the_same_key() -> None:
    texts = [render_values(pa.array([5_000_000], pa.int64()).cast(pa.timestamp("us")).cast(pa.timestamp(unit)))[0].as_py()
             for unit in ("s", "ms", "us", "ns")]  # fmt: skip
    assert texts == ["5000000"] * 4


def test_a_timestamp_finer_than_hudi_keeps_is_refused_instead_of_cut() -> None:
    with pytest.raises(InvalidArgument, match="microseconds"):
        render_values(pa.array([1], pa.timestamp("ns")))


def test_chunks_slices_and_dictionaries_render_like_their_plain_values() -> None:
    column = pa.chunked_array([pa.array([1, None, 3])[1:], pa.array([4])])
    assert render_values(column).to_pylist() == [None, "3", "4"]
    assert render_values(pa.array(["x", None, "x"]).dictionary_encode()).to_pylist() == ["x", None, "x"]
    assert render_values(pa.chunked_array([], pa.int64())).to_pylist() == []


def test_a_type_without_a_text_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="list"):
        render_values(pa.array([[1]]))


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_rendered_double_reads_back_as_itself(value: float) -> None:
    text = java_double_text(value)
    assert float(text) == value
    assert ("E" in text) == (value != 0 and not 1e-3 <= abs(value) < 1e7)


@given(st.decimals(allow_nan=False, allow_infinity=False, places=12, min_value=-(10**20), max_value=10**20))
def test_decimals_follow_the_general_decimal_text_of_java(value: Decimal) -> None:
    assert render_values(pa.array([value], pa.decimal128(38, 12))).to_pylist() == [str(value)]


def test_a_simple_key_is_the_text_and_a_complex_one_names_its_fields() -> None:
    rows = pa.table({"id": [7, 8], "city": ["Oslo", None], "tag": ["", "x"]})
    assert record_keys(rows, ["id"], complex_form=False).to_pylist() == ["7", "8"]
    assert record_keys(rows, ["id"], complex_form=True).to_pylist() == ["id:7", "id:8"]
    assert record_keys(rows, ["id", "city", "tag"], complex_form=True).to_pylist() == [
        "id:7,city:Oslo,tag:__empty__",
        "id:8,city:__null__,tag:x",
    ]


def test_keys_may_sit_inside_structs() -> None:
    rows = pa.table({"a": pa.array([{"b": 1}, None], pa.struct([("b", pa.int32())])), "id": [1, 2]})
    assert record_keys(rows, ["a.b", "id"], complex_form=True).to_pylist() == ["a.b:1,id:1", "a.b:__null__,id:2"]


@pytest.mark.parametrize("bad", [None, ""])
def test_a_row_that_nothing_identifies_is_refused_by_its_number(bad: str | None) -> None:
    rows = pa.table({"id": ["1", "2", bad], "city": ["Oslo", bad, bad]})
    with pytest.raises(InvalidArgument, match="Row 2 has no record key: id is null or empty") as caught:
        record_keys(rows, ["id"], complex_form=False)
    assert caught.value.row == 2
    with pytest.raises(InvalidArgument, match="Row 2 has no record key: id and city are"):
        record_keys(rows, ["id", "city"], complex_form=True)


def test_a_missing_key_column_is_named() -> None:
    with pytest.raises(InvalidArgument, match=r"no column 'idd'.*Columns: id"):
        record_keys(pa.table({"id": [1]}), ["idd"], complex_form=False)
    with pytest.raises(InvalidArgument, match=r"no column 'id\.x'"):
        record_keys(pa.table({"id": [1]}), ["id.x"], complex_form=False)


def test_several_fields_without_the_complex_form_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="complex form"):
        record_keys(pa.table({"a": [1], "b": [1]}), ["a", "b"], complex_form=False)


@pytest.mark.parametrize(
    ("text", "fields", "values"),
    [
        ("7", ["id"], ["7"]),
        ("id:7", ["id"], ["id:7"]),
        ("a,b", ["a"], ["a,b"]),
        ("a:1,b:2", ["a", "b"], ["1", "2"]),
        ("a:1,b:2", ["b"], ["2"]),
        ("a:1,b:2", [], ["1", "2"]),
        ("a:1,b:2", [""], ["1", "2"]),
        ("a:1,b:2", ["c"], ["a:1,b:2"]),
        ("a:x,y:z,b:2", ["a", "b"], ["x", "2"]),
        ("a:x,y,b:2", ["a", "b"], ["x,y", "2"]),
        ("a:10:30,b:2", ["a", "b"], ["10:30", "2"]),
        ("a:1,b:10:30", ["a", "b"], ["1", "10:30"]),
        ("a:1,b:10:30", ["a"], ["1"]),  # Hudi 1.2.0 never returns from this one
        ("a:__null__,b:__empty__", ["a", "b"], [None, ""]),
        ("a:,b:", ["a", "b"], ["", ""]),
    ],
)
def test_the_key_parser_cuts_as_hudi_cuts(text: str, fields: list[str], values: list[str | None]) -> None:
    assert parse_record_key(text, fields) == values


_PLAIN = st.text(st.characters(exclude_characters=":,", exclude_categories=["Cs"]), min_size=1)


@given(st.lists(st.one_of(st.none(), st.just(""), _PLAIN), min_size=2, max_size=4).filter(any))
def test_what_is_written_as_a_complex_key_is_parsed_back(values: list[str | None]) -> None:
    fields = [f"f{at}" for at in range(len(values))]
    rows = pa.table({name: pa.array([value], pa.string()) for name, value in zip(fields, values, strict=True)})
    text = record_keys(rows, fields, complex_form=True)[0].as_py()
    if "__null__" not in values and "__empty__" not in values:
        assert parse_record_key(text, fields) == values


@pytest.mark.timeout(20)
def test_a_key_of_a_million_colons_is_parsed_in_reasonable_time() -> None:
    assert parse_record_key("a:" + ":" * 1_000_000 + ",b:1", ["b"]) == ["1"]
