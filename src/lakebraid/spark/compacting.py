# SPDX-License-Identifier: Apache-2.0
"""Compacting on Spark: each file group is one task's work, small ones share a task."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from lakebraid.spark.reading import packed
from lakebraid.spark.workers import spare_imports, use_this_python
from lakebraid.storage import open_storage
from lakebraid.tasks.compact import CompactPlan, CompactTask, run_compaction_task
from lakebraid.tasks.staged_file import STAGED_SCHEMA, StagedFile, staged_from_arrow, staged_to_arrow


def compact_spark(plan: CompactPlan, tasks: Sequence[CompactTask], spark: SparkSession) -> list[StagedFile]:
    """The files of all tasks, written by Spark's executors. A task that runs twice meets its own files."""
    packs = packed(tasks, [task.slice.size for task in tasks])

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        spare_imports()
        storage = open_storage(plan.read.url, dict(plan.read.options))
        for batch in batches:
            for index in batch.column(0).to_pylist():
                for task in packs[index]:
                    yield staged_to_arrow(run_compaction_task(storage, plan, task))

    use_this_python(spark)
    count = len(packs)
    frame = spark.range(0, count, 1, max(count, 1)).mapInArrow(run, from_arrow_schema(STAGED_SCHEMA))
    return staged_from_arrow(frame.toArrow())
