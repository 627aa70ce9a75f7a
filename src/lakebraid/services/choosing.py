# SPDX-License-Identifier: Apache-2.0
"""Which file groups to compact: a pure rule over a view and the writes that are open.

A compaction must not change any answer, also not of writes that are still under way. Whole rows take care of
themselves: they keep their rank. What a compacted file would forget makes its group wait (`tasks.hazards`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from lakebraid.format.names import file_name
from lakebraid.format.plans import CompactionOperation, CompactionPlan
from lakebraid.limits import MIB
from lakebraid.model.slicing import FileSlice, GroupId, LogFile
from lakebraid.table.view import View
from lakebraid.tasks.hazards import Hazard
from lakebraid.txn.entries import LedgerState, OpenWrite

OLDEST_OPEN = "lakebraid.oldest_open"
"""In a plan's extra metadata: the oldest write that was open when it was made."""

Hazards = Callable[[LogFile], Sequence[Hazard]]


@dataclass(frozen=True, slots=True)
class Scope:
    """Which groups a compaction is about."""

    logs_min: int = 1
    """Groups with fewer new log files wait."""
    partitions: tuple[str, ...] | None = None
    """Only these partitions; None for all."""


def choose_groups(
    view: View,
    state: LedgerState,
    start: str,
    hazards: Hazards,
    *,
    taken: Collection[GroupId] = (),
    scope: Scope | None = None,
) -> CompactionPlan | None:
    """The plan that would begin at `start`, or None if no group needs it or may have it.

    `hazards` is asked only about log files that began after the oldest open write; `taken` are groups of pending plans.
    """
    open_writes = open_writes_of(view, state)
    if any(write.adds_base for write in open_writes.values()):
        # A first base file that is published later would lie behind the compacted one, and nobody would see it.
        return None
    slices = [s for s in _candidates(view, start, scope or Scope()) if s.group not in taken]
    chosen = [s for s in slices if not _must_wait(s, open_writes, hazards)]
    if not chosen:
        return None
    oldest = min(open_writes, default=None)
    extra = {} if oldest is None else {OLDEST_OPEN: oldest}
    return CompactionPlan(tuple(_operation(s) for s in chosen), extra=extra)


def open_writes_of(view: View, state: LedgerState) -> dict[str, OpenWrite]:
    """All writes that may still be published: those of the ledger, and those of Apache Hudi, by the timeline."""
    pending = {i.request_time: i for i in view.timeline.pending if i.is_write}
    foreign = {start: OpenWrite("", i.action) for start, i in pending.items() if start not in state.open}
    return {**foreign, **state.open}


def _candidates(view: View, start: str, scope: Scope) -> Iterator[FileSlice]:
    """The newest slices with enough to compact, by group."""
    for group in sorted(view.groups):
        newest = view.groups[group].latest()
        if newest is None or (scope.partitions is not None and group.partition not in scope.partitions):
            continue
        # A log file of the compaction that wrote the base holds only the deletes it carried: nothing new.
        own = newest.base.request_time if newest.base else ""
        if sum(log.request_time != own for log in newest.logs) < max(scope.logs_min, 1):
            continue
        if all(log.completion_time < start for log in newest.logs):
            yield newest


def _must_wait(file_slice: FileSlice, open_writes: Mapping[str, OpenWrite], hazards: Hazards) -> bool:
    oldest = min(open_writes, default=None)
    if oldest is None:
        return False
    return any(
        hazard.endangers(start, write.columns)
        for log in file_slice.logs
        if log.request_time > oldest
        for hazard in hazards(log)
        for start, write in open_writes.items()
    )


def _operation(file_slice: FileSlice) -> CompactionOperation:
    base, logs = file_slice.base, file_slice.logs
    log_bytes = sum(log.size for log in logs)
    return CompactionOperation(
        file_id=file_slice.group.file_id,
        partition_path=file_slice.group.partition,
        base_instant_time=file_slice.barrier,
        delta_file_names=tuple(file_name(log.name) for log in logs),
        data_file_name=None if base is None else file_name(base.name),
        metrics={
            "TOTAL_LOG_FILES": float(len(logs)),
            "TOTAL_LOG_FILES_SIZE": float(log_bytes),
            "TOTAL_IO_READ_MB": float(file_slice.size // MIB),
            "TOTAL_IO_WRITE_MB": float((base.size if base else log_bytes) // MIB),
            "TOTAL_IO_MB": float((file_slice.size + (base.size if base else log_bytes)) // MIB),
        },
    )
