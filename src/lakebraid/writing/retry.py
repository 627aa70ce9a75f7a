# SPDX-License-Identifier: Apache-2.0
"""Writes that are done again by themselves when another writer was in the way.

A conditional change need not do everything again. Between two attempts few file groups change. Where a key says which
bucket has its row, the rows that were computed from the other buckets are still right: same files, same columns, same
rows. docs/decisions/0012-optimistic-concurrency.md
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakebraid import limits
from lakebraid.errors import CommitRefused, InvalidArgument, SnapshotExpired, WriteConflict
from lakebraid.model.config import TableConfig
from lakebraid.model.incoming import prepare
from lakebraid.model.keys.buckets import bucket_ids, bucket_of_file_id
from lakebraid.model.keys.keys import record_keys
from lakebraid.model.keys.partitions import partition_paths
from lakebraid.model.timeline.slicing import FileSlice
from lakebraid.reading.plan import Source
from lakebraid.reading.snapshot import Snapshot
from lakebraid.table.loading import pause
from lakebraid.tasks.engine import Evaluated
from lakebraid.tasks.lookup.changes import Piece
from lakebraid.tasks.writing.inputs import is_repeatable, repeatable
from lakebraid.txn.checks.single_writer import ALONE
from lakebraid.txn.ledger.ledger import Ledger
from lakebraid.txn.liveness.waiting import stand_aside
from lakebraid.txn.writer import SettingsChanged, Writing
from lakebraid.writing.ahead import Ahead, Series
from lakebraid.writing.begin import open_write
from lakebraid.writing.request import WriteRequest
from lakebraid.writing.result import WriteResult
from lakebraid.writing.transaction import Afterwards, Transaction

Place = tuple[str, int]
"""A partition and a bucket of it."""
Compute = Callable[["Transaction", "Part"], bool]
"""Writes what a conditional change makes of the rows of a part; True if each row follows from its file group alone."""


@dataclass(frozen=True, slots=True)
class Destination:
    """A table as its writes know it."""

    writing: Writing
    source: Source
    config: TableConfig

    def ledger(self) -> Ledger:
        """A ledger of one's own."""
        return self.writing.ledger(self.config)

    def columns(self) -> pa.Schema | None:
        """The table's columns, perhaps as they were at the last write of this process; None if no commit has stated any."""
        return self.writing.columns(self.config)

    def begin(self, request: WriteRequest, afterwards: Afterwards | None = None) -> Transaction:
        """Begins a write; `afterwards` is called when its commit is done."""
        return Transaction(open_write(self.writing, self.source, request), afterwards)

    def wait(self, error: WriteConflict | SnapshotExpired, attempt: int) -> None:
        """Waits before a refused write is done again: for the writers in its way, where writers must wait for others."""
        clock = self.writing.clock
        if isinstance(error, WriteConflict) and (self.config.concurrency == "occ" or self.config.is_placed):
            stand_aside(self.ledger(), error)
        else:
            pause(clock, attempt)  # where writers never wait, others are always there and hinder none


def write_rows(
    table: Destination,
    request: WriteRequest,
    rows: Any,
    retries: int | None,
    afterwards: Afterwards | None = None,
    series: Series | None = None,
) -> WriteResult:
    """Writes rows in one commit, and again by itself, up to so many times, if another writer was in the way.

    In optimistic tables, overwrites and partial updates that is to be expected, so rows that can be taken once only
    are kept. Elsewhere only an overwrite can be in the way: then rows that can be taken again are. A write of a `series` may be
    begun ahead.
    """
    config = table.config
    is_likely = config.concurrency == "occ" or config.is_placed or request.is_partial or request.overwrites
    if is_likely and retries != 0:
        rows = repeatable(rows)
    retries = retries if is_likely or is_repeatable(rows) else 0
    request = replace(request, repeats=retries != 0)
    evaluated = Evaluated() if is_likely and retries != 0 else None
    try:
        begin = partial(_begin_with, table, request, rows, evaluated, afterwards, series)
        if series is not None and is_repeatable(rows):
            done = _written_ahead(series, request, begin)
            if done is not None:
                return done
        return until_unhindered(begin, retries, table.wait)
    finally:
        if series is not None:
            series.ended()
        if evaluated is not None:
            evaluated.release()


def _written_ahead(series: Series, request: WriteRequest, begin: Callable[..., Transaction]) -> WriteResult | None:
    """What the write has done that was begun ahead for this request; None if there is none, or if it was refused.

    Then nothing of it is visible, and another one that begins now may not be refused: its process may have slept, or the settings
    or the schema may have changed after it was begun, and before its caller had any rows.
    """
    ahead = series.take(request)
    if ahead is None:
        return None
    try:
        with begin(ahead=ahead) as transaction:
            return replace(transaction.commit(), attempts=1)
    except (CommitRefused, SettingsChanged):
        return None
    finally:
        ahead.let_go()  # unless it was used


def _begin_with(
    table: Destination,
    request: WriteRequest,
    rows: Any,
    evaluated: Evaluated | None,
    afterwards: Afterwards | None,
    series: Series | None,
    ahead: Ahead | None = None,
) -> Transaction:
    """A transaction with these rows. They are checked before it begins: what does not fit leaves no trace."""
    opening = open_write(table.writing, table.source, request, evaluated=evaluated, is_blind=True)
    rows = opening.checked(rows)
    transaction = Transaction(replace(opening, series=series, ahead=ahead), afterwards)
    try:
        transaction.write(rows)
    except BaseException:
        transaction.give_up()
        raise
    return transaction


def change_rows(
    table: Destination,
    request: WriteRequest,
    compute: Compute,
    look: Callable[[], Snapshot],
    retries: int | None,
    afterwards: Afterwards | None = None,
) -> WriteResult:
    """Writes what is computed from the rows that are there, and again if other writers change them before the commit.

    Rows of a file group that follow from that group alone are kept for the next attempt, which computes those of the
    groups that were touched. `look` gives the table as it is.
    """
    request = replace(request, is_isolated=True, evolve=False, repeats=retries != 0)
    redoing = Redoing(table.config)

    def fill(transaction: Transaction) -> None:
        snapshot = look()
        transaction.begun.rivalry.saw(snapshot.view.timeline)
        part = redoing.part(snapshot)
        is_by_group = compute(transaction, part)
        for piece in part.kept:
            transaction.write_again(piece)
        redoing.keep(snapshot, transaction.staging.kept if is_by_group else None)

    return until_unhindered(partial(table.begin, request, afterwards), retries, table.wait, fill)


def until_unhindered(
    begin: Callable[[], Transaction],
    retries: int | None,
    wait: Callable[[WriteConflict | SnapshotExpired, int], None],
    fill: Callable[[Transaction], None] | None = None,
) -> WriteResult:
    """Begins, fills and commits; after a `wait` again, up to so many times, if another writer was in the way."""
    again = limits.CONFLICT_RETRIES if retries is None else retries
    if again < 0:
        raise InvalidArgument("retries must not be negative. Nothing was changed.")
    attempt = 0
    while True:
        try:
            with begin() as transaction:
                if fill is not None and not transaction.is_repeated:
                    fill(transaction)
                return replace(transaction.commit(), attempts=attempt + 1)
        except (WriteConflict, SnapshotExpired) as error:  # the latter: a clean removed what was read
            if attempt == again or error.facts.get("rule") == ALONE:
                raise
            wait(error, attempt)
        attempt += 1


@dataclass(frozen=True, slots=True)
class Part:
    """What one attempt has to compute, and the rows that it need not."""

    snapshot: Snapshot
    """The slices to be read."""
    places: frozenset[Place] | None = None
    """The places they are in; None for all there are."""
    kept: tuple[Piece, ...] = ()

    def of(self, rows: pa.Table, config: TableConfig) -> pa.Table:
        """Of rows with the table's keys those that belong here."""
        return rows if self.places is None else rows.filter(pa.array(_lies_in(self.places, rows, config)))


class Redoing:
    """What the attempts of one conditional change hand on to the next."""

    def __init__(self, config: TableConfig) -> None:
        # Where a log file may grow, or keys are looked up, the names of files and the keys of rows say too little.
        self._config, self._is_possible = config, config.buckets is not None and not config.may_share_logs
        self._seen: tuple[pa.Schema, dict[Place, tuple[FileSlice, ...]]] | None = None
        self._pieces: Sequence[Piece] = ()

    def part(self, snapshot: Snapshot) -> Part:
        """What is to be computed from the table as it is now."""
        now = self._places(snapshot)
        if self._seen is None or now is None or not snapshot.schema.equals(self._seen[0]):
            return Part(snapshot)
        before = self._seen[1]
        touched = frozenset(place for place in {*before, *now} if before.get(place) != now.get(place))
        groups = {held.group for place in touched for held in now.get(place, ())}
        kept = (self._untouched(piece, touched, snapshot.schema) for piece in self._pieces)
        changed = snapshot.only(groups)
        return Part(changed, touched, tuple(piece for piece in kept if piece.rows.num_rows))

    def keep(self, snapshot: Snapshot, pieces: Sequence[Piece] | None) -> None:
        """Takes all rows that were computed from a snapshot; with None there is nothing to hand on."""
        places = None if pieces is None else self._places(snapshot)
        self._seen = None if places is None else (snapshot.schema, places)
        self._pieces = pieces or ()

    def _untouched(self, piece: Piece, touched: frozenset[Place], schema: pa.Schema) -> Piece:
        ready = prepare(piece.rows, schema, self._config, operation=piece.operation)
        return Piece(piece.operation, piece.rows.filter(pa.array(~_lies_in(touched, ready, self._config))))

    def _places(self, snapshot: Snapshot) -> dict[Place, tuple[FileSlice, ...]] | None:
        """The slices by place; None if that cannot be told."""
        found: dict[Place, tuple[FileSlice, ...]] = defaultdict(tuple)
        for held in sorted(snapshot.slices, key=lambda held: held.group) if self._is_possible else ():
            bucket = bucket_of_file_id(held.group.file_id)
            if bucket is None:
                return None
            found[held.group.partition, bucket] += (held,)
        return dict(found) if self._is_possible else None


def _lies_in(places: frozenset[Place], rows: pa.Table, config: TableConfig) -> npt.NDArray[np.bool_]:
    """Which rows belong to these places."""
    keys = record_keys(rows, config.record_keys, config.has_complex_keys)
    buckets = bucket_ids(keys, config.bucket_fields, config.buckets or 1)
    paths = partition_paths(rows, config.partition_fields, config.hive_style, config.url_encode).dictionary_encode()
    codes, found = np.asarray(paths.indices), np.zeros(rows.num_rows, np.bool_)
    for code, partition in enumerate(paths.dictionary.to_pylist()):
        wanted = [bucket for path, bucket in places if path == partition]
        found |= (codes == code) & np.isin(buckets, wanted)
    return found
