# SPDX-License-Identifier: Apache-2.0
"""Queries over tables by Spark's SQL, without a catalog and without views that stay behind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakebraid import spark as on_spark
from lakebraid.api.table import Table
from lakebraid.reading.changes import Changes
from lakebraid.reading.snapshot import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def sql(query: str, spark: SparkSession | None = None, **tables: Any) -> DataFrame:
    """The rows of a query in which `{name}` stands for a table: `lb.sql("SELECT max(n) FROM {orders}", orders=t)`.

    A table is a Table, a Snapshot, Changes or any data frame; other values become literals. All are of the moment of this
    call. Spark cannot tell which columns of a table a query needs: hand over `t.to_spark(columns, where)` of wide ones.
    """
    at_work = spark or on_spark.session.session()
    frames: dict[str, Any] = {
        name: value.to_spark(spark=at_work) if isinstance(value, Table | Snapshot | Changes) else value
        for name, value in tables.items()
    }
    return at_work.sql(query, **frames)
