# SPDX-License-Identifier: Apache-2.0
"""Partial updates out of data frames: tasks find out for themselves which of their keys are new."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import lakebraid as lb
from lakebraid import limits
from lakebraid.format.log.blocks import read_blocks
from lakebraid.model.schema.avro_text import states_skeletons
from tests.spark.roads import take_road

pytestmark = pytest.mark.spark


def skeleton_files(folder: Path) -> set[str]:
    """The starts of the writes whose log files open rows."""
    found = set()
    for path in folder.glob(".0*.log.1_*"):
        blocks = read_blocks(path.read_bytes(), path.name).blocks
        if any(states_skeletons(block.schema_text) for block in blocks):
            found.add(path.name.split("_")[1].split(".")[0])
    return found


@pytest.mark.parametrize("road", ["driver", "tasks", "shuffle"])
def test_data_frames_that_each_own_columns_are_joined(
    road: str, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_road(road, monkeypatch)
    table = lb.Table.create(tmp_path / "t", "id bigint, a string, b bigint", record_keys="id", buckets=3)
    table.bulk_insert([{"id": n, "a": f"old{n}", "b": n} for n in range(10)])
    monkeypatch.setattr(limits, "SPARK_HANDED_ROWS", 0)
    first = table.upsert(spark.range(5, 25).selectExpr("id", "concat('a', id) as a"), columns=["id", "a"])
    second = table.upsert(spark.range(20, 30).selectExpr("id", "id * 100 as b"), columns=["id", "b"])
    third = table.upsert(spark.range(0, 30).selectExpr("id", "concat('z', id) as a"), columns=["id", "a"])
    b = {n: n for n in range(10)} | {n: n * 100 for n in range(20, 30)}
    expected = [{"id": n, "a": f"z{n}", "b": b.get(n)} for n in range(30)]
    assert table.to_arrow().sort_by("id").to_pylist() == expected
    assert skeleton_files(tmp_path / "t") == {first.instant, second.instant}
    assert third.rows_written == 30
