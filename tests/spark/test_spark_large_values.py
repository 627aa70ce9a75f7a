# SPDX-License-Identifier: Apache-2.0
"""Long and repeated values on Spark: out of logs, out of base files, by the format, and written from there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import lakebraid as lb

pytestmark = [pytest.mark.spark, pytest.mark.slow]

MB = 1_000_000
EXPECTED = {0: 20 * MB, 1: 5 * MB, **dict.fromkeys(range(2, 302), 100_000)}


def _frame(spark: SparkSession) -> DataFrame:
    shared = spark.range(2, 302).select("id", F.lit(1).alias("ts"), F.repeat(F.lit("y"), 100_000).alias("v"))
    long = spark.sql(f"select 0L id, 1 ts, repeat('x', {20 * MB}) v union all select 1L, 1, repeat(' ', {5 * MB})")
    return shared.union(long).select("id", F.col("ts").cast("bigint").alias("ts"), "v")


def _lengths(frame: DataFrame) -> dict[int, int]:
    return {row["id"]: row["n"] for row in frame.select("id", F.length("v").alias("n")).collect()}


@pytest.mark.parametrize("how", [{"buckets": 2}, {"table_type": "cow", "index": "simple"}], ids=["mor", "cow"])
def test_such_values_are_written_and_read_on_spark(spark: SparkSession, tmp_path: Path, how: dict[str, Any]) -> None:
    table = lb.Table.create(
        tmp_path / "t", "id bigint, ts bigint, v string", record_keys="id", ordering_fields="ts", **how
    )
    table.upsert(_frame(spark))
    for _ in range(2):
        assert _lengths(table.to_spark(spark=spark)) == EXPECTED
        assert _lengths(spark.read.format("lakebraid").load(str(tmp_path / "t"))) == EXPECTED
        assert table.changes().to_spark(spark=spark).count() == len(EXPECTED)
        if "buckets" in how:
            table.compact(spark=spark)
            table.upsert(_frame(spark).where("id < 2"))
