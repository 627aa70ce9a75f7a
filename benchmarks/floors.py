# SPDX-License-Identifier: Apache-2.0
"""What plain files cost: no table, no commits. Nothing that merges can be expected to be faster than these."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  its usual name

AGG_COLUMNS = ["c_cat", "c_long", "c_double", "c_int"]
QUERIES = ("agg", "count", "point", "scan")

Queries = Mapping[str, Callable[[], Any]]
"""By their names."""

# Spark ----------------------------------------------------------------------------------------------------------------


def make_parquet_floor(spark: SparkSession, source: Path, target: Path, buckets: int) -> None:
    """The merged rows as Spark itself lays them out: a file a bucket, sorted by key."""
    rows = spark.read.parquet(str(source)).repartition(buckets, F.col("id")).sortWithinPartitions("id")
    rows.write.mode("overwrite").parquet(str(target))


def parquet_queries(spark: SparkSession, files: Sequence[str], columns: Sequence[str], key: str) -> Queries:
    """The queries on Parquet files that hold the rows, by Spark's own scan."""

    def read() -> DataFrame:
        return spark.read.parquet(*files).select(*columns)

    return {
        "agg": lambda: aggregate(read()),
        "count": lambda: read().count(),
        "point": lambda: read().where(F.col("id") == key).collect(),
        "scan": lambda: drain(read()),
    }


def aggregate(frame: DataFrame) -> list[Any]:
    wanted = [F.count("*").alias("n"), F.sum("c_long"), F.avg("c_double"), F.max("c_int")]
    return [tuple(row) for row in frame.groupBy("c_cat").agg(*wanted).collect()]


def drain(frame: DataFrame) -> int:
    """Every column of every row is made in the JVM, and goes nowhere."""
    return int(frame._jdf.queryExecution().toRdd().count())


# In process -----------------------------------------------------------------------------------------------------------


def make_arrow_floor(folder: Path, batches: Sequence[pa.Table], buckets: int) -> None:
    """A folder a bucket; in it a file for each batch, sorted by key."""
    for version, batch in enumerate(batches):
        # Any hash will do here: the low digits of the key's first part.
        codes = np.array([int(key[8:16], 16) % buckets for key in batch["id"].to_pylist()])
        for bucket in range(buckets):
            (folder / str(bucket)).mkdir(parents=True, exist_ok=True)
            rows = batch.filter(pa.array(codes == bucket)).sort_by("id")
            pq.write_table(rows, folder / str(bucket) / f"{version:03}.parquet", compression="zstd")


def arrow_queries(folder: Path, key: str) -> Queries:
    """The queries with nothing but Arrow: concatenate what belongs to a bucket, the newest row of a key wins."""
    buckets = sorted((p for p in folder.iterdir() if p.is_dir()), key=lambda p: int(p.name))

    def all_merged(columns: list[str] | None) -> list[pa.Table]:
        return [_merged(bucket, columns) for bucket in buckets]

    def point() -> list[dict[str, Any]]:
        found = _merged(buckets[int(key[8:16], 16) % len(buckets)], None, [("id", "=", key)])
        return [dict(row) for row in found.to_pylist()]

    return {
        "agg": lambda: arrow_aggregate(pa.concat_tables(all_merged(AGG_COLUMNS))),
        "count": lambda: sum(t.num_rows for t in all_merged(["id"])),
        "point": point,
        "scan": lambda: sum(t.num_rows for t in all_merged(None)),
    }


def arrow_aggregate(rows: pa.Table) -> list[Any]:
    wanted = [([], "count_all"), ("c_long", "sum"), ("c_double", "mean"), ("c_int", "max")]
    return [tuple(row.values()) for row in rows.group_by("c_cat").aggregate(wanted).to_pylist()]


def _merged(bucket: Path, columns: list[str] | None, only: list[tuple[str, str, str]] | None = None) -> pa.Table:
    wanted = None if columns is None else [*dict.fromkeys((*columns, "id", "ts"))]
    base, *deltas = (pq.read_table(f, columns=wanted, filters=only) for f in sorted(bucket.glob("*.parquet")))
    if not deltas:
        return base
    news = pa.concat_tables(deltas).sort_by([("id", "ascending"), ("ts", "descending")])
    keys = news["id"].combine_chunks()
    first = np.ones(len(keys), np.bool_)
    first[1:] = np.asarray(pc.not_equal(keys[1:], keys[:-1]))
    news = news.filter(pa.array(first))
    old = base.filter(pc.invert(pc.is_in(base["id"], value_set=news["id"].combine_chunks())))
    return pa.concat_tables([old, news])
