# SPDX-License-Identifier: Apache-2.0
"""What Spark's plan tells of a data frame without running anything: its size, and whether rows depend on one another.

A data frame may be evaluated only once: a second time it may cost hours, or give other rows. So nothing is counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from pyspark.sql import DataFrame

from lakebraid.limits import SPARK_SCAN_EXPANSION

_EXACT: Final = frozenset({"LocalRelation", "Range", "OneRowRelation"})
_SCANS: Final = frozenset({"LogicalRelation", "DataSourceV2ScanRelation"})
_NO_LARGER: Final = frozenset(
    {
        "Project",
        "Filter",
        "Aggregate",
        "Sort",
        "GlobalLimit",
        "LocalLimit",
        "Union",
        "Repartition",
        "RepartitionByExpression",
    }
)
"""Plan nodes whose rows are not more than those below them; what is not named here may multiply rows."""

_BY_ROW: Final = frozenset(
    {
        "Project",
        "Filter",
        "Union",
        "SubqueryAlias",
        "MapInArrow",
        "PythonMapInArrow",  # its name before 4.0
        "LogicalRDD",
        "LogicalRelation",
        "LocalRelation",
        "Range",
        "RepartitionByExpression",
        "Repartition",
    }
)
"""Plan nodes of our own reading, and of expressions over one row; windows, aggregates and the like are others."""


def bytes_at_most(frame: DataFrame) -> int | None:
    """An estimate of the rows in memory that real rows hardly exceed; None if the plan does not allow one."""
    plan = _optimized(frame)
    if plan is None:
        return None
    expansion = 1
    for node in _nodes_of(plan):
        kind = node.getClass().getSimpleName()
        if kind in _SCANS:
            expansion = SPARK_SCAN_EXPANSION
        elif kind == "InMemoryRelation":
            if not node.cacheBuilder().isCachedColumnBuffersLoaded():
                return None  # what is not cached yet has the size of a guess
        elif kind not in _EXACT and kind not in _NO_LARGER:
            return None
    return expansion * int(plan.stats().sizeInBytes())


def bytes_guess(frame: DataFrame) -> int | None:
    """What Spark itself takes the size to be, which may be far off; None if it knows nothing."""
    plan = _optimized(frame)
    size = None if plan is None else int(plan.stats().sizeInBytes())
    return None if size is None or size >= 1 << 62 else size


def partitions_guess(frame: DataFrame) -> int:
    """How many partitions the data frame will have, roughly; after a shuffle Spark may join some of them."""
    spark, found = frame.sparkSession, 0
    if getattr(frame, "_jdf", None) is not None:
        plan = frame._jdf.queryExecution().executedPlan()  # noqa: SLF001 - pyspark has no other way to the plan
        if plan.getClass().getSimpleName() == "AdaptiveSparkPlanExec":
            found = plan.initialPlan().outputPartitioning().numPartitions()
        else:
            found = plan.execute().getNumPartitions()  # of one stage: nothing runs
    return found or int(spark.conf.get("spark.sql.shuffle.partitions") or 200)


def is_row_by_row(frame: DataFrame, *, joined: bool = False) -> bool:
    """Whether each row was computed from one row of the table, as Spark's plan shows; with `joined` also over pairs of rows. On Spark Connect that cannot be told: False."""
    java = getattr(frame, "_jdf", None)
    if java is None:
        return False
    known = _BY_ROW | {"Join"} if joined else _BY_ROW
    nodes = _nodes_of(java.queryExecution().analyzed())
    return all(node.getClass().getSimpleName() in known and node.subqueries().isEmpty() for node in nodes)


def _optimized(frame: DataFrame) -> Any:
    """Spark's logical plan; None on Spark Connect, where it stays with the server."""
    java = getattr(frame, "_jdf", None)
    return None if java is None else java.queryExecution().optimizedPlan()


def _nodes_of(plan: Any) -> Iterator[Any]:
    """A plan of Spark's and all below it."""
    yield plan
    children = plan.children()
    for index in range(children.size()):
        yield from _nodes_of(children.apply(index))
