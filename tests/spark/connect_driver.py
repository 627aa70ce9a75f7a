# SPDX-License-Identifier: Apache-2.0
"""A program that knows Spark only as a server: no JVM, no SparkContext. Prints what it found as JSON."""

from __future__ import annotations

import json
import sys
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import lakebraid as lb
from lakebraid import limits

COLUMNS = "id bigint, ts bigint, v string"


def main(folder: str) -> None:
    """Reads and writes by table, by options and by the format."""
    config = {"spark.remote": "local[2]", "spark.sql.shuffle.partitions": "2"}
    spark = lb.session(config=config)
    assert lb.session() is spark
    table = lb.Table.create(f"{folder}/mor", COLUMNS, record_keys="id", ordering_fields="ts", buckets=2)
    report: dict[str, Any] = {"session": type(spark).__module__}
    report["bulk_insert"] = table.bulk_insert(rows(spark, 0, 100, 1)).rows_written
    report["upsert"] = table.upsert(rows(spark, 90, 120, 2)).rows_written
    report["read"] = [r.id for r in table.to_spark(columns=["id"], where="ts = 2").orderBy("id").limit(2).collect()]
    table.update({"v": "'changed'"}, where="id = 7", spark=spark)
    vars(limits).update(COMPACT_ON_SPARK_BYTES=0)
    report["compact"] = [done.rows for done in table.compact(spark=spark)]
    table.view("orders", columns=["id", "v"], spark=spark)
    report["view"] = [r.n for r in spark.sql("SELECT count(*) AS n FROM orders WHERE v <> 'changed'").collect()]
    rows(spark, 0, 1, 3).write.format("lakebraid").mode("append").save(table.path)
    report["format"] = spark.read.format("lakebraid").load(table.path).where("ts = 3").count()
    looked_up = lb.Table.create(f"{folder}/cow", COLUMNS, record_keys="id", ordering_fields="ts", table_type="cow")
    looked_up.upsert(rows(spark, 0, 50, 1))
    report["copy on write"] = looked_up.count()
    spark.stop()
    print(json.dumps(report))


def rows(spark: SparkSession, first: int, end: int, ts: int) -> DataFrame:
    return spark.range(first, end, 1, 2).selectExpr("id", f"{ts}L AS ts", "concat('v', id) AS v")


if __name__ == "__main__":
    main(sys.argv[1])
