# SPDX-License-Identifier: Apache-2.0
"""What a job does to tables, on whatever PySpark it runs: `python -m tests.versions.life FOLDER INBOX STREAM`.

`STREAM` is a table into which a stream of the files in `INBOX` was killed. The last line that is printed is a report as JSON.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

import lakebraid as lb
from lakebraid import limits
from lakebraid.spark import versions

COLUMNS = (
    "id bigint, city string, price decimal(10,2), at timestamp, tags array<string>, counts map<string,int>, ts bigint"
)
OPTIONS: dict[str, Any] = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
}


class Life:
    """One session and the folder of its tables."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.spark: SparkSession = lb.session(
            master="local[2]", config={"spark.sql.shuffle.partitions": "2", "spark.sql.session.timeZone": "Europe/Oslo"}
        )

    def rows(self, begin: int, end: int, ts: int) -> DataFrame:
        return self.spark.range(begin, end, 1, 2).selectExpr(
            "id",
            "if(id % 2 = 0, 'Oslo', 'Rome') city",
            f"cast(id + {ts} as decimal(10,2)) price",
            "timestamp_micros(id) at",
            "array('a', cast(id as string)) tags",
            "map('n', int(id)) counts",
            f"{ts}L ts",
        )

    def table(self, name: str, **how: Any) -> lb.Table:
        given: dict[str, Any] = {"record_keys": "id", "ordering_fields": "ts"} | how
        return lb.Table.create(self.folder / name, COLUMNS, **given)

    def small_writes(self) -> dict[str, Any]:
        table = self.table("small")
        table.upsert(self.rows(0, 20, 1))
        table.upsert(self.rows(0, 5, 2).select("id", "price", "ts"), columns=["id", "price", "ts"])
        table.delete(self.spark.createDataFrame([(7,)], "id bigint"))
        read = table.to_spark(["id", "city", "price", "at"], "id <= 7").orderBy("id").collect()
        told = [(row.id, row.city, str(row.price), row.at.microsecond) for row in read]
        schema = table.to_spark().schema.simpleString()
        changed = versions.rows_of(table.changes().to_spark(self.spark))
        return {"read": told[4:], "schema": schema, "changes": changed.num_rows}

    def shuffled_writes(self) -> dict[str, int]:
        """Copy-on-write, looked-up keys and base files: rows come together by file group."""
        counts = {}
        kinds: dict[str, dict[str, str]] = {
            "cow": {"table_type": "cow", "partition_by": "city"},
            "cow simple": {"table_type": "cow", "index": "simple"},
            "simple": {"index": "simple"},
        }
        for name, how in kinds.items():
            table = self.table(name, **how)
            with all_on_executors():
                table.upsert(self.rows(0, 30, 1))
                table.upsert(self.rows(20, 40, 2))
            assert table.audit(deep=True).is_healthy, name
            counts[name] = table.to_spark(where="ts = 2").count()
            assert table.to_spark().count() == 40, name
        return counts

    def conditions(self) -> dict[str, Any]:
        table = lb.Table.open(self.folder / "small")
        table.update({"city": "upper(city)"}, where="id = 1")
        source = pa.table({"id": [2, 100], "city": ["Bergen", "Turku"], "ts": [9, 9]})
        table.merge(
            source, matched_update={"city": "s.city", "ts": "s.ts"}, not_matched_insert={"id": "s.id", "ts": "s.ts"}
        )
        table.delete(where="id = 3")
        rows = table.to_arrow(["id", "city"], "id in (1, 2, 3, 100)").sort_by("id").to_pylist()
        return {"rows": [(row["id"], row["city"]) for row in rows]}

    def compaction(self) -> dict[str, Any]:
        table = lb.Table.open(self.folder / "small")
        before = table.to_arrow().sort_by("id")
        done = table.compact(spark=self.spark)
        assert table.audit(deep=True).is_healthy
        assert versions.rows_of(table.to_spark().orderBy("id")).num_rows == before.num_rows
        return {"compacted": sum(result.rows for result in done), "same": table.to_arrow().sort_by("id") == before}

    def options(self) -> dict[str, int]:
        path = self.folder / "options"
        lb.write(self.rows(0, 10, 1), path, **OPTIONS)
        lb.write(self.rows(0, 2, 3), path, mode="overwrite")
        return {
            "rows": lb.read(path).count(),
            "sql": lb.sql("SELECT max(ts) FROM {t}", t=lb.Table.open(path)).collect()[0][0],
        }

    def format(self) -> dict[str, Any]:
        """The format in both directions, and a stream out of it; or what is said where there is none."""
        try:
            lb.register(self.spark)
        except lb.EnvironmentProblem as problem:
            return {"refused": str(problem)}
        path = str(self.folder / "format")
        self.rows(0, 10, 1).write.format("lakebraid").options(**OPTIONS).mode("append").save(path)
        self.rows(0, 3, 2).write.format("lakebraid").mode("append").save(path)
        read = self.spark.read.format("lakebraid").option("lakebraid.meta_columns", "false").load(path)
        streamed = self.spark.readStream.format("lakebraid").option("lakebraid.meta_columns", "false").load(path)
        target = self.table("streamed")
        target.stream(streamed, writer="copy", trigger="available now").awaitTermination()
        then = self.spark.sql(f"SELECT count(*) FROM lakebraid_as_of('{path}')").first()
        return {"new": read.where("ts = 2").count(), "streamed": target.to_spark().count(), "as of": then and then[0]}

    def stream(self, inbox: str, stream: str) -> dict[str, Any]:
        """Goes on where the stream was killed."""
        table = lb.Table.open(stream)
        frame = (
            self.spark.readStream.schema("id string, ts bigint, v string").option("maxFilesPerTrigger", 1).json(inbox)
        )
        before = table.writers()
        table.stream(frame, writer="orders", trigger="available now").awaitTermination()
        (row,) = table.to_arrow().to_pylist()
        return {"before": before, "after": table.writers(), "row": row["v"]}


@contextmanager
def all_on_executors() -> Iterator[None]:
    """Rows take the way of many, however few they are."""
    with patch.object(limits, "SPARK_DRIVER_BYTES", -1):
        yield


def places(spark: SparkSession) -> bool:
    """Whether rows come into the very partitions that are named, in a frame of three and in one of many."""
    for count in (3, 500):
        numbers = spark.range(count).selectExpr("cast(id AS int) AS task")
        placed = versions.shuffled(numbers, count, "task").selectExpr("task", "spark_partition_id() AS place")
        assert placed.where("task != place").count() == 0, count
    return True


def main(folder: str, inbox: str, stream: str) -> None:
    life = Life(Path(folder))
    report: dict[str, Any] = {"pyspark": life.spark.version, "placed": places(life.spark)}
    for step in (life.small_writes, life.shuffled_writes, life.conditions, life.compaction, life.options, life.format):
        report[step.__name__] = step()
    report["stream"] = life.stream(inbox, stream)
    sys.stdout.write(json.dumps(report) + "\n")
    life.spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
