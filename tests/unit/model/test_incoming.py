# SPDX-License-Identifier: Apache-2.0
"""Input that does not fit is refused by name before anything is written; what fits without loss is taken."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from lakebraid.errors import InvalidArgument
from lakebraid.tasks.writing.rows import write_rows
from tests.kit.tables.builder import open_table
from tests.kit.tables.lake import PLAIN, Lake, row

pytestmark = pytest.mark.unit

UTC = dt.UTC


BAD = {
    "a missing key": (pa.table({"ts": [1], "v": ["x"]}), "no column 'id'"),
    "a missing ordering column": (pa.table({"id": ["a"], "v": ["x"]}), "no column 'ts'"),
    "a null key": (pa.table({"id": ["a", None], "ts": [1, 1]}), "Row 1 has no record key"),
    "an empty key": (pa.table({"id": [""], "ts": [1]}), "Row 0 has no record key"),
    "a null ordering value": (pa.table({"id": ["a", "b"], "ts": [1, None]}), "Row 1 .* ordering column 'ts'"),
    "an unknown column": (pa.table({"id": ["a"], "ts": [1], "other": [1]}), "no column 'other'"),
    "a text for a number": (pa.table({"id": ["a"], "ts": ["1"]}), "'ts' has the type string"),
    "a number for a text": (pa.table({"id": [1], "ts": [1]}), "'id' has the type int64"),
    "a fraction for a number": (pa.table({"id": ["a"], "ts": [1.5]}), "Row 0: column 'ts' .* cannot take 1.5"),
    "a number that is too large": (
        pa.table({"id": ["a"], "ts": pa.array([2**63], pa.uint64())}),
        "'ts' .* cannot take 9223372036854775808 .*out of range",
    ),
    "one column twice": (pa.Table.from_arrays([pa.array(["a"])] * 2, names=["id", "id"]), "several columns named 'id'"),
    "text that is none": (
        pa.table({"id": pa.array([b"\xff"]).view(pa.string()), "ts": [1]}),
        "no reader would accept",
    ),
}


@pytest.mark.parametrize(
    ("case", "operation"),
    # A delete may come without ordering values.
    [(c, o) for c in BAD for o in ("upsert", "delete") if (c, o) != ("a missing ordering column", "delete")],
)
def test_bad_input_is_refused_by_name_and_writes_nothing(case: str, operation: str) -> None:
    rows, message = BAD[case]
    lake = Lake()
    before = lake.storage.list()
    with pytest.raises(InvalidArgument, match=message):
        write_rows(lake.storage, lake.plan(operation=operation), rows, 0)
    assert lake.storage.list() == before


@pytest.mark.parametrize("value", ["../up", "a//b", ".hoodie", "a\x01b"])
def test_a_partition_value_that_is_no_folder_is_refused_before_anything_is_written(value: str) -> None:
    lake = Lake(pa.schema([*PLAIN, ("p", pa.string())]), {"hoodie.table.partition.fields": "p"})
    before = lake.storage.list()
    rows = lake.table([row("a", 1) | {"p": "A"}, row("b", 1) | {"p": value}])
    with pytest.raises(InvalidArgument):
        write_rows(lake.storage, lake.plan(), rows, 0)
    assert lake.storage.list() == before


def test_a_column_that_must_not_be_null_can_neither_be_absent_nor_null() -> None:
    lake = Lake(pa.schema([*PLAIN, pa.field("must", pa.int64(), nullable=False)]))
    rows = pa.table({"id": ["a"], "ts": [1]})
    with pytest.raises(InvalidArgument, match="no column 'must'"):
        lake.write(rows)
    with pytest.raises(InvalidArgument, match="'must' holds a null"):
        lake.write(rows.append_column("must", pa.nulls(1)))


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (pa.timestamp("us"), pa.timestamp("us", tz="UTC")),
        (pa.timestamp("us", tz="UTC"), pa.timestamp("us")),
        (pa.bool_(), pa.int64()),
        (pa.string(), pa.binary()),
        (pa.date32(), pa.timestamp("us")),
        (pa.struct([("a", pa.int32()), ("more", pa.int32())]), pa.struct([("a", pa.int32())])),
        (pa.list_(pa.string()), pa.list_(pa.int32())),
        (pa.map_(pa.string(), pa.bool_()), pa.map_(pa.string(), pa.float32())),
    ],
    ids=str,
)
def test_a_type_that_would_lose_or_guess_something_is_refused(given: pa.DataType, wanted: pa.DataType) -> None:
    rows = pa.table({"id": ["a"], "ts": [1], "n": pa.nulls(1, given)})
    with pytest.raises(InvalidArgument, match="'n' has the type"):
        Lake(pa.schema([*PLAIN, ("n", wanted)])).write(rows)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.list_(pa.field("element", pa.int64(), nullable=False)), [[1, None]]),
        (pa.map_(pa.string(), pa.field("value", pa.int64(), nullable=False)), [[("a", None)]]),
        (pa.struct([("l", pa.list_(pa.field("element", pa.int64(), nullable=False)))]), [{"l": [None]}]),
    ],
)
def test_a_null_inside_a_list_or_map_that_allows_none_is_refused(kind: pa.DataType, values: list[Any]) -> None:
    rows = pa.table({"id": ["a"], "ts": [1], "n": pa.array(values)}) if not pa.types.is_map(kind) else None
    if rows is None:
        rows = pa.table({"id": ["a"], "ts": [1], "n": pa.array(values, pa.map_(pa.string(), pa.int64()))})
    with pytest.raises(InvalidArgument, match="'n' holds a null"):
        Lake(pa.schema([*PLAIN, ("n", kind)])).write(rows)


def test_columns_of_a_narrower_or_equal_type_are_taken() -> None:
    schema = pa.schema(
        [
            ("id", pa.string()),
            ("ts", pa.int64()),
            ("d", pa.float64()),
            ("at", pa.timestamp("us", tz="UTC")),
            ("n", pa.decimal128(12, 4)),
            ("l", pa.list_(pa.field("element", pa.int64()))),
            ("s", pa.struct([("a", pa.int64()), ("b", pa.string())])),
        ]
    )
    rows = pa.table(
        {
            "s": pa.array([{"a": 1}]),
            "l": pa.array([[1, 2]], pa.large_list(pa.int32())),
            "n": pa.array([Decimal("1.5")], pa.decimal128(4, 1)),
            "at": pa.array([5], pa.timestamp("ms", tz="Europe/Oslo")),
            "d": pa.array([1.5], pa.float32()),
            "ts": pa.array([7], pa.int32()),
            "id": pa.array(["a"]).dictionary_encode(),
        }
    )
    lake = Lake(schema)
    lake.write(rows)
    at = dt.datetime(1970, 1, 1, 0, 0, 0, 5000, UTC)
    expected = {"id": "a", "ts": 7, "d": 1.5, "at": at, "n": Decimal("1.5000"), "l": [1, 2], "s": {"a": 1, "b": None}}
    assert lake.rows() == [expected]


def test_rows_read_from_the_table_can_be_written_back() -> None:
    lake = Lake()
    lake.write([row("a", 1), row("b", 1)])
    lake.write(open_table(lake.storage).to_arrow(meta_columns=True))
    assert lake.rows() == [row("a", 1), row("b", 1)]


def test_a_plan_with_an_unknown_word_is_refused() -> None:
    for wrong in ({"operation": "merge"}, {"block_format": "orc"}, {"into_base": True, "columns": ("id",)}):
        with pytest.raises(InvalidArgument):
            Lake().plan(**wrong)
