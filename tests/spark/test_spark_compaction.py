# SPDX-License-Identifier: Apache-2.0
"""Compactions that Spark's executors execute."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import lakebraid as lb
from lakebraid import limits
from lakebraid.services.merging import tasks as merging_tasks

pytestmark = pytest.mark.spark


def rows(first: int, count: int, ts: int) -> pa.Table:
    keys = range(first, first + count)
    return pa.table({"id": [f"k{i}" for i in keys], "ts": [ts] * count, "v": [f"{ts}/{i}" for i in keys]})


def test_executors_write_what_this_process_would_write(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = lb.Table.create(tmp_path / "t", rows(0, 1, 1).schema, record_keys="id", ordering_fields="ts", buckets=4)
    table.upsert(rows(0, 400, 1))
    table.upsert(rows(100, 200, 2))
    table.delete(rows(0, 10, 3).select(["id", "ts"]))
    before = table.to_arrow(meta_columns=True).drop_columns(["_hoodie_file_name"]).sort_by("id")
    monkeypatch.setattr(limits, "COMPACT_ON_SPARK_BYTES", 0)
    monkeypatch.setattr(merging_tasks, "run_compaction_task", lambda *_: pytest.fail("it ran in this process"))
    (done,) = table.compact(spark=spark)
    assert (done.groups, done.rows, done.tombstones) == (4, 390, 10)
    assert table.to_arrow(meta_columns=True).drop_columns(["_hoodie_file_name"]).sort_by("id") == before
    assert table.to_arrow(mode="read_optimized").num_rows == 390
    table.upsert(rows(0, 10, 2))
    assert table.count() == 390, "older than their deletes"
