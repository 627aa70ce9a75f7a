# SPDX-License-Identifier: Apache-2.0
"""Tables as we write them, each with the rows that it must hold; the judges read them in test_hudi_reads_our_writes.py."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest

import lakebraid as lb
from lakebraid.services import compaction

Definition = Callable[[Path], "Written"]
DEFINITIONS: dict[str, Definition] = {}
ROW = "id bigint, name string, ts bigint"


@dataclass(frozen=True)
class Written:
    """A table of ours. `names` tells the rows by their column `name`."""

    table: lb.Table
    names: list[str]
    hidden: dict[str, str] = field(default_factory=dict)
    """Rows that Hudi does not show, by record key (FORMAT, trap 1)."""
    hold: Any = None
    """What must live as long as the table is judged: an open transaction."""


def written(definition: Definition) -> Definition:
    DEFINITIONS[definition.__name__] = definition
    return definition


def rows(name: str, times: Mapping[Any, Any], **more: Any) -> list[dict[str, Any]]:
    """One row for each key: its name is `name` and the key, its ordering value the one given."""
    return [{"id": key, "name": f"{name}{key}", "ts": time, **more} for key, time in times.items()]


def keys(times: Mapping[Any, Any]) -> list[dict[str, Any]]:
    return [{"id": key, "ts": time} for key, time in times.items()]


def create(path: Path, ddl: str = ROW, **options: Any) -> lb.Table:
    defaults: dict[str, Any] = {"record_keys": ["id"], "ordering_fields": ["ts"], "buckets": 2}
    return lb.Table.create(path, ddl, **defaults | options)


# Types, keys, partitions

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


def arrow(table: lb.Table, given: list[dict[str, Any]], columns: tuple[str, ...] | None = None) -> pa.Table:
    schema = pa.schema([field for field in table.schema if columns is None or field.name in columns])
    return pa.Table.from_pylist([{name: row.get(name) for name in schema.names} for row in given], schema)


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
    compact(table)
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
ODD_TEXTS = ("x", "a:b", "x,y:z", "b:1,c:2", "ü€\U0001f40d", " blank ", "%2F/=", "__null__x", "'\"\\")


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


# Deletes

ORDERINGS: dict[str, tuple[str, list[Any]]] = {
    "int": ("int", [1, 2, 3, 4]),
    "bigint": ("bigint", [0, 2**40, 2**40 + 1, 2**62]),
    "float": ("float", [-1.5, 0.25, 0.5, 1e30]),
    "double": ("double", [-1e300, 0.1, 0.2, 1e300]),
    "string": ("string", ["a", "b", "ba", "é"]),
    "timestamp": ("timestamp", [dt.datetime(2024, 1, 1, microsecond=n, tzinfo=dt.UTC) for n in range(4)]),
    "timestamp_ntz": ("timestamp_ntz", [dt.datetime(1960, 1, 1, microsecond=n) for n in range(4)]),
    "date": ("date", [dt.date(2024, 1, n) for n in range(1, 5)]),
    "decimal": ("decimal(12,3)", [Decimal("-9.5"), Decimal("10.125"), Decimal("10.126"), Decimal(999999999)]),
}


def deletes_ordered_by(path: Path, kind: str, *, into_base: bool) -> Written:
    """A delete that is older, equal and newer than its row; events older and newer than a delete that come after it."""
    ddl, (older, now, newer, newest) = ORDERINGS[kind]
    table = create(path, f"id bigint, name string, ts {ddl}", buckets=1)
    (table.bulk_insert if into_base else table.upsert)(arrow(table, rows("row", dict.fromkeys(range(1, 6), now))))
    table.delete(arrow(table, keys({1: older, 2: now, 3: newer, 4: newer, 5: newer}), ("id", "ts")))
    table.upsert(arrow(table, rows("late", {4: now, 5: newest})))
    return Written(table, ["row1", "late5"])


for _kind in ORDERINGS:
    for _into_base in (False, True):
        DEFINITIONS[f"deletes_by_{_kind}_over_{'base' if _into_base else 'log'}"] = lambda path, k=_kind, b=_into_base: (
            deletes_ordered_by(path, k, into_base=b)
        )


@written
def deletes_by_three_ordering_columns(path: Path) -> Written:
    ddl = "id bigint, name string, ts timestamp, rank string, day date"
    table = create(path, ddl, ordering_fields=["ts", "rank", "day"], buckets=1)
    day, (_, now, later, _) = dt.date(2024, 1, 1), ORDERINGS["timestamp"][1]
    table.bulk_insert(rows("base", dict.fromkeys(range(1, 5), now), rank="b", day=day))
    table.upsert(rows("row", dict.fromkeys(range(3, 7), now), rank="b", day=day))
    table.delete(
        [{"id": n, "ts": now, "rank": rank, "day": day} for n, rank in zip(range(1, 7), "acacac", strict=True)]
    )
    table.upsert(rows("late", {2: now, 4: later, 6: now}, rank="bb", day=day))
    return Written(table, ["base1", "row3", "late4", "row5"])


@written
def deletes_of_the_rows_as_they_are(path: Path) -> Written:
    """No ordering value is given: the row's own is used, so an event that is older than the row stays dead."""
    table = create(path, buckets=1)
    table.upsert(rows("row", {1: 5, 2: 5, 3: 5}))
    table.delete([{"id": 1}, {"id": 2}, {"id": 77}])
    table.upsert(rows("late", {1: 4, 2: 6}))
    return Written(table, ["late2", "row3"])


@written
def deletes_in_commit_order(path: Path) -> Written:
    table = create(path, ordering_fields=None, buckets=1)
    table.bulk_insert(rows("row", dict.fromkeys(range(1, 5), 5)))
    table.delete([{"id": 1}, {"id": 2}, {"id": 9}])
    table.upsert(rows("back", {2: 1, 9: 1}))
    table.delete([{"id": 3}])
    return Written(table, ["back2", "row4", "back9"])


@written
def deletes_by_flag(path: Path) -> Written:
    table = create(path, f"{ROW}, _hoodie_is_deleted boolean", buckets=1)
    table.bulk_insert(rows("row", dict.fromkeys(range(1, 4), 5), _hoodie_is_deleted=False))
    table.upsert([*rows("x", {1: 6, 2: 4, 7: 1}, _hoodie_is_deleted=True), *rows("new", {3: 6}), *rows("new", {4: 1})])
    return Written(table, ["row2", "new3", "new4"])


@written
def deletes_by_marker(path: Path) -> Written:
    options = {"hoodie.payload.delete.field": "op", "hoodie.payload.delete.marker": "D"}
    table = create(path, f"{ROW}, op string", buckets=1, properties=options)
    table.bulk_insert(rows("row", dict.fromkeys(range(1, 4), 5), op="I"))
    table.upsert([*rows("x", {1: 6, 2: 4, 7: 1}, op="D"), *rows("new", {3: 6}, op="d"), *rows("new", {4: 1}, op=None)])
    return Written(table, ["row2", "new3", "new4"])


# Upserts


@written
def blocks_of_both_kinds(path: Path) -> Written:
    table = create(path, buckets=1)
    table.upsert(rows("a", {1: 1, 2: 1, 3: 9}))
    table.upsert(rows("b", {1: 2, 3: 2, 4: 2}), block_format="avro")
    table.upsert(rows("c", {2: 3, 4: 1}))
    return Written(table, ["b1", "c2", "a3", "b4"])


@written
def updates_of_some_columns(path: Path) -> Written:
    table = create(path, f"{ROW}, extra string", buckets=1)
    table.bulk_insert(rows("base", {1: 5, 2: 5, 3: 5, 4: 5}, extra="e"))
    table.upsert([{"id": 1, "name": "part1", "ts": 6}, {"id": 2, "name": "old", "ts": 4}], columns=["id", "name", "ts"])
    table.upsert([{"id": 3, "extra": "x", "ts": 6}], columns=["id", "extra", "ts"], block_format="avro")
    table.upsert([{"id": 3, "name": "part3", "ts": 7}], columns=["id", "name", "ts"])
    return Written(table, ["part1", "base2", "part3", "base4"])


@written
def updates_of_some_columns_in_commit_order(path: Path) -> Written:
    table = create(path, f"{ROW}, extra string", ordering_fields=None, buckets=1)
    table.bulk_insert(rows("base", {1: 5, 2: 5, 3: 5}, extra="e"))
    table.upsert([{"id": 1, "name": "part1"}, {"id": 2, "name": "part2"}], columns=["id", "name"])
    table.upsert([{"id": 2, "extra": "x"}], columns=["id", "extra"])
    return Written(table, ["part1", "part2", "base3"])


@written
def duplicates_in_one_write(path: Path) -> Written:
    table = create(path, buckets=1)
    table.upsert([*rows("a", {1: 1, 2: 2, 3: 1}), *rows("b", {1: 1, 2: 1, 3: 2})])
    with table.begin() as transaction:
        transaction.write(rows("c", {4: 1, 5: 2, 6: 1}))
        transaction.write(rows("d", {4: 1, 5: 1, 6: 2}))
    return Written(table, ["b1", "a2", "b3", "d4", "c5", "d6"])


@written
def duplicates_in_commit_order(path: Path) -> Written:
    table = create(path, buckets=1, ordering_fields=None)
    table.insert([*rows("a", {1: 1, 2: 2}), *rows("b", {1: 1, 2: 1})])
    return Written(table, ["b1", "b2"])


@written
def bulk_insert_then_upserts(path: Path) -> Written:
    table = create(path, buckets=3)
    table.bulk_insert(rows("base", dict.fromkeys(range(50), 5)))
    table.upsert(rows("new", dict.fromkeys(range(0, 60, 2), 6)))
    table.bulk_insert(rows("again", dict.fromkeys(range(0, 60, 3), 7)))
    expected = {n: f"base{n}" for n in range(50)} | {n: f"new{n}" for n in range(0, 60, 2)}
    return Written(table, [*(expected | {n: f"again{n}" for n in range(0, 60, 3)}).values()])


@written
def columns_stated_by_the_first_rows(path: Path) -> Written:
    table = lb.Table.create(path, record_keys="id", ordering_fields="ts", buckets=2)
    table.upsert(rows("a", {1: 1, 2: 1}))
    table.upsert(rows("b", {2: 2, 3: 2}))
    return Written(table, ["a1", "b2", "b3"])


# Several writers


def overlap(path: Path, **options: Any) -> lb.Table:
    """a begins first and commits last; keys 1 to 3 are in both, with ordering values that are less, equal, greater."""
    table = create(path, buckets=1, **options)
    a, b = table.begin(), table.begin()
    a.write(rows("a", {1: 1, 2: 2, 3: 3, 4: 1}))
    b.write(rows("b", {1: 2, 2: 2, 3: 2, 5: 1}))
    b.commit()
    a.commit()
    return table


@written
def overlapping_writers(path: Path) -> Written:
    return Written(overlap(path), ["b1", "b2", "a3", "a4", "b5"])


@written
def overlapping_writers_in_commit_order(path: Path) -> Written:
    return Written(overlap(path, ordering_fields=None), ["b1", "b2", "b3", "a4", "b5"])


@written
def pending_writer(path: Path) -> Written:
    table = create(path, buckets=1)
    table.upsert(rows("a", {1: 1, 2: 1}))
    pending = table.begin()
    pending.write(rows("pending", {1: 9, 3: 9}))
    table.upsert(rows("b", {2: 2}))
    return Written(table, ["a1", "b2"], hold=pending)


@written
def pending_first_writer_of_a_seeded_bucket(path: Path) -> Written:
    table = create(path, buckets=2, seed_base=True)
    pending = table.begin()
    pending.write(rows("pending", dict.fromkeys(range(20), 9)))
    table.upsert(rows("a", {1: 1, 2: 1}))
    return Written(table, ["a1", "a2"], hold=pending)


@written
def pending_first_writer_of_a_partition(path: Path) -> Written:
    table = create(path, f"{ROW}, p string", partition_by=["p"], buckets=1)
    pending = table.begin()
    pending.write(rows("pending", {1: 9}, p="x"))
    table.upsert([*rows("a", {1: 1, 2: 1}, p="x"), *rows("a", {3: 1}, p="y")])
    return Written(table, ["a1", "a2", "a3"], hidden={"1": "a1", "2": "a2"}, hold=pending)


@written
def writers_that_gave_up(path: Path) -> Written:
    table = create(path, buckets=1, seed_base=False)
    first = table.begin()
    first.write(rows("gone", {1: 9, 7: 9}))
    table.upsert(rows("a", {1: 1, 2: 1}))
    first.abort()
    second = table.begin("delete")
    second.write(keys({1: 10}))
    second.abort()
    table.upsert(rows("b", {2: 2}))
    return Written(table, ["a1", "b2"])


@written
def writers_that_died(path: Path) -> Written:
    table = create(path, buckets=1, seed_base=False)
    dead = table.begin()
    dead.write(rows("dead", {1: 9, 7: 9}))
    dead._heartbeat.stop()
    table.upsert(rows("a", {1: 1, 2: 1}))
    assert table.rollback(timeout_seconds=0).rolled_back == (dead.instant,)
    table.upsert(rows("b", {2: 2}))
    return Written(table, ["a1", "b2"])


# Compactions of ours


def compact(table: lb.Table) -> None:
    table.compact()


def plan(table: lb.Table) -> str:
    """A plan of ours that nobody executes."""
    config, _ = table._writing.settings()
    start = compaction.plan_compaction(table._writing.ledger(config))
    assert start is not None
    return start


def run_plan(table: lb.Table, start: str) -> None:
    """Executes a plan at once, whoever made it; `compact` would wait whether its maker comes back to it."""
    config, _ = table._writing.settings()
    compaction.run_plan(table._writing, table._writing.ledger(config), start)


@written
def pending_compaction(path: Path) -> Written:
    table = create(path, buckets=1)
    table.upsert(rows("a", {1: 1, 2: 1, 3: 5}))
    table.upsert(rows("b", {2: 2}))
    plan(table)
    table.upsert(rows("c", {1: 2, 3: 4, 4: 1}))
    table.delete(keys({2: 3}))
    return Written(table, ["c1", "a3", "c4"])


@written
def compaction_that_died(path: Path) -> Written:
    """Its base file and its carried deletes are there, its commit is not."""
    table = create(path, buckets=1)
    table.upsert(rows("a", {1: 1, 2: 1, 3: 1}))
    table.delete(keys({2: 2}))
    with mock.patch.object(compaction.operations, "publish_plan", side_effect=InterruptedError):
        with pytest.raises(InterruptedError):
            compact(table)
    table.upsert(rows("b", {2: 1, 3: 2}))
    return Written(table, ["a1", "b3"])


@written
def compaction_taken_over(path: Path) -> Written:
    """The first executor died after writing its files, the second finished."""
    table = compaction_that_died(path).table
    (start,) = (str(i.request_time) for i in table.timeline() if i.action == "compaction")
    beat = path / ".hoodie" / ".heartbeat" / start
    beat.touch()
    os.utime(beat, (0, 0))
    run_plan(table, start)
    table.upsert(rows("c", {2: 1, 4: 1}))
    return Written(table, ["a1", "b3", "c4"])


@written
def compacted_twice(path: Path) -> Written:
    table = create(path, f"{ROW}, p string", partition_by=["p"], buckets=2)
    table.upsert(rows("a", dict.fromkeys(range(10), 1), p="x"))
    table.delete([{"id": 1, "p": "x", "ts": 1}, {"id": 2, "p": "x", "ts": 7}])
    compact(table)
    table.upsert([*rows("b", {2: 6, 3: 2, 4: 0}, p="x"), *rows("b", {1: 1}, p="y")], block_format="avro")
    compact(table)
    table.upsert([*rows("c", {2: 5, 5: 2}, p="x")])
    names = ["a0", "b3", "a4", "c5", "a6", "a7", "a8", "a9", "b1"]
    return Written(table, names)


@written
def tombstones_carried_over(path: Path) -> Written:
    """Deletes outlive the compaction in a log file of it: an event that is older than the delete stays dead."""
    table = create(path, buckets=1)
    table.upsert(rows("row", dict.fromkeys(range(1, 5), 5)))
    table.delete(keys({1: 6, 2: 6, 3: 4}))
    compact(table)
    table.upsert(rows("late", {1: 5, 2: 7, 3: 5}))
    return Written(table, ["late2", "late3", "row4"])


@written
def compacted_partial_updates(path: Path) -> Written:
    table = create(path, f"{ROW}, extra string", buckets=1)
    table.upsert(rows("base", {1: 5, 2: 5}, extra="e"))
    table.upsert([{"id": 1, "name": "part1", "ts": 6}], columns=["id", "name", "ts"])
    compact(table)
    table.upsert([{"id": 1, "extra": "x", "ts": 7}], columns=["id", "extra", "ts"])
    return Written(table, ["part1", "base2"])


@written
def compacted_in_commit_order(path: Path) -> Written:
    table = create(path, buckets=1, ordering_fields=None)
    table.upsert(rows("a", {1: 1, 2: 1, 3: 1}))
    table.delete([{"id": 1}])
    table.upsert(rows("b", {2: 0}))
    compact(table)
    table.upsert(rows("c", {1: 0, 3: 0}))
    return Written(table, ["c1", "b2", "c3"])


@written
def late_finisher_behind_a_compaction(path: Path) -> Written:
    """Began before the plan, finished after the compaction; it has the newer events of 1, the older ones of 2."""
    table = create(path, buckets=1)
    table.upsert(rows("a", {1: 1, 2: 5, 3: 1}))
    late = table.begin()
    late.write(rows("late", {1: 2, 2: 4, 4: 1}))
    compact(table)
    late.commit()
    return Written(table, ["late1", "a2", "a3", "late4"])
