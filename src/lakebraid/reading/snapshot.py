# SPDX-License-Identifier: Apache-2.0
"""A table at one moment."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from lakebraid import spark as on_spark
from lakebraid.errors import AccessDenied, UnsupportedTable
from lakebraid.model.timeline.slicing import FileGroup, FileSlice, GroupId
from lakebraid.reading.local import as_pandas, gather
from lakebraid.reading.plan import Mode, Source, Where, plan_read
from lakebraid.storage.parallel import map_ahead, map_slices
from lakebraid.storage.protocol import Storage
from lakebraid.table.grid import Grid, text_bytes
from lakebraid.table.view import View
from lakebraid.tasks.reading.count import count_slice
from lakebraid.tasks.reading.key_filter import read_lookup
from lakebraid.tasks.reading.read import read_slice
from lakebraid.tasks.slice_task import ReadPlan, SliceTask

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession


class SnapshotNotHeld(UserWarning):
    """A snapshot in a `with` block holds no files back, since this process may not write to the table."""


class Snapshot:
    """The rows that were visible at one completion time. It does not change; `Table.snapshot()` gives a newer one.

    Used as `with table.snapshot() as s:` it holds its files back from cleaning until the block ends. That takes an entry in the
    table's ledger: a user who may only read gets the same rows, a warning (`SnapshotNotHeld`), and no hold on files.
    """

    def __init__(
        self,
        storage: Storage,
        source: Source,
        view: View,
        hold: Callable[[str], AbstractContextManager[None]] | None = None,
    ) -> None:
        self._storage, self._source, self.view, self._hold = storage, source, view, hold
        self._held = ExitStack()

    def __enter__(self) -> Self:
        if self._hold is not None and self.completion_time is not None:
            try:
                self._held.enter_context(self._hold(self.completion_time))
            except (AccessDenied, UnsupportedTable) as error:
                warnings.warn(
                    f"The snapshot of {self._storage.url} as of {self.completion_time} holds no files back, since that needs "
                    f"to be written down at the table: {error.message} It is read as any other; if a clean takes files of it "
                    "away, reading ends with SnapshotExpired.",
                    SnapshotNotHeld,
                    stacklevel=2,
                )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._held.close()

    @property
    def completion_time(self) -> str | None:
        """Everything completed up to this time is in it; None for a table without commits."""
        return None if self.view.completion_time == "0" else self.view.completion_time

    @property
    def schema(self) -> pa.Schema:
        """The table's columns at this moment, without Hudi's own."""
        return self.view.schema

    @property
    def slices(self) -> list[FileSlice]:
        """The file slices that a snapshot query reads."""
        return self.view.slices()

    @property
    def groups(self) -> list[FileGroup]:
        """All file groups with all their slices, also those that only older versions read."""
        return list(self.view.groups.values())

    def only(self, groups: Collection[GroupId]) -> Snapshot:
        """The rows of these file groups at the same moment."""
        view = self.view
        chosen = {group: held for group, held in view.groups.items() if group in groups}
        return Snapshot(self._storage, self._source, replace(view, groups=chosen), self._hold)

    def plan(
        self,
        columns: Iterable[str] | None = None,
        where: Where | None = None,
        *,
        mode: Mode = "snapshot",
        meta_columns: bool = False,
    ) -> tuple[ReadPlan, list[SliceTask]]:
        """What tasks elsewhere need to read it: all have the plan in common, each reads one slice."""
        return plan_read(self.view, self._source, columns=columns, where=where, mode=mode, meta_columns=meta_columns)

    def to_arrow(
        self,
        columns: Iterable[str] | None = None,
        where: Where | None = None,
        *,
        mode: Mode = "snapshot",
        meta_columns: bool = False,
    ) -> pa.Table:
        """The rows as an Arrow table, read in this process."""
        plan, tasks = self.plan(columns, where, mode=mode, meta_columns=meta_columns)
        if plan.keys is not None:
            read = partial(read_lookup, self._storage, plan)
            return gather(self._storage, read, [tasks], plan.output_schema, lambda _: 0)
        read_one = partial(read_slice, self._storage, plan)
        return gather(self._storage, read_one, tasks, plan.output_schema, _held_bytes)

    def to_batches(
        self,
        columns: Iterable[str] | None = None,
        where: Where | None = None,
        *,
        mode: Mode = "snapshot",
        meta_columns: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        """The rows batch by batch: memory holds the logs of one slice and one batch; on an object store some small slices."""
        plan, tasks = self.plan(columns, where, mode=mode, meta_columns=meta_columns)
        for rows in map_ahead(self._storage, partial(read_slice, self._storage, plan), tasks, _held_bytes):
            yield from rows.to_batches()

    def to_pandas(
        self,
        columns: Iterable[str] | None = None,
        where: Where | None = None,
        *,
        mode: Mode = "snapshot",
        meta_columns: bool = False,
    ) -> pd.DataFrame:
        """The rows as a pandas data frame, read in this process."""
        return as_pandas(self.to_arrow(columns, where, mode=mode, meta_columns=meta_columns))

    def to_spark(
        self,
        columns: Iterable[str] | None = None,
        where: Where | None = None,
        *,
        mode: Mode = "snapshot",
        meta_columns: bool = False,
        spark: SparkSession | None = None,
    ) -> DataFrame:
        """The rows as a lazy Spark data frame. `columns` and `where` decide what is read at all: prefer them."""
        plan, tasks = self.plan(columns, where, mode=mode, meta_columns=meta_columns)
        return on_spark.read.read_spark(self._storage, plan, tasks, spark)

    def count(self, where: Where | None = None, *, mode: Mode = "snapshot") -> int:
        """The number of rows; without a filter mostly from file footers and keys."""
        plan, tasks = self.plan((), where, mode=mode)
        return sum(map_slices(self._storage, partial(count_slice, self._storage, plan), tasks, size=_held_bytes))

    def __repr__(self) -> str:
        slices = self.view.slices()
        return (
            f"Snapshot of {self.view.config.name!r} as of {self.completion_time or 'its creation'}: "
            f"{len(slices)} file slices in {len({s.group.partition for s in slices})} partitions, "
            f"{text_bytes(sum(s.size for s in slices))}\n{self._grid()}"
        )

    def _repr_html_(self) -> str:
        return self._grid().html(f"{self.view.config.name} as of {self.completion_time or 'its creation'}")

    def _grid(self) -> Grid:
        rows: list[tuple[Any, ...]] = []
        for s in self.view.slices():
            base = text_bytes(s.base.size) if s.base else "none"
            logs = text_bytes(sum(log.size for log in s.logs)) if s.logs else ""
            rows.append((s.group.partition or "(none)", s.group.file_id, s.barrier, base, len(s.logs), logs))
        return Grid(("partition", "file group", "slice", "base", "logs", "log bytes"), rows, right={3, 4, 5})


def _held_bytes(task: SliceTask) -> int:
    return task.held_bytes
