# SPDX-License-Identifier: Apache-2.0
"""How a write begins: the table is looked at, rows that are at hand are checked, and the ledger gives the write its request time.

`open_write` decides nothing and leaves no trace; `begin` does. What is settled then is a `Beginning`, with which any process can
end the write.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import pyarrow as pa

from lakebraid import limits
from lakebraid.errors import InvalidArgument, RolledBack
from lakebraid.model.config import META_COLUMNS, TableConfig
from lakebraid.model.creation.columns import check_ordering
from lakebraid.model.file_sizing import Sizes, sizes_of
from lakebraid.model.incoming import prepare
from lakebraid.model.keys.keys import record_keys
from lakebraid.model.metadata.file_ranges import NO_COLUMNS, range_rules
from lakebraid.model.operations import KINDS, Operation
from lakebraid.model.schema.conform import without_meta
from lakebraid.model.schema.growth import evolved
from lakebraid.model.schema.user_schema import fit_schema
from lakebraid.reading.plan import Source
from lakebraid.storage.tries import StoreTally, counted_in
from lakebraid.tasks.engine import Engine, Evaluated
from lakebraid.tasks.writing.inputs import is_repeatable
from lakebraid.tasks.writing.rows import WritePlan
from lakebraid.txn.actions.batches import named_batch
from lakebraid.txn.actions.write import begin_write
from lakebraid.txn.checks.rivalry import Placement, Rivalry
from lakebraid.txn.checks.single_writer import clear_dead
from lakebraid.txn.ledger.entries import Batch
from lakebraid.txn.ledger.ledger import Ledger
from lakebraid.txn.ledger.rounds import Round
from lakebraid.txn.liveness.heartbeat import beat_first, process_name
from lakebraid.txn.writer import SettingsChanged, TableSchema, Writing
from lakebraid.writing.ahead import Ahead, Series
from lakebraid.writing.operations.overwrite import Overwriting, check_overwrite
from lakebraid.writing.request import SCHEMA_CONFLICT, Engines, WriteRequest, check_schema_conflict


@dataclass
class OwnSchema:
    """The columns of one write: the table's as it began, and what its rows have added since."""

    begun: TableSchema | None
    """The table's schema when the write began; None if no commit has stated one."""
    evolves: bool
    merges: bool
    """Whether a schema change of another writer is joined with this write's, instead of refusing one of them."""
    own: pa.Schema | None = None

    @property
    def columns(self) -> pa.Schema | None:
        return self.own if self.own is not None or self.begun is None else self.begun.columns

    def grown(self, incoming: pa.Schema, config: TableConfig) -> pa.Schema:
        """The columns with these rows; whether another writer changed the table's since then is seen at the commit."""
        columns = self.columns
        if columns is None:
            stated = fit_schema(without_meta(incoming))  # the first rows of a table without schema state it
            check_ordering(stated, config, "Nothing was written.")
            return stated
        brings_nothing = not self.evolves or incoming.equals(columns)
        return columns if brings_nothing else evolved(columns, incoming, config)

    def restate(self, change: Callable[[pa.Schema], pa.Schema], url: str) -> None:
        columns = self.columns
        if columns is None:
            raise InvalidArgument(
                f"{url} has no columns yet, so there are none to change. Nothing was changed. Write rows: they state them."
            )
        self.own = change(columns)

    def stated(self, now: Round, writing: Writing) -> dict[str, str]:
        """What the commit says in this round; SchemaConflict if another writer's change is in the way."""
        own = self.columns
        return {} if own is None else {"schema": writing.schema_text(now, self.begun, own, merges=self.merges)}


@dataclass(frozen=True, slots=True)
class Opening:
    """What is known of a table before a write of it begins."""

    writing: Writing
    source: Source
    request: WriteRequest
    token: str
    writer: str
    batch: Batch | None
    config: TableConfig
    properties: Mapping[str, str]
    ledger: Ledger
    schema: OwnSchema
    engines: Engines
    since_seconds: float
    """When it was opened."""
    tally: StoreTally
    """What its calls to an object store had to do again, from then on."""
    is_blind: bool
    """Whether nothing of the table is read once it has begun: then it goes on before its beginning is applied."""
    series: Series | None = None
    """The writes that it is one of."""
    ahead: Ahead | None = None
    """What of them was begun for it."""

    def anew(self) -> Opening:
        """The same with the settings that the table has now. What this one has asked for begins nothing else."""
        request = replace(self.request, token=self.token)
        anew = open_write(self.writing, self.source, request, is_blind=self.is_blind)
        self.engines.ready = anew.engines.ready
        return replace(
            anew, engines=self.engines, since_seconds=self.since_seconds, tally=self.tally, series=self.series
        )

    def checked(self, rows: Any) -> Any:
        """The rows as Arrow, if they are at hand; InvalidArgument if they are few and do not fit the table.

        If they bring columns, the newest schema is looked at: this process may remember one from before others added them.
        """
        schema, engine = self.schema, self.engines.of(rows)
        table = None if schema.begun is None else engine.at_hand(rows, schema.begun.columns)
        if schema.begun is None or table is None:
            return rows
        if is_repeatable(rows) and {*table.column_names} - {*schema.begun.columns.names, *META_COLUMNS}:
            begun = self.writing.newest_schema(self.ledger) or schema.begun
            if begun != schema.begun:
                schema.begun = begun
                table = engine.at_hand(rows, begun.columns)
        if table is not None and table.num_columns and table.num_rows <= limits.CHECKED_ROWS_MAX:
            grown, request = schema.grown(table.schema, self.config), self.request
            ready = prepare(table, grown, self.config, operation=request.operation, columns=request.columns)
            record_keys(ready, self.config.record_keys, self.config.has_complex_keys)
        return table


@dataclass(frozen=True, slots=True)
class Beginning:
    """What is settled once a write has begun. It pickles: any process that has it can end the write."""

    instant: str
    token: str
    """By which the ledger knows whose the write is."""
    request: WriteRequest
    writer: str
    schema: OwnSchema
    rivalry: Rivalry
    overwriting: Overwriting | None
    placement: Placement
    into_base: bool
    """Whether rows may become base files."""
    is_ahead: bool
    """Whether it began before its caller had any rows."""
    announced: frozenset[tuple[str, str]]
    """Partitions and names of files that were announced then."""
    sizes: Sizes | None
    """How large files shall become, where rows are kept until the commit and assigned then; else None."""
    indexed: tuple[str, ...] = ()
    """The columns of which the table's metadata table keeps statistics."""

    @property
    def operation(self) -> Operation:
        return self.request.operation

    def plan(self, source: Source, config: TableConfig, columns: pa.Schema, operation: Operation) -> WritePlan:
        """What all tasks that write rows of these columns have in common."""
        return WritePlan(
            url=source.url,
            options=source.options,
            request_time=self.instant,
            schema=columns,
            config=config,
            buckets=config.buckets or 1,
            operation=operation,
            block_format=self.request.block_format,
            columns=self.request.columns,
            into_base=self.into_base,
            file_ids=self.placement.listed,
            replaced=self.placement.replaced,
            announced=self.announced,
            ranges=range_rules(self.indexed, config, columns) if self.indexed else NO_COLUMNS,
        )


def open_write(
    writing: Writing,
    source: Source,
    request: WriteRequest,
    *,
    engine: Engine | None = None,
    evaluated: Evaluated | None = None,
    is_blind: bool = False,
) -> Opening:
    """The table as it is before a write of it begins; InvalidArgument or UnsupportedTable if the write cannot be.

    `engine` writes the rows that are no data frames; `evaluated` hands rows on from one attempt to the next. `is_blind` says
    that the caller reads nothing of the table between beginning and commit.
    """
    since_seconds, tally = writing.clock.monotonic(), StoreTally()
    token, name = request.token or writing.clock.token(), request.writer or process_name()
    batch = None if request.batch is None else named_batch(request.writer, request.batch, request.stream)
    check_schema_conflict(request.schema_conflict)
    with counted_in(tally):
        (config, properties), confirm = writing.settings_ahead()
    if request.overwrites:
        check_overwrite(request.operation, config, source.url)
    ledger = writing.ledger(config)
    ledger.confirm = confirm
    merges = (request.schema_conflict or properties.get(SCHEMA_CONFLICT)) == "merge"
    schema = OwnSchema(writing.schema(ledger), request.evolve and request.operation != "delete", merges)
    engines = Engines(writing.storage, token, engine, evaluated, partial(check_begun, ledger))
    return Opening(
        writing,
        source,
        request,
        token,
        name,
        batch,
        config,
        properties,
        ledger,
        schema,
        engines,
        since_seconds,
        tally,
        is_blind,
    )


def check_begun(ledger: Ledger) -> None:
    """RolledBack if a write that seemed to have begun has not: its process slept while a thousand decisions were made."""
    if not ledger.counts():
        raise RolledBack(
            f"A write of {ledger.storage.url} was about to begin when its process stopped for so long that its place was "
            "taken. Nothing of it is visible, now or later. Write again.",
            path=ledger.storage.url,
        )


def begin(opening: Opening) -> tuple[Opening, Beginning]:
    """Begins the write, perhaps with other settings than it was opened with; BatchRepeated if its batch is published."""
    try:
        return opening, _begin(opening)
    except SettingsChanged:
        opening = opening.anew()
        return opening, _begin(opening)


def _begin(opening: Opening) -> Beginning:
    writing, request, config, ledger = opening.writing, opening.request, opening.config, opening.ledger
    # What leaves no rows may put right what no other write goes beside.
    placement = Placement() if KINDS[request.operation].leaves_none else writing.placement(opening.properties, ledger)
    sizes = sizes_of(opening.properties) if config.is_placed else None
    rivalry = Rivalry(
        config,
        opening.properties,
        opening.writer,
        overwrites=request.overwrites,
        is_isolated=request.is_isolated,
        repeats=request.repeats,
        is_partial=request.is_partial,
        same_keys=writing.same_keys,
    )
    if rivalry.is_alone:
        clear_dead(ledger, opening.token)
    ahead = None if opening.ahead is None else opening.ahead.use(config, opening.properties)
    if ahead is None:
        request_time, into_base = _start(opening, rivalry)
    else:
        request_time, into_base, ledger.entered = ahead.instant, False, ledger.known
        rivalry.settle(request_time)
    overwriting = None
    if request.overwrites:
        overwriting = Overwriting.of(request, rivalry.begun, updates_allowed=rivalry.updates_allowed)
    placement = overwriting.placement() if overwriting else writing.placed_since(ledger, placement)
    opening.schema.begun = writing.schema_since(ledger, opening.schema.begun)
    return Beginning(
        request_time,
        opening.token if ahead is None else ahead.token,
        request,
        opening.writer,
        opening.schema,
        rivalry,
        overwriting,
        placement,
        into_base,
        ahead is not None,
        frozenset() if ahead is None else ahead.announced,
        sizes,
        writing.indexed_columns(config),
    )


def _start(opening: Opening, rivalry: Rivalry) -> tuple[str, bool]:
    """The request time of a new write, and whether its rows may become base files."""
    ledger, request = opening.ledger, opening.request

    def begun(*, adds_base: bool) -> str:
        request_time = begin_write(
            ledger,
            opening.token,
            action="replacecommit" if request.overwrites else ledger.config.write_action,
            adds_base=adds_base,
            columns=request.columns,
            batch=opening.batch,
            writer=opening.writer,
            beat=lambda request_time: cast("None", beat_first(ledger.storage, request_time)),
            seen=rivalry.note if rivalry.matters else None,
            is_alone=rivalry.is_alone,
            # What was decided before it in the same entry need not be on the timeline yet: nothing may be read then.
            lazily=opening.is_blind and not (request.overwrites or request.is_partial or ledger.config.is_placed),
        )
        ledger.confirmed()  # another process may have decided it
        rivalry.settle(request_time)
        return request_time

    if request.overwrites:
        return begun(adds_base=False), True  # in file groups that no other write has: base files disturb none
    newest = ledger.known or ledger.newest()
    is_bulk = request.operation == "bulk_insert" and not ledger.config.is_placed
    if is_bulk and newest.state.is_fresh and not ledger.is_shared:
        with contextlib.suppress(
            InvalidArgument
        ):  # another writer published since the table was looked at: log files, then
            return begun(adds_base=True), True
    return begun(adds_base=False), False
