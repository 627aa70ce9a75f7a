# SPDX-License-Identifier: Apache-2.0
"""Placing the rows of Spark data frames: keys are matched by a join, file groups rewritten by tasks.

    write()    few rows: to the driver          else: rows in pieces by key, kept on Spark; errors in them are told now
    commit()   all rows at the driver: there    else: pieces and the table's keys come together by key, each row gets its
               file group; the driver gives new groups their ids; rows come together by group, each group is rewritten

Keys and rows pass shuffles as Arrow bytes, not row by row. With buckets a row's group is known, and one shuffle does.
Which files a task writes, and what is in them, depends on the pieces alone, so a task that runs twice meets its own.
"""

from __future__ import annotations

import pickle
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any, Final

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from lakebraid import limits
from lakebraid.errors import InvalidArgument
from lakebraid.model.config import TableType
from lakebraid.model.file_sizing import Room, share_out
from lakebraid.spark.place_tasks import GIVEN, PLACED, bucket_rewriter, key_reader, matcher, rewriter, router
from lakebraid.spark.plan_facts import bytes_guess
from lakebraid.spark.start.workers import use_this_python
from lakebraid.spark.versions import rows_of, shuffled, spark_schema
from lakebraid.spark.write import attempts_max, few_rows, staged_files, tagged, wanted_columns
from lakebraid.spark.write_tasks import PIECES, REPORT, reports, splitter
from lakebraid.storage import Storage
from lakebraid.tasks.lookup.assign import Ground
from lakebraid.tasks.merging.rewrite import Target
from lakebraid.tasks.staged_file import StagedFile
from lakebraid.tasks.writing.rows import WritePlan

_SLOTS: Final = 1 << 20
"""Into so many parts keys are hashed before they are shared out among tasks."""


@dataclass(frozen=True, slots=True)
class KeptFrame:
    """Rows of one call of `write`, in pieces, evaluated once and kept on Spark."""

    operation: str
    pieces: DataFrame
    tasks: int
    """Among how many tasks the pieces are shared out."""
    size: int
    is_lent: bool = False
    """Whether the next attempt of the write may need it, too."""

    def release(self) -> None:
        """Lets go of what is kept on Spark, unless it is lent."""
        if not self.is_lent:
            self.pieces.unpersist()


def keep_frame(plan: WritePlan, df: DataFrame, tag: str, tasks: int | None) -> KeptFrame | pa.Table:
    """The rows, kept until the commit: at the driver if they are few, else on Spark in pieces for so many tasks."""
    frame = wanted_columns(df, plan)
    use_this_python(df.sparkSession)
    with tagged(df.sparkSession, tag):
        rows = few_rows(frame) if tasks is None else None
        return keep_rows(plan, frame, tasks) if rows is None else rows


def keep_rows(plan: WritePlan, frame: DataFrame, tasks: int | None) -> KeptFrame:
    """The rows of a frame, in pieces on Spark."""
    tasks = tasks or _tasks(frame)
    pieces = frame.mapInArrow(splitter(_hashed(plan), tasks), spark_schema(PIECES))
    pieces = pieces.persist(StorageLevel.DISK_ONLY)
    found = pieces.agg(F.sum(F.length("rows")), F.max("error")).collect()[0]  # evaluates all of it
    if found[1] is not None:
        pieces.unpersist()
        raise pickle.loads(found[1])  # noqa: S301 - our own workers wrote it
    return KeptFrame(plan.operation, pieces, tasks, int(found[0] or 0))


class GatheredFrames:
    """All rows of a write, on Spark. They are assigned once: to assign them again would be the whole join again."""

    looks_again = False

    def __init__(self, storage: Storage, plan: WritePlan, kept: Sequence[KeptFrame], first_task: int, tag: str) -> None:
        self._storage, self._plan, self._kept, self._tag = storage, plan, kept, tag
        self._first_task, self._spark = first_task, kept[0].pieces.sparkSession
        self._placed: DataFrame | None = None
        self._run: Callable[[], list[StagedFile]] = list

    def assign(self, ground: Ground) -> Sequence[Target]:
        """The file groups that the rows go into; with buckets all that are there, for rows are not looked at."""
        use_this_python(self._spark)
        plan, kept, tasks = self._plan, self._kept, self._kept[0].tasks
        given = reduce(DataFrame.union, (_numbered(frame, call) for call, frame in enumerate(kept)))
        operations = [frame.operation for frame in kept]
        targets = [target for found in ground.groups.values() for target in found]
        if plan.config.buckets is not None:
            rewrite = partial(_rewrite_buckets, self._storage, plan, given, tasks, targets, operations)
            self._run = partial(rewrite, self._first_task)
            return targets
        with tagged(self._spark, self._tag):
            known = _table_keys(plan, given, targets, tasks)
            gathered = shuffled(given.union(known), tasks, "task")
            placed = gathered.mapInArrow(matcher(plan, targets, operations, ground.sizes), spark_schema(PLACED))
            self._placed = placed = placed.persist(StorageLevel.DISK_ONLY)
            homes = _homes(plan, _parts(placed), ground)
        chosen = list({(t.partition, t.file_id): t for t in homes.values()}.values())
        if chosen:
            rewrite = partial(_rewrite_groups, self._storage, plan, placed, homes, chosen)
            self._run = partial(rewrite, self._first_task, len(operations))
        return chosen

    def write(self) -> Iterator[StagedFile]:
        """The files of all rows, when all of them are written."""
        with tagged(self._spark, self._tag):
            files = self._run()
        yield from files

    def release(self) -> None:
        """Lets go of what is kept on Spark."""
        if self._placed is not None:
            self._placed.unpersist()
        for frame in self._kept:
            frame.release()


def _tasks(frame: DataFrame) -> int:
    """As few tasks as keep each near its size and all cores busy."""
    spark = frame.sparkSession
    context = getattr(spark, "_sc", None)
    least = (
        int(spark.conf.get("spark.sql.shuffle.partitions") or 200) if context is None else context.defaultParallelism
    )
    size = bytes_guess(frame) or 0
    wanted = -(-size * limits.SPARK_SCAN_EXPANSION // limits.SPARK_TASK_BYTES)
    return int(min(max(least, wanted), limits.TASKS_MAX))


def _hashed(plan: WritePlan) -> WritePlan:
    """The plan by which rows are shared out: by bucket, or by key in many more parts, so that equal keys meet."""
    if plan.config.buckets is not None:
        return plan
    config = replace(plan.config, partition_fields=()) if plan.config.is_global else plan.config
    return replace(plan, buckets=_SLOTS, config=config)


def _numbered(frame: KeptFrame, call: int) -> DataFrame:
    return frame.pieces.withColumn("call", F.lit(call)).select(*GIVEN.names)


def _table_keys(plan: WritePlan, given: DataFrame, targets: Sequence[Target], tasks: int) -> DataFrame:
    count = len(targets)
    numbers = given.sparkSession.range(0, count, 1, max(1, min(count, limits.SPARK_WRITE_FILES_MAX)))
    return numbers.mapInArrow(key_reader(plan, targets, tasks, _SLOTS), spark_schema(GIVEN))


def _rewrite_buckets(
    storage: Storage,
    plan: WritePlan,
    given: DataFrame,
    tasks: int,
    targets: Sequence[Target],
    operations: Sequence[str],
    first_task: int,
) -> list[StagedFile]:
    first = _first_number(first_task, tasks * (len(operations) + 2))
    run = bucket_rewriter(plan, targets, operations, first, attempts_max(given.sparkSession))
    return _done(storage, plan, shuffled(given, tasks, "task"), run, first)


def _parts(placed: DataFrame) -> list[dict[str, Any]]:
    """How many rows go into which file group, and how large they are; an error of a task is raised."""
    parts = placed.groupBy("folder", "file_id", "is_new").agg(
        F.sum("count").alias("count"), F.sum(F.length("rows")).alias("size"), F.max("error").alias("error")
    )
    found: list[dict[str, Any]] = (
        rows_of(parts).sort_by([("folder", "ascending"), ("file_id", "ascending")]).to_pylist()
    )
    for part in found:
        if part["error"] is not None:
            raise pickle.loads(part["error"])  # noqa: S301 - our own workers wrote it
    return found


def _rewrite_groups(
    storage: Storage,
    plan: WritePlan,
    placed: DataFrame,
    homes: Mapping[tuple[str, str], Target],
    chosen: Sequence[Target],
    first_task: int,
    calls: int,
) -> list[StagedFile]:
    stride = calls + 3
    first = _first_number(first_task, len(chosen) * stride)
    numbers = {(t.partition, t.file_id): first + at * stride for at, t in enumerate(chosen)}
    numbered = {pair: (t, numbers[t.partition, t.file_id]) for pair, t in homes.items()}
    tasks = min(len(chosen), max(_tasks(placed), 1))
    routes = {pair: (number - first) // stride % tasks for pair, (_, number) in numbered.items()}
    schema = spark_schema(PLACED.append(pa.field("to", pa.int32())))
    routed = shuffled(placed.mapInArrow(router(routes), schema), tasks, "to")
    return _done(storage, plan, routed, rewriter(plan, numbered, attempts_max(placed.sparkSession)), first)


def _homes(plan: WritePlan, parts: Sequence[Mapping[str, Any]], ground: Ground) -> dict[tuple[str, str], Target]:
    """The file group of every part: the one that has its keys, or for new keys one with room, or a new one."""
    known = {(t.partition, t.file_id): t for targets in ground.groups.values() for t in targets}
    homes = {(p["folder"], p["file_id"]): known[p["folder"], p["file_id"]] for p in parts if not p["is_new"]}
    new: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for part in parts:
        if part["is_new"]:
            new[part["folder"]].append(part)
    for folder, own in new.items():
        homes |= _shared_out(plan, folder, own, ground)
    return homes


def _shared_out(
    plan: WritePlan, folder: str, parts: Sequence[Mapping[str, Any]], ground: Ground
) -> dict[tuple[str, str], Target]:
    """Parts with new keys, put together until a base file is full."""
    total = sum(part["count"] for part in parts)
    row_bytes = max(1.0, sum(part["size"] for part in parts) / max(total, 1))
    may_fill = plan.config.table_type is TableType.COW and plan.operation != "bulk_insert"
    there = {t.file_id: t for t in ground.groups.get(folder, ()) if (folder, t.file_id) not in ground.closed}
    rooms = [Room(t.file_id, t.slice.base_size) for t in there.values() if t.slice is not None] if may_fill else []
    shares = share_out(total, rooms, row_bytes, ground.sizes)
    targets = [there[s.file_id] if s.file_id else Target(folder, ground.new_id()) for s in shares]
    homes: dict[tuple[str, str], Target] = {}
    at, left = 0, shares[0].rows
    for part in parts:
        # A part goes into one group whole: all versions of a key are in it.
        if left <= 0 and at + 1 < len(shares):
            at += 1
            left += shares[at].rows
        homes[folder, part["file_id"]] = targets[at]
        left -= part["count"]
    return homes


def _first_number(first_task: int, count: int) -> int:
    """Task numbers of one write all have the same number of digits, for Hudi compares them as text."""
    number = first_task
    while len(str(number + count)) != len(str(number)):
        number *= 10
    if number > limits.TASK_NUMBER_MAX:
        raise InvalidArgument("The write touches more file groups than can be numbered. Write it in several steps.")
    return number


def _done(storage: Storage, plan: WritePlan, frame: DataFrame, run: Any, first: int) -> list[StagedFile]:
    done = reports(rows_of(frame.mapInArrow(run, spark_schema(REPORT))))
    return staged_files(storage, plan, done, first, is_doubtful=any(report.attempt for report in done))
