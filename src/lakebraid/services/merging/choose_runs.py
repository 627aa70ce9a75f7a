# SPDX-License-Identifier: Apache-2.0
"""Which log files of which groups to put together: a pure rule over a view and the writes that are open.

Readers put a log-compacted file at the place of the newest instant it stands for. So nothing may lie between the
instants of a run, now or ever: it is contiguous in the order of request times, and older than every open write. Over a base
file, rows of writes that began before the base was planned are ranked one by one against it; these are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import groupby
from typing import Final

from lakebraid import limits
from lakebraid.format.timeline.plans import CompactionPlan, PlanStrategy
from lakebraid.model.log_order import BlockOrigin, place_blocks
from lakebraid.model.timeline.slicing import FileSlice, GroupId, LogFile
from lakebraid.model.timeline.timeline import Timeline
from lakebraid.services.merging.choose_groups import open_writes_of, operation_of
from lakebraid.services.merging.engine import Marks
from lakebraid.services.merging.scope import Scope
from lakebraid.table.view import View
from lakebraid.txn.ledger.entries import LedgerState

STRATEGY: Final = PlanStrategy("org.apache.hudi.table.action.compact.LogCompactionExecutionHelper")
"""The class that Apache Hudi itself names in such plans."""
IS_RUN: Final = "lakebraid.contiguous"
"""In the extra metadata of plans whose log files are runs as described above; plans of others are looked at first."""


Peek = Callable[[LogFile], Marks]


def choose_runs(
    view: View,
    state: LedgerState,
    peek: Peek,
    *,
    by_event: bool,
    taken: Collection[GroupId] = (),
    scope: Scope | None = None,
) -> CompactionPlan | None:
    """The plan of a log compaction, or None if no group needs it or may have it.

    `peek` is asked only about log files that may be log-compacted themselves, and where partial updates would matter.
    """
    scope = scope or Scope(logs_min=limits.LOG_COMPACT_FILES_MIN)
    open_writes = open_writes_of(view, state)
    if any(write.adds_base for write in open_writes.values()):
        return None  # as for a compaction: the runs would lie on both sides of its base file
    oldest = min(open_writes, default="9")
    operations = []
    for newest in _candidates(view, taken, scope):
        run = find_run(newest, oldest, view.timeline, peek, by_event=by_event)
        if len(run) >= max(scope.logs_min, 2):
            operations.append(operation_of(newest, run))
    return CompactionPlan(tuple(operations), extra={IS_RUN: "true"}, strategy=STRATEGY) if operations else None


def _candidates(view: View, taken: Collection[GroupId], scope: Scope) -> Iterator[FileSlice]:
    for group in sorted(view.groups):
        newest = view.groups[group].latest()
        if (
            newest is None
            or group in taken
            or (scope.partitions is not None and group.partition not in scope.partitions)
        ):
            continue
        if len(newest.logs) >= max(scope.logs_min, 2):
            yield newest


def find_run(
    file_slice: FileSlice, oldest: str, timeline: Timeline, peek: Peek, *, by_event: bool
) -> tuple[LogFile, ...]:
    """The log files of the slice that may and should be put together; `oldest` is the first open write's request time."""
    units = list(_units(file_slice, timeline, peek))
    request_time = _first_foldable(file_slice)
    earlier = [log for place, logs in units if place <= request_time for log in logs]
    if by_event and any(peek(log).has_partial for log in earlier):
        return ()  # in Hudi's readers a partial row before the run may take some columns of each version in it
    run = [logs for place, logs in units if request_time < place < oldest]
    while len(run) > 1 and (_is_heavy(run) or _size(run) > limits.LOG_COMPACT_BYTES_MAX):
        if by_event and any(peek(log).has_partial for log in run[0]):
            break
        run = run[1:]
    if _size(run) > limits.LOG_COMPACT_BYTES_MAX:
        return ()
    return tuple(log for logs in run for log in logs)


def _first_foldable(file_slice: FileSlice) -> str:
    """The instant after which logs may be put together: "" for all of them."""
    return file_slice.base.request_time if file_slice.base is not None and file_slice.has_late_log else ""


def _units(file_slice: FileSlice, timeline: Timeline, peek: Peek) -> Iterator[tuple[str, list[LogFile]]]:
    """The files that count, together with those of the same instant, by the place at which they rank."""
    logs = file_slice.logs
    has_compacted = any(_may_be_compacted(log, timeline) for log in logs)
    own = file_slice.base.request_time if file_slice.base else ""
    owners: list[LogFile] = []
    origins: list[BlockOrigin] = []
    for log in logs:
        looks = _may_be_compacted(log, timeline) or (has_compacted and log.request_time == own)
        found: Sequence[BlockOrigin] = peek(log).origins if looks else (BlockOrigin(log.request_time),)
        origins += found
        owners += [log] * len(found)
    places: dict[LogFile, str] = {}
    for placed in place_blocks(origins):
        log = owners[placed.index]
        places[log] = max(places.get(log, ""), placed.request_time)
    ordered = sorted(places, key=lambda log: (places[log], log.parsed.sort_key))
    for place, members in groupby(ordered, key=lambda log: places[log]):
        yield place, list(members)


def _may_be_compacted(log: LogFile, timeline: Timeline) -> bool:
    """Whether the file may be the output of a log compaction; archived instants do not tell."""
    instant = timeline.write(log.request_time)
    return instant is None or instant.planned is None or instant.kind == "logcompaction"


def _is_heavy(run: Sequence[Sequence[LogFile]]) -> bool:
    """Whether the first of the run weighs more than all others: rewriting it each time would cost a square."""
    return _size(run[:1]) > max(_size(run[1:]), limits.LOG_COMPACT_SMALL_BYTES)


def _size(run: Sequence[Sequence[LogFile]]) -> int:
    return sum(log.size for logs in run for log in logs)
