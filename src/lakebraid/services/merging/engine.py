# SPDX-License-Identifier: Apache-2.0
"""What merging services leave to an engine: looking into log files for a plan, and running the tasks of an execution.

`choose_engine` gives the one for a table that a user opened: on Spark if there is enough to do and a session to do it,
else in this process. The simulator has its own. Nothing else in the services knows of Spark.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from lakebraid import limits
from lakebraid import spark as on_spark
from lakebraid.format.log.blocks import BlockType, read_blocks
from lakebraid.model.log_order import BlockOrigin
from lakebraid.model.merge_rules import MergeRules
from lakebraid.storage.parallel import map_slices
from lakebraid.storage.protocol import Storage
from lakebraid.tasks.data_files import read_log
from lakebraid.tasks.merging.compact import MergeContext, RunTask, SizedTask
from lakebraid.tasks.merging.hazards import Hazard, find_hazards
from lakebraid.tasks.staged_file import StagedFile

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_HOLD_ROWS: Final = (BlockType.AVRO, BlockType.PARQUET, BlockType.DELETE)

Check = Callable[[], None]
"""Called before each task that runs in this process; it may raise to end the work."""
RunTasks = Callable[[Storage, MergeContext, Sequence[Any], RunTask, Check], list[StagedFile]]
"""Runs every task with the function given, and gives the files of all of them."""
FindHazards = Callable[[Storage, str, MergeRules, pa.Schema], Sequence[Hazard]]
"""What in the log file of that name forbids to compact it while older writes are open."""


@dataclass(frozen=True, slots=True)
class Marks:
    """What the headers in a log file say."""

    origins: tuple[BlockOrigin, ...]
    has_partial: bool


def load_marks(storage: Storage, name: str) -> Marks:
    """What the block headers of a log file say."""
    blocks = read_blocks(read_log(storage, name), name).blocks
    origins = (
        BlockOrigin(block.instant_time or "", block.compacted_times, holds_rows=block.type in _HOLD_ROWS)
        for block in blocks
    )
    return Marks(tuple(origins), any(block.is_partial for block in blocks))


def run_local(
    storage: Storage, context: MergeContext, tasks: Sequence[SizedTask], run_task: RunTask, check: Check
) -> list[StagedFile]:
    """The files of all tasks, run in this process: on a disk by as many threads as it has processors, on an object store by
    as many as there are tasks to wait for, as far as memory allows.
    """

    def run(task: SizedTask) -> list[StagedFile]:
        check()
        return run_task(storage, context, task)

    done = map_slices(storage, run, tasks, size=lambda task: limits.SLICE_UNFOLDS * task.size)
    return [file for files in done for file in files]


@dataclass(frozen=True, slots=True)
class MergeEngine:
    """The three things that may be done elsewhere, or otherwise, than in this process."""

    run_tasks: RunTasks = run_local
    find_hazards: FindHazards = find_hazards
    load_marks: Callable[[Storage, str], Marks] = load_marks
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Those of the storage, for tasks that open it in another process; they may hold credentials."""


LOCAL: Final = MergeEngine()
"""Everything in this process."""


def choose_engine(options: Mapping[str, str] | None = None, spark: SparkSession | None = None) -> MergeEngine:
    """The engine of a table with these options of its storage: by the size of the work, and by the sessions there are."""
    return MergeEngine(run_tasks=partial(_run_by_size, spark), options=options or {})


def _run_by_size(
    spark: SparkSession | None,
    storage: Storage,
    context: MergeContext,
    tasks: Sequence[SizedTask],
    run_task: RunTask,
    check: Check,
) -> list[StagedFile]:
    session = spark or _running_session()
    if session is None or sum(task.size for task in tasks) < limits.COMPACT_ON_SPARK_BYTES:
        return run_local(storage, context, tasks, run_task, check)
    return on_spark.merge.run_on_spark(session, context, tasks, run_task)


def _running_session() -> Any | None:
    """A Spark session that this process uses already."""
    sql = sys.modules.get("pyspark.sql")
    return None if sql is None else sql.SparkSession.getActiveSession()
