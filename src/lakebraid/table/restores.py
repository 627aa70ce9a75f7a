# SPDX-License-Identifier: Apache-2.0
"""What restores removed: the writes that count as if they had never been, and the times that can no longer be read.

A restore is one moment for our readers, although its deletes take time: as soon as its plan is on the timeline, what the
plan names is passed over, whatever still lies there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from lakebraid import limits
from lakebraid.errors import CorruptFile, ObjectNotFound, SnapshotExpired
from lakebraid.format.names import State, TimelineFileName, parse_timeline_file
from lakebraid.format.timeline.rollbacks import RestorePlan, parse_restore_metadata, parse_restore_plan
from lakebraid.model.timeline.instant import WRITE_ACTIONS
from lakebraid.model.timeline.timeline import Timeline
from lakebraid.table.at import TableAt
from lakebraid.table.history import load_history


@dataclass(frozen=True, slots=True)
class Restored:
    """A restore, done or begun, and what it removed."""

    request_time: str
    undone: frozenset[str]
    """Request times of the writes."""
    target: str | None
    """The request time of the write that it returned to; None if nothing says so any more."""


def load_undone(table: TableAt, names: Iterable[str]) -> frozenset[str]:
    """The request times that unfinished restores among these timeline files remove. ObjectNotFound if one is done by now.

    A torn plan takes nothing back: it is Hudi's, which writes it before it removes anything.
    """
    if table.config.layout == 1:
        return frozenset()
    ours = (name for name in names if ".restore" in name)  # they are few, and parsing thousands of others is not free
    parsed = [name for name in map(parse_timeline_file, ours) if name is not None and name.action == "restore"]
    done = {name.request_time for name in parsed if name.state is State.COMPLETED}
    begun = {name.request_time for name in parsed if name.state is State.REQUESTED} - done
    found: set[str] = set()
    for request_time in sorted(begun):
        try:
            found |= {instant.request_time for instant in load_restore_plan(table, request_time).instants}
        except CorruptFile:
            continue
    return frozenset(found)


def load_restore_plan(table: TableAt, restore: str) -> RestorePlan:
    """What a restore on the timeline removes; ObjectNotFound if it is no longer there."""
    name = f"{table.config.timeline_folder}/{TimelineFileName(restore, None, 'restore', State.REQUESTED).format()}"
    return parse_restore_plan(table.storage.read(name, limits.TIMELINE_FILE_BYTES_MAX), name)


def check_not_restored(table: TableAt, timeline: Timeline, time: str) -> None:
    """Raises SnapshotExpired if a restore removed what was visible at that completion time.

    That is so between the moment to which a restore returned and the restore itself. Of earlier and later moments
    nothing is missing.
    """
    undone: set[str] = set()
    for restored in sorted(_restores_after(table, timeline, time), key=lambda r: r.request_time, reverse=True):
        # Where a later restore went back further, its own interval covers this one.
        is_covered = restored.target in undone
        undone |= restored.undone
        if is_covered:
            continue
        # Nothing that it removed had completed before it began, so nothing is missing up to the first of those request times.
        last = max(_until(table, timeline, restored), min(restored.undone, default=""))
        if time > last:
            raise SnapshotExpired(
                f"{table.storage.url} as of {time} can no longer be read: the restore {restored.request_time} removed what "
                "was written then. The table as it was before that, and as it is now, is safe. Read a time up to "
                f"{last}, or from {restored.request_time} on. A reader that follows the changes reads the whole table once "
                "more and goes on from there.",
                path=table.storage.url,
                as_of=time,
                removed_by=restored.request_time,
                readable_from=restored.request_time,
            )


def find_restore(table: TableAt, timeline: Timeline, request_time: str) -> str | None:
    """The restore that took the write with that request time back, or None."""
    found = _restores_after(table, timeline, request_time)
    return next((restored.request_time for restored in found if request_time in restored.undone), None)


def _restores_after(table: TableAt, timeline: Timeline, time: str) -> Iterator[Restored]:
    """The restores that began after a time, active and archived."""
    if table.config.layout == 1:
        return
    for instant in timeline.active:
        if instant.action == "restore" and instant.request_time > time:
            try:
                plan = load_restore_plan(table, instant.request_time)
            except (CorruptFile, ObjectNotFound):
                continue  # Hudi's, from before it wrote plans; or archived just now, and found below
            yield _restored(instant.request_time, plan)
    for row in load_history(table, time, actions=frozenset({"restore"}), with_metadata=True):
        request_time = row.instant.request_time
        if request_time > time and row.plan:
            yield _restored(
                request_time, parse_restore_plan(row.plan, f"archived {request_time} of {table.storage.url}")
            )
        elif request_time > time and row.metadata:
            done = parse_restore_metadata(row.metadata, f"archived {request_time} of {table.storage.url}")
            yield Restored(request_time, frozenset(i.request_time for i in done.instants), None)


def _restored(request_time: str, plan: RestorePlan) -> Restored:
    return Restored(request_time, frozenset(i.request_time for i in plan.instants), plan.savepoint)


def _until(table: TableAt, timeline: Timeline, restored: Restored) -> str:
    """The moment to which it returned; if nothing says when that was, one that is not after it."""
    if restored.target is None:
        return min(restored.undone, default=restored.request_time)
    instant = timeline.write(restored.target)
    if instant is not None and instant.is_completed:
        return instant.completion_time or restored.target
    rows = load_history(table, restored.target, actions=WRITE_ACTIONS)
    found = (row.instant.completion_time for row in rows if row.instant.request_time == restored.target)
    return next(found, None) or restored.target
