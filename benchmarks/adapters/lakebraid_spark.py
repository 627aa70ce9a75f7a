# SPDX-License-Identifier: Apache-2.0
"""lakebraid on Spark: data frames in, data frames out. For the harness that runs Hudi, Delta, Iceberg and Paimon.

With BENCH_PLAN=computed the harness hands a frame with a filter and a computed column to every system on Spark, as a job
would. Without it the frames are bare scans of a file, so this adapter refuses to run: such figures say little.
"""

import os
from importlib.metadata import version
from typing import Any

from adapters.spark_base import SparkAdapter
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  as everybody calls it

import lakebraid as lb


class Adapter(SparkAdapter):  # type: ignore[misc]  # the harness is not here
    concurrency_modes = ("nbcc",)
    conf = {"spark.python.daemon.module": "lakebraid.spark.start.daemon"}  # noqa: RUF012  the harness's way; as in lb.session()

    def setup(self, work: str, sizes: dict[str, Any]) -> None:
        if os.environ.get("BENCH_PLAN") != "computed":
            raise SystemExit("Nothing was measured: set BENCH_PLAN=computed for this system and those beside it.")
        lb.session  # noqa: B018  finds a Java, or the one that comes with the package
        super().setup(work, sizes)
        self.tables: dict[str, lb.Table] = {}

    def versions(self) -> dict[str, str]:
        return {**super().versions(), "lakebraid": version("lakebraid")}

    def table(self, table: str) -> lb.Table:
        if table not in self.tables:
            self.tables[table] = lb.Table.open(self.path(table))
        return self.tables[table]

    def bulk_load(self, table: str, paths: list[str], mode: str | None = None) -> None:
        rows = self.source(paths)
        self.tables[table] = lb.Table.create(
            self.path(table), rows.schema, record_keys="id", ordering_fields="ts", buckets=self.sizes["buckets"]
        )
        self.tables[table].bulk_insert(rows)

    def upsert(self, table: str, path: str, mode: str | None = None) -> None:
        self.table(table).upsert(self.source(path))

    def df(self, table: str, **wanted: Any) -> DataFrame:
        return self.table(table).to_spark(spark=self.spark, **wanted)

    def query(self, table: str, name: str, key: str) -> int:
        if name == "agg":
            rows = self.df(table, columns=["c_cat", "c_long", "c_double", "c_int"]).groupBy("c_cat")
            sums = rows.agg(F.count("*").alias("n"), F.sum("c_long"), F.avg("c_double"), F.max("c_int")).collect()
            return sum(r["n"] for r in sums)
        if name == "count":
            return self.df(table, columns=[]).count()
        if name == "point":
            return len(self.df(table, where=[("id", "=", key)]).collect())
        return int(self.drain(self.df(table)))

    def export(self, table: str, out: str) -> None:
        self.df(table, columns=["id", "ts", "c_seq"]).write.mode("overwrite").parquet(out)

    def compact(self, table: str) -> None:
        self.table(table).compact(spark=self.spark)

    def prepare_incremental(self, table: str, path: str) -> str | None:
        t = self.table(table)
        position = t.changes().next_position
        self.upsert(table, path)
        return position

    def incremental(self, table: str, token: str | None) -> int:
        return self.table(table).changes(after=token).to_spark(spark=self.spark).count()
