# SPDX-License-Identifier: Apache-2.0
"""What dead Apache Hudi jobs left on a shared table: pending writes, and rollbacks that were begun.

Hudi's writers cannot be fenced by the ledger. They stop by themselves: one that missed its heartbeats refuses to commit,
and so does one whose inflight file is gone. So a heartbeat is judged under the lock, and with Hudi's own patience.
"""

from __future__ import annotations

from dataclasses import replace

from lakebraid import limits
from lakebraid.format.names import MarkerName, State, TimelineFileName, in_partition
from lakebraid.table.loading import load_timeline
from lakebraid.txn.hudi.dead_metadata import remove_metadata
from lakebraid.txn.hudi.reconcile import load_rollback_plan, pending_writes
from lakebraid.txn.ledger.entries import OpenWrite, Undoing
from lakebraid.txn.ledger.ledger import Ledger
from lakebraid.txn.ledger.rounds import Already, Decision, Outcome, Round
from lakebraid.txn.liveness.heartbeat import beat_first, is_expired, storage_now_ms
from lakebraid.txn.liveness.markers import load_markers, marked_file, own_markers

_WRITES = frozenset({"commit", "deltacommit", "replacecommit"})
PLANNED = frozenset({"compaction", "logcompaction"})
"""Rolling these back ends an attempt; the plan stays, and any executor may claim it."""


def find_dead(ledger: Ledger, *, timeout_ms: int = limits.HEARTBEAT_TIMEOUT_MS) -> tuple[list[str], list[str]]:
    """Request times of Hudi's pending writes, and its unfinished rollbacks, that show no life. They are judged again later."""
    state = ledger.newest().state
    timeline = load_timeline(ledger.table)
    writes = [s for s, i in pending_writes(timeline).items() if i.kind in _WRITES and s not in state.open]
    rollbacks = [i.request_time for i in timeline.pending if i.action == "rollback"]
    rollbacks = [r for r in rollbacks if r not in state.rollbacks]
    if not writes and not rollbacks:
        return [], []
    now_ms = storage_now_ms(ledger.storage, ledger.clock)
    dead = [
        [s for s in request_times if is_expired(ledger.table, s, now_ms, timeout_ms)]
        for request_times in (writes, rollbacks)
    ]
    return dead[0], dead[1]


def dead_write(now: Round, victim: str, timeout_ms: int) -> OpenWrite | None:
    """Hudi's pending write, if it may be rolled back now: no rollback of it is pending, and its writer shows no life."""
    ledger = now.ledger
    instant = pending_writes(now.timeline()).get(victim) if ledger.is_shared else None
    if instant is None or instant.kind not in _WRITES or _is_being_undone(now, victim):
        return None
    now_ms = storage_now_ms(ledger.storage, ledger.clock)
    if not is_expired(ledger.table, victim, now_ms, timeout_ms):
        return None
    return OpenWrite("", instant.kind)


def adopt_rollback(
    ledger: Ledger, decider: str, rollback: str, *, timeout_ms: int = limits.HEARTBEAT_TIMEOUT_MS
) -> bool:
    """Takes over a rollback whose executor died; then finish it. False if he lives, it is done, or is not for us.

    Not for us: a plan that cannot be read, and one that rolls back what was published (that is the will of a person).
    """

    def rule(now: Round) -> Outcome[bool]:
        if rollback in now.state.rollbacks:
            return Already(value=True)
        undoing = _undoing(now, decider, rollback)
        now_ms = storage_now_ms(ledger.storage, ledger.clock)
        if undoing is None or not is_expired(ledger.table, rollback, now_ms, timeout_ms):
            return Already(value=False)
        name = TimelineFileName(rollback, None, "rollback", State.INFLIGHT).format()
        state = replace(now.state, rollbacks={**now.state.rollbacks, rollback: undoing})
        return Decision("adopt", state, ((b"", name),), value=True)

    return ledger.decide(decider, rule, before_applied=lambda _: beat_first(ledger.storage, rollback))


def undo_files(now: Round, rollback: str, undoing: Undoing) -> list[MarkerName]:
    """Removes, under the lock, what a rollback is to remove, and tells the data files.

    Nothing if the victim completed after all: its writer was not dead, and what he told his user stays true.
    """
    storage, config = now.ledger.storage, now.ledger.config
    instant = now.timeline().write(undoing.victim)
    if instant is not None and instant.is_completed:
        return []
    markers = _doomed(now, rollback, undoing.victim)
    remove_metadata(now.ledger.table, undoing.victim)
    storage.delete([marked_file(marker) for marker in markers])
    keeps_plan = undoing.action in PLANNED and not undoing.removes_plan
    states = (State.INFLIGHT,) if keeps_plan else (State.INFLIGHT, State.REQUESTED)
    pending = [TimelineFileName(undoing.victim, None, undoing.action, s).format() for s in states]
    storage.delete([f"{config.timeline_folder}/{name}" for name in pending])
    return markers


def _doomed(now: Round, rollback: str, victim: str) -> list[MarkerName]:
    """What the plan names and what markers name: Hudi may have removed one of the two before it died."""
    plan = load_rollback_plan(now.ledger.table, rollback)
    requests = () if plan is None else plan.requests
    planned = [in_partition(r.partition_path, f"{name}.marker.CREATE") for r in requests for name in r.files]
    both = [*own_markers(planned, victim), *load_markers(now.ledger.storage, victim)]
    return list({(m.partition_path, m.data_file_name): m for m in both}.values())


def _undoing(now: Round, decider: str, rollback: str) -> Undoing | None:
    if not any(i.action == "rollback" and i.request_time == rollback for i in now.timeline().pending):
        return None
    plan = load_rollback_plan(now.ledger.table, rollback)
    if plan is None or plan.instant is None or plan.instant.action not in _WRITES | PLANNED:
        return None
    victim = now.timeline().write(plan.instant.request_time)
    if victim is not None and victim.is_completed:
        return None
    return Undoing(plan.instant.request_time, plan.instant.action, decider)


def _is_being_undone(now: Round, victim: str) -> bool:
    for instant in now.timeline().pending:
        if instant.action == "rollback":
            plan = load_rollback_plan(now.ledger.table, instant.request_time)
            if plan is not None and plan.instant is not None and plan.instant.request_time == victim:
                return True
    return False
