# SPDX-License-Identifier: Apache-2.0
"""The four ways in which rows of a data frame get into files, and tables to try them on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import lakebraid as lb
from lakebraid import limits
from lakebraid.spark.write import write_spark
from lakebraid.storage import open_storage
from lakebraid.table.loading import load_config
from lakebraid.tasks.writing.rows import WritePlan

ROADS = ("driver", "handed back", "tasks", "shuffle")


COLUMNS = "id string, part string, ts bigint, v string"


def take_road(road: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if road != "driver":
        monkeypatch.setattr(limits, "SPARK_DRIVER_BYTES", -1)
    if road == "tasks":
        monkeypatch.setattr(limits, "SPARK_HANDED_BYTES", 0)
    if road == "shuffle":
        monkeypatch.setattr(limits, "SPARK_WRITE_FILES_MAX", 0)
        monkeypatch.setattr(limits, "SPARK_SMALL_FILE_BYTES", 1 << 40)


def make_table(path: Path, schema: str = COLUMNS, **more: Any) -> lb.Table:
    return lb.Table.create(path, schema, record_keys="id", buckets=3, **({"ordering_fields": "ts"} | more))


def plan_for(table: lb.Table, request_time: str = "20260101000000001", **more: Any) -> WritePlan:
    config, _ = load_config(open_storage(table.path))
    return WritePlan(
        url=table.path,
        options=(),
        request_time=request_time,
        schema=table.schema,
        config=config,
        buckets=config.buckets or 1,
        **more,
    )


def write(plan: WritePlan, frame: DataFrame, first_task: int = 1000) -> tuple[list[Any], int]:
    written = write_spark(open_storage(plan.url), plan, frame, first_task=first_task, tag="test")
    return written.files, written.next_task


def frame_of(spark: SparkSession, rows: list[tuple[Any, ...]], partitions: int = 3, schema: str = COLUMNS) -> DataFrame:
    """The rows in the order given, spread over the partitions; Spark does not know their number."""
    names = spark.createDataFrame([], schema).schema.names
    return spark.createDataFrame(spark.sparkContext.parallelize(rows, partitions), schema).select(*names)


def known(frame: DataFrame) -> DataFrame:
    """The same rows as a frame whose size is in its plan."""
    return frame.sparkSession.createDataFrame(frame.toArrow())


def found(table: lb.Table) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in table.to_arrow().to_pylist()), key=repr)


def files_below(path: Path) -> set[str]:
    """Data files, without those that a table may be created with."""
    names = {
        file.name
        for file in path.rglob("*")
        if ".marker." not in file.name and (".log." in file.name or file.suffix == ".parquet")
    }
    return {name for name in names if "_0-0-0_" not in name}
