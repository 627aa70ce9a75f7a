# SPDX-License-Identifier: Apache-2.0
"""Reading on Spark: slices without logs through Spark's own Parquet scan, if it can open them, the others in Python tasks.

Both halves are lazy and become one data frame, so that joins, views and caching work as with any other. Only if no column
is wanted but the number of rows, the driver counts slices with logs at once, unless they are large.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial, reduce
from itertools import groupby
from typing import Any, TypeAlias, TypeVar, cast

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from lakebraid.limits import BATCH_ROWS, SPARK_COUNT_BYTES, SPARK_TASK_BYTES
from lakebraid.model.predicate.parse import to_text
from lakebraid.spark.schemas import spark_rows
from lakebraid.spark.start.session import session
from lakebraid.spark.start.workers import spare_imports, use_this_python
from lakebraid.spark.versions import frame_of, spark_schema
from lakebraid.storage import Storage, open_storage
from lakebraid.storage.parallel import map_ahead, map_slices
from lakebraid.tasks.changes.diff import ChangeTask, changes_schema, read_changes
from lakebraid.tasks.reading.count import count_slice
from lakebraid.tasks.reading.key_filter import read_lookup
from lakebraid.tasks.reading.read import has_schema, read_slice
from lakebraid.tasks.slice_task import ReadPlan, SliceTask

_ROW = pa.schema([pa.field("_row", pa.int8())])
"""What stands for a row when no column is wanted and only their number matters."""

T = TypeVar("T")
_Read: TypeAlias = Callable[[Storage, T], Iterator[pa.Table]]
"""What gives the rows of one task."""


def read_spark(storage: Storage, plan: ReadPlan, tasks: Sequence[SliceTask], spark: SparkSession | None) -> DataFrame:
    """The rows of all slices as one lazy data frame."""
    spark = spark or session()
    if plan.keys is not None and plan.columns:
        return _lookup(spark, plan, tasks)
    native = native_files(storage, plan, tasks) if can_scan(spark, storage) else {}
    merged = [task for task in tasks if task.base_name not in native or task.log_names]
    parts = []
    if native:
        parts.append(_scan(spark, plan, list(native.values())))
    if merged or not parts:
        sizes = [task.size for task in merged]
        if plan.columns:
            parts.append(_map(spark, plan, merged, sizes, plan.output_schema, _slice_reader(plan), _held_bytes))
        elif sum(sizes) <= SPARK_COUNT_BYTES:
            parts.append(_counted(spark, storage, plan, merged))
        else:
            parts.append(_map(spark, plan, merged, sizes, _ROW, _slice_counter(plan), _held_bytes).select())
    return reduce(DataFrame.unionAll, parts)


def _lookup(spark: SparkSession, plan: ReadPlan, tasks: Sequence[SliceTask]) -> DataFrame:
    """The rows with a few keys: partition by partition, for there one bucket may tell that the others need no look."""
    bucketed = [task for task in tasks if task.bucket is not None]
    units = [list(group) for _, group in groupby(sorted(bucketed, key=_partition), key=_partition)]
    units += [[task] for task in tasks if task.bucket is None]
    # Of a slice without the key only the key column is read, and with buckets only one slice at all.
    sizes = [sum(task.size for task in unit) // (4 * len(unit)) for unit in units]
    return _map(spark, plan, units, sizes, plan.output_schema, _key_reader(plan), lambda u: sum(map(_held_bytes, u)))


def _partition(task: SliceTask) -> str:
    return task.partition


def read_spark_changes(
    plan: ReadPlan, tasks: Sequence[ChangeTask], spark: SparkSession | None, *, images: bool, kinds: bool = True
) -> DataFrame:
    """The changes of all units as one lazy data frame."""

    def read(storage: Storage, task: ChangeTask) -> Iterator[pa.Table]:
        return read_changes(storage, plan, task, images=images, kinds=kinds)

    sizes = [task.size for task in tasks]
    return _map(spark or session(), plan, tasks, sizes, changes_schema(plan), read, lambda task: task.held_bytes)


def as_frame(rows: pa.Table, spark: SparkSession | None) -> DataFrame:
    """Rows that are here as a data frame with the types that a task would have given them."""
    return frame_of(spark or session(), spark_rows(rows))


def can_scan(spark: SparkSession, storage: Storage) -> bool:
    """Whether Spark has what it takes to open the table's files itself; a plain PySpark has no jar for object stores.

    Where that cannot be told, as over Spark Connect, our own tasks read object stores: that works with and without the jar.
    """
    scheme = (storage.native_path("any") or "").partition("://")[0]
    if scheme in {"", "file"}:
        return scheme == "file"
    context: Any = getattr(spark, "_sc", None)
    if context is None:
        return False
    from py4j.protocol import Py4JJavaError  # noqa: PLC0415 - a mere client of Spark Connect has no py4j

    settings = cast("Any", spark)._jsparkSession.sessionState().newHadoopConf()  # noqa: SLF001 - pyspark has no other way
    try:
        context._jvm.org.apache.hadoop.fs.FileSystem.getFileSystemClass(scheme, settings)  # noqa: SLF001 - as above
    except Py4JJavaError:
        return False
    return True


def native_files(storage: Storage, plan: ReadPlan, tasks: Sequence[SliceTask]) -> dict[str, str]:
    """Base files that Spark can scan by itself: name and address. No logs, nothing to fill in, types as in the table.

    Spark would widen some types otherwise than Hudi does (a float's digits), so files of an older schema are read by us.
    """
    fitting: dict[str, bool] = {}
    files: dict[str, str] = {}
    names = plan.schema.names
    # Spark replaces `${…}` even in quoted names, and takes two names that differ in case for one.
    if any("$" in name for name in names) or len({name.lower() for name in names}) < len(names):
        return files
    for task in tasks:
        if task.base_name is None or task.log_names or task.constants:
            continue
        address = storage.native_path(task.base_name)
        if address is None:
            continue
        # All files of one instant were written with one schema: one footer tells.
        if task.base_request_time not in fitting:
            fitting[task.base_request_time] = has_schema(storage, plan, task)
        if fitting[task.base_request_time]:
            files[task.base_name] = address
    return files


def _scan(spark: SparkSession, plan: ReadPlan, paths: list[str]) -> DataFrame:
    frame = spark.read.schema(spark_schema(plan.schema)).parquet(*paths)
    if plan.where is not None:
        frame = frame.where(to_text(plan.where))
    return frame.select(*[f"`{name.replace('`', '``')}`" for name in plan.columns])


def _held_bytes(task: SliceTask) -> int:
    return task.held_bytes


def _slice_reader(plan: ReadPlan) -> _Read[SliceTask]:
    def read(storage: Storage, task: SliceTask) -> Iterator[pa.Table]:
        return read_slice(storage, plan, task)

    return read


def _key_reader(plan: ReadPlan) -> _Read[Sequence[SliceTask]]:
    def read(storage: Storage, tasks: Sequence[SliceTask]) -> Iterator[pa.Table]:
        return read_lookup(storage, plan, tasks)

    return read


def _slice_counter(plan: ReadPlan) -> _Read[SliceTask]:
    """As many rows of nothing as the slice has."""

    def read(storage: Storage, task: SliceTask) -> Iterator[pa.Table]:
        missing = count_slice(storage, plan, task)
        while missing > 0:
            rows = min(missing, BATCH_ROWS)
            yield pa.Table.from_arrays([pa.nulls(rows, pa.int8())], schema=_ROW)
            missing -= rows

    return read


def _counted(spark: SparkSession, storage: Storage, plan: ReadPlan, tasks: Sequence[SliceTask]) -> DataFrame:
    """As many rows of nothing as the slices have, counted here and now: no Python task, and no rows to hand over."""
    rows = sum(map_slices(storage, partial(count_slice, storage, plan), tasks, size=lambda task: task.held_bytes))
    return spark.range(0, rows, 1, 1).select()


def _map(
    spark: SparkSession,
    plan: ReadPlan,
    tasks: Sequence[T],
    sizes: Sequence[int],
    schema: pa.Schema,
    read: _Read[T],
    held_bytes: Callable[[T], int],
) -> DataFrame:
    """A data frame of what `read` gives for all tasks; small ones share a Spark task."""
    packs, url, options = packed(tasks, sizes), plan.url, plan.options

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        spare_imports()
        storage = open_storage(url, dict(options))
        for batch in batches:
            for index in batch.column(0).to_pylist():
                for rows in map_ahead(storage, partial(read, storage), packs[index], held_bytes):
                    yield from spark_rows(rows).to_batches()

    use_this_python(spark)
    count = len(packs)
    return spark.range(0, count, 1, max(count, 1)).mapInArrow(run, spark_schema(schema))


def packed(tasks: Sequence[T], sizes: Sequence[int]) -> list[list[T]]:
    """The tasks in as few packs as keep each near SPARK_TASK_BYTES; larger ones stay alone.

    A Spark task in Python costs about as much as merging ten MiB, so a pack of small slices is cheaper than a task each.
    """
    packs: list[list[T]] = []
    room = 0
    for task, size in sorted(zip(tasks, sizes, strict=True), key=lambda pair: -pair[1]):
        if not packs or size > room:
            packs.append([])
            room = SPARK_TASK_BYTES
        packs[-1].append(task)
        room -= size
    return packs
