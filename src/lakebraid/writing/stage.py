# SPDX-License-Identifier: Apache-2.0
"""From the rows of one write to its files, which nobody sees before it is published."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from lakebraid import limits
from lakebraid.errors import InvalidArgument
from lakebraid.model.config import TableConfig
from lakebraid.reading.plan import Source
from lakebraid.table.view import load_view
from lakebraid.tasks.lookup.changes import Piece
from lakebraid.tasks.staged_file import StagedFile
from lakebraid.tasks.writing.rows import WritePlan, write_rows
from lakebraid.tasks.writing.skeletons import KnownKeys
from lakebraid.txn.checks.opened_keys import Looked
from lakebraid.txn.ledger.rounds import Round
from lakebraid.txn.writer import Writing
from lakebraid.writing.evaluated import Evaluated
from lakebraid.writing.gate import Gate
from lakebraid.writing.inputs import arrow_pieces, is_spark
from lakebraid.writing.looking import look
from lakebraid.writing.placed import Placing
from lakebraid.writing.result import Operation
from lakebraid.writing.schema import OwnSchema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FIRST_TASK: Final = 1000
Looking = tuple[KnownKeys, Looked]
"""What a partial update has seen of the keys that are there."""


class Staging:
    """The files of one write, and those of its rows that wait to be placed."""

    def __init__(
        self,
        writing: Writing,
        source: Source,
        config: TableConfig,
        schema: OwnSchema,
        plan_of: Callable[[pa.Schema], WritePlan],
        placing: Placing | None,
        tag: str,
        check: Callable[[str], None],
        evaluated: Evaluated | None = None,
    ) -> None:
        """`tag` names the jobs on Spark; `check` raises if the write has lost its place meanwhile."""
        self._evaluated = evaluated
        self._writing, self._source, self._config = writing, source, config
        self._schema, self.plan_of = schema, plan_of
        self._placing, self._tag, self._check = placing, tag, check
        self.files: list[StagedFile] = []
        self.spark: SparkSession | None = None
        """The session that writes, so that its jobs can be cancelled."""
        self._task = _FIRST_TASK
        self.looked: Looking | None = None
        self.kept: list[Piece] | None = None
        """All rows so far, for whoever wants them kept (a list is put here), as long as they are few."""

    def write(self, data: Any, operation: Operation) -> None:
        """Puts rows into files, or keeps them until all are there, where they must be placed."""
        if is_spark(data):
            self._write_spark(data, operation)
        else:
            self._write_arrow(data, operation)

    def plan(self, incoming: pa.Schema, operation: Operation) -> WritePlan:
        """What the tasks that write rows with these columns need to know."""
        self._schema.own = self._schema.grown(incoming, self._config)
        plan = replace(self.plan_of(self._schema.own), operation=operation)
        if self._placing is not None:
            return plan
        if plan.columns is not None:
            return replace(plan, known=self._known_keys(plan.start))
        # A second base file of a group would hide the first: only the first rows become base files.
        return replace(plan, into_base=plan.into_base and self._task == _FIRST_TASK)

    def place(self, operation: Operation, gate: Gate) -> None:
        """Puts the rows that were kept into their file groups, as far as the gate lets them pass."""
        if self._placing is None or self._placing.is_empty or self._schema.columns is None:
            return
        plan = replace(self.plan_of(self._schema.columns), operation=operation)
        files, self._task = self._placing.stage(plan, self._task, gate)
        self.files += files

    def check_new_keys(self, now: Round, start: str) -> None:
        """WriteConflict if a partial update opened a row for a key that another writer has brought meanwhile."""
        if self.looked is not None:
            self.looked[1].check(now, start, self.files)

    def release(self) -> None:
        """Lets go of the rows that wait to be placed."""
        if self._placing is not None:
            self._placing.release()

    def _write_arrow(self, data: Any, operation: Operation) -> None:
        for piece in arrow_pieces(data, self._schema.columns):
            if not piece.num_columns and not piece.num_rows:
                continue  # an empty list: no rows, and nothing said about columns
            plan = self.plan(piece.schema, operation)
            if self._placing is not None:
                self._placing.keep(plan, piece)
                continue
            self.files += write_rows(self._writing.storage, plan, piece, self._next_task())
            self._keep(operation, piece)
            self._check("write")

    def _write_spark(self, data: Any, operation: Operation) -> None:
        from lakebraid.spark.write import arrow_schema_of, write_spark  # noqa: PLC0415  only those who use Spark pay

        self.spark = data.sparkSession
        plan = self.plan(arrow_schema_of(data), operation)
        if self._placing is not None:
            self._placing.keep_frame(plan, data)
            return
        if self._evaluated is not None and self._evaluated.rows is not None:
            self._write_arrow(self._evaluated.rows, operation)
            return
        try:
            files, self._task = write_spark(
                self._writing.storage,
                plan,
                data,
                first_task=self._next_task(),
                tag=self._tag,
                keep=partial(self._keep_frame, operation),
            )
        except Exception:
            self._check("write")  # cancelled because the place is lost: that is the error to tell
            raise
        self.files += files
        self._check("write")

    def _keep_frame(self, operation: Operation, rows: pa.Table | None) -> None:
        if self._evaluated is not None:
            self._evaluated.keep(rows)
        self._keep(operation, rows)

    def _keep(self, operation: Operation, rows: pa.Table | None) -> None:
        if self.kept is not None:
            held = sum(piece.rows.nbytes for piece in self.kept)
            is_little = rows is not None and held + rows.nbytes <= limits.REDONE_BYTES_MAX
            self.kept = [*self.kept, Piece(operation, rows)] if is_little else None

    def _known_keys(self, start: str) -> KnownKeys:
        """The keys as they were when a partial update looked first; what changed since is held against it at the end."""
        if self.looked is None:
            view = load_view(self._writing.storage, self._config, self._writing.clock)
            self.looked = look(view, self._source, start)
        return self.looked[0]

    def _next_task(self) -> int:
        task = self._task
        if task >= _FIRST_TASK + limits.TASKS_MAX:
            raise InvalidArgument(f"One transaction can write {limits.TASKS_MAX:,} pieces. Commit, and begin another.")
        self._task += 1
        return task
