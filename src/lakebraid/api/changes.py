# SPDX-License-Identifier: Apache-2.0
"""What changed between two moments, by completion time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from lakebraid.api.local import gather
from lakebraid.api.planning import Source, read_plan, slice_task
from lakebraid.model.config import TableType
from lakebraid.model.slicing import FileSlice, GroupId
from lakebraid.storage.protocol import Storage
from lakebraid.table.view import View
from lakebraid.tasks.changes import ChangeTask, changes_schema, read_changes
from lakebraid.tasks.slice_task import ReadPlan

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession


class Changes:
    """The rows that differ between two moments; applying them to the older gives exactly the newer.

    One row per key, with `_change_type` insert, update or delete (with images: update_preimage and update_postimage)
    and `_commit_completion_time`. The columns of a delete are those of the row that went away.
    """

    def __init__(self, storage: Storage, source: Source, before: View | None, after: View, *, images: bool) -> None:
        self._storage, self._images = storage, images
        self._before, self._after = before, after
        self._plan = read_plan(after, source)
        self._tasks = list(_tasks(before, after))

    @property
    def next_position(self) -> str:
        """Where to go on: pass it as `after` the next time."""
        return self._after.completion_time

    @property
    def schema(self) -> pa.Schema:
        return changes_schema(self._plan)

    def to_arrow(self) -> pa.Table:
        """The changes as an Arrow table, read in this process."""
        read = partial(read_changes, self._storage, self._plan, images=self._images)
        return gather(read, self._tasks, self.schema)

    def to_pandas(self) -> pd.DataFrame:
        return self.to_arrow().to_pandas()  # type: ignore[no-any-return]

    def to_spark(self, spark: SparkSession | None = None) -> DataFrame:
        """The changes as a lazy Spark data frame."""
        from lakebraid.spark.reading import read_spark_changes  # noqa: PLC0415  only loaded when it is used

        return read_spark_changes(self._plan, self._tasks, spark, images=self._images)

    def __repr__(self) -> str:
        start = self._before.completion_time if self._before else "the beginning"
        groups = sum(len(t.after) for t in self._tasks)
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
        if _files(old.get(group)) != _files(new.get(group)):
            changed[group.partition].append(group)
    start = before.completion_time if before is not None else ""
    completions = _completions(after, start)
    for groups in changed.values():
        moved = any(group not in new or group in old and _base(old[group]) != _base(new[group]) for group in groups)
        units = [groups] if moved and _may_move(after) else [[g] for g in groups]
        for unit in units:
            yield _unit(unit, old, new, after, completions)


def _may_move(view: View) -> bool:
    """Whether keys can go from one file group to another (clustering, overwrites): not within bucket tables' ids."""
    return view.config.table_type is TableType.COW or view.config.buckets is None


def _unit(
    groups: list[GroupId],
    old: dict[GroupId, FileSlice],
    new: dict[GroupId, FileSlice],
    after: View,
    completions: dict[str, str],
) -> ChangeTask:
    before_slices = [old[g] for g in groups if g in old]
    after_slices = [new[g] for g in groups if g in new]
    touched = [f for s in after_slices for f in (*s.logs, *([s.base] if s.base else []))]
    in_range = [completions[f.request_time] for f in touched if f.request_time in completions]
    return ChangeTask(
        before=tuple(slice_task(s, after.config) for s in before_slices),
        after=tuple(slice_task(s, after.config) for s in after_slices),
        new_logs=None,
        completions=tuple(sorted(completions.items())),
        last_completion=max(in_range, default=after.completion_time),
    ) if not _only_logs(before_slices, after_slices) else _log_unit(before_slices[0], after_slices[0], after, completions)


def _only_logs(before: list[FileSlice], after: list[FileSlice]) -> bool:
    """Whether one group got new logs over the same base: then only the keys in those logs can have changed."""
    return len(before) == 1 and len(after) == 1 and _base(before[0]) == _base(after[0]) and set(_files(before[0])) <= set(_files(after[0]))


def _log_unit(before: FileSlice, after: FileSlice, view: View, completions: dict[str, str]) -> ChangeTask:
    seen = {log.name for log in before.logs}
    fresh = tuple(log for log in after.logs if log.name not in seen)
    new_logs = replace(slice_task(FileSlice(after.group, after.barrier, None, fresh), view.config))
    return ChangeTask(
        before=(slice_task(before, view.config),),
        after=(slice_task(after, view.config),),
        new_logs=new_logs,
        completions=tuple(sorted(completions.items())),
        last_completion=max(log.completion_time for log in fresh),
    )


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


__all__ = ["Changes", "ReadPlan"]
