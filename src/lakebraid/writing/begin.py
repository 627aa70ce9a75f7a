# SPDX-License-Identifier: Apache-2.0
"""How a write begins, and what is settled from then on, in whatever process it ends."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, cast

import pyarrow as pa

from lakebraid import limits
from lakebraid.errors import InvalidArgument
from lakebraid.model.config import META_COLUMNS, TableConfig
from lakebraid.model.incoming import prepare
from lakebraid.model.keys.keys import record_keys
from lakebraid.txn.actions.write import begin_write
from lakebraid.txn.checks.overwrites import Placement
from lakebraid.txn.ledger.entries import Batch
from lakebraid.txn.ledger.ledger import Ledger
from lakebraid.txn.liveness.heartbeat import beat_first
from lakebraid.txn.writer import TableSchema
from lakebraid.writing.inputs import arrow_pieces, is_repeatable, is_spark
from lakebraid.writing.operations.overwrite import OVERWRITES, Overwriting
from lakebraid.writing.result import Operation
from lakebraid.writing.rivals import Rivalry
from lakebraid.writing.schema import OwnSchema

NO_ROWS: Final = object()
"""Rows that were not given; an empty list is rows."""


@dataclass(frozen=True, slots=True)
class Beginning:
    """What a write knows of itself once it has begun. It pickles: whoever has it can end the write."""

    instant: str
    token: str
    """By which the ledger knows whose it is."""
    operation: Operation
    writer: str
    schema: OwnSchema
    rivalry: Rivalry
    overwriting: Overwriting | None
    placement: Placement


def begin(
    ledger: Ledger,
    token: str,
    operation: Operation,
    writer: str,
    rivalry: Rivalry,
    *,
    columns: tuple[str, ...] | None,
    batch: Batch | None,
) -> tuple[str, bool]:
    """The start of a new write, and whether its rows may become base files."""

    def begun(*, adds_base: bool) -> str:
        start = begin_write(
            ledger,
            token,
            action="replacecommit" if operation in OVERWRITES else ledger.config.write_action,
            adds_base=adds_base,
            columns=columns,
            batch=batch,
            writer=writer,
            beat=lambda start: cast("None", beat_first(ledger.storage, start)),
            seen=rivalry.note if rivalry.matters else None,
        )
        rivalry.settle(start)
        return start

    if operation in OVERWRITES:
        return begun(adds_base=False), True  # in file groups that nobody has: base files disturb no one
    newest = ledger.known or ledger.newest()
    is_bulk = operation == "bulk_insert" and not ledger.config.is_placed
    if is_bulk and newest.state.is_fresh and not ledger.is_shared:
        with contextlib.suppress(InvalidArgument):  # somebody else published meanwhile: log files, then
            return begun(adds_base=True), True
    return begun(adds_base=False), False


def checked(
    rows: Any,
    schema: OwnSchema,
    config: TableConfig,
    operation: Operation,
    columns: tuple[str, ...] | None,
    newest: Callable[[], TableSchema | None],
) -> Any:
    """The rows as Arrow, if they are few and at hand; InvalidArgument if they do not fit the table.

    If they bring columns, the `newest` schema is looked at: this process may remember one from before others added them.
    """
    if rows is NO_ROWS or is_spark(rows) or isinstance(rows, pa.RecordBatchReader) or schema.begun is None:
        return rows
    table = pa.concat_tables(arrow_pieces(rows, schema.begun.columns))
    if is_repeatable(rows) and {*table.column_names} - {*schema.begun.columns.names, *META_COLUMNS}:
        begun = newest() or schema.begun
        if begun != schema.begun:
            schema.begun = begun
            table = pa.concat_tables(arrow_pieces(rows, begun.columns))
    if table.num_columns and table.num_rows <= limits.CHECKED_ROWS_MAX:
        grown = schema.grown(table.schema, config)
        ready = prepare(table, grown, config, operation=operation, columns=columns)
        record_keys(ready, config.record_keys, config.has_complex_keys)
    return table
