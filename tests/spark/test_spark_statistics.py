# SPDX-License-Identifier: Apache-2.0
"""What Spark's tasks tell of their files: names that are there once in a commit, and the ranges of the columns that are kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakebraid import limits
from tests.kit.metadata_tables.statistics import KeptStatistics
from tests.spark.roads import ROADS, frame_of, make_table, take_road

pytestmark = pytest.mark.spark

ROWS = [(f"k{n}", f"p{n % 3}", n, f"v{n}") for n in range(60)]
KINDS: dict[str, dict[str, Any]] = {
    "log files": {},
    "copy on write": {"table_type": "cow", "concurrency": "occ"},
    "looked-up keys": {"table_type": "cow", "concurrency": "occ", "index": "simple"},
}


@pytest.mark.parametrize("road", ROADS)
@pytest.mark.parametrize("kind", KINDS)
def test_files_of_spark_tasks_have_names_of_their_own_and_ranges(
    spark: SparkSession, tmp_path: Path, kind: str, road: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_road(road, monkeypatch)
    table = make_table(tmp_path / "t", partition_by="part", **KINDS[kind])
    kept = KeptStatistics(monkeypatch)
    kept.index(table.schema)

    table.upsert(frame_of(spark, ROWS))
    table.upsert(frame_of(spark, [(key, part, ts + 1, "later") for key, part, ts, _ in ROWS[:30]]))

    assert kept.check(table) == 60
    assert not kept.twins
    assert all(file.ranges for file in kept.files.values())


def test_files_of_a_compaction_on_executors_have_names_of_their_own_and_ranges(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make_table(tmp_path / "t", partition_by="part")
    kept = KeptStatistics(monkeypatch)
    kept.index(table.schema)
    table.upsert(frame_of(spark, ROWS))
    monkeypatch.setattr(limits, "COMPACT_ON_SPARK_BYTES", 0)
    (done,) = table.compact(spark=spark)
    assert done.groups >= 3
    assert kept.check(table) == 60
    assert not kept.twins
    assert all(file.ranges for name, file in kept.files.items() if done.instant in name)
