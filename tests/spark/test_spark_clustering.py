# SPDX-License-Identifier: Apache-2.0
"""Clusterings that Spark's executors execute."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import lakebraid as lb
from lakebraid import limits
from lakebraid.services.merging import engine

pytestmark = pytest.mark.spark


def rows(first: int, count: int, ts: int) -> pa.Table:
    keys = range(first, first + count)
    return pa.table({"id": [f"k{i}" for i in keys], "ts": [ts] * count, "w": [i * 7 % 100 for i in keys]})


def shown(table: lb.Table) -> pa.Table:
    return table.to_arrow(meta_columns=True).drop_columns(["_hoodie_file_name"]).sort_by("id")


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_executors_sort_rows_into_new_groups_and_spark_reads_the_same(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(limits, "COMPACT_ON_SPARK_BYTES", 0)
    monkeypatch.setattr(engine, "run_local", lambda *_: pytest.fail("it ran in this process"))
    properties = {"hoodie.parquet.small.file.limit": "0"}
    how: dict[str, Any] = {"table_type": kind, "index": "simple", "record_keys": "id", "ordering_fields": "ts"}
    table = lb.Table.create(tmp_path / "t", rows(0, 1, 1).schema, properties=properties, **how)
    for turn in range(4):
        table.insert(rows(100 * turn, 100, 1))
    table.upsert(rows(50, 100, 2))
    before = shown(table)
    (done,) = table.cluster(sort_by=["w"], target_size=before.nbytes // 8, spark=spark)
    assert (done.replaced, done.rows) == (4, 400)
    assert done.groups > 1
    assert shown(table) == before
    assert table.to_spark(spark=spark, where="w < 10").count() == 40
