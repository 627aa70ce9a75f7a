# SPDX-License-Identifier: Apache-2.0
"""Engines: what touches the data files of one write. Which of them writes is decided by the kind of the rows.

A write either puts rows into files as they come, or keeps them until its commit, finds the file group of each (they are
*assigned*), and writes all of them then (docs/decisions/0013-placed-writes.md). An engine does the same on its own rows:
`LocalEngine` on Arrow tables in this process, `lakebraid.spark.engine` on data frames. No reader sees files of an engine before the write is
published, and no engine knows of the timeline.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from lakebraid import limits
from lakebraid.model.incoming import prepare
from lakebraid.model.keys.keys import record_keys
from lakebraid.storage.protocol import Storage
from lakebraid.tasks.lookup.assign import Assigned, Ground, finder
from lakebraid.tasks.lookup.changes import Piece, RowChanges, gather
from lakebraid.tasks.lookup.stage import place, write_placed
from lakebraid.tasks.merging.rewrite import Target
from lakebraid.tasks.staged_file import StagedFile
from lakebraid.tasks.writing.base_file import put_seeds
from lakebraid.tasks.writing.inputs import arrow_pieces, as_table
from lakebraid.tasks.writing.rows import WritePlan, write_rows


@dataclass(frozen=True, slots=True)
class Written:
    """What an engine has made of some rows."""

    files: list[StagedFile]
    next_task: int
    """The first task number that is free now."""
    rows: pa.Table | None
    """The rows themselves, if all of them are in this process."""


class Gathered(Protocol):
    """All rows of a write that were kept until its commit."""

    looks_again: bool
    """Whether rows can be assigned more than once, so that a write can let others go first and look again."""

    def assign(self, ground: Ground) -> Sequence[Target]:
        """The file groups that the rows go into. Nothing is written; with a newer ground rows are assigned anew."""

    def write(self) -> Iterator[StagedFile]:
        """The files of all rows, as they were assigned last."""

    def release(self) -> None:
        """Lets go of what is kept outside of this process."""


class Kept(Protocol):
    """Rows that wait to be assigned, or that the next attempt of a write may need."""

    def release(self) -> None:
        """Lets go of what is kept outside of this process."""


class Engine(Protocol):
    """Writes the rows of one write. `task` is the first number that it may give to a task; a greater one wins ties."""

    is_cancelled: bool

    def at_hand(self, data: Any, columns: pa.Schema | None) -> pa.Table | None:
        """The rows as Arrow, if they are in this process already and can be looked at before the write begins."""

    def pieces(self, data: Any, columns: pa.Schema | None) -> Iterable[Any]:
        """The rows in pieces of a bounded size; plain values get the types of the table's `columns`."""

    def schema_of(self, rows: Any) -> pa.Schema:
        """The columns of a piece."""

    def write(self, plan: WritePlan, rows: Any, task: int) -> Written:
        """Puts a piece into files."""

    def keep(self, plan: WritePlan, rows: Any) -> Piece | Kept | None:
        """A piece that waits for the commit; None if it is empty. InvalidArgument if a row does not fit."""

    def gather(self, plan: WritePlan, kept: Sequence[Piece | Kept], task: int) -> Gathered:
        """Everything that was kept, of this engine and of the local one, together."""

    def seeds(self, plan: WritePlan, groups: Iterable[tuple[str, str]]) -> Iterator[StagedFile]:
        """Empty base files, with which file groups (partition and file id) begin."""

    def cancel(self) -> None:
        """Ends work that is under way, from any thread: it then raises."""


class LocalEngine:
    """Writes Arrow tables, and whatever becomes one, in this process."""

    is_cancelled = False

    def __init__(self, storage: Storage, ready: Callable[[], None] = lambda: None) -> None:
        """`ready` returns when data files may be put."""
        self._storage, self._ready = storage, ready

    def at_hand(self, data: Any, columns: pa.Schema | None) -> pa.Table | None:
        return None if isinstance(data, pa.RecordBatchReader) else as_table(data, columns)

    def pieces(self, data: Any, columns: pa.Schema | None) -> Iterator[pa.Table]:
        for piece in arrow_pieces(data, columns):
            if piece.num_columns or piece.num_rows:  # else an empty list: no rows, and nothing said about columns
                yield piece

    def schema_of(self, rows: pa.Table) -> pa.Schema:
        return rows.schema

    def write(self, plan: WritePlan, rows: pa.Table, task: int) -> Written:
        return Written(write_rows(self._storage, plan, rows, task, self._ready), task + 1, rows)

    def keep(self, plan: WritePlan, rows: pa.Table) -> Piece | None:
        config = plan.config
        ready = prepare(rows, plan.schema, config, operation=plan.operation, columns=plan.columns)
        record_keys(ready, config.record_keys, config.has_complex_keys)
        return Piece(plan.operation, ready) if ready.num_rows else None

    def gather(self, plan: WritePlan, kept: Sequence[Piece | Kept], task: int) -> Gathered:
        pieces = [piece for piece in kept if isinstance(piece, Piece)]
        return _LocalRows(self._storage, plan, gather(plan, pieces, task), task)

    def seeds(self, plan: WritePlan, groups: Iterable[tuple[str, str]]) -> Iterator[StagedFile]:
        return put_seeds(self._storage, plan.request_time, plan.schema, groups, plan.ranges)

    def cancel(self) -> None:
        """The next check of the write ends it."""


@dataclass(slots=True)
class _LocalRows:
    storage: Storage
    plan: WritePlan
    given: RowChanges
    task: int
    looks_again: bool = field(default=True, init=False)
    assigned: tuple[RowChanges, Assigned] | None = field(default=None, init=False)

    def assign(self, ground: Ground) -> Sequence[Target]:
        find = finder(self.storage, self.plan, self.given.rules)
        self.assigned = place(self.storage, self.plan, self.given, ground, find)
        return self.assigned[1].targets

    def write(self) -> Iterator[StagedFile]:
        if self.assigned is not None:
            yield from write_placed(self.storage, self.plan, *self.assigned, self.task)

    def release(self) -> None:
        """All of it is in this process."""


class Evaluated:
    """Rows that an engine evaluates once, however often the write is done again: each attempt hands them on to the next.

    Few rows are kept in this process. Many rows of a placed write are kept by the engine until all attempts are over;
    those that tasks have put into log files are in no process any more, and are evaluated anew.
    """

    def __init__(self) -> None:
        self.rows: pa.Table | None = None
        self._kept: tuple[pa.Schema, Kept] | None = None

    def keep(self, rows: pa.Table | None) -> None:
        """Takes the rows, if all of them are in this process and are not too many."""
        if rows is not None and rows.nbytes <= limits.REDONE_BYTES_MAX:
            self.rows = rows

    def placed(self, schema: pa.Schema, evaluate: Callable[[], Kept | pa.Table]) -> Kept | pa.Table:
        """The rows as columns of this schema; they are evaluated if no attempt has, or if the table has other columns now."""
        if self.rows is not None:
            return self.rows
        if self._kept is not None and self._kept[0].equals(schema):
            return self._kept[1]
        self.release()
        found = evaluate()
        if isinstance(found, pa.Table):
            self.keep(found)
        else:
            self._kept = (schema, found)
        return found

    def release(self) -> None:
        """Lets go of what is kept outside of this process."""
        if self._kept is not None:
            self._kept[1].release()
            self._kept = None
