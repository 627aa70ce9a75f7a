# SPDX-License-Identifier: Apache-2.0
"""What Spark's Python workers do in a write, and what they report: one row for each task."""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext

from lakebraid import limits
from lakebraid.errors import InvalidArgument, LakebraidError
from lakebraid.model.incoming import prepare
from lakebraid.model.keys.buckets import bucket_ids
from lakebraid.model.keys.keys import record_keys
from lakebraid.model.keys.partitions import partition_paths
from lakebraid.model.ordering import Ints
from lakebraid.model.values.arrow_numpy import take_rows
from lakebraid.spark.start.workers import spare_imports
from lakebraid.storage import open_storage
from lakebraid.tasks.staged_file import StagedFile
from lakebraid.tasks.writing.rows import WritePlan, write_rows

REPORT: Final = pa.schema([("partition", pa.int32()), ("attempt", pa.int32()), ("content", pa.binary())])
PIECES: Final = pa.schema(
    [
        ("task", pa.int32()),
        ("partition", pa.int32()),
        ("number", pa.int32()),
        ("rows", pa.binary()),
        ("error", pa.binary()),
    ]
)
"""What goes through a shuffle: rows as Arrow's own bytes, where to, and which rows of which partition they were."""


@dataclass(frozen=True, slots=True)
class Report:
    """How a Spark task ended: with files, with rows that it leaves to the driver, or with an error."""

    partition: int
    attempt: int = 0
    """How many attempts were begun before."""
    files: tuple[StagedFile, ...] = ()
    rows: pa.Table | None = None
    error: LakebraidError | None = None


@dataclass(frozen=True, slots=True)
class TaskRules:
    """What the tasks of one write have in common, besides the plan."""

    first_task: int
    handed_bytes_max: int
    """Up to this size the rows of a partition are handed back; 0: never."""
    attempts_max: int
    is_shuffled: bool
    """Whether rows come as the pieces that a `splitter` made."""


def writer(plan: WritePlan, rules: TaskRules) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function for `mapInArrow`: writes the rows of a partition under the task number that its place gives it.

    An error that another attempt would meet again is reported, not raised: Spark would try it again, and then tell it
    as a page of Java. Others are raised while Spark has attempts left.
    """

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        spare_imports()
        yield reported(rules.attempts_max, lambda partition: _write(plan, rules, partition, batches))

    return run


def reported(attempts_max: int, work: Callable[[int], Report]) -> pa.RecordBatch:
    """What a task tells the driver: what its work reports, or an error that another attempt would meet again.

    Other errors are raised while Spark has attempts left.
    """
    context: Any = TaskContext.get()
    partition, attempt = context.partitionId(), context.attemptNumber()
    try:
        report = replace(work(partition), attempt=attempt)
    except InvalidArgument as error:
        report = Report(partition, attempt, error=error)
    except LakebraidError as error:
        if attempt + 1 < attempts_max:
            raise
        report = Report(partition, attempt, error=error)
    packed = pickle.dumps(report, pickle.HIGHEST_PROTOCOL)
    arrays = [pa.array([value], field.type) for value, field in zip((partition, attempt, packed), REPORT, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=REPORT)


def reports(rows: pa.Table) -> list[Report]:
    """What the tasks reported, by partition."""
    found: list[Report] = [pickle.loads(packed) for packed in rows.column("content").to_pylist()]  # noqa: S301 - our own workers wrote them
    return sorted(found, key=lambda report: report.partition)


def _write(plan: WritePlan, rules: TaskRules, partition: int, batches: Iterator[pa.RecordBatch]) -> Report:
    task = rules.first_task + partition
    if len(str(task)) != len(str(rules.first_task)):
        raise InvalidArgument(
            f"The data frame has a partition number {partition}, more than one write can number. Nothing is visible. "
            "Join some with `coalesce`, and write again.",
            partition=partition,
        )
    rows = _joined(batches, partition) if rules.is_shuffled else gathered(batches, partition)
    if rows is None:
        return Report(partition)
    if rows.num_rows <= limits.SPARK_HANDED_ROWS and rules.handed_bytes_max:
        # Put together first, so that the size is one of the rows and not of how they came.
        rows = rows.combine_chunks()
        if rows.nbytes <= rules.handed_bytes_max:
            return Report(partition, rows=rows)
    return Report(partition, files=tuple(write_rows(open_storage(plan.url, dict(plan.options)), plan, rows, task)))


def gathered(batches: Iterator[pa.RecordBatch], partition: int) -> pa.Table | None:
    """All rows of a partition; None if there are none."""
    held: list[pa.RecordBatch] = []
    taken = 0
    for batch in batches:
        if batch.num_rows:
            held.append(batch)
            taken += batch.nbytes
            _check_held(taken, partition)
    return pa.Table.from_batches(held) if held else None


def _joined(batches: Iterator[pa.RecordBatch], partition: int) -> pa.Table | None:
    """The rows of all pieces, in the order they had before the shuffle, which brings pieces in any order."""
    pieces = gathered(batches, partition)
    if pieces is None:
        return None
    pieces = pieces.sort_by([("partition", "ascending"), ("number", "ascending")])
    errors = pieces.column("error").drop_null()
    if len(errors):
        raise pickle.loads(errors[0].as_py())  # noqa: S301 - our own workers wrote it
    return pa.concat_tables([pa.ipc.open_stream(piece.as_buffer()).read_all() for piece in pieces.column("rows")])


def _check_held(taken: int, partition: int) -> None:
    if taken > limits.SPARK_TASK_ROWS_BYTES_MAX:
        raise InvalidArgument(
            f"Partition {partition} of the data frame holds more than {limits.SPARK_TASK_ROWS_BYTES_MAX:,} bytes of rows, "
            "which one task cannot write. Nothing is visible. Give the data frame more partitions (`repartition`) or, "
            "for a bulk load, the table more buckets.",
            partition=partition,
        )


def splitter(plan: WritePlan, count: int) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function for `mapInArrow` before a shuffle: rows in pieces for `count` tasks, a file group in one of them.

    Spark turns every row into its own form and back on the way through a shuffle; pieces pass it as they are.
    An error travels as a piece to the first task, which reports it.
    """

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        spare_imports()
        context: Any = TaskContext.get()
        partition = context.partitionId()
        try:
            for number, rows in enumerate(_bundles(batches)):
                yield _pieces(rows, _task_numbers(plan, rows, count), partition, number)
        except LakebraidError as error:
            packed = pickle.dumps(error, pickle.HIGHEST_PROTOCOL)
            yield pa.RecordBatch.from_pylist(
                [{"task": 0, "partition": partition, "number": 0, "error": packed}], schema=PIECES
            )

    return run


def _bundles(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Batches put together, so that pieces are not too small."""
    held: list[pa.RecordBatch] = []
    taken = 0
    for batch in batches:
        if batch.num_rows:
            held.append(batch)
            taken += batch.nbytes
        if taken >= limits.SPARK_TASK_BYTES:
            yield pa.Table.from_batches(held)
            held, taken = [], 0
    if held:
        yield pa.Table.from_batches(held)


def _pieces(rows: pa.Table, tasks: Ints, partition: int, number: int) -> pa.RecordBatch:
    # numpy sorts small numbers by counting
    order = np.argsort(tasks.astype(np.uint16) if tasks.max() < 1 << 16 else tasks, kind="stable")
    found, starts = np.unique(tasks[order], return_index=True)
    rows = take_rows(rows, order) if len(found) > 1 else rows
    size = len(found)
    arrays = [
        pa.array(found, pa.int32()),
        pa.repeat(pa.scalar(partition, pa.int32()), size),
        pa.repeat(pa.scalar(number, pa.int32()), size),
        streams(rows, starts),
        pa.nulls(size, pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=PIECES)


def streams(rows: pa.Table, starts: Ints) -> pa.Array:
    """The rows from each start to the next as the bytes of an Arrow stream."""
    sink = pa.BufferOutputStream()
    ends = [0]
    for start, stop in zip(starts, [*starts[1:], rows.num_rows], strict=True):
        with pa.ipc.new_stream(sink, rows.schema) as stream:
            stream.write_table(rows.slice(start, stop - start))
        ends.append(sink.tell())
    offsets = pa.py_buffer(np.array(ends, np.int32))
    return pa.Array.from_buffers(pa.binary(), len(starts), [None, offsets, sink.getvalue()])


def _task_numbers(plan: WritePlan, rows: pa.Table, count: int) -> Ints:
    """The task, out of `count`, that gets each row: the same for all of a file group."""
    config, names = plan.config, identity_columns(plan)
    schema = pa.schema([plan.schema.field(name) for name in names])
    rows = prepare(rows.select(list(names)), schema, config, operation="delete")
    keys = record_keys(rows, config.record_keys, config.has_complex_keys)
    buckets = bucket_ids(keys, config.bucket_fields, plan.buckets).astype(np.int64)
    paths = partition_paths(rows, config.partition_fields, config.hive_style, config.url_encode)
    tasks: Ints = (buckets + _path_numbers(paths)) % count
    return tasks


def identity_columns(plan: WritePlan) -> tuple[str, ...]:
    """The columns that say to which file group a row belongs."""
    fields = (*plan.config.record_keys, *plan.config.partition_fields)
    return tuple(dict.fromkeys(f if f in plan.schema.names else f.split(".")[0] for f in fields))


def path_number(path: str) -> int:
    """A number for a path, far from that of another."""
    return zlib.crc32(path.encode()) if path else 0


def _path_numbers(paths: pa.Array) -> Ints:
    """A number for each path, far from that of another, so that buckets of several partitions spread over the tasks."""
    encoded = pc.dictionary_encode(paths)
    numbers = [path_number(path) for path in encoded.dictionary.to_pylist()]
    found: Ints = np.array(numbers, np.int64)[np.asarray(encoded.indices)]
    return found
