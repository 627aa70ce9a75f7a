# SPDX-License-Identifier: Apache-2.0
"""A stream into a table: tasks hand their rows over, and one process publishes each batch, once.

Spark makes the writer once for a whole query and does not tell it of a batch before that is to be committed, so a write
cannot begin before its tasks. Small partitions travel in the messages of the tasks; large ones lie for a moment in
objects under `.hoodie/.lakebraid/streams`. `Table.stream` writes large batches in parallel; this one does not.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator, Mapping
from typing import Any, Final, cast
from urllib.parse import quote

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from lakebraid import limits
from lakebraid.api.inflow import STREAMS, Inflow, Inline, check_inflow
from lakebraid.clock import SystemClock
from lakebraid.digits import whole_number
from lakebraid.errors import InvalidArgument, LakebraidError
from lakebraid.model.operations import Operation
from lakebraid.options import sink_options, write_options
from lakebraid.reading.plan import Source
from lakebraid.source.writer import arrow_columns, target_table
from lakebraid.spark.start.workers import spare_imports
from lakebraid.spark.write_tasks import gathered
from lakebraid.storage import Storage, open_storage
from lakebraid.writing.request import SchemaConflicts, WriteRequest

_STAGED: Final = "rows"


class TaskRows(WriterCommitMessage):
    """What one task hands over: rows as Arrow's bytes, or the name of the object that holds them."""

    def __init__(self, rows: bytes = b"", name: str | None = None) -> None:
        self.rows, self.name = rows, name


class StreamSink(DataSourceStreamArrowWriter):
    """One query's writer. Spark pickles it to its tasks, and to a process that lives as long as the query."""

    def __init__(self, inflow: Inflow, columns: tuple[str, ...], storage_options: Mapping[str, str]) -> None:
        self._inflow, self._columns = inflow, columns
        self._storage_options = dict(storage_options)
        self._is_tidy = False
        """Whether this process has looked for what dead ones left behind."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        spare_imports()
        rows = gathered((batch.select(list(self._columns)) for batch in iterator), 0)
        if rows is None:
            return TaskRows()
        data = _packed(rows)
        if len(data) <= limits.SOURCE_HANDED_BYTES:
            return TaskRows(data)
        name = f"{self._folder()}/{_batch_of_task()}.{SystemClock().token()}"
        self._storage().create(name, data)
        return TaskRows(name=name)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  Spark's name
        """Publishes the batch, unless it is published."""
        handed = [m for m in messages if isinstance(m, TaskRows) and (m.rows or m.name)]
        names = [m.name for m in handed if m.name is not None]
        if names:
            rows: Any = _reader(self._storage(), handed)
        else:
            rows = pa.concat_tables(_unpacked(m.rows) for m in handed) if handed else []
        self._inflow.write(rows, batchId)
        if names or not self._is_tidy:
            self._tidy(batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803, ARG002  Spark's
        """Nothing has begun; what tasks have put down is removed."""
        names = [m.name for m in messages if isinstance(m, TaskRows) and m.name is not None]
        with contextlib.suppress(LakebraidError):  # a later batch removes them
            self._storage().delete(names)

    def _tidy(self, batch: int) -> None:
        """Removes the rows of batches that are published, by whichever driver they were put there: they are no longer needed."""
        with contextlib.suppress(LakebraidError):
            names = [info.name for info in self._storage().list(self._folder())]
            self._storage().delete([name for name in names if _batch_of(name) <= batch])
            self._is_tidy = True

    def _folder(self) -> str:
        return f"{STREAMS}/{quote(self._inflow.request.writer or '', safe='')}/{_STAGED}"

    def _storage(self) -> Storage:
        return open_storage(self._inflow.source.url, self._storage_options)


def begin_stream(options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> StreamSink:
    """The writer of a query; the table is created if it is not there. In `complete` mode a batch replaces all rows."""
    said, named = write_options(options), sink_options(options)
    if said.path is None:
        raise InvalidArgument("No path was given. Nothing was written. Use `.start(path)` or the option `path`.")
    incoming = arrow_columns(schema)
    table, _ = target_table(said.path, said, incoming)
    operation = "insert_overwrite_table" if overwrite else said.operation
    check_inflow(named.writer, operation)
    request = WriteRequest(
        cast("Operation", operation),
        block_format=said.block_format if operation in ("upsert", "insert", "bulk_insert") else "parquet",
        evolve=said.evolve,
        schema_conflict=cast("SchemaConflicts | None", said.schema_conflict),
        writer=named.writer,
    )
    services: Inline = "inline" if said.runs_services else None
    inflow = Inflow(Source(table.path, said.storage), request, named.checkpoint, services, said.told)
    return StreamSink(inflow, tuple(incoming.names), dict(said.storage))


def _batch_of_task() -> int:
    """The batch in which a task is: Spark tells it to its jobs, not to writers."""
    context: Any = TaskContext.get()
    text = None if context is None else context.getLocalProperty("streaming.sql.batchId")
    return whole_number(text or "") or 0


def _batch_of(name: str) -> int:
    text = name.rpartition("/")[2].partition(".")[0]
    return whole_number(text) or 0


def _packed(rows: pa.Table) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_table(rows)
    return sink.getvalue()


def _unpacked(data: bytes) -> pa.Table:
    return pa.ipc.open_stream(data).read_all()


def _reader(storage: Storage, handed: list[TaskRows]) -> pa.RecordBatchReader:
    """The rows of all tasks, of which one task's are held at a time."""

    def batches() -> Iterator[pa.RecordBatch]:
        for message in handed:
            size_max = limits.SPARK_TASK_ROWS_BYTES_MAX * 2
            data = message.rows if message.name is None else storage.read(message.name, size_max)
            yield from _unpacked(data).to_batches()

    first = handed[0]
    data = first.rows if first.name is None else storage.read(first.name, limits.SPARK_TASK_ROWS_BYTES_MAX * 2)
    return pa.RecordBatchReader.from_batches(_unpacked(data).schema, batches())
