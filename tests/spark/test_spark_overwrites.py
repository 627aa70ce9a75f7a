# SPDX-License-Identifier: Apache-2.0
"""Overwrites from Spark data frames, on the road by the driver and after a shuffle; the frame is evaluated again if need be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import lakebraid as lb
from lakebraid import limits

pytestmark = pytest.mark.spark
COLUMNS = "id string, ts bigint, v string, part string"


def make(path: Path, **more: Any) -> lb.Table:
    options: dict[str, Any] = {"record_keys": "id", "ordering_fields": "ts", "partition_by": "part", "buckets": 3}
    return lb.Table.create(path, COLUMNS, **options | more)


def frame(spark: SparkSession, first: int, last: int, v: str) -> DataFrame:
    """Keys from `first` up to `last`, in the partitions p0 and p1 by turns, in four pieces."""
    return spark.range(first, last, 1, 4).selectExpr(
        "cast(id as string) id", "1L ts", f"'{v}' v", "concat('p', cast(id % 2 as string)) part"
    )


def seen(table: lb.Table) -> dict[str, str]:
    found = table.to_arrow().to_pylist()
    assert len({r["id"] for r in found}) == len(found), "a key appears twice"
    return {r["id"]: r["v"] for r in found}


@pytest.mark.parametrize(("road", "table_type"), [("driver", "mor"), ("shuffle", "mor"), ("shuffle", "cow")])
def test_a_frame_replaces_the_partitions_of_its_rows(
    road: str, table_type: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if road == "shuffle":
        monkeypatch.setattr(limits, "SPARK_DRIVER_BYTES", -1)
    t = make(tmp_path / "t", table_type=table_type)
    t.upsert(frame(spark, 0, 200, "old"))
    even = frame(spark, 100, 300, "new").where("part = 'p0'")
    done = t.insert_overwrite(even)
    assert done.rows_written == 100 and done.groups_replaced == 3
    odd = {str(n): "old" for n in range(1, 200, 2)}
    assert seen(t) == odd | {str(n): "new" for n in range(100, 300, 2)}
    t.upsert(frame(spark, 298, 302, "newer"))
    assert seen(t)["298"] == seen(t)["300"] == "newer"
    t.insert_overwrite_table(frame(spark, 7, 9, "last"))
    assert seen(t) == {"7": "last", "8": "last"}
    assert t.to_spark(where="v = 'last'").count() == 2


def test_a_frame_is_evaluated_again_if_an_overwrite_came_between(spark: SparkSession, tmp_path: Path) -> None:
    t = make(tmp_path / "t")
    t.upsert(frame(spark, 0, 10, "old"))
    busy = lb.Table.open(t.path)
    with busy.begin() as txn:
        txn.write(frame(spark, 0, 4, "lost"))
        t.insert_overwrite(frame(spark, 2, 6, "over"))
        with pytest.raises(lb.WriteConflict, match="overwritten the partitions p0, p1"):
            txn.commit()
    assert seen(t) == {str(n): "over" for n in range(2, 6)}
    assert busy.upsert(frame(spark, 0, 3, "again")).attempts == 1
    assert seen(t) == {**{str(n): "over" for n in range(2, 6)}, "0": "again", "1": "again", "2": "again"}
