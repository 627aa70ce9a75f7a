# SPDX-License-Identifier: Apache-2.0
"""Writing: begun in one process, done by tasks, published in another process."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Final, cast

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from lakebraid import limits
from lakebraid.api.by_options import checked, existing, open_or_create
from lakebraid.api.table import Table
from lakebraid.errors import InvalidArgument
from lakebraid.model.config import META_COLUMNS, MergeMode, TableConfig, parse_config
from lakebraid.model.operations import Operation
from lakebraid.options import WriteOptions, write_options
from lakebraid.reading.plan import Source
from lakebraid.spark.versions import arrow_schema
from lakebraid.spark.write import staged_files
from lakebraid.spark.write_tasks import TaskRules, reports, writer
from lakebraid.storage import open_storage
from lakebraid.txn.liveness.heartbeat_process import start_beating, stop_beating
from lakebraid.writing.handover import Carried, begin_carried, check_spreads, commit_carried, resumed
from lakebraid.writing.request import SchemaConflicts, WriteRequest
from lakebraid.writing.stage import FIRST_TASK

# Spark decides how often it tries a task; what a second try would meet again is reported by the first.
_RULES: Final = TaskRules(FIRST_TASK, limits.SOURCE_HANDED_BYTES, sys.maxsize, is_shuffled=False)


class TaskReport(WriterCommitMessage):
    """How one task ended."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self.batch = batch


class LakebraidWriter(DataSourceArrowWriter):
    """One write. Spark pickles it to its tasks and to the process that ends it."""

    def __init__(self, carried: Carried, note: str, *, runs_services: bool) -> None:
        self._carried, self._note, self._runs_services = carried, note, runs_services

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        rows = (batch.select(list(self._carried.columns)) for batch in iterator)
        return TaskReport(next(writer(self._carried.plan, _RULES)(rows)))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Publishes. If this raises, Spark calls `abort`, which rolls back only what is not published."""
        done = (
            reports(pa.Table.from_batches([m.batch for m in messages if isinstance(m, TaskReport)])) if messages else []
        )
        plan = self._carried.plan
        storage = open_storage(plan.url, dict(plan.options))
        # An attempt that Spark gave up may have left files, and says nothing.
        files = staged_files(storage, plan, done, FIRST_TASK, is_doubtful=True)
        commit_carried(self._carried, files)
        stop_beating(self._note)
        if self._runs_services:
            Table.open(plan.url, dict(plan.options)).services.run_inline()

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:  # noqa: ARG002  Spark's signature
        stop_beating(self._note)
        resumed(self._carried).abort()


def begin_write(options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> LakebraidWriter:
    """Begins the write that the options describe; the table is created if it is not there."""
    said = write_options(options)
    if said.path is None:
        raise InvalidArgument("No path was given. Nothing was written. Use `.save(path)` or the option `path`.")
    incoming = arrow_columns(schema)
    table, is_new = target_table(said.path, said, incoming)
    config = parse_config(table.properties, table.path)
    replaces = (
        said.operation
        if said.operation.startswith("insert_overwrite")
        else "mode('overwrite') on a table that is there"
    )
    check_spreads(config, replaces if overwrite and not is_new else said.operation, table.path)
    _check_ordering(config, said, incoming)
    source = Source(table.path, said.storage)
    request = WriteRequest(
        cast("Operation", said.operation),
        block_format=said.block_format,
        evolve=said.evolve,
        schema_conflict=cast("SchemaConflicts | None", said.schema_conflict),
    )
    carried = begin_carried(source, request, incoming, dict(said.told))
    note = start_beating(source.url, dict(source.options), carried.plan.request_time, carried.interval_s)
    return LakebraidWriter(carried, note, runs_services=said.runs_services)


def arrow_columns(schema: StructType) -> pa.Schema:
    """The columns that are written, all of which may be NULL: what a frame happens to hold is no rule for a table."""
    found = arrow_schema(schema)
    return pa.schema([field.with_nullable(True) for field in found if field.name not in META_COLUMNS])


def target_table(path: str, said: WriteOptions, incoming: pa.Schema) -> tuple[Table, bool]:
    table = existing(path, dict(said.storage))
    if table is not None:
        return checked(table, said), False
    return open_or_create(path, said, incoming, dict(said.storage)), True


def _check_ordering(config: TableConfig, said: WriteOptions, incoming: pa.Schema) -> None:
    """A delete without ordering values has to look at the rows it deletes: see `writing.operations.deletes`."""
    missing = [name for name in config.ordering_fields if name not in incoming.names]
    if said.operation == "delete" and config.merge_mode is MergeMode.EVENT_TIME and missing:
        raise InvalidArgument(
            f"To delete rows, the data source needs their ordering column {missing[0]}. Nothing was deleted. Give it, or use "
            "`lakebraid.write(df, path, **options)`, which looks the rows up.",
            column=missing[0],
        )
