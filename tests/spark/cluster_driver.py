# SPDX-License-Identifier: Apache-2.0
"""A driver whose executors are other processes, on a cluster of this machine. Prints what it found as JSON.

It runs in a folder and with modules that the executors do not have; they have lakebraid, and nothing else of ours.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

import lakebraid as lb
from lakebraid import limits

COLUMNS = "id bigint, ts bigint, v string, worker string"
CONFIG = {
    "spark.sql.shuffle.partitions": "2",
    "spark.executor.memory": "512m",
    "spark.cores.max": "2",
    "spark.scheduler.minRegisteredResourcesRatio": "1",  # both executors are there before the first task
}


def main(folder: str, master: str, *chosen: str) -> None:
    """Every kind of job but streams once, or the chosen ones; rows say where they were computed."""
    # Each road is taken by rows that are few: they would otherwise be written by this process.
    vars(limits).update(SPARK_DRIVER_BYTES=-1, SPARK_HANDED_BYTES=0, COMPACT_ON_SPARK_BYTES=0, SPARK_COUNT_BYTES=-1)
    spark = lb.session(master=master, config=CONFIG)
    table = lb.Table.create(f"{folder}/mor", COLUMNS, record_keys="id", ordering_fields="ts", buckets=2)
    report = {"master": spark.sparkContext.master, "driver": os.getcwd()}
    steps = [step for step in (*STEPS, stream) if step.__name__ in chosen] or STEPS
    report |= {step.__name__: step(spark, table) for step in steps}
    spark.stop()
    print(json.dumps(report))


def bulk_insert(spark: SparkSession, table: lb.Table) -> Any:
    done = table.bulk_insert(computed(spark, 0, 400, 1))
    return [done.rows_written, done.files]


def upsert(spark: SparkSession, table: lb.Table) -> Any:
    return table.upsert(computed(spark, 300, 500, 2)).rows_written


def read_through_tasks(spark: SparkSession, table: lb.Table) -> Any:
    found = table.to_spark(columns=["id", "ts", "worker"], spark=spark).toArrow()
    return [found.num_rows, sum(found.column("ts").to_pylist()), sorted(set(found.column("worker").to_pylist()))]


def compact(spark: SparkSession, table: lb.Table) -> Any:
    (done,) = table.compact(spark=spark)
    return [done.rows, done.groups]


def read_base_files(spark: SparkSession, table: lb.Table) -> Any:
    return table.to_spark(spark=spark).count()


def write_by_the_format(spark: SparkSession, table: lb.Table) -> Any:
    computed(spark, 500, 510, 3).write.format("lakebraid").mode("append").save(table.path)
    return spark.read.format("lakebraid").load(table.path).where("ts = 3").count()


def stream(spark: SparkSession, table: lb.Table) -> Any:
    """One batch of a stream into the table."""
    computed(spark, 600, 603, 4).write.json(f"{table.path}-input")
    rows = spark.readStream.schema(COLUMNS).json(f"{table.path}-input")
    table.stream(rows, writer="rows", trigger="available now").awaitTermination()
    return sorted(table.to_arrow(columns=["id"], where="ts = 4").column("id").to_pylist())


STEPS: list[Callable[[SparkSession, lb.Table], Any]] = [
    bulk_insert,
    upsert,
    read_through_tasks,
    compact,
    read_base_files,
    write_by_the_format,
]


def computed(spark: SparkSession, first: int, end: int, ts: int) -> DataFrame:
    """Rows that a task makes, so that Spark does not know beforehand how many there are."""

    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            ids, where = batch.column(0).to_pylist(), os.path.basename(os.getcwd())
            made = [{"id": i, "ts": ts, "v": f"v{i}", "worker": where} for i in ids]
            yield pa.RecordBatch.from_pylist(made)

    return spark.range(first, end, 1, 2).mapInArrow(rows, COLUMNS)


if __name__ == "__main__":
    main(*sys.argv[1:])
