# SPDX-License-Identifier: Apache-2.0
"""Rolling back: decided once, executed by anyone, any number of times.

Only what is dead for ever is deleted, and death is a fact of the ledger: a request time that was rolled back is never
published afterwards, and no name of it is ever used again. So a sleeper may do any of these deletes at any time.
"""

from __future__ import annotations

from collections.abc import Callable

from lakebraid import limits
from lakebraid.errors import InvalidArgument
from lakebraid.format.names import MarkerName, State, TimelineFileName, parse_data_file
from lakebraid.format.timeline.rollbacks import (
    InstantInfo,
    RollbackMetadata,
    RollbackPlan,
    RollbackRequest,
    RolledBackPartition,
    format_rollback_metadata,
    format_rollback_plan,
)
from lakebraid.format.times import format_instant_time, parse_instant_time
from lakebraid.txn.checks.overwrite_maps import remove_maps
from lakebraid.txn.hudi.dead_jobs import dead_write, undo_files
from lakebraid.txn.hudi.dead_metadata import check_not_compacted, remove_metadata
from lakebraid.txn.ledger.entries import PendingPlan, Undoing
from lakebraid.txn.ledger.ledger import Ledger
from lakebraid.txn.ledger.rounds import Already, Decision, Outcome, Round, Rule
from lakebraid.txn.ledger.wishes import done_wish, undo_wish, undone
from lakebraid.txn.liveness.heartbeat import beat_first, forget
from lakebraid.txn.liveness.markers import load_markers, marked_file


def roll_back(
    ledger: Ledger, decider: str, victim: str, *, timeout_ms: int = limits.HEARTBEAT_TIMEOUT_MS, story: str = ""
) -> bool:
    """Takes an open write away from its writer and removes its files; False if it was published, or gone already.

    After this the victim is never published, though its writer may wake up later. A write of Apache Hudi on a shared
    table is rolled back only if its heartbeat is older than `timeout_ms`: see hudi/dead_jobs.py. `story` tells later why
    (refusals.py).
    """
    rollback = decide_rollback(ledger, decider, victim, timeout_ms, story=story)
    if rollback is None:
        return False
    finish_rollback(ledger, decider, rollback)
    return True


def finish_rollback(ledger: Ledger, decider: str, rollback: str) -> None:
    """Executes a decided rollback, unless it is done."""
    # The rollback is on the timeline before the files go, so that Hudi sees why they do.
    entry = ledger.newest() if ledger.is_shared else ledger.settled()
    undoing = entry.state.rollbacks.get(rollback)
    if undoing is None:
        return
    storage, config = ledger.storage, ledger.config
    # First what could bring its timeline files back, then the files: a late copy must find no source.
    ledger.sweep_staged(entry.number)
    if ledger.is_shared:
        _finish_shared(ledger, decider, rollback)
        return
    markers = load_markers(storage, undoing.victim)
    remove_metadata(ledger.table, undoing.victim)
    storage.delete([marked_file(marker) for marker in markers])
    pending = [TimelineFileName(undoing.victim, None, undoing.action, s) for s in (State.INFLIGHT, State.REQUESTED)]
    storage.delete([f"{config.timeline_folder}/{name.format()}" for name in pending])
    _remove_maps(ledger, undoing)
    _decide_done(ledger, decider, rollback, markers)
    forget(storage, undoing.victim)


def _remove_maps(ledger: Ledger, undoing: Undoing) -> None:
    if undoing.action == "replacecommit":
        remove_maps(ledger.storage, {undoing.victim})


def _finish_shared(ledger: Ledger, decider: str, rollback: str) -> None:
    """The same under Hudi's lock, in which a writer of Hudi that was given up too early would complete."""

    def rule(now: Round) -> Outcome[tuple[Undoing, list[MarkerName]] | None]:
        undoing = now.state.rollbacks.get(rollback)
        return Already(None if undoing is None else (undoing, undo_files(now, rollback, undoing)))

    found = ledger.decide(decider, rule)
    if found is not None:
        undoing, markers = found
        victim = undoing.victim
        _remove_maps(ledger, undoing)
        _decide_done(ledger, decider, rollback, markers)
        forget(ledger.storage, victim)
    forget(ledger.storage, rollback)


def decide_rollback(
    ledger: Ledger, decider: str, victim: str, timeout_ms: int = limits.HEARTBEAT_TIMEOUT_MS, *, story: str = ""
) -> str | None:
    """Decides to roll an open write back: the rollback's request time, also if it was decided before; None if it is not open.

    From here on the victim is never published. Its files are still to be removed: `finish_rollback`.
    """

    def rule(now: Round) -> Outcome[str | None]:
        begun = next((r for r, u in now.state.rollbacks.items() if u.victim == victim), None)
        if begun is not None:
            return Already(begun)
        write = now.state.open.get(victim) or dead_write(now, victim, timeout_ms)
        if write is None:
            return Already(None)
        return _undo(now, Undoing(victim, write.action, decider), story)

    return _decide_undoing(ledger, decider, rule)


def decide_withdrawal(
    ledger: Ledger, decider: str, victim: str, may: Callable[[PendingPlan], bool], *, is_removable: bool = False
) -> str | None:
    """Decides to withdraw a removable plan: the rollback's request time, also if it was decided before. None if
    the plan is done, is not removable (`is_removable`: it counts as such now), or `may`, asked in every round anew, says
    no.

    From here on it can be neither claimed nor published. An executor beats before it claims, so a judge of heartbeats in
    the round sees every claim that counts.
    """

    def rule(now: Round) -> Outcome[str | None]:
        begun = next((r for r, u in now.state.rollbacks.items() if u.victim == victim), None)
        if begun is not None:
            return Already(begun)
        plan = now.state.plans.get(victim)
        if plan is None or not (plan.is_removable or is_removable) or not may(plan):
            return Already(None)
        return _undo(now, Undoing(victim, plan.action, decider, removes_plan=True))

    return _decide_undoing(ledger, decider, rule)


def _undo(now: Round, undoing: Undoing, story: str = "") -> Decision[str]:
    victim, request_time = undoing.victim, now.time()
    check_not_compacted(now.ledger.table, victim)
    markers = load_markers(now.ledger.storage, victim)
    plan = RollbackPlan(InstantInfo(victim, undoing.action), _requests(markers), story)
    data = format_rollback_plan(plan, now.ledger.storage.url)
    if victim in now.state.open:
        return now.wished("roll back", undo_wish(undoing), (data, b""), str)
    names = [TimelineFileName(request_time, None, "rollback", s).format() for s in (State.REQUESTED, State.INFLIGHT)]
    files = tuple(zip((data, b""), names, strict=True))
    return Decision("roll back", undone(now.state, request_time, undoing), files, value=request_time, touches=0)


def _decide_undoing(ledger: Ledger, decider: str, rule: Rule[str | None]) -> str | None:
    def show_life(rollback: str | None) -> None:
        if rollback is not None and ledger.is_shared:
            beat_first(ledger.storage, rollback)  # Hudi leaves a rollback alone while its heartbeat is fresh

    return ledger.decide(decider, rule, before_applied=show_life)


def _requests(markers: list[MarkerName]) -> tuple[RollbackRequest, ...]:
    requests = []
    for marker in markers:
        data_file = parse_data_file(marker.data_file_name)
        file_id = None if data_file is None else data_file.file_id
        requests.append(RollbackRequest(marker.partition_path, file_id, files=(marker.data_file_name,)))
    return tuple(requests)


def _decide_done(ledger: Ledger, decider: str, rollback: str, markers: list[MarkerName]) -> None:
    def rule(now: Round) -> Outcome[None]:
        undoing = now.state.rollbacks.get(rollback)
        if undoing is None:
            return Already(None)
        deleted: dict[str, tuple[str, ...]] = {}
        for marker in markers:
            deleted[marker.partition_path] = (*deleted.get(marker.partition_path, ()), marker.data_file_name)
        metadata = RollbackMetadata(
            rollback,
            (InstantInfo(undoing.victim, undoing.action),),
            {partition: RolledBackPartition(deleted=names) for partition, names in deleted.items()},
        )
        return now.wished("rolled back", done_wish(rollback), (format_rollback_metadata(metadata),), lambda _: None)

    ledger.decide(decider, rule)


def forgotten_before(now: Round) -> str:
    """Late files of writes that were rolled back before this time are no longer reckoned with.

    The clock of this machine alone may be ahead; the last time that was given away is one that others went along with.
    """
    zone = now.ledger.config.zone
    last = min(now.state.last, format_instant_time(now.ledger.clock.now_ms(), zone))
    try:
        return format_instant_time(parse_instant_time(last, zone) - limits.GONE_MS, zone)
    except InvalidArgument:
        return ""  # nothing was ever decided
