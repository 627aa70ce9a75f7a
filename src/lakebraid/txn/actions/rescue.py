# SPDX-License-Identifier: Apache-2.0
"""Clearing up after writers that died: roll them back, finish what others began, remove files that belong to no instant."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lakebraid import limits
from lakebraid.format.names import BaseFileName, epoch_of_token
from lakebraid.format.times import is_instant_time, parse_instant_time
from lakebraid.model.timeline.instant import COMPLETED_AS
from lakebraid.model.timeline.timeline import Timeline
from lakebraid.table.at import TableAt
from lakebraid.table.history import load_history
from lakebraid.table.loading import DataFile, load_commit, load_table
from lakebraid.tasks.new_files import MARKERS
from lakebraid.txn.actions.restore_files import finish_restore
from lakebraid.txn.actions.rollback import decide_rollback, decide_withdrawal, finish_rollback
from lakebraid.txn.checks.pending_plans import planned_parts
from lakebraid.txn.hudi.dead_jobs import adopt_rollback, find_dead
from lakebraid.txn.ledger.entries import LedgerState
from lakebraid.txn.ledger.ledger import Ledger
from lakebraid.txn.liveness.heartbeat import HEARTBEATS, is_expired, storage_now_ms
from lakebraid.txn.refusals import silent


@dataclass(frozen=True, slots=True)
class RollbackResult:
    """What was cleared up."""

    rolled_back: tuple[str, ...] = ()
    """Request times of dead writes that were rolled back."""
    finished: tuple[str, ...] = ()
    """Rollbacks and restores of others that were brought to their end."""
    removed: tuple[str, ...] = ()
    """Files of writes that are over and left nothing else behind."""
    plans: tuple[str, ...] = ()
    """Request times of removable plans that were withdrawn: they had failed, or no executor came for long."""


def rescue(
    ledger: Ledger,
    decider: str,
    *,
    timeout_ms: int = limits.HEARTBEAT_TIMEOUT_MS,
    plan_delay_ms: int = limits.PLAN_ROLLBACK_DELAY_MS,
) -> RollbackResult:
    """Rolls back every open write without a heartbeat for `timeout_ms` and finishes rollbacks that were begun; also
    removable plans without a living executor that are older than `plan_delay_ms`.

    Heartbeats only say whom to try: whether a write is rolled back or published is decided in the ledger, once. All is
    decided first and executed afterwards (RFC-79): a process that takes over has to execute, and nothing else to judge.
    """
    restores = sorted(ledger.newest().state.restores)
    for restore in restores:
        finish_restore(ledger, decider, restore)
    begun = sorted(ledger.newest().state.rollbacks)
    if ledger.is_shared:
        _, adoptable = find_dead(ledger, timeout_ms=timeout_ms)
        begun += [r for r in adoptable if adopt_rollback(ledger, decider, r, timeout_ms=timeout_ms)]
    dead = _dead_writes(ledger, timeout_ms)
    writes = {
        victim: decide_rollback(ledger, decider, victim, timeout_ms, story=silent(timeout_ms, writer))
        for victim, writer in dead.items()
    }
    plans = _decide_withdrawals(ledger, decider, timeout_ms, plan_delay_ms)
    decided = {victim: rollback for victim, rollback in (writes | plans).items() if rollback is not None}
    for rollback in dict.fromkeys((*begun, *decided.values())):
        finish_rollback(ledger, decider, rollback)
    rolled_back = tuple(victim for victim in decided if victim in writes)
    return RollbackResult(
        rolled_back, (*restores, *begun), plans=tuple(victim for victim in decided if victim in plans)
    )


def _dead_writes(ledger: Ledger, timeout_ms: int) -> dict[str, str | None]:
    """Request times of writes without a sign of life, and who began them."""
    storage, state = ledger.storage, ledger.newest().state
    dead = []
    if state.open:
        now_ms = storage_now_ms(storage, ledger.clock)
        dead = [s for s in sorted(state.open) if is_expired(ledger.table, s, now_ms, timeout_ms)]
    if ledger.is_shared:
        dead += find_dead(ledger, timeout_ms=timeout_ms)[0]
    return {request_time: state.writer_of(request_time) for request_time in dead}


def _decide_withdrawals(ledger: Ledger, decider: str, timeout_ms: int, delay_ms: int) -> dict[str, str | None]:
    """The rollbacks of removable plans that are old enough and show no life, by the request times of the plans."""

    def is_dead(request_time: str) -> bool:
        now_ms = storage_now_ms(ledger.storage, ledger.clock)
        age_ms = now_ms - parse_instant_time(request_time, ledger.config.zone)
        return age_ms >= delay_ms and is_expired(ledger.table, request_time, now_ms, timeout_ms)

    removable = [
        request_time for request_time, plan in sorted(ledger.newest().state.plans.items()) if plan.is_removable
    ]
    return {s: decide_withdrawal(ledger, decider, s, lambda _: is_dead(s)) for s in removable if is_dead(s)}  # noqa: B023  called at once


def sweep(ledger: Ledger) -> tuple[str, ...]:
    """Removes data files that no commit will ever name: late ones of zombie tasks, and of executors that lost their claim;
    and the small objects (markers, heartbeats, staged ones) of writes that are over. Gives the names of the former.

    The files are listed first, then the ledger and the timeline are looked at: what is new in between is left alone.
    """
    table = ledger.table
    listed = load_table(table).files
    traces = [info.name for folder in (MARKERS, HEARTBEATS) for info in table.storage.list(folder)]
    newest = ledger.newest()
    state = newest.state
    timeline = load_table(table).timeline
    if ledger.is_shared:
        # Hudi may be executing our plans: its files carry no epoch, and it removes those of failed attempts itself.
        listed = tuple(file for file in listed if file.parsed.request_time not in state.plans)
    doomed = {file.name for file in listed if _is_orphan(file, state, timeline)}
    doomed |= {*_forgotten(table, listed, state, timeline)}
    doomed |= {*_unnamed(table, [f for f in listed if f.name not in doomed], timeline, state)}
    # A plan without its input could never be executed.
    doomed -= {name for part in planned_parts(table, timeline) for name in part.files}
    table.storage.delete(
        [*sorted(doomed), *(name for name in traces if _is_over(name, state, timeline, is_shared=ledger.is_shared))]
    )
    ledger.sweep_staged(newest.number)  # their entries are applied, or void
    return tuple(sorted(doomed))


def _is_orphan(file: DataFile, state: LedgerState, timeline: Timeline) -> bool:
    request_time = file.parsed.request_time
    if request_time in state.plans:
        return _epoch(file) < state.plans[request_time].epoch
    if request_time in timeline.undone:
        # The restore removes it, after the commit: Hudi's readers must not miss files of a commit that they see.
        return False
    # A request time on the timeline is a write of ours or Hudi's that is pending or completed. One that was never heard of
    # is left alone unless the ledger gave its time away: it may be of a Hudi writer that is about to begin.
    known = (
        request_time in state.open
        or timeline.write(request_time) is not None
        or timeline.completion_of(request_time) is not None
    )
    return not known and (request_time in state.gone or request_time <= state.last)


def _forgotten(table: TableAt, files: Iterable[DataFile], state: LedgerState, timeline: Timeline) -> list[str]:
    """Late files of writes that were rolled back before the timeline was archived past them.

    A request time that is older than the timeline counts as committed, but whatever was committed is in the history: it was written
    there before it left the timeline, and the history is read after the timeline was. A history that begins later than
    the file says nothing about it.
    """
    old = [f for f in files if timeline.write(f.parsed.request_time) is None]
    old = [
        f
        for f in old
        if timeline.is_archived_request_time(f.parsed.request_time) and f.parsed.request_time <= state.last
    ]
    if not old:
        return []
    archived = {row.instant.request_time for row in load_history(table)}
    known = archived | {*state.open, *state.plans, *timeline.undone}
    first = min(archived, default="9")
    return [f.name for f in old if f.parsed.request_time not in known and first < f.parsed.request_time]


def _is_over(name: str, state: LedgerState, timeline: Timeline, *, is_shared: bool) -> bool:
    """Whether a marker or heartbeat belongs to a write that has ended. Beside Hudi, only to one that is seen to have:
    its writers beat before they appear on the timeline.
    """
    request_time = name.split("/")[2]
    if (
        not is_instant_time(request_time)
        or request_time in state.open
        or request_time in state.plans
        or request_time in state.rollbacks
    ):
        return False
    if any(undoing.victim == request_time for undoing in state.rollbacks.values()):
        return False
    if any(instant.request_time == request_time for instant in timeline.pending):
        return False
    return (
        request_time in state.gone
        or timeline.completion_of(request_time) is not None
        or (not is_shared and request_time <= state.last)
    )


def _epoch(file: DataFile) -> int:
    """The claim under which an executor wrote the file: the last part of its token."""
    return int((file.parsed.write_token or "0-0-0").rpartition("-")[2])


def _unnamed(
    table: TableAt,
    files: list[DataFile],
    timeline: Timeline,
    state: LedgerState,
) -> list[str]:
    """Files of a published plan that its commit does not name: they came from an earlier claim, too late.

    Once it is archived only its commit says what it was; but only executors of plans leave twins with epochs.
    """
    by_request_time: dict[str, list[DataFile]] = {}
    for file in files:
        by_request_time.setdefault(file.parsed.request_time, []).append(file)
    found = []
    for request_time, own in by_request_time.items():
        instant = timeline.write(request_time)
        if instant is None or not instant.is_completed or request_time in state.plans:
            continue
        if instant.kind not in COMPLETED_AS and not (
            instant in timeline.archived and all(epoch_of_token(f.parsed.write_token) for f in own)
        ):
            continue
        if len(own) == len({(f.group, isinstance(f.parsed, BaseFileName)) for f in own}):
            continue  # no twins
        named = {*load_commit(table, instant).file_paths}
        found += [file.name for file in own if named and file.name not in named]
    return found
