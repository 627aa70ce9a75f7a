# SPDX-License-Identifier: Apache-2.0
"""A data frame is written whole, once, and to the same files however often its tasks run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import lakebraid as lb
from lakebraid import limits
from lakebraid.spark import write as spark_write
from tests.spark.roads import (
    COLUMNS,
    files_below,
    found,
    frame_of,
    known,
    make_table,
    plan_for,
    take_road,
    write,
)

pytestmark = pytest.mark.spark


def test_every_road_writes_the_newest_row_of_each_key(tmp_path: Path, spark: SparkSession, road: str) -> None:
    table = make_table(tmp_path / "t", partition_by="part")
    rows = [(f"k{i % 40}", f"p{i % 2}", (i * 7) % 101, f"v{i}") for i in range(100)]
    newest: dict[Any, Any] = {}
    for row in rows:
        if row[:2] not in newest or row[2] > newest[row[:2]][2]:
            newest[row[:2]] = row
    frame = frame_of(spark, rows)
    result = table.upsert(known(frame) if road == "driver" else frame)
    assert found(table) == sorted(newest.values(), key=repr)
    if road != "tasks":
        assert result.files == 6  # two partitions of three buckets


@pytest.mark.parametrize("operation", ["upsert", "bulk_insert"])
@pytest.mark.parametrize("is_computed", [False, True], ids=["bare", "computed"])
def test_rows_of_a_parquet_file_are_fetched_by_their_size_alone_whatever_else_the_frame_does(
    tmp_path: Path, spark: SparkSession, road: str, operation: str, *, is_computed: bool
) -> None:
    rows = [(f"k{i}", "p", i, f"v{i}") for i in range(200)]
    frame_of(spark, rows).write.parquet(str(tmp_path / "rows"))
    frame = spark.read.parquet(str(tmp_path / "rows"))
    if is_computed:
        frame = frame.where("id != 'k0'").withColumn("ts", F.col("ts") + 1)
        rows = [(key, part, ts + 1, value) for key, part, ts, value in rows[1:]]
    assert (spark_write.few_rows(frame) is not None) == (road == "driver")
    table = make_table(tmp_path / "t")
    getattr(table, operation)(frame)
    assert found(table) == sorted(rows, key=repr)


@pytest.mark.parametrize("road_of_base", ["driver", "shuffle"])
def test_a_bulk_load_makes_one_base_file_for_each_bucket(
    tmp_path: Path, spark: SparkSession, road_of_base: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make_table(tmp_path / "t")
    rows = [(f"k{i}", "p", i, f"v{i}") for i in range(500)]
    frame = frame_of(spark, rows + [(k, p, t - 1, "old") for k, p, t, _ in rows], 5)
    result = table.bulk_insert(known(frame) if road_of_base == "driver" else frame)
    assert (result.files, result.rows_written) == (3, 500)
    assert {Path(name).suffix for name in files_below(tmp_path / "t")} == {".parquet"}
    assert found(table) == sorted(rows, key=repr)


def test_without_ordering_columns_the_row_in_the_later_partition_wins(
    tmp_path: Path, spark: SparkSession, road: str
) -> None:
    table = make_table(tmp_path / "t", ordering_fields=None)
    # Twelve partitions: as text the numbers 9, 10 and 11 would be out of order.
    rows = [(f"k{k}", "p", 5, f"v{partition}") for partition in range(12) for k in range(4)]
    frame = frame_of(spark, rows, 12)
    table.upsert(known(frame) if road == "driver" else frame)
    assert found(table) == [(f"k{k}", "p", 5, "v11") for k in range(4)]


def test_partitions_that_hand_rows_back_keep_their_place_among_those_that_write(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make_table(tmp_path / "t", ordering_fields=None)
    monkeypatch.setattr(limits, "SPARK_HANDED_BYTES", 3 * 4000)
    large = "x" * 5000
    rows = [("a", "p", 1, "s0"), ("a", "p", 1, large + "1"), ("a", "p", 1, "s2")]
    table.upsert(frame_of(spark, rows, 3))
    assert [row[3] for row in found(table)] == ["s2"]
    table.upsert(frame_of(spark, rows[:2], 2))
    assert [row[3] for row in found(table)] == [large + "1"]


def test_later_writes_of_a_transaction_win_over_earlier_ones(tmp_path: Path, spark: SparkSession, road: str) -> None:
    table = make_table(tmp_path / "t", ordering_fields=None)
    with table.begin() as txn:
        for turn in range(3):
            frame = frame_of(spark, [("a", "p", 1, f"turn {turn}"), ("b", "p", 1, f"turn {turn}")], 2)
            txn.write(known(frame) if road == "driver" else frame)
    assert {row[3] for row in found(table)} == {"turn 2"}


@pytest.mark.parametrize("rows", [[], [("a", "p", 1, "v")]])
def test_no_row_and_one_row_in_many_partitions_are_written(
    tmp_path: Path, spark: SparkSession, road: str, rows: list[Any]
) -> None:
    table = make_table(tmp_path / "t")
    frame = frame_of(spark, rows, 4)
    result = table.upsert(known(frame) if road == "driver" else frame)
    assert found(table) == rows
    assert result.files == len(rows)


def test_rows_without_a_key_are_told_as_such_and_not_as_a_page_of_java(
    tmp_path: Path, spark: SparkSession, road: str
) -> None:
    table = make_table(tmp_path / "t")
    frame = frame_of(spark, [("a", "p", 1, "v"), (None, "p", 1, "v"), ("b", "p", 1, "v")])
    with pytest.raises(lb.InvalidArgument) as caught:
        table.upsert(known(frame) if road == "driver" else frame)
    assert "id" in str(caught.value) and "org.apache" not in str(caught.value)
    assert found(table) == [] and not files_below(tmp_path / "t")


@pytest.mark.parametrize("number", [0, 1], ids=["keys", "partitions"])
def test_keys_and_partitions_that_would_be_mixed_up_are_refused_on_every_road(
    tmp_path: Path, spark: SparkSession, road: str, number: int
) -> None:
    hows: list[dict[str, Any]] = [{"record_keys": ["a", "b"]}, {"record_keys": "a", "partition_by": "b"}]
    table = lb.Table.create(tmp_path / "t", "a string, b string, ts bigint", ordering_fields="ts", **hows[number])
    rows = [[("1,b:2", "3", 1), ("1", "2,b:3", 1)], [("1", "10:30", 1)]][number]
    with pytest.raises(lb.InvalidArgument, match="Nothing was written"):
        table.upsert(frame_of(spark, rows, schema="a string, b string, ts bigint"))
    assert table.count() == 0


def test_a_row_without_ordering_value_is_told_from_a_bulk_load_too(tmp_path: Path, spark: SparkSession) -> None:
    table = make_table(tmp_path / "t")
    with pytest.raises(lb.InvalidArgument, match="ordering column 'ts'"):
        table.bulk_insert(frame_of(spark, [("a", "p", 1, "v"), ("b", "p", None, "v")]))
    with pytest.raises(lb.InvalidArgument, match="key"):
        table.bulk_insert(frame_of(spark, [("a", "p", 1, "v"), (None, "p", 1, "v")]))


def test_columns_that_do_not_fit_are_told_before_anything_runs(tmp_path: Path, spark: SparkSession) -> None:
    plan = plan_for(make_table(tmp_path / "t"))
    counted, frame = counting(spark, 10)
    for wrong, what in (
        (frame.withColumn("more", F.lit(1)), "no column 'more'"),
        (frame.drop("ts"), "no column 'ts'"),
        (frame.withColumn("ts", F.lit("text")), "'ts' has the type string"),
        (frame.select("*", "v"), "several columns named 'v'"),
        (frame.withColumn("v", F.expr("interval 1 day")), "'v' has the type duration"),
    ):
        with pytest.raises(lb.InvalidArgument, match=what):
            write(plan, wrong)
    assert counted() == 0


def counting(spark: SparkSession, rows: int) -> tuple[Callable[[], int], DataFrame]:
    """A frame that counts how often its rows are made."""
    made = spark.sparkContext.accumulator(0)

    def make(number: int) -> tuple[Any, ...]:
        made.add(1)
        return f"k{number}", "p", number, "v"

    frame = spark.createDataFrame(spark.sparkContext.parallelize(range(rows), 3).map(make), COLUMNS)
    return lambda: made.value, frame


@pytest.mark.parametrize("road", ["handed back", "tasks", "shuffle"])
def test_a_frame_is_evaluated_once(
    tmp_path: Path, spark: SparkSession, road: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_road(road, monkeypatch)
    counted, frame = counting(spark, 50)
    files, _ = write(plan_for(make_table(tmp_path / "t")), frame)
    assert sum(file.rows for file in files) == counted() == 50


def test_a_partition_whose_number_would_be_read_out_of_order_is_refused(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_road("tasks", monkeypatch)
    plan = plan_for(make_table(tmp_path / "t"))
    frame = frame_of(spark, [("a", "p", 1, "v"), ("b", "p", 1, "v")], 2)
    with pytest.raises(lb.InvalidArgument, match="more than one write can number"):
        write(plan, frame, first_task=9999)
    take_road("shuffle", monkeypatch)
    files, next_task = write(replace(plan, request_time="20260101000000002"), frame, first_task=9999)
    assert {file.name.rpartition("_")[2] for file in files} == {"9999-0-0"} and next_task == 10_000


WIDE = (
    "id bigint, ts timestamp, n timestamp_ntz, d date, m decimal(38, 9), f float, b boolean, raw binary, c char(4), "
    "s struct<a: int, t: timestamp>, l array<struct<x: decimal(5, 2)>>, map map<string, array<timestamp_ntz>>, tiny tinyint"
)


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kolkata"])
def test_all_types_come_through_in_any_session_zone(tmp_path: Path, spark: SparkSession, road: str, zone: str) -> None:
    table = make_table(tmp_path / "t", WIDE.replace("tinyint", "int").replace("char(4)", "string"))
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        frame = spark.sql(
            "select id, timestamp'2024-05-17 12:34:56.123456Z' ts, timestamp_ntz'1950-01-01 00:00:00.000001' n, "
            "date'1600-02-29' d, cast('12345678901234567890.123456789' as decimal(38, 9)) m, float(0.1) f, true b, "
            "X'00ff' raw, cast('ab' as char(4)) c, struct(1 as a, timestamp'2024-05-17 00:00:00Z' as t) s, "
            "array(struct(cast(1.25 as decimal(5, 2)) as x), null) l, map('k', array(timestamp_ntz'2024-01-01', null)) map, "
            "cast(-7 as tinyint) tiny from range(0, 20, 1, 3)"
        )
        empty = frame.selectExpr("id + 100 as id", "ts", *[f"cast(null as {t}) {n}" for n, t in types_of(frame)])
        table.upsert(frame.unionAll(empty))
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    rows = {row["id"]: row for row in table.to_arrow().to_pylist()}
    assert len(rows) == 40
    assert rows[3] == rows[4] | {"id": 3}
    assert rows[3]["ts"] == datetime(2024, 5, 17, 12, 34, 56, 123456, UTC)
    assert rows[3]["n"] == datetime(1950, 1, 1, microsecond=1)
    assert rows[3]["s"] == {"a": 1, "t": datetime(2024, 5, 17, tzinfo=UTC)}
    assert dict(rows[3]["map"])["k"] == [datetime(2024, 1, 1), None]
    assert (str(rows[3]["m"]), rows[3]["raw"], rows[3]["tiny"]) == ("12345678901234567890.123456789", b"\x00\xff", -7)
    assert {name for name, value in rows[103].items() if value is not None} == {"id", "ts"}


def types_of(frame: DataFrame) -> list[tuple[str, str]]:
    return [(field.name, field.dataType.simpleString()) for field in frame.schema if field.name not in ("id", "ts")]


def test_a_table_can_be_read_and_written_back_with_hudis_own_columns(tmp_path: Path, spark: SparkSession) -> None:
    table = make_table(tmp_path / "t")
    table.upsert([{"id": f"k{i}", "part": "p", "ts": 1, "v": "old"} for i in range(20)])
    changed = table.to_spark(meta_columns=True, spark=spark).withColumn("ts", F.lit(2).cast("long"))
    table.upsert(changed.withColumn("v", F.lit("new")))
    assert {row[2:] for row in found(table)} == {(2, "new")} and table.count() == 20


def test_deletes_and_partial_updates_take_only_the_columns_they_need(
    tmp_path: Path, spark: SparkSession, road: str
) -> None:
    table = make_table(tmp_path / "t")
    table.upsert([{"id": f"k{i}", "part": "p", "ts": 1, "v": "old"} for i in range(4)])
    frame = frame_of(spark, [("k0", "ignored", 2, "new"), ("k1", "ignored", 2, "new")])
    frame = known(frame) if road == "driver" else frame
    table.upsert(frame, columns=["id", "ts", "v"])
    table.delete(frame.where("id = 'k1'").withColumn("ts", F.lit(3).cast("long")))
    assert found(table) == [("k0", "p", 2, "new"), ("k2", "p", 1, "old"), ("k3", "p", 1, "old")]


def test_the_key_columns_types_do_not_move_rows_to_other_buckets(tmp_path: Path, spark: SparkSession) -> None:
    """An `int` in the frame and a `long` in the table make the same key, and one file group."""
    table = make_table(tmp_path / "t", "id bigint, ts bigint, day date", partition_by="day")
    frame = spark.range(0, 60, 1, 3).selectExpr(
        "cast(id as int) id", "id as ts", "date_add(date'2024-01-01', cast(id % 2 as int)) day"
    )
    table.bulk_insert(frame.unionAll(frame.selectExpr("id", "ts + 1", "day")).mapInArrow(lambda it: it, frame.schema))
    assert table.to_arrow().sort_by("id").column("ts").to_pylist() == list(range(1, 61))
    assert pa.types.is_int64(table.schema.field("id").type)
    with pytest.raises(lb.InvalidArgument):
        table.upsert(frame.withColumn("id", F.col("id").cast("string")))
