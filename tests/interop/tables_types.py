# SPDX-License-Identifier: Apache-2.0
"""Every type, nested, with nulls everywhere, in each kind of file; and how a schema may change."""

import datetime as dt
import decimal
from collections.abc import Callable
from typing import Any

from tests.interop.tables import NBCC, ONE_BUCKET, Hudi, table

TYPES = """id string, tiny tinyint, small smallint, i int, l bigint, f float, d double, b boolean, s string, bin binary,
 dec10 decimal(10,2), dec20 decimal(20,5), dec38 decimal(38,10), day date, at timestamp, ints array<int>,
 structs array<struct<x: int, y: decimal(10,2), z: timestamp>>, counts map<string, int>,
 shapes map<string, struct<w: double, tags: array<string>>>, deep struct<one: struct<two: array<bigint>, name: string>, day: date>,
 grid array<array<int>>, ts bigint, part string"""


def full(key: str, ts: int, mark: int) -> tuple[Any, ...]:
    """A row with all fields set; `mark` makes it different from others."""
    money = decimal.Decimal(mark) + decimal.Decimal("0.25")
    moment = dt.datetime(2024, 2, 29, 23, 59, 59, 123456, dt.UTC) + dt.timedelta(days=mark)
    return (
        key, mark - 128, -mark, 2**31 - mark - 1, -(2**63) + mark, mark + 0.5, mark * 1e-300, mark % 2 == 0, f'ü,{mark}:\u20ac\U0001f40d\n"', bytes([0, mark, 255]),
        money, money + decimal.Decimal("0.00001"), -money * decimal.Decimal("1e20") - decimal.Decimal("0.0000000001"), moment.date(), moment, [1, None, mark],
        [{"x": mark, "y": money, "z": moment}, None, {"x": None, "y": None, "z": None}], {"a": mark, "": None, "ü": 0},
        {"k": {"w": 1.5, "tags": ["t", None, ""]}, "n": None, "m": {"w": None, "tags": None}}, {"one": {"two": [mark, None], "name": None}, "day": moment.date()},
        [[1, None], None, [], [mark]], ts, "p",
    )  # fmt: skip


def bare(key: str, ts: int) -> tuple[Any, ...]:
    return (key, *[None] * 20, ts, "p")


def empty(key: str, ts: int) -> tuple[Any, ...]:
    """Empty where a value can be empty, the extremes where it can be extreme."""
    nothing = (0, 0, 0, 0, 0.0, -0.0, False, "", b"", decimal.Decimal("-99999999.99"), decimal.Decimal(0))
    old = (dt.date(1582, 10, 15), dt.datetime(1969, 12, 31, 23, 59, 59, 999999, dt.UTC))
    return (
        key,
        *nothing,
        decimal.Decimal("9999999999999999999999999999.9999999999"),
        *old,
        [],
        [],
        {},
        {},
        {"one": None, "day": None},
        [],
        ts,
        "p",
    )


def strict(key: str, ts: int, mark: int) -> tuple[Any, ...]:
    """A row without null elements in lists: the old two-level form cannot hold them."""
    row = list(full(key, ts, mark))
    row[15], row[16], row[20] = [1, mark], row[16][:1], [[1], [], [mark]]
    row[18], row[19] = {"k": {"w": 1.5, "tags": ["t", ""]}}, {"one": {"two": [mark], "name": "n"}, "day": None}
    return tuple(row)


def all_types(hudi: Hudi, row: Callable[[str, int, int], tuple[Any, ...]], options: dict[str, str]) -> None:
    hudi.define(TYPES, options=options)
    hudi.upsert([row("a", 10, 1), bare("b", 10), empty("c", 10), row("d", 10, 2), row("e", 10, 3)])
    hudi.upsert([bare("a", 20), row("b", 20, 4), row("c", 20, 5), empty("d", 20), row("e", 5, 6), row("f", 20, 7)])


THREE_LEVEL = {"hoodie.parquet.writelegacyformat.enabled": "false", "parquet.avro.write-old-list-structure": "false"}


@table("all types nested with nulls: Avro log blocks over a base file with three-level lists")
def v9_mor_types_avro(hudi: Hudi) -> None:
    hudi.spark.sparkContext._jsc.hadoopConfiguration().set("parquet.avro.write-old-list-structure", "false")
    all_types(hudi, full, ONE_BUCKET | THREE_LEVEL)


@table("all types nested with nulls: Parquet log blocks in NBCC mode, no base file")
def v9_mor_types_parquet(hudi: Hudi) -> None:
    hudi.spark.sparkContext._jsc.hadoopConfiguration().set("parquet.avro.write-old-list-structure", "false")
    all_types(hudi, full, NBCC | THREE_LEVEL | {"hoodie.logfile.data.block.format": "parquet"})


@table("all types nested: two-level lists in base files and Parquet log blocks, by the Avro writer")
def v9_mor_types_two_level(hudi: Hudi) -> None:
    hudi.spark.sparkContext._jsc.hadoopConfiguration().set("parquet.avro.write-old-list-structure", "true")
    all_types(
        hudi,
        strict,
        ONE_BUCKET | {"parquet.avro.write-old-list-structure": "true", "hoodie.logfile.data.block.format": "parquet"},
    )
    hudi.compact()
    hudi.upsert([strict("g", 30, 8), strict("a", 30, 9)])


@table("all types nested with nulls: Avro log blocks, then compaction, then a further Avro log")
def v9_mor_types_compacted(hudi: Hudi) -> None:
    hudi.spark.sparkContext._jsc.hadoopConfiguration().set("parquet.avro.write-old-list-structure", "false")
    all_types(hudi, full, NBCC | THREE_LEVEL)
    hudi.compact()
    hudi.upsert([full("a", 30, 8), bare("d", 30)])


@table(
    "COW, all types nested with nulls by bulk_insert's row writer, legacy format: three-level lists of another naming, fixed decimals"
)
def v9_cow_types_row_writer(hudi: Hudi) -> None:
    # The row writer knows no tinyint and no smallint.
    ddl = TYPES.replace("tiny tinyint, small smallint, ", "")
    first, second = (
        [row[:1] + row[3:] for row in rows]
        for rows in ([full("a", 10, 1), bare("b", 10), empty("c", 10)], [full("d", 10, 2)])
    )
    hudi.define(
        ddl, mor=False, options={"hoodie.index.type": "SIMPLE", "hoodie.datasource.write.row.writer.enable": "true"}
    )
    hudi.write("bulk_insert", first, options={"hoodie.parquet.writelegacyformat.enabled": "true"})
    hudi.write("bulk_insert", second, options={"hoodie.parquet.writelegacyformat.enabled": "false"})


@table("timestamps without a zone and floats that are not numbers, as Avro logs, Parquet base, and after compaction")
def v9_mor_ntz_and_nan(hudi: Hudi) -> None:
    ddl = "id int, at timestamp_ntz, nested struct<at: timestamp_ntz>, f float, d double, ts bigint, part string"
    moment = dt.datetime(1901, 2, 3, 4, 5, 6, 7, dt.UTC)
    inf, nan = float("inf"), float("nan")
    hudi.define(ddl, options=ONE_BUCKET)
    hudi.upsert(
        [
            (1, moment, {"at": moment}, nan, -inf, 10, "p"),
            (2, None, None, None, nan, 10, "p"),
            (3, None, {"at": None}, inf, -0.0, 10, "p"),
        ]
    )
    later = moment + dt.timedelta(days=40000, microseconds=1)
    hudi.upsert(
        [
            (1, later, None, inf, nan, 20, "p"),
            (3, later, {"at": later}, -inf, 5e-324, 20, "p"),
            (4, later, {"at": None}, nan, nan, 10, "p"),
        ]
    )
    hudi.compact()
    hudi.upsert([(2, moment, {"at": later}, 1.5, 2.5, 20, "p")])


@table(
    "columns added on top, in a struct, in a list of structs and in a map's struct; int to long and float to double; Avro logs"
)
def v9_mor_evolution_nested(hudi: Hudi) -> None:
    evolve(hudi, ONE_BUCKET)


@table("the same changes of schema with Parquet log blocks, then compaction, then a writer with the old schema")
def v9_mor_evolution_compacted(hudi: Hudi) -> None:
    evolve(hudi, NBCC | {"hoodie.logfile.data.block.format": "parquet"})
    hudi.compact()
    hudi.upsert(
        [(5, 5, 5.5, {"x": 5}, [{"x": 5}], {"k": {"x": 5}}, 50, "p")],
        OLD,
        options={"hoodie.write.set.null.for.missing.columns": "true"},
    )


OLD = "id int, n int, f float, st struct<x: int>, arr array<struct<x: int>>, m map<string, struct<x: int>>, ts bigint, part string"
NEW = """id int, n bigint, f double, st struct<x: bigint, y: string>, arr array<struct<x: bigint, y: string>>, m map<string, struct<x: bigint, y: string>>,
 ts bigint, part string, added struct<a: int, b: array<string>>"""


def evolve(hudi: Hudi, options: dict[str, str]) -> None:
    hudi.spark.sparkContext._jsc.hadoopConfiguration().set("parquet.avro.write-old-list-structure", "false")
    hudi.define(OLD, options=options)
    hudi.upsert(
        [(key, key, 0.1, {"x": key}, [{"x": key}, None], {"k": {"x": key}, "n": None}, 10, "p") for key in (1, 2, 3, 4)]
    )
    big = 2**40
    hudi.upsert(
        [
            (
                2,
                big,
                0.1,
                {"x": big, "y": "new"},
                [{"x": big, "y": "new"}],
                {"k": {"x": big, "y": "new"}},
                20,
                "p",
                {"a": 1, "b": ["q"]},
            ),
            (3, big, 0.2, None, None, None, 5, "p", None),
        ],
        NEW,
    )


@table("a column changes int to string, long to string and float to string: what Hudi allows of it")
def v9_mor_evolution_to_string(hudi: Hudi) -> None:
    hudi.define("id int, n int, l bigint, f float, d double, ts bigint, part string", options=ONE_BUCKET)
    hudi.upsert([(key, key, -key, 0.1, 1e10, 10, "p") for key in (1, 2, 3, 4)])
    hudi.upsert([(3, -3, 2**62, 1e10, 1e-7, 20, "p"), (4, 0, 0, 100.0, 123456789.0, 20, "p")])
    hudi.upsert(
        [(2, "two", "long", "float", "double", 20, "p")],
        "id int, n string, l string, f string, d string, ts bigint, part string",
    )


@table("a column is left out by later writers and taken back; nulls for what is missing")
def v9_mor_evolution_dropped(hudi: Hudi) -> None:
    keep = {
        "hoodie.write.set.null.for.missing.columns": "true",
        "hoodie.datasource.write.schema.allow.auto.evolution.column.drop": "true",
    }
    hudi.define("id int, gone string, kept string, ts bigint, part string", options=NBCC | keep)
    hudi.upsert([(key, "g", "k", 10, "p") for key in (1, 2, 3, 4)])
    hudi.upsert([(2, "k2", 20, "p")], "id int, kept string, ts bigint, part string")
    hudi.compact()
    hudi.upsert([(3, "k3", 30, "p"), (5, "k5", 30, "p")], "id int, kept string, ts bigint, part string")


@table("schema on read: a column is widened, one added, one renamed and one dropped by ALTER TABLE between writes")
def v9_mor_evolution_on_read(hudi: Hudi) -> None:
    drop = "hoodie.datasource.write.schema.allow.auto.evolution.column.drop"
    settings = {
        "hoodie.schema.on.read.enable": "true",
        drop: "true",
        "hoodie.spark.sql.insert.into.operation": "upsert",
    }
    for key, value in settings.items():
        hudi.spark.conf.set(key, value)
    try:
        hudi.create("id int, a string, b int, c double, ts bigint, part string", SQL, "part")
        hudi.sql("insert into {table} values (1, 'a1', 1, 0.5, 10, 'p'), (2, 'a2', 2, 0.5, 10, 'p')")
        hudi.sql("alter table {table} alter column b type bigint")
        hudi.sql("alter table {table} add columns (extra string)")
        hudi.sql("insert into {table} select 2, 'changed', cast(99999999999 as bigint), 1.5, 20, 'e', 'p'")
        hudi.sql("alter table {table} rename column a to renamed")
        hudi.sql("alter table {table} drop column c")
        hudi.keep("snapshot_schema_on_read")
    finally:
        for key in settings:
            hudi.spark.conf.unset(key)


SQL = {
    "type": "mor",
    "primaryKey": "id",
    "orderingFields": "ts",
    "hoodie.index.type": "BUCKET",
    "hoodie.bucket.index.num.buckets": "1",
    "hoodie.metadata.enable": "false",
    "hoodie.table.timeline.timezone": "UTC",
}
