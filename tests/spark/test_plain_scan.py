# SPDX-License-Identifier: Apache-2.0
"""Rows that the driver reads without a Spark job are those that Spark would read; whatever may differ is left to Spark."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import lakebraid as lb
from lakebraid.spark.plain_scan import read_plain_scan

pytestmark = pytest.mark.spark

ENOUGH = 1 << 30
ROWS = pa.table(
    {
        "id": ["a", "ß", None],
        "flag": pa.array([True, None, False]),
        "tiny": pa.array([-128, None, 127], pa.int8()),
        "small": pa.array([-1, None, 1], pa.int16()),
        "whole": pa.array([1, None, 3], pa.int32()),
        "long": pa.array([1 << 60, None, -1], pa.int64()),
        "real": pa.array([1.5, None, float("nan")], pa.float32()),
        "double": pa.array([0.1, None, float("inf")]),
        "price": pa.array(
            [Decimal("1.20"), None, Decimal("-99999999999999999999999999999999.99")], pa.decimal128(34, 2)
        ),
        "bytes": pa.array([b"\xff\0", None, b""]),
        "day": pa.array([date(1, 1, 1), None, date(2026, 1, 1)]),
        "moment": pa.array(
            [datetime(1000, 1, 1, tzinfo=UTC), None, datetime(2026, 6, 1, tzinfo=UTC)], pa.timestamp("us", "UTC")
        ),
        "wall": pa.array([datetime(1000, 1, 1), None, datetime(2026, 6, 1)], pa.timestamp("us")),
    }
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "rows one+two%20ü.parquet"
    pq.write_table(ROWS, path)
    return path


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_all_plain_types_are_read_as_spark_reads_them(file: Path, spark: SparkSession, zone: str) -> None:
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        frame = spark.read.parquet(str(file))
        ours, sparks = read_plain_scan(frame, ENOUGH), frame.toArrow()
        assert ours is not None
        assert ours.schema.equals(sparks.schema)
        assert str(ours.to_pylist()) == str(sparks.to_pylist())  # as text, for not-a-number is unlike itself
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(before))


def test_some_columns_of_several_files_come_in_the_order_asked_for(
    file: Path, spark: SparkSession, tmp_path: Path
) -> None:
    pq.write_table(ROWS.select(["long", "id", "flag"]).slice(0, 1), other := tmp_path / "other.parquet")
    pq.write_table(ROWS.slice(0, 0), empty := tmp_path / "empty.parquet")
    frame = spark.read.parquet(str(file), str(other), str(empty)).select("long", "id")
    found = read_plain_scan(frame, ENOUGH)
    assert found is not None
    assert found.column_names == ["long", "id"]
    assert sorted(map(str, found.to_pylist())) == sorted(map(str, frame.toArrow().to_pylist()))


def _other_schema(spark: SparkSession, path: str) -> DataFrame:
    return spark.read.schema("id string, whole bigint").parquet(path)


def _missing_column(spark: SparkSession, path: str) -> DataFrame:
    return spark.read.schema("id string, more int").parquet(path)


def _default(spark: SparkSession, path: str) -> DataFrame:
    frame = spark.read.parquet(path).select("id")
    return frame.select(F.col("id").alias("id", metadata={"EXISTS_DEFAULT": "'x'"}))


def _checkpoint(spark: SparkSession, path: str) -> DataFrame:
    frame = spark.read.parquet(path).cache()
    frame.count()
    return frame


LEFT: dict[str, Callable[[SparkSession, str], DataFrame]] = {
    "filter": lambda spark, path: spark.read.parquet(path).where("id = 'a'"),
    "limit": lambda spark, path: spark.read.parquet(path).limit(1),
    "computed": lambda spark, path: spark.read.parquet(path).withColumn("long", F.col("long") + 1),
    "renamed": lambda spark, path: spark.read.parquet(path).select(F.col("tiny").alias("small")),
    "union": lambda spark, path: spark.read.parquet(path).union(spark.read.parquet(path)),
    "option": lambda spark, path: spark.read.option("datetimeRebaseMode", "LEGACY").parquet(path),
    "other schema": _other_schema,
    "missing column": _missing_column,
    "metadata": _default,
    "cached": _checkpoint,
    "made here": lambda spark, _: spark.createDataFrame([("a", 1)], "id string, whole int"),
    "the file's name": lambda spark, path: spark.read.parquet(path).select("id", "_metadata.file_name"),
}


@pytest.mark.parametrize("kind", sorted(LEFT))
def test_a_frame_that_is_more_than_its_files_is_left_to_spark(file: Path, spark: SparkSession, kind: str) -> None:
    frame = LEFT[kind](spark, str(file))
    try:
        assert read_plain_scan(frame, ENOUGH) is None
    finally:
        spark.catalog.clearCache()


def _write(path: Path, column: pa.Array, **options: object) -> None:
    pq.write_table(pa.table({"id": column}), path, **options)


MOMENTS = pa.array([datetime(1000, 1, 1, tzinfo=UTC)], pa.timestamp("us", "UTC"))
FILES: dict[str, Callable[[Path], None]] = {
    "nested": lambda path: _write(path, pa.array([[1]])),
    "unsigned": lambda path: _write(path, pa.array([1], pa.uint32())),
    "old times": lambda path: _write(path, MOMENTS, use_deprecated_int96_timestamps=True),
    "milliseconds": lambda path: _write(path, MOMENTS.cast(pa.timestamp("ms", "UTC"))),
    "large text": lambda path: _write(path, pa.array(["a"], pa.large_string())),
    "old calendar": lambda path: pq.write_table(
        pa.table({"id": MOMENTS}).replace_schema_metadata(
            {"org.apache.spark.version": "3.0.0", "org.apache.spark.legacyDateTime": ""}
        ),
        path,
    ),
    "old writer": lambda path: pq.write_table(
        pa.table({"id": MOMENTS}).replace_schema_metadata({"org.apache.spark.version": "2.4.8"}), path
    ),
}


@pytest.mark.parametrize("kind", sorted(FILES))
def test_a_file_that_spark_reads_in_a_way_of_its_own_is_left_to_it(
    tmp_path: Path, spark: SparkSession, kind: str
) -> None:
    FILES[kind](tmp_path / "x.parquet")
    assert read_plain_scan(spark.read.parquet(str(tmp_path / "x.parquet")), ENOUGH) is None


def test_folders_that_hold_columns_and_files_that_are_gone_or_too_many_bytes_are_left_to_spark(
    file: Path, spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "t" / "part=1").mkdir(parents=True)
    pq.write_table(ROWS.select(["id"]), tmp_path / "t" / "part=1" / "x.parquet")
    assert read_plain_scan(spark.read.parquet(str(tmp_path / "t")), ENOUGH) is None
    frame = spark.read.parquet(str(file))
    assert read_plain_scan(frame, 10) is None
    file.unlink()
    assert read_plain_scan(frame, ENOUGH) is None


def test_an_upsert_of_a_small_file_runs_no_spark_job(tmp_path: Path, spark: SparkSession) -> None:
    rows = pa.table({"id": ["a", "b"], "ts": [1, 2]})
    pq.write_table(rows, tmp_path / "x.parquet")
    table = lb.Table.create(tmp_path / "t", rows.schema, record_keys="id", ordering_fields="ts", buckets=1)
    frame = spark.read.parquet(str(tmp_path / "x.parquet"))
    tracker = spark.sparkContext.statusTracker()
    before = set(tracker.getJobIdsForGroup(None))
    table.upsert(frame)
    assert set(tracker.getJobIdsForGroup(None)) == before
    assert table.to_arrow().sort_by("id").to_pylist() == rows.to_pylist()
