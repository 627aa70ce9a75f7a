# SPDX-License-Identifier: Apache-2.0
"""What changed between two moments, by completion time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from lakebraid import limits
from lakebraid import spark as on_spark
from lakebraid.model.timeline.slicing import FileSlice, GroupId
from lakebraid.model.timeline.timeline import Visibility
from lakebraid.reading.local import as_pandas, gather
from lakebraid.reading.plan import Source, read_plan, slice_task
from lakebraid.storage.protocol import Storage
from lakebraid.table.view import View
from lakebraid.tasks.changes.diff import ChangeTask, batches, changes_schema, read_changes_together
from lakebraid.tasks.slice_task import ReadPlan, SliceTask

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession


class Changes:
    """The rows that differ between two moments; applying them to the older gives exactly the newer.

    One row per key, with `_change_type` insert, update or delete (with images: update_preimage and update_postimage;
    without kinds: upsert or delete) and `_commit_completion_time`. The columns of a delete are those of the row that
    went away.
    """

    def __init__(
        self,
        storage: Storage,
        source: Source,
        before: View | None,
        after: View,
        *,
        images: bool,
        kinds: bool = True,
        columns: Iterable[str] | None = None,
        meta_columns: bool = False,
    ) -> None:
        self._storage, self._images, self._kinds = storage, images, kinds
        self._before, self._after = before, after
        self._plan = read_plan(after, source, columns=columns, meta_columns=meta_columns)
        self._tasks = list(_tasks(before, after))

    def plan(self) -> tuple[ReadPlan, list[ChangeTask]]:
        """What tasks elsewhere need to read the changes: all have the plan in common."""
        return self._plan, self._tasks

    @property
    def next_position(self) -> str:
        """Where to go on: pass it as `after` the next time."""
        return self._after.completion_time

    @property
    def schema(self) -> pa.Schema:
        """The table's columns that were asked for, with `_change_type` and `_commit_completion_time`."""
        return changes_schema(self._plan)

    def to_arrow(self) -> pa.Table:
        """The changes as an Arrow table, read in this process."""
        read = partial(read_changes_together, self._storage, self._plan, images=self._images, kinds=self._kinds)
        tasks = batches(self._tasks, self._plan)
        return gather(self._storage, read, tasks, self.schema, lambda batch: sum(task.held_bytes for task in batch))

    def to_pandas(self) -> pd.DataFrame:
        """As `to_arrow`, as a pandas data frame."""
        return as_pandas(self.to_arrow())

    def to_spark(self, spark: SparkSession | None = None) -> DataFrame:
        """The changes as a Spark data frame: read by tasks, lazily; few of them here and now, for tasks cost more."""
        if self._are_few:
            return on_spark.read.as_frame(self.to_arrow(), spark)
        return on_spark.read.read_spark_changes(self._plan, self._tasks, spark, images=self._images, kinds=self._kinds)

    @property
    def _are_few(self) -> bool:
        units = [unit for task in self._tasks for unit in task.units]
        news = sum(logs.size if logs else t.size for t, logs in ((t, t.new_logs) for t in units))
        return (
            news <= limits.SPARK_CHANGES_BYTES
            and sum(unit.size for unit in units) <= limits.SPARK_COUNT_BYTES
            and len(units) <= limits.SPARK_CHANGES_TASKS_MAX
        )

    def __repr__(self) -> str:
        start = self._before.completion_time if self._before else "the beginning"
        groups = sum(len(unit.after) for task in self._tasks for unit in task.units)
        return (
            f"Changes of {self._after.config.name!r} after {start} until {self.next_position}: "
            f"{groups} file slices to compare; read with .to_arrow(), .to_pandas() or .to_spark()"
        )


def _tasks(before: View | None, after: View) -> Iterator[ChangeTask]:
    """Units of comparison: single groups where keys cannot have moved, whole partitions where they can."""
    old = {s.group: s for s in before.slices()} if before is not None else {}
    new = {s.group: s for s in after.slices()}
    changed: dict[str, list[GroupId]] = defaultdict(list)
    for group in sorted({*old, *new}):
        if _files(old.get(group)) != _files(new.get(group)) or after.config.may_share_logs:
            changed[group.partition].append(group)
    request_time = before.completion_time if before is not None else ""
    times = _completions(after, request_time)
    for groups in changed.values():
        # Keys have moved between groups all at once if a group vanished (clustering, overwrite): then the whole
        # partition is compared as one.
        moved = any(group not in new for group in groups)
        units = [
            _unit([old[g] for g in unit if g in old], [new[g] for g in unit if g in new], before or after, after, times)
            for unit in ([groups] if moved else [[g] for g in groups])
        ]
        # One by one, too, if a key was deleted in one group and comes back in another: without buckets it may.
        if len(units) > 1 and after.config.buckets is None and any(g in old for g in groups):
            yield replace(units[0], others=tuple(units[1:]))
        else:
            yield from units


def _unit(
    before: list[FileSlice], after: list[FileSlice], older: View, view: View, completions: dict[str, str]
) -> ChangeTask:
    seen, sees = older.timeline.visibility(), view.timeline.visibility()
    request_times = {f.request_time for s in after for f in s.logs} | {s.base.request_time for s in after if s.base}
    in_range = [completions[request_time] for request_time in request_times if request_time in completions]
    return ChangeTask(
        before=tuple(slice_task(s, view.config, seen) for s in before),
        after=tuple(slice_task(s, view.config, sees) for s in after),
        new_logs=_new_logs(before, after, view, sees),
        completions=tuple(sorted(completions.items())),
        last_completion=max(in_range, default=view.completion_time),
    )


def _new_logs(before: list[FileSlice], after: list[FileSlice], view: View, sees: Visibility) -> SliceTask | None:
    """The new logs of one group over the same base, if they are all that differs: only their keys can have changed."""
    if len(before) != 1 or len(after) != 1:
        return None
    old, new = before[0], after[0]
    if _base(old) != _base(new) or not {*_files(old)} <= {*_files(new)} or view.config.may_share_logs:
        return None
    seen = {log.name for log in old.logs}
    fresh = tuple(log for log in new.logs if log.name not in seen)
    return slice_task(FileSlice(new.group, new.barrier, None, fresh), view.config, sees)


def _completions(view: View, start: str) -> dict[str, str]:
    instants = (*view.timeline.archived, *view.timeline.writes)
    return {
        i.request_time: i.completion_time
        for i in instants
        if i.completion_time is not None and start < i.completion_time <= view.completion_time
    }


def _files(file_slice: FileSlice | None) -> tuple[str, ...]:
    if file_slice is None:
        return ()
    return (*([file_slice.base.name] if file_slice.base else []), *(log.name for log in file_slice.logs))


def _base(file_slice: FileSlice) -> str | None:
    return file_slice.base.name if file_slice.base else None
