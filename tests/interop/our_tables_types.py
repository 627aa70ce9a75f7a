# SPDX-License-Identifier: Apache-2.0
"""Tables of ours: types, keys and partitions."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import lakebraid as lb
from tests.interop.our_tables import ROW, Written, arrow, create, rows, written

TYPES = """id string, tiny tinyint, small smallint, i int, l bigint, f float, d double, b boolean, name string, bin binary,
 dec10 decimal(10,2), dec20 decimal(20,5), dec38 decimal(38,10), day date, at timestamp, ints array<int>,
 structs array<struct<x: int, y: decimal(10,2), z: timestamp>>, counts map<string, int>,
 shapes map<string, struct<w: double, tags: array<string>>>, deep struct<one: struct<two: array<bigint>, name: string>, day: date>,
 grid array<array<int>>, ts bigint"""


def full(key: str, ts: int, mark: int) -> dict[str, Any]:
    money = Decimal(mark) + Decimal("0.25")
    moment = dt.datetime(2024, 2, 29, 23, 59, 59, 123456, dt.UTC) + dt.timedelta(days=mark)
    return {
        "id": key, "tiny": mark - 128, "small": -mark, "i": 2**31 - mark - 1, "l": mark - 2**63, "f": mark + 0.5, "d": mark * 1e-300, "b": mark % 2 == 0,
        "name": f'ü,{mark}:\u20ac\U0001f40d\n"', "bin": bytes([0, mark, 255]), "dec10": money, "dec20": money + Decimal("0.00001"),
        "dec38": -money * Decimal("1e20") - Decimal("0.0000000001"), "day": moment.date(), "at": moment, "ints": [1, None, mark],
        "structs": [{"x": mark, "y": money, "z": moment}, None, {"x": None, "y": None, "z": None}],
        "counts": [("a", mark), ("", None), ("ü", 0)],
        "shapes": [("k", {"w": 1.5, "tags": ["t", None, ""]}), ("n", None), ("m", {"w": None, "tags": None})],
        "deep": {"one": {"two": [mark, None], "name": None}, "day": moment.date()}, "grid": [[1, None], None, [], [mark]], "ts": ts,
    }  # fmt: skip


def extreme(key: str, ts: int) -> dict[str, Any]:
    """Empty where a value can be empty, the extremes where it can be extreme."""
    return {
        "id": key, "tiny": 127, "small": -32768, "i": -(2**31), "l": 2**63 - 1, "f": float("inf"), "d": -0.0, "b": False, "name": "", "bin": b"",
        "dec10": Decimal("-99999999.99"), "dec20": Decimal(0), "dec38": Decimal("9999999999999999999999999999.9999999999"),
        "day": dt.date(1582, 10, 15), "at": dt.datetime(1969, 12, 31, 23, 59, 59, 999999, dt.UTC), "ints": [], "structs": [], "counts": [], "shapes": [],
        "deep": {"one": None, "day": None}, "grid": [], "ts": ts,
    }  # fmt: skip


def all_types(path: Path, block_format: str) -> lb.Table:
    table = create(path, TYPES, buckets=1)
    first = [full("a", 10, 1), {"id": "b", "ts": 10}, extreme("c", 10), full("d", 10, 2), full("e", 10, 3)]
    table.upsert(arrow(table, first), block_format=block_format)
    second = [{"id": "a", "ts": 20}, full("b", 20, 4), full("c", 20, 5), extreme("d", 20), full("e", 5, 6)]
    table.upsert(arrow(table, second), block_format=block_format)
    return table


TYPES_NAMES = ["None", full("b", 20, 4)["name"], full("c", 20, 5)["name"], "", full("e", 10, 3)["name"]]


@written
def types_in_parquet_blocks(path: Path) -> Written:
    return Written(all_types(path, "parquet"), TYPES_NAMES)


@written
def types_in_avro_blocks(path: Path) -> Written:
    return Written(all_types(path, "avro"), TYPES_NAMES)


@written
def types_in_base_files(path: Path) -> Written:
    table = all_types(path, "avro")
    table.compact()
    table.upsert(arrow(table, [full("f", 1, 9), full("a", 1, 8)]))
    return Written(table, [*TYPES_NAMES, full("f", 1, 9)["name"]])


@written
def types_bulk_inserted(path: Path) -> Written:
    table = create(path, TYPES, buckets=1)
    first = [full("a", 10, 1), {"id": "b", "ts": 10}, extreme("c", 10)]
    table.bulk_insert(arrow(table, first))
    return Written(table, [full("a", 10, 1)["name"], "None", ""])


@written
def times_without_zone(path: Path) -> Written:
    table = create(path, "id bigint, name string, at timestamp_ntz, ts bigint")
    moments = [dt.datetime(1905, 1, 2, 3, 4, 5, 678901), dt.datetime(2090, 12, 31), None]
    for block_format in ("parquet", "avro"):
        ids = [f"{n}{block_format[0]}" for n in range(3)]
        given = [{"id": i + 3 * (block_format == "avro"), "name": ids[i], "at": moments[i], "ts": 1} for i in range(3)]
        table.upsert(arrow(table, given), block_format=block_format)
    return Written(table, ["0p", "1p", "2p", "0a", "1a", "2a"])


COMPOSITE = "a string, b bigint, c date, d decimal(10,2), e boolean, name string, ts bigint"
ODD_TEXTS = ("x", "a:b", "x,y:z", "b:1, c:2", "ü€\U0001f40d", " blank ", "%2F/=", "__null__x", "'\"\\")


def composite(number: int, name: str, ts: int) -> dict[str, Any]:
    text = ODD_TEXTS[number]
    day = dt.date(2024, 1, 31) + dt.timedelta(days=number)
    return {"a": text, "b": number, "c": day, "d": Decimal(number) / 4, "e": number % 2 == 0, "name": name, "ts": ts}


@written
def keys_of_five_columns(path: Path) -> Written:
    table = create(path, COMPOSITE, record_keys=["a", "b", "c", "d", "e"], buckets=8)
    table.upsert([composite(n, f"old{n}", 1) for n in range(9)])
    table.upsert([composite(n, f"new{n}", 2) for n in range(0, 9, 2)], block_format="avro")
    table.delete([composite(8, "", 3)])
    return Written(table, ["new0", "old1", "new2", "old3", "new4", "old5", "new6", "old7"])


@written
def keys_with_missing_parts(path: Path) -> Written:
    table = create(path, "a string, b string, name string, ts bigint", record_keys=["a", "b"], buckets=8)
    pairs = [(None, "1"), ("1", None), ("", "1"), ("1", ""), ("", None), ("1", "1")]
    pairs = [pair for pair in pairs if pair != ("", None)]  # all parts empty is an error
    for ts, name in ((1, "old"), (2, "new")):
        table.upsert([{"a": a, "b": b, "name": f"{name}{n}", "ts": ts} for n, (a, b) in enumerate(pairs)])
    return Written(table, [f"new{n}" for n in range(len(pairs))])


@written
def complex_key_of_one_column(path: Path) -> Written:
    """Two partition columns: the key's text is `id:7`."""
    table = create(path, f"{ROW}, p string, q int", partition_by=["p", "q"], buckets=8)
    for ts, name in ((1, "old"), (2, "new")):
        table.upsert(rows(name, dict.fromkeys(range(20), ts), p="x", q=7))
    table.upsert(rows("other", dict.fromkeys(range(3), 1), p="y", q=None))
    return Written(table, [*[f"new{n}" for n in range(20)], "other0", "other1", "other2"])


@written
def partitions_in_hive_style(path: Path) -> Written:
    table = create(path, f"{ROW}, p string", partition_by=["p"], hive_style_partitioning=True)
    table.upsert([*rows("a", {1: 1, 2: 1}, p="Oslo"), *rows("b", {1: 1}, p="Rome"), *rows("c", {1: 1}, p=None)])
    table.upsert([*rows("A", {1: 2}, p="Oslo"), *rows("C", {1: 2, 2: 2}, p=None)])
    table.delete([{"id": 2, "p": "Oslo", "ts": 3}])
    return Written(table, ["A1", "b1", "C1", "C2"])


ODD_PARTITIONS = ("a/b", "x=y", "100%", "q?#", "é€", "{[^", "plain", "a b", "a:b")


@written
def partitions_encoded(path: Path) -> Written:
    options = {"hoodie.datasource.write.partitionpath.urlencode": True}
    table = create(path, f"{ROW}, p string", partition_by=["p"], properties=options, buckets=1)
    for ts, name in ((1, "old"), (2, "new")):
        table.upsert([row for part in ODD_PARTITIONS for row in rows(name, {1: ts}, p=part)])
    return Written(table, ["new1"] * len(ODD_PARTITIONS))


@written
def partitions_of_three_levels(path: Path) -> Written:
    table = create(
        path, f"{ROW}, p string, q int, r date", partition_by=["p", "q", "r"], hive_style_partitioning=True, buckets=1
    )
    day = dt.date(2024, 2, 29)
    table.upsert([*rows("a", {1: 1}, p="x", q=1, r=day), *rows("b", {1: 1}, p="x", q=2, r=day)])
    table.upsert([*rows("A", {1: 2}, p="x", q=1, r=day), *rows("c", {1: 1}, p="x", q=1, r=dt.date(2024, 3, 1))])
    return Written(table, ["A1", "b1", "c1"])
