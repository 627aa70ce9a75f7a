# SPDX-License-Identifier: Apache-2.0
"""Which file groups to compact: a pure rule over a view and the writes that are open.

A compaction must not change any answer, also not of writes that are still under way. Whole rows take care of
themselves: they keep their rank. What a compacted file would forget makes its group wait (`tasks.merging.hazards`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from lakebraid.format.names import file_name
from lakebraid.format.timeline.plans import CompactionOperation, CompactionPlan
from lakebraid.limits import MIB
from lakebraid.model.timeline.slicing import FileSlice, GroupId, LogFile
from lakebraid.services.merging.scope import Scope, by_urgency, is_due, within_budget
from lakebraid.table.view import View
from lakebraid.tasks.merging.hazards import Hazard
from lakebraid.txn.ledger.entries import LedgerState, OpenWrite

OLDEST_OPEN = "lakebraid.oldest_open"
"""In a plan's extra metadata: the oldest write that was open when it was made."""

NEWEST_OPEN = "lakebraid.newest_open"
"""The newest of them. What ranks after it is not merged in groups that carry."""
CARRIES = "LAKEBRAID_CARRIES"
"""Among the metrics of an operation, if its group carries."""

Hazards = Callable[[LogFile], Sequence[Hazard]]


def choose_groups(
    view: View,
    state: LedgerState,
    request_time: str,
    hazards: Hazards,
    *,
    taken: Collection[GroupId] = (),
    scope: Scope | None = None,
    may_carry: bool = True,
) -> CompactionPlan | None:
    """The plan that would begin at `request_time`, or None if no group needs it or may have it.

    `hazards` is asked only about log files that began after the oldest open write; `taken` are groups of pending plans.
    What must not be merged yet is carried on, if it may be and began after the last open write; else its group waits.
    """
    open_writes = open_writes_of(view, state)
    if any(write.adds_base for write in open_writes.values()):
        # A first base file that is published later would lie behind the compacted one, and no reader would see it.
        return None
    scope = scope or Scope()
    due = by_urgency((s for s in _candidates(view, request_time, scope) if s.group not in taken), scope)
    newest = max(open_writes, default=None) if may_carry else None
    # Asked about one by one, within the budget.
    free = (s for s in due if not _must_wait(s, open_writes, hazards) or _may_carry(s, open_writes, hazards, newest))
    chosen = list(within_budget(free, scope))
    if not chosen:
        return None
    extra = {OLDEST_OPEN: min(open_writes), NEWEST_OPEN: max(open_writes)} if open_writes else {}
    operations = (_carrying(operation_of(s), _must_wait(s, open_writes, hazards)) for s in chosen)
    return CompactionPlan(tuple(operations), extra=extra)


def _may_carry(
    file_slice: FileSlice, open_writes: Mapping[str, OpenWrite], hazards: Hazards, newest: str | None
) -> bool:
    """Whether there is something to merge, and all that must not be merged yet began after the newest open write."""
    own = file_slice.base.request_time if file_slice.base else ""
    has_work = any(log.request_time < (newest or "") and log.request_time != own for log in file_slice.logs)
    return has_work and not _must_wait(file_slice, open_writes, hazards, newest)


def _carrying(operation: CompactionOperation, carries: bool) -> CompactionOperation:
    return replace(operation, metrics={**operation.metrics, CARRIES: 1.0}) if carries else operation


def open_writes_of(view: View, state: LedgerState) -> dict[str, OpenWrite]:
    """All writes that may still be published: those of the ledger, and those of Apache Hudi, by the timeline."""
    pending = {i.request_time: i for i in view.timeline.pending if i.is_write}
    foreign = {
        request_time: OpenWrite("", i.action) for request_time, i in pending.items() if request_time not in state.open
    }
    return {**foreign, **state.open}


def _candidates(view: View, request_time: str, scope: Scope) -> Iterator[FileSlice]:
    """The newest slices with enough to compact, by group."""
    for group in sorted(view.groups):
        newest = view.groups[group].latest()
        if newest is None or (scope.partitions is not None and group.partition not in scope.partitions):
            continue
        if scope.groups is not None and group not in scope.groups:
            continue
        if is_due(newest, scope) and all(log.completion_time < request_time for log in newest.logs):
            yield newest


def _must_wait(
    file_slice: FileSlice, open_writes: Mapping[str, OpenWrite], hazards: Hazards, newest: str | None = None
) -> bool:
    """Whether something of the slice must not be merged yet; what began after `newest` need not be merged at all."""
    oldest = min(open_writes, default=None)
    if oldest is None:
        return False
    return any(
        hazard.endangers(request_time, write.columns)
        for log in file_slice.logs
        if log.request_time > oldest
        for hazard in hazards(log)
        if newest is None or hazard.request_time < newest or not hazard.is_exact
        for request_time, write in open_writes.items()
    )


def operation_of(file_slice: FileSlice, logs: Sequence[LogFile] | None = None) -> CompactionOperation:
    """What a plan says of a group: to merge these logs, or all of the slice's."""
    base, logs = file_slice.base, file_slice.logs if logs is None else logs
    log_bytes = sum(log.size for log in logs)
    read = log_bytes + (base.size if base else 0)
    write = base.size if base else log_bytes
    return CompactionOperation(
        file_id=file_slice.group.file_id,
        partition_path=file_slice.group.partition,
        base_instant_time=file_slice.barrier,
        delta_file_names=tuple(file_name(log.name) for log in logs),
        data_file_name=None if base is None else file_name(base.name),
        metrics={
            "TOTAL_LOG_FILES": float(len(logs)),
            "TOTAL_LOG_FILES_SIZE": float(log_bytes),
            "TOTAL_IO_READ_MB": float(read // MIB),
            "TOTAL_IO_WRITE_MB": float(write // MIB),
            "TOTAL_IO_MB": float((read + write) // MIB),
        },
    )
