# SPDX-License-Identifier: Apache-2.0
"""Deletes in every form: keys, rows that say so themselves, with every type of ordering value."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from lakebraid.errors import InvalidArgument
from lakebraid.format.log.blocks import BlockType
from lakebraid.format.log.delete_list import parse_delete_block
from tests.kit.tables.lake import PLAIN, Lake, commit_time, row

pytestmark = pytest.mark.unit

UTC = dt.UTC


ORDERS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "int": (pa.int32(), [1, 2, 3]),
    "long": (pa.int64(), [0, 2, 2**40]),
    "string": (pa.string(), ["", "Z", "ä"]),
    "decimal": (pa.decimal128(12, 2), [Decimal("-1.25"), Decimal("0.00"), Decimal("9999999999.99")]),
    "date": (pa.date32(), [dt.date(1900, 1, 1), dt.date(1970, 1, 2), dt.date(2026, 1, 1)]),
    "timestamp": (pa.timestamp("us", tz="UTC"), [dt.datetime(2026, 1, 1, 0, 0, 0, i, UTC) for i in range(3)]),
    "local": (pa.timestamp("us"), [dt.datetime(1960, 1, 1, 0, 0, i) for i in range(3)]),
    "double": (pa.float64(), [-1.5, 0.0, float("inf")]),
}


@pytest.mark.parametrize("form", ["keys", "flag", "marker"])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("into_base", [False, True])
def test_a_delete_removes_older_and_equal_rows_and_no_newer_one(order: str, form: str, into_base: bool) -> None:
    kind, (low, mid, high) = ORDERS[order]
    prefix = "hoodie.record.merge.property.hoodie.payload.delete."
    lake = Lake(
        pa.schema([("id", pa.string()), ("ts", kind), ("op", pa.string()), ("_hoodie_is_deleted", pa.bool_())]),
        {f"{prefix}field": "op", f"{prefix}marker": "D"},
    )
    values = [{"id": "older", "ts": low}, {"id": "equal", "ts": mid}, {"id": "newer", "ts": high}]
    lake.write([v | {"op": "I", "_hoodie_is_deleted": False} for v in values], into_base=into_base)
    gone = [{"id": v["id"], "ts": mid} for v in values]
    if form == "keys":
        files = lake.write(gone, operation="delete")
    else:
        marks = (
            {"op": "D", "_hoodie_is_deleted": None} if form == "marker" else {"op": None, "_hoodie_is_deleted": True}
        )
        files = lake.write([g | marks for g in gone])
    assert [r["id"] for r in lake.rows()] == ["newer"]
    assert (sum(f.deletes for f in files), sum(f.rows for f in files)) == (3, 0)
    assert all([b.type for b in lake.blocks(f)] == [BlockType.DELETE] for f in files)


def test_deletes_by_several_ordering_fields_compare_field_by_field() -> None:
    schema = pa.schema(
        [("id", pa.string()), ("day", pa.date32()), ("n", pa.int32()), ("_hoodie_is_deleted", pa.bool_())]
    )
    lake = Lake(schema, {"hoodie.table.ordering.fields": "day,n"})
    day = dt.date(2026, 1, 1)
    lake.write(
        [{"id": key, "day": day, "n": n, "_hoodie_is_deleted": None} for key, n in (("a", 0), ("b", 1), ("c", 2))]
    )
    lake.write([{"id": "a", "day": day, "n": 0}, {"id": "c", "day": day, "n": 1}], operation="delete")
    lake.write([{"id": "b", "day": day, "n": 0, "_hoodie_is_deleted": True}])
    assert [r["id"] for r in lake.rows()] == ["b", "c"]


def test_keys_without_ordering_values_are_deleted_whatever_came_before() -> None:
    lake = Lake()
    lake.write([row("a", 100), row("b", 100)])
    files = lake.write([{"id": "a"}], operation="delete")
    assert [r["id"] for r in lake.rows()] == ["b"]
    (block,) = lake.blocks(files[0])
    assert parse_delete_block(block.content, "x").unconditional.to_pylist() == [True]


def test_by_commit_time_the_later_write_wins_deletes_too() -> None:
    lake = commit_time()
    lake.write([row("a", 9), row("b", 9)])
    lake.write([{"id": "a"}], operation="delete")
    assert [r["id"] for r in lake.rows()] == ["b"]
    lake.write([row("a", 1)])
    assert [r["id"] for r in lake.rows()] == ["a", "b"]


def test_a_delete_of_a_partitioned_table_needs_and_uses_the_partition() -> None:
    lake = Lake(pa.schema([*PLAIN, ("p", pa.string())]), {"hoodie.table.partition.fields": "p"})
    lake.write([row("a", 1) | {"p": "one"}, row("a", 1) | {"p": "two"}])
    with pytest.raises(InvalidArgument, match="'p'"):
        lake.write([{"id": "a", "ts": 1}], operation="delete")
    lake.write([{"id": "a", "ts": 1, "p": "two"}], operation="delete")
    assert [r["p"] for r in lake.rows()] == ["one"]


def test_rows_and_deletes_of_one_batch_compete_for_their_key() -> None:
    lake = Lake(pa.schema([*PLAIN, ("_hoodie_is_deleted", pa.bool_())]), buckets=1)
    (file,) = lake.write(
        [
            row("a", 2) | {"_hoodie_is_deleted": False},
            row("a", 1) | {"_hoodie_is_deleted": True},
            row("b", 1) | {"_hoodie_is_deleted": False},
            row("b", 1) | {"_hoodie_is_deleted": True},
        ]
    )
    assert [r["id"] for r in lake.rows()] == ["a"]
    assert (file.rows, file.deletes) == (1, 1)
    assert [b.type for b in lake.blocks(file)] == [BlockType.PARQUET, BlockType.DELETE]


def test_a_deleted_row_with_the_ordering_value_int_zero_does_not_delete_newer_rows() -> None:
    lake = Lake(pa.schema([("id", pa.string()), ("ts", pa.int32()), ("_hoodie_is_deleted", pa.bool_())]))
    lake.write([{"id": "a", "ts": 1, "_hoodie_is_deleted": False}, {"id": "b", "ts": 0, "_hoodie_is_deleted": False}])
    lake.write([{"id": "a", "ts": 0, "_hoodie_is_deleted": True}, {"id": "b", "ts": 0, "_hoodie_is_deleted": True}])
    assert [r["id"] for r in lake.rows()] == ["a"]


@pytest.mark.parametrize(("ts", "as_rows"), [(5, 0), (0, 1)])
def test_deletes_in_a_bulk_load_are_not_lost(ts: int, as_rows: int) -> None:
    lake = Lake(pa.schema([("id", pa.string()), ("ts", pa.int32()), ("_hoodie_is_deleted", pa.bool_())]), buckets=1)
    rows = [{"id": "a", "ts": ts, "_hoodie_is_deleted": True}, {"id": "b", "ts": ts, "_hoodie_is_deleted": False}]
    files = lake.write(rows, into_base=True)
    assert [(f.is_base, f.rows, f.deletes) for f in files] == [(True, 1, 0), (False, as_rows, 1 - as_rows)]
    lake.write([{"id": "a", "ts": ts - 1, "_hoodie_is_deleted": False}])
    assert [r["id"] for r in lake.rows()] == ["b"]
