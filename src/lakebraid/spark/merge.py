# SPDX-License-Identifier: Apache-2.0
"""Merging services on Spark: each file group is one task's work, small ones share a task."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from lakebraid import limits
from lakebraid.errors import EnvironmentProblem
from lakebraid.spark.read import packed
from lakebraid.spark.start.workers import spare_imports, use_this_python
from lakebraid.spark.versions import rows_of, spark_schema
from lakebraid.storage import open_storage
from lakebraid.storage.parallel import map_ahead
from lakebraid.tasks.merging.compact import MergeContext, RunTask, SizedTask
from lakebraid.tasks.staged_file import STAGED_SCHEMA, StagedFile, staged_from_arrow, staged_to_arrow

_ERROR: Final = re.compile(r"[A-Za-z_.]+(Error|Exception|File|Problem|Expired|Table|Argument|Found|Exists|Unknown): ")


def run_on_spark(
    spark: SparkSession, context: MergeContext, tasks: Sequence[SizedTask], run_task: RunTask
) -> list[StagedFile]:
    """The files of all tasks, written by Spark's executors. A task that runs twice meets its own files.

    A cluster repeats tasks that fail, a local Spark does not: so the whole job gets a second chance.
    """
    frame = _job(spark, context, tasks, run_task)
    for attempt in range(1, limits.COMPACT_JOB_ATTEMPTS_MAX + 1):
        try:
            return staged_from_arrow(rows_of(frame))
        except Exception as error:  # Spark's own, or Java's
            if attempt == limits.COMPACT_JOB_ATTEMPTS_MAX:
                raise _failed(context, error) from error
    return []


def _job(spark: SparkSession, context: MergeContext, tasks: Sequence[SizedTask], run_task: RunTask) -> DataFrame:
    packs = packed(tasks, [task.size for task in tasks])

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        spare_imports()
        storage = open_storage(context.read.url, dict(context.read.options))
        for batch in batches:
            for index in batch.column(0).to_pylist():
                work = partial(run_task, storage, context)
                yield staged_to_arrow(map_ahead(storage, work, packs[index], _held_bytes))

    use_this_python(spark)
    count = len(packs)
    return spark.range(0, count, 1, max(count, 1)).mapInArrow(run, spark_schema(STAGED_SCHEMA))


def _held_bytes(task: SizedTask) -> int:
    return limits.SLICE_UNFOLDS * task.size


def _failed(context: MergeContext, error: Exception) -> EnvironmentProblem:
    # Of a failed task Spark tells the Python traceback; what went wrong stands in its last lines.
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = next((line for line in lines if _ERROR.match(line)), lines[0] if lines else type(error).__name__)
    return EnvironmentProblem(
        f"Spark could not execute the plan {context.request_time} of {context.read.url}, {limits.COMPACT_JOB_ATTEMPTS_MAX} times: "
        f"{told[:500]}. Nothing of it is visible, the table is as it was, and the plan stays. Mend the cause, then "
        f"execute it: `table.run({context.request_time!r})`, or the next executor does.",
        path=context.read.url,
        instant=context.request_time,
    )
