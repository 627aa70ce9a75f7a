# SPDX-License-Identifier: Apache-2.0
"""The engine of data frames: Spark's tasks, or the driver where rows are few, write the files of a write."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from lakebraid.spark.place import GatheredFrames, KeptFrame, keep_frame, keep_rows
from lakebraid.spark.versions import frame_of
from lakebraid.spark.write import arrow_schema_of, cancel_spark, write_spark
from lakebraid.storage.protocol import Storage
from lakebraid.tasks.engine import Evaluated, Gathered, Kept, LocalEngine, Written
from lakebraid.tasks.lookup.changes import Piece
from lakebraid.tasks.staged_file import StagedFile
from lakebraid.tasks.writing.inputs import arrow_pieces
from lakebraid.tasks.writing.rows import WritePlan


class SparkEngine:
    """Writes the data frames of one write. Its jobs bear `tag`; `evaluated` saves the next attempt an evaluation."""

    def __init__(self, storage: Storage, tag: str, evaluated: Evaluated | None = None) -> None:
        self._storage, self._tag, self._evaluated = storage, tag, evaluated
        self._local = LocalEngine(storage)
        self._session: SparkSession | None = None
        self._tasks: int | None = None
        """Among how many tasks the frames that are kept are shared out."""
        self.is_cancelled = False

    def at_hand(self, data: DataFrame, columns: pa.Schema | None) -> pa.Table | None:  # noqa: ARG002  the protocol's
        return None

    def pieces(self, data: DataFrame, columns: pa.Schema | None) -> Iterable[DataFrame]:  # noqa: ARG002  the protocol's
        self._session = data.sparkSession
        return (data,)

    def schema_of(self, rows: DataFrame) -> pa.Schema:
        return arrow_schema_of(rows)

    def write(self, plan: WritePlan, rows: DataFrame, task: int) -> Written:
        if self._evaluated is not None and self._evaluated.rows is not None:
            return self._write_again(plan, self._evaluated.rows, task)
        written = write_spark(self._storage, plan, rows, first_task=task, tag=self._tag)
        if self._evaluated is not None:
            self._evaluated.keep(written.rows)
        return written

    def keep(self, plan: WritePlan, rows: DataFrame) -> Piece | Kept | None:
        evaluate = partial(keep_frame, plan, rows, self._tag, self._tasks)
        if self._evaluated is None:
            kept: Kept | pa.Table = evaluate()
        else:
            kept = self._evaluated.placed(plan.schema, evaluate)
        if isinstance(kept, pa.Table):
            return self._local.keep(plan, kept)
        if not isinstance(kept, KeptFrame):
            raise TypeError(kept)
        self._tasks = self._tasks or kept.tasks
        return kept if self._evaluated is None else replace(kept, is_lent=True)

    def gather(self, plan: WritePlan, kept: Sequence[Piece | Kept], task: int) -> Gathered:
        """On Spark, if a frame is among what was kept; else all rows are in this process."""
        if self._tasks is None or self._session is None:
            return self._local.gather(plan, kept, task)
        frames = []
        for rows in kept:
            if isinstance(rows, Piece):
                frame = frame_of(self._session, rows.rows)
                frames.append(keep_rows(replace(plan, operation=rows.operation), frame, self._tasks))
            elif isinstance(rows, KeptFrame):
                frames.append(rows)
        return GatheredFrames(self._storage, plan, frames, task, self._tag)

    def seeds(self, plan: WritePlan, groups: Iterable[tuple[str, str]]) -> Iterator[StagedFile]:
        return self._local.seeds(plan, groups)

    def cancel(self) -> None:
        self.is_cancelled = True
        if self._session is not None:
            cancel_spark(self._session, self._tag)

    def _write_again(self, plan: WritePlan, rows: pa.Table, task: int) -> Written:
        """Writes the rows that the first attempt has brought to the driver."""
        files: list[StagedFile] = []
        for number, piece in enumerate(arrow_pieces(rows)):
            # A second base file of a group would hide the first.
            piece_plan = plan if number == 0 else replace(plan, into_base=False)
            written = self._local.write(piece_plan, piece, task)
            files, task = files + written.files, written.next_task
        return Written(files, task, rows)
