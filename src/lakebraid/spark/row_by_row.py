# SPDX-License-Identifier: Apache-2.0
"""Whether each row of a data frame was computed from one row of the table, so that other rows have no part in it."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame

from lakebraid.spark.frame_size import nodes_of

_BY_ROW: Final = frozenset(
    {
        "Project",
        "Filter",
        "Union",
        "SubqueryAlias",
        "MapInArrow",
        "LogicalRDD",
        "LogicalRelation",
        "LocalRelation",
        "Range",
        "RepartitionByExpression",
        "Repartition",
    }
)
"""Plan nodes of our own reading, and of expressions over one row; windows, aggregates and the like are others."""


def is_row_by_row(frame: DataFrame, *, joined: bool = False) -> bool:
    """Whether Spark's plan shows it; with `joined` also over pairs of rows. On Spark Connect nobody can tell: False."""
    java = getattr(frame, "_jdf", None)
    if java is None:
        return False
    known = _BY_ROW | {"Join"} if joined else _BY_ROW
    nodes = nodes_of(java.queryExecution().analyzed())
    return all(node.getClass().getSimpleName() in known and node.subqueries().isEmpty() for node in nodes)
