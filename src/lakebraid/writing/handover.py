# SPDX-License-Identifier: Apache-2.0
"""A write that is begun in one process, done by tasks anywhere, and ended in another process.

Spark's data source has no driver of ours: the process that begins a write is gone, or at other work, when its tasks run,
and the one that commits has only what was pickled. The ledger knows the write by its token, so the process that carries
it on is its owner, and a second commit or abort finds what the first has decided.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from lakebraid.clock import SystemClock
from lakebraid.errors import InvalidArgument
from lakebraid.model.config import TableConfig, TableType
from lakebraid.model.incoming import prepare
from lakebraid.model.operations import SPREAD
from lakebraid.reading.plan import Source
from lakebraid.storage import open_storage
from lakebraid.tasks.staged_file import StagedFile
from lakebraid.tasks.writing.rows import WritePlan
from lakebraid.txn.liveness.heartbeat import beat_interval_ms
from lakebraid.txn.writer import Writing
from lakebraid.writing.begin import Beginning, open_write
from lakebraid.writing.request import WriteRequest
from lakebraid.writing.result import WriteResult
from lakebraid.writing.stage import Looking
from lakebraid.writing.transaction import Transaction


@dataclass(frozen=True, slots=True)
class Carried:
    """An open write on its way: small, and it pickles."""

    source: Source
    plan: WritePlan
    """What its tasks need."""
    columns: tuple[str, ...]
    """The columns of the rows that they write."""
    begun: Beginning
    looked: Looking | None
    interval_s: float
    """How often somebody must show that it lives."""

    def __repr__(self) -> str:
        return f"Carried({self.plan!r})"  # the rest may hold credentials


def begin_carried(
    source: Source, request: WriteRequest, incoming: pa.Schema, told: Mapping[str, str] | None = None
) -> Carried:
    """Begins a write of rows with these columns. Nobody beats for it after the first beat: that is the caller's to see to."""
    writing = Writing(open_storage(source.url, dict(source.options)), SystemClock(), told)
    operation = request.operation
    # A bulk load begins as an insert: whole base files would need a shuffle. Whoever is refused runs the job again.
    spread = replace(request, operation="insert" if operation == "bulk_insert" else operation, repeats=True)
    transaction = Transaction(open_write(writing, source, spread))
    try:
        plan = transaction.staging.plan(incoming, operation)
        transaction.staging.check_begun()
        transaction.stop_beating()
        ready = prepare(incoming.empty_table(), plan.schema, plan.config, operation=operation, columns=plan.columns)
    except BaseException:
        transaction.abort()
        raise
    columns = tuple(name for name in ready.schema.names if name in incoming.names)
    begun = replace(transaction.begun, request=replace(spread, operation=operation))
    return Carried(source, plan, columns, begun, transaction.staging.looked, beat_interval_ms(plan.config) / 1000)


def commit_carried(carried: Carried, files: Iterable[StagedFile]) -> WriteResult:
    """Publishes the write with these files; errors as those of `Transaction.commit`."""
    return resumed(carried, files).commit()


def resumed(carried: Carried, files: Iterable[StagedFile] = ()) -> Transaction:
    """The transaction in this process; it beats until it ends."""
    source = carried.source
    writing = Writing(open_storage(source.url, dict(source.options)), SystemClock())
    return Transaction.resume(writing, source, carried.begun, carried.looked, files)


def check_spreads(config: TableConfig, operation: str, url: str) -> None:
    """InvalidArgument if tasks cannot do this write by themselves, and how it is done instead."""
    if operation in SPREAD and config.table_type is TableType.MOR and config.buckets is not None:
        return
    what = (
        operation
        if operation not in SPREAD
        else f"{operation} into a {config.table_type.replace('_', ' ').lower()} table"
    )
    if operation in SPREAD and config.table_type is TableType.MOR:
        what = f"{operation} into a table without buckets"
    raise InvalidArgument(
        f"{what} needs a shuffle or a look at {url}, which Spark's Python data source cannot do. Nothing was written. Use "
        "`lakebraid.write(df, path, mode=..., **options)`: it takes the same options.",
        path=url,
        operation=operation,
    )
