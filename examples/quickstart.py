# SPDX-License-Identifier: Apache-2.0
"""The tour that Apache Hudi's PySpark guides take, with the format's name changed: insert, update, look back, changes, delete.

Run it with `python examples/quickstart.py`, in any environment that has lakebraid.
"""

import tempfile
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  as everybody calls it

import lakebraid as lb

COLUMNS = ["ts", "uuid", "rider", "driver", "fare", "city"]
TRIPS = [
    (1695159649087, "334e26e9", "rider-A", "driver-K", 19.10, "san_francisco"),
    (1695091554788, "e96c4396", "rider-C", "driver-M", 27.70, "san_francisco"),
    (1695046462179, "9909a8b1", "rider-D", "driver-L", 33.90, "san_francisco"),
    (1695516137016, "e3cf430c", "rider-F", "driver-P", 34.15, "sao_paulo"),
    (1695115999911, "c8abbe79", "rider-J", "driver-T", 17.85, "chennai"),
]
OPTIONS: dict[str, Any] = {
    "hoodie.table.name": "trips_table",
    "hoodie.datasource.write.recordkey.field": "uuid",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.partitionpath.field": "city",
}


def tour(spark: SparkSession, path: str) -> dict[str, DataFrame]:
    """Takes all steps on a table at `path`; gives what the queries on the way show."""
    seen: dict[str, DataFrame] = {}

    # Insert. The table is created as the options say.
    inserts = spark.createDataFrame(TRIPS, COLUMNS)
    inserts.write.format("lakebraid").options(**OPTIONS).mode("overwrite").save(path)

    # Snapshot query, by SQL; Hudi's own columns are there, too.
    spark.read.format("lakebraid").load(path).createOrReplaceTempView("trips_table")
    seen["snapshot"] = spark.sql("SELECT uuid, fare, _hoodie_record_key, rider FROM trips_table WHERE fare > 20.0")

    # Update: rows that are there, with another fare and a later time.
    trips = spark.read.format("lakebraid").load(path)
    updates = trips.where("rider = 'rider-D'").withColumn("fare", F.col("fare") * 10).withColumn("ts", F.col("ts") + 1)
    updates.write.format("lakebraid").options(**OPTIONS).mode("append").save(path)
    seen["updated"] = spark.read.format("lakebraid").load(path).where("rider = 'rider-D'").select("uuid", "fare")

    # Time travel: the table when its first commit, but not yet its second, was visible.
    first, second = [i.completion_time for i in lb.Table.open(path).timeline() if i.operation][-2:]
    seen["as_of"] = spark.read.format("lakebraid").option("as.of.instant", first).load(path).select("uuid", "fare")

    # Incremental query: rows that are new or changed since then.
    incremental = {
        "hoodie.datasource.query.type": "incremental",
        "hoodie.datasource.read.begin.instanttime": first,
    }
    seen["incremental"] = spark.read.format("lakebraid").options(**incremental).load(path).select("uuid", "fare")

    # Change feed: what was before and what is after; any table has one, nothing extra is logged.
    cdc = incremental | {"hoodie.datasource.query.incremental.format": "cdc"}
    seen["cdc"] = spark.read.format("lakebraid").options(**cdc).load(path)

    # Delete.
    gone = spark.read.format("lakebraid").load(path).where("rider = 'rider-F'")
    delete = OPTIONS | {"hoodie.datasource.write.operation": "delete"}
    gone.write.format("lakebraid").options(**delete).mode("append").save(path)
    seen["deleted"] = spark.read.format("lakebraid").load(path).select("rider")

    # Insert overwrite: one partition gets new rows in one commit. It needs a shuffle, so it is a call of its own.
    fresh = spark.createDataFrame([(1695999999999, "a1a1a1a1", "rider-X", "driver-V", 11.5, "san_francisco")], COLUMNS)
    lb.write(fresh, path, **OPTIONS | {"hoodie.datasource.write.operation": "insert_overwrite"})
    seen["overwritten"] = lb.read(path, columns=["rider", "city"], spark=spark)
    seen["changes"] = lb.Table.open(path).changes(after=second, images=True).to_spark(spark)
    return seen


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        for step, rows in tour(lb.session(), f"{folder}/trips_table").items():
            print(step)
            rows.show(truncate=False)
