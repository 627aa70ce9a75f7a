# SPDX-License-Identifier: Apache-2.0
"""Clearing up after writers that died: roll them back, finish what others began, remove files that nobody owns."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

from lakebraid import limits
from lakebraid.clock import Clock
from lakebraid.errors import CorruptFile, ObjectNotFound
from lakebraid.format.names import BaseFileName
from lakebraid.format.times import is_instant_time
from lakebraid.model.config import TableConfig
from lakebraid.model.timeline import Timeline
from lakebraid.storage.protocol import Storage
from lakebraid.table.loading import DataFile, load_commit, load_compaction_plan, load_table
from lakebraid.tasks.placing import in_partition
from lakebraid.txn.entries import LedgerState
from lakebraid.txn.foreign import adopt_rollback, find_dead
from lakebraid.txn.heartbeat import HEARTBEATS, is_expired, storage_now_ms
from lakebraid.txn.ledger import Ledger
from lakebraid.txn.markers import MARKERS
from lakebraid.txn.rollback import finish_rollback, roll_back


@dataclass(frozen=True, slots=True)
class Rescue:
    """What was cleared up."""

    rolled_back: tuple[str, ...] = ()
    """Starts of dead writes that were taken back."""
    finished: tuple[str, ...] = ()
    """Rollbacks of others that were brought to their end."""
    removed: tuple[str, ...] = ()
    """Files of writes that are over and left nothing else behind."""


def rescue(ledger: Ledger, txn: str, *, timeout_ms: int = limits.HEARTBEAT_TIMEOUT_MS) -> Rescue:
    """Rolls back every open write without a heartbeat for `timeout_ms` and finishes rollbacks that were begun.

    Heartbeats only say whom to try: whether a write is taken back or published is decided in the ledger, once.
    """
    storage, state = ledger.storage, ledger.newest().state
    finished = []
    for rollback in sorted(state.rollbacks):
        finish_rollback(ledger, txn, rollback)
        finished.append(rollback)
    dead = []
    if state.open:
        now_ms = storage_now_ms(storage, ledger.clock)
        dead = [s for s in sorted(state.open) if is_expired(storage, ledger.config, s, now_ms, timeout_ms)]
    if ledger.is_shared:
        writes, rollbacks = find_dead(ledger, timeout_ms=timeout_ms)
        dead += writes
        for rollback in rollbacks:
            if adopt_rollback(ledger, txn, rollback, timeout_ms=timeout_ms):
                finish_rollback(ledger, txn, rollback)
                finished.append(rollback)
    undone = tuple(victim for victim in dead if roll_back(ledger, txn, victim, timeout_ms=timeout_ms))
    return Rescue(undone, tuple(finished))


def sweep(storage: Storage, clock: Clock, config: TableConfig, ledger: Ledger) -> tuple[str, ...]:
    """Removes data files that nobody will ever own: late ones of zombie tasks, and of executors that lost their claim;
    and the small objects (markers, heartbeats, staged ones) of writes that are over. Gives the names of the former.

    The files are listed first, then the ledger and the timeline are looked at: what is new in between is left alone.
    """
    listed = load_table(storage, config, clock).files
    traces = [info.name for folder in (MARKERS, HEARTBEATS) for info in storage.list(folder)]
    newest = ledger.newest()
    state = newest.state
    timeline = load_table(storage, config, clock).timeline
    if ledger.is_shared:
        # Hudi may be executing our plans: its files carry no epoch, and it removes those of failed attempts itself.
        listed = tuple(file for file in listed if file.parsed.request_time not in state.plans)
    doomed = {file.name for file in listed if _is_orphan(file, state, timeline)}
    doomed |= {*_unnamed(storage, clock, config, [f for f in listed if f.name not in doomed], timeline, state)}
    doomed -= _planned_inputs(storage, config, timeline)
    storage.delete(
        [*sorted(doomed), *(name for name in traces if _is_over(name, state, timeline, is_shared=ledger.is_shared))]
    )
    ledger.sweep_staged(newest.number)  # their entries are true or void for ever
    return tuple(sorted(doomed))


def _planned_inputs(storage: Storage, config: TableConfig, timeline: Timeline) -> set[str]:
    """The files that pending plans are about to read; a plan without its input could never be executed."""
    inputs = set()
    for instant in timeline.pending:
        if instant.kind in ("compaction", "logcompaction"):
            with contextlib.suppress(CorruptFile, ObjectNotFound):  # torn, or done meanwhile
                for operation in load_compaction_plan(storage, config, instant).operations:
                    names = (*operation.delta_file_names, operation.data_file_name)
                    inputs |= {in_partition(operation.partition_path, n) for n in names if n is not None}
    return inputs


def _is_orphan(file: DataFile, state: LedgerState, timeline: Timeline) -> bool:
    start = file.parsed.request_time
    if start in state.plans:
        return _epoch(file) < state.plans[start].epoch
    # A start on the timeline is a write of ours or Hudi's that is pending or completed. One that nobody ever heard of
    # is left alone unless the ledger gave its time away: it may be of a Hudi writer that is about to begin.
    known = start in state.open or timeline.write(start) is not None or timeline.completion_of(start) is not None
    return not known and (start in state.gone or start <= state.last)


def _is_over(name: str, state: LedgerState, timeline: Timeline, *, is_shared: bool) -> bool:
    """Whether a marker or heartbeat belongs to a write that has ended. Beside Hudi, only to one that is seen to have:
    its writers beat before they appear on the timeline.
    """
    start = name.split("/")[2]
    if not is_instant_time(start) or start in state.open or start in state.plans or start in state.rollbacks:
        return False
    if any(undoing.victim == start for undoing in state.rollbacks.values()):
        return False
    if any(instant.request_time == start for instant in timeline.pending):
        return False
    return start in state.gone or timeline.completion_of(start) is not None or (not is_shared and start <= state.last)


def _epoch(file: DataFile) -> int:
    """The claim under which an executor wrote the file: the last part of its token."""
    return int((file.parsed.write_token or "0-0-0").rpartition("-")[2])


def _unnamed(
    storage: Storage,
    clock: Clock,
    config: TableConfig,
    files: list[DataFile],
    timeline: Timeline,
    state: LedgerState,
) -> list[str]:
    """Files of a published compaction that its commit does not name: they came from an earlier claim, too late."""
    by_start: dict[str, list[DataFile]] = {}
    for file in files:
        by_start.setdefault(file.parsed.request_time, []).append(file)
    found = []
    for start, own in by_start.items():
        instant = timeline.write(start)
        if instant is None or not instant.is_completed or instant.kind != "compaction" or start in state.plans:
            continue
        if len(own) == len({(f.group, isinstance(f.parsed, BaseFileName)) for f in own}):
            continue  # no twins
        named = {*load_commit(storage, config, instant, clock).file_paths}
        found += [file.name for file in own if named and file.name not in named]
    return found
