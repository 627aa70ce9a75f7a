# SPDX-License-Identifier: Apache-2.0
"""Restoring: one decision removes everything that completed after a moment, and whatever is still open.

From that decision on none of it can be published: open writes and plans lose their place with it. Why that is safe,
against sleepers, zombies and readers: docs/decisions/0010-restore.md. The files go afterwards: restore_files.py.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from lakebraid.errors import InvalidArgument, UnsupportedTable
from lakebraid.format.names import State, TimelineFileName, parse_timeline_file
from lakebraid.format.timeline.rollbacks import InstantInfo, RestorePlan, format_restore_plan
from lakebraid.model.timeline.instant import WRITE_ACTIONS, Instant, action_family
from lakebraid.model.timeline.timeline import Timeline
from lakebraid.table.history import load_history
from lakebraid.table.loading import load_commit
from lakebraid.table.schema import KEEPS_SCHEMA
from lakebraid.txn.actions.batches import batches_without
from lakebraid.txn.actions.restore_files import finish_restore
from lakebraid.txn.actions.rollback import forgotten_before
from lakebraid.txn.actions.savepoints import check_kept, savepoints_on
from lakebraid.txn.checks.overwrite_maps import map_without
from lakebraid.txn.hudi.reconcile import foreign_victims
from lakebraid.txn.ledger.entries import LedgerState, Restoring
from lakebraid.txn.ledger.ledger import Ledger
from lakebraid.txn.ledger.rounds import Already, Decision, Outcome, Round
from lakebraid.txn.ledger.wishes import remembering_gone


@dataclass(frozen=True, slots=True)
class Undo:
    """The instants that a restore removes."""

    target: Instant
    """The write to whose completion the table returns."""
    completed: tuple[Instant, ...]
    """Published writes and services, the last completion first."""
    pending: tuple[Instant, ...]
    """Open writes and plans, the latest request time first: their processes are refused."""

    @property
    def until(self) -> str:
        return self.target.completion_time or self.target.request_time

    @property
    def request_times(self) -> tuple[str, ...]:
        return tuple(i.request_time for i in (*self.pending, *self.completed))


def decide_restore(ledger: Ledger, decider: str, to: str) -> tuple[str | None, Undo]:
    """The request time of the restore and what it removes; no request time if nothing was published after that moment.

    `to` is the request time of a completed write, as savepoints name it, or a completion time. Restores that others left
    unfinished are finished first. InvalidArgument or SnapshotExpired if the table cannot go back that far.
    """
    for restore in sorted(ledger.newest().state.restores):
        finish_restore(ledger, decider, restore)
    since = ledger.newest().state.last
    tried: list[Undo] = []

    def rule(now: Round) -> Outcome[tuple[str | None, Undo]]:
        known = {**now.state.restored, **now.state.restores}
        mine = next((request_time for request_time, restoring in known.items() if restoring.decider == decider), None)
        if mine is not None:
            return Already((mine, tried[-1]))  # the answer got lost; it was the last one that was tried
        _check_alone(now, since)
        undo = plan_restore(now, to)
        tried.append(undo)
        if not undo.completed:
            return Already((None, undo))
        request_time = now.time()
        plan = RestorePlan(
            tuple(InstantInfo(i.request_time, i.action) for i in (*undo.pending, *undo.completed)),
            undo.target.request_time,
        )
        names = (TimelineFileName(request_time, None, "restore", s).format() for s in (State.REQUESTED, State.INFLIGHT))
        files = tuple(zip((format_restore_plan(plan), b""), names, strict=True))
        return Decision("restore", _state_after(now, request_time, decider, undo), files, value=(request_time, undo))

    return ledger.decide(decider, rule)


def plan_restore(now: Round, to: str) -> Undo:
    """What a restore would remove; raises if the table cannot return to that moment."""
    _check_restorable(now)
    timeline = now.timeline()
    target = _target(now, timeline, to)
    until = target.completion_time or target.request_time
    completed = tuple(i for i in reversed(timeline.writes) if (i.completion_time or "") > until)
    # What a rollback is about to remove stays its own; the rollback goes on as if nothing had happened.
    # Hudi's rollback of a compaction removes an attempt, not the plan, which would be left over with no logs to merge.
    foreign = foreign_victims(now.ledger.table, now.state, timeline)
    plans = {i.request_time for i in timeline.pending if i.kind == "compaction"}
    victims = {*(u.victim for u in now.state.rollbacks.values()), *(foreign - plans)}
    pending = tuple(
        i for i in reversed(timeline.pending) if action_family(i.action) == "write" and i.request_time not in victims
    )
    undo = Undo(target, completed, pending)
    if completed:
        _check_savepoints(now, undo)
        _check_active(now, timeline, undo)
        check_kept(now, until)
    return undo


def _check_restorable(now: Round) -> None:
    if now.config.metadata_partitions:
        url = now.ledger.storage.url
        raise UnsupportedTable(
            f"{url} cannot be restored by lakebraid: it has a metadata table, which would go on to list the files that a restore "
            "removes. Nothing was changed. Restore it with Apache Hudi (rollback_to_savepoint) while no other job writes.",
            path=url,
        )


def _target(now: Round, timeline: Timeline, to: str) -> Instant:
    """The write with that request time, or else the last one that had completed by that time."""
    named = timeline.write(to)
    if named is not None and named.is_completed:
        return named
    found = next((i for i in reversed(timeline.writes) if (i.completion_time or "") <= to), None)
    if found is None:
        raise InvalidArgument(
            f"{now.ledger.storage.url} cannot return to {to}: no write on its timeline had completed by then. Nothing "
            "was changed. Give the instant of a savepoint (`table.savepoints()`) or a completion time "
            "(`table.timeline()`).",
            path=now.ledger.storage.url,
            to=to,
        )
    return found


def _check_alone(now: Round, since: str) -> None:
    """Raises if another process restored since we looked: what this restore was meant to remove may be gone already."""
    other = next((i for i in now.timeline() if i.action == "restore" and i.request_time > since), None)
    if other is not None:
        raise InvalidArgument(
            f"Another process has just restored {now.ledger.storage.url} ({other.request_time}). This restore changed "
            "nothing. Look at the table, and restore again if that is still wanted.",
            path=now.ledger.storage.url,
            instant=other.request_time,
        )


def _check_savepoints(now: Round, undo: Undo) -> None:
    request_times = {i.request_time for i in undo.completed}
    later = sorted({s.request_time for s in savepoints_on(now.timeline(), now.state)} & request_times)
    if later:
        raise InvalidArgument(
            f"{now.ledger.storage.url} cannot return to {undo.until}: the savepoint {later[-1]} holds on to what was "
            "written after that. Nothing was changed. Delete that savepoint first, or restore to it.",
            path=now.ledger.storage.url,
            savepoints=tuple(later),
        )


def _check_active(now: Round, timeline: Timeline, undo: Undo) -> None:
    """Only the active timeline can be changed; and something older must stay on it, or else late files of the writes that
    are removed would look archived, hence committed (FORMAT, section 9).
    """
    archived = [i for i in undo.completed if i.request_time <= now.state.archived]
    rows = load_history(now.ledger.table, actions=WRITE_ACTIONS)
    archived += [r.instant for r in rows if (r.instant.completion_time or r.instant.request_time) > undo.until]
    # What is decided to be archived leaves at any moment, so it does not count as staying.
    survivors = (i.request_time for i in timeline.writes if i not in undo.completed)
    staying = min((request_time for request_time in survivors if request_time > now.state.archived), default="9")
    late = [request_time for request_time, time in now.state.gone.items() if time > forgotten_before(now)]
    if archived or staying > min((*undo.request_times, *late)):
        raise InvalidArgument(
            f"{now.ledger.storage.url} cannot return to {undo.until}: the timeline was archived past that moment. Nothing "
            "was changed. Restore to a later moment; a savepoint keeps its moment from being archived.",
            path=now.ledger.storage.url,
            to=undo.until,
        )


def _state_after(now: Round, request_time: str, decider: str, undo: Undo) -> LedgerState:
    """Nothing is open, nothing planned; the schema is a surviving commit's again."""
    state = replace(
        now.state,
        last=now.time(),
        open={},
        plans={},
        restores={request_time: Restoring(undo.until, decider)},
        leases={token: lease for token, lease in now.state.leases.items() if lease.time <= undo.until},
        is_fresh=now.state.is_fresh or _is_fresh(now, undo),
        replaced_file=map_without(now, undo.request_times),
        batches=batches_without(now, undo.completed),
    )
    # The timeline must not be archived past what may still bring late files: of the completed the oldest says that. It
    # comes last, so that it is remembered whatever the limit.
    for victim in sorted({*(i.request_time for i in undo.pending), min(undo.request_times)}, reverse=True):
        state = remembering_gone(state, victim, request_time)
    stated = None if state.schema_file is None else parse_timeline_file(state.schema_file)
    if stated is not None and stated.request_time in undo.request_times:
        state = replace(state, schema_file=_schema_file(now, undo))
    return state


def _survivors(now: Round, undo: Undo) -> list[Instant]:
    return [i for i in now.timeline().writes if i not in undo.completed]


def _schema_file(now: Round, undo: Undo) -> str | None:
    """The surviving commit that says the schema, by the rule of readers: the greatest request time counts (FORMAT, trap 33)."""
    for instant in sorted(_survivors(now, undo), key=lambda i: i.request_time, reverse=True):
        metadata = load_commit(now.ledger.table, instant)
        if metadata.schema and metadata.operation not in KEEPS_SCHEMA:
            return instant.file_name(State.COMPLETED)
    return None


def _is_fresh(now: Round, undo: Undo) -> bool:
    """Whether only the table's creation is left, which holds no rows: then rows may go into base files again."""
    survivors = _survivors(now, undo)
    if len(survivors) != 1 or now.ledger.is_shared or load_history(now.ledger.table):
        return False
    metadata = load_commit(now.ledger.table, survivors[0])
    return metadata.rows_written == 0 and not any(s.num_deletes for p in metadata.write_stats.values() for s in p)
