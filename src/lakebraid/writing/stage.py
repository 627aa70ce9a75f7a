# SPDX-License-Identifier: Apache-2.0
"""From the rows of one write to its files, which no reader sees before it is published."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Final

import pyarrow as pa

from lakebraid import limits
from lakebraid.errors import InvalidArgument
from lakebraid.model.config import TableConfig
from lakebraid.model.operations import Operation
from lakebraid.reading.plan import Source, read_plan, slice_task
from lakebraid.table.view import View, load_view
from lakebraid.tasks.engine import Engine
from lakebraid.tasks.lookup.changes import Piece
from lakebraid.tasks.staged_file import StagedFile
from lakebraid.tasks.writing.rows import WritePlan
from lakebraid.tasks.writing.skeletons import KnownKeys
from lakebraid.txn.checks.opened_keys import KeysSeen
from lakebraid.txn.ledger.ledger import Ledger
from lakebraid.txn.ledger.rounds import Round
from lakebraid.txn.writer import Writing
from lakebraid.writing.begin import Beginning
from lakebraid.writing.gate import Gate
from lakebraid.writing.placed import Placing
from lakebraid.writing.request import Engines
from lakebraid.writing.seeds import bases_beside

FIRST_TASK: Final = 1000
Looking = tuple[KnownKeys, KeysSeen]
"""What a partial update has seen of the keys that are there."""


class Staging:
    """The files of one write, and those of its rows that are kept until its commit."""

    def __init__(
        self,
        writing: Writing,
        source: Source,
        config: TableConfig,
        begun: Beginning,
        engines: Engines,
        check: Callable[[str], None],
    ) -> None:
        """`check` raises if the write has been rolled back, or is certain to be refused."""
        self._writing, self._source, self._config = writing, source, config
        self._begun, self._engines, self._check = begun, engines, check
        overwrites = begun.request.overwrites
        self._placing = None if begun.sizes is None else Placing(writing, begun.sizes, overwrites=overwrites)
        self.files: list[StagedFile] = []
        self._task = FIRST_TASK
        self.looked: Looking | None = None
        is_redone = begun.request.is_isolated and self._placing is None
        self.kept: list[Piece] | None = [] if is_redone else None
        """Of an isolated write: all rows so far, as long as they are few, so that its next attempt need not compute them."""

    def write(self, data: Any, operation: Operation) -> None:
        """Puts rows into files, or keeps them until all are there, where they must be assigned to file groups."""
        engine = self._engines.of(data)
        for rows in engine.pieces(data, self._begun.schema.columns):
            plan = self.plan(engine.schema_of(rows), operation)
            if self._placing is not None:
                self._placing.keep(engine.keep(plan, rows))
            else:
                self._write_piece(engine, plan, rows, operation)

    def _write_piece(self, engine: Engine, plan: WritePlan, rows: Any, operation: Operation) -> None:
        try:
            written = engine.write(plan, rows, self._next_task())
        except Exception:
            if engine.is_cancelled:
                self._check("write")  # cancelled because the write is lost: that is the error to tell
            raise
        self._task = written.next_task
        self.files += written.files
        self._keep(operation, written.rows)
        self._check("write")

    def plan(self, incoming: pa.Schema, operation: Operation) -> WritePlan:
        """What the tasks that write rows with these columns need to know."""
        schema = self._begun.schema
        schema.own = schema.grown(incoming, self._config)
        plan = self._begun.plan(self._source, self._config, schema.own, operation)
        if self._placing is not None:
            return plan
        if plan.columns is not None:
            return replace(plan, known=self._known_keys(plan.request_time))
        # A second base file of a group would hide the first: only the first rows become base files.
        return replace(plan, into_base=plan.into_base and self._task == FIRST_TASK)

    @property
    def has_kept_rows(self) -> bool:
        """Whether rows wait to be assigned to file groups."""
        return self._placing is not None and not self._placing.is_empty

    def place(self, gate: Gate) -> None:
        """Assigns the rows that were kept to file groups and writes them, as far as the gate lets them pass."""
        begun, columns = self._begun, self._begun.schema.columns
        if self._placing is not None and columns is not None:
            plan = begun.plan(self._source, self._config, columns, begun.operation)
            self.files += self._placing.stage(self._engines.strongest, plan, self._task, gate)

    def add_seeds(self, ledger: Ledger) -> None:
        """Adds the empty base files that Hudi needs beside the rows of this write."""
        begun, columns = self._begun, self._begun.schema.columns
        if columns is not None and (begun.overwriting is not None or self._config.cdc_enabled):
            plan_of = partial(begun.plan, self._source, self._config, columns, begun.operation)
            self.files += [*bases_beside(ledger, self._engines.local, begun.overwriting, plan_of, self.files)]

    def check_begun(self) -> None:
        """Returns when data files may be put; RolledBack if the write has not begun."""
        self._engines.await_ready()

    def check_new_keys(self, now: Round, request_time: str) -> None:
        """WriteConflict if a partial update opened a row for a key that another writer has brought since this one began."""
        if self.looked is not None:
            self.looked[1].check(now, request_time, self.files)

    def release(self) -> None:
        """Lets go of the rows that were kept."""
        if self._placing is not None:
            self._placing.release()

    def cancel(self) -> None:
        """Ends whatever engines are doing for this write, from any thread."""
        self._engines.cancel()

    def _keep(self, operation: Operation, rows: pa.Table | None) -> None:
        if self.kept is not None:
            held = sum(piece.rows.nbytes for piece in self.kept)
            is_little = rows is not None and held + rows.nbytes <= limits.REDONE_BYTES_MAX
            self.kept = [*self.kept, Piece(operation, rows)] if is_little else None

    def _known_keys(self, request_time: str) -> KnownKeys:
        """The keys as they were when a partial update looked first; what changed since is held against it at the end."""
        if self.looked is None:
            view = load_view(self._writing.at(self._config))
            self.looked = _look(view, self._source, request_time)
        return self.looked[0]

    def _next_task(self) -> int:
        if self._task >= FIRST_TASK + limits.TASKS_MAX:
            raise InvalidArgument(f"One transaction can write {limits.TASKS_MAX:,} pieces. Commit, and begin another.")
        return self._task


def _look(view: View, source: Source, request_time: str) -> Looking:
    """Where tasks of the write that began at `request_time` find the keys of this view, and what its end is held against."""
    plan = read_plan(view, source)
    plan = plan.of_columns(plan.rules.key_columns)
    visible = view.timeline.visibility()
    slices = {(s.group.partition, s.group.file_id): slice_task(s, view.config, visible) for s in view.slices()}
    younger = tuple(i for i in view.timeline.writes if i.request_time > request_time and i.action == "deltacommit")
    return KnownKeys(plan, slices), KeysSeen(view.completion_time, view.timeline.first_active_write, younger)
