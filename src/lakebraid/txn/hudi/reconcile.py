# SPDX-License-Identifier: Apache-2.0
"""What Apache Hudi's writers did beside us. They decide on the timeline and never look at the ledger, so each round, under
Hudi's lock, holds the ledger's state against the timeline: what Hudi rolled back, finished or began counts.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from lakebraid import limits
from lakebraid.clock import Clock
from lakebraid.errors import CommitRefused, CorruptFile, ObjectNotFound, StorageError
from lakebraid.format.names import State, TimelineFileName, parse_timeline_file
from lakebraid.format.timeline.rollbacks import RollbackPlan, parse_rollback_plan
from lakebraid.format.times import parse_instant_time
from lakebraid.model.config import TableConfig
from lakebraid.model.timeline.instant import Instant, action_family
from lakebraid.model.timeline.timeline import Timeline
from lakebraid.model.writable import check_writable
from lakebraid.storage.protocol import Storage
from lakebraid.table.at import TableAt
from lakebraid.table.history import load_history
from lakebraid.table.loading import list_timeline, load_config, load_names, load_timeline, recent_timeline
from lakebraid.table.restores import load_restore_plan
from lakebraid.txn.ledger.entries import LedgerState, PendingPlan

_VISIBLE_KINDS: Final = frozenset({"begin", "plan", "publish"})
"""Decisions that add something to the table; rollbacks and restores must stay possible whatever became of it."""


def mind_others(table: TableAt, state: LedgerState) -> LedgerState:
    """The ledger's state as the timeline has it now. StorageError while a restore of Hudi's is under way.

    Times go on after everything on the timeline. A write of ours that Hudi rolled back, or is about to, is no longer
    open: nothing would stop its completion, and its files are gone (FORMAT, trap 5).
    """
    timeline = _timeline_beside(table, state)
    _check_no_restore(table.storage, timeline, state)
    pending = pending_writes(timeline)
    undone = foreign_victims(table, state, timeline)
    attempts = _undone_attempts(table, state, timeline)
    kept = {s: w for s, w in state.open.items() if _is_inflight(pending.get(s)) and s not in undone}
    last = max(state.last, greatest_time(timeline))
    lost = {s: last for s in state.open if s not in kept and not _is_completed(timeline, s)}
    running = {i.request_time for i in timeline.pending if i.action in ("rollback", "restore")}
    return replace(
        state,
        last=last,
        open=kept,
        # Hudi rolls a dead executor back by removing its inflight file; the plan stays, the claim does not.
        plans={
            s: p if _is_inflight(pending[s]) and s not in undone | attempts else _unclaimed(p, is_undone=s in undone)
            for s, p in state.plans.items()
            if s in pending
        },
        rollbacks={r: u for r, u in state.rollbacks.items() if r in running},
        restores={r: u for r, u in state.restores.items() if r in running},
        gone=dict(sorted({**state.gone, **lost}.items(), key=lambda item: item[1])[-limits.GONE_REQUEST_TIMES_MAX :]),
    )


def _timeline_beside(table: TableAt, state: LedgerState) -> Timeline:
    """The timeline as far as it tells what has become of the state: what is older and completed is known to it."""
    claims = (plan.claimed_at for plan in state.plans.values() if plan.claimant)
    since, names = min((state.last, *claims)), load_names(table)
    recent = recent_timeline(table, names, since, {*state.open, *state.plans})
    return load_timeline(table) if recent is None else recent


def check_settings(table: TableAt, kind: str) -> None:
    """Raises if Hudi has changed the table since, so that this decision would be hidden or wrong (FORMAT, traps 3, 27)."""
    if kind not in _VISIBLE_KINDS:
        return
    now, properties = load_config(table.storage)
    if now == table.config:
        return
    check_writable(now, properties, table.storage.url)
    raise CommitRefused(
        f"The settings of {table.storage.url} were changed by another writer since this one began. Nothing was published. "
        "Open the table again and write again.",
        path=table.storage.url,
    )


def is_archived(table: TableAt, timeline_file: str) -> bool:
    """Whether the instant of that timeline file has left the timeline for the history."""
    parsed = parse_timeline_file(timeline_file.rpartition("/")[2])
    if parsed is None:
        return False
    request_time = parsed.request_time
    return any(row.instant.request_time == request_time for row in load_history(table, request_time))


def greatest_time(timeline: Timeline) -> str:
    times = [t for i in timeline for t in (i.request_time, i.completion_time) if t]
    return max((t.ljust(17, "0") for t in times), default="0" * 17)


def pending_writes(timeline: Timeline) -> Mapping[str, Instant]:
    """Writes and plans that have not completed, ours and Hudi's."""
    return {i.request_time: i for i in timeline.pending if action_family(i.action) == "write"}


def load_rollback_plan(table: TableAt, rollback: str) -> RollbackPlan | None:
    """What a rollback on the timeline is to undo; None if its plan is gone or torn: Hudi throws such a plan away."""
    name = TimelineFileName(rollback, None, "rollback", State.REQUESTED).format()
    path = f"{table.config.timeline_folder}/{name}"
    try:
        return parse_rollback_plan(table.storage.read(path, limits.TIMELINE_FILE_BYTES_MAX), path)
    except (ObjectNotFound, CorruptFile):
        return None


def foreign_victims(table: TableAt, state: LedgerState, timeline: Timeline) -> frozenset[str]:
    """Request times that Hudi's unfinished rollbacks will remove: decided under the lock, executed any time after it."""
    rollbacks = (i for i in timeline.pending if i.action == "rollback" and i.request_time not in state.rollbacks)
    return frozenset(victim for victim, _ in _victims(table, rollbacks))


def _undone_attempts(table: TableAt, state: LedgerState, timeline: Timeline) -> frozenset[str]:
    """Request times of plans whose claim of ours Hudi has rolled back. It then puts an inflight file of its own in the place of
    ours, so the file proves nothing: a rollback that began after the claim does.
    """
    claimed = {s: p.claimed_at for s, p in state.plans.items() if p.claimant}
    since = min(claimed.values(), default=None)
    if since is None:
        return frozenset()
    victims = victims_since(table, timeline, since)
    return frozenset(victim for victim, rollback in victims if rollback > claimed.get(victim, "9"))


def rolled_back_since(table: TableAt, timeline: Timeline, time: str) -> set[str]:
    """Request times whose rollback began after a time, and is done or under way."""
    return {victim for victim, _ in victims_since(table, timeline, time)}


def victims_since(table: TableAt, timeline: Timeline, time: str) -> Iterator[tuple[str, str]]:
    """Request times whose rollback began after a time, each with the rollback's own."""
    return _victims(table, (i for i in timeline if i.action == "rollback" and i.request_time > time))


def _victims(table: TableAt, rollbacks: Iterable[Instant]) -> Iterator[tuple[str, str]]:
    """What each of these rollbacks is to undo, with the rollback's own request time."""
    for instant in rollbacks:
        plan = load_rollback_plan(table, instant.request_time)
        if plan is not None and plan.instant is not None:
            yield plan.instant.request_time, instant.request_time


def _check_no_restore(storage: Storage, timeline: Timeline, state: LedgerState) -> None:
    pending = (i for i in timeline.pending if i.action == "restore" and i.request_time not in state.restores)
    restore = next(pending, None)
    if restore is not None:
        raise StorageError(
            f"Apache Hudi is restoring {storage.url} to a savepoint ({restore.request_time}). Nothing was decided. Wait "
            "until that is done, or finish it with Apache Hudi; then write again.",
            path=storage.url,
            instant=restore.request_time,
        )


def _unclaimed(plan: PendingPlan, *, is_undone: bool) -> PendingPlan:
    """The plan for its next executor. A removable one that Hudi rolls back, or has, is never executed again: it
    keeps an epoch that no claim ever had.
    """
    was_tried = plan.is_removable and (plan.epoch > 0 or is_undone)
    return replace(plan, epoch=1 if was_tried else 0, claimant="")


def _is_inflight(instant: Instant | None) -> bool:
    return instant is not None and instant.state is State.INFLIGHT


def _is_completed(timeline: Timeline, request_time: str) -> bool:
    instant = timeline.write(request_time)
    return instant is not None and instant.is_completed


def stop_writers(table: TableAt, restore: str) -> None:
    """Takes what a restore names, and what has not completed, off the timeline while Hudi's lock is still ours.

    A job of Hudi asks for its inflight file before it completes, and for nothing else. If it were still there when the
    lock passes on, the job could be told that its rows are in the table, and the restore would remove them.
    """
    named = {instant.request_time for instant in load_restore_plan(table, restore).instants}
    for state in (State.REQUESTED, State.INFLIGHT):  # of what is no longer requested no inflight file is made
        # Listed anew each time: a job may just have made its inflight file.
        files = table.storage.list_folder(table.config.timeline_folder)[0]
        parsed = [name for file in files if (name := parse_timeline_file(file.name.rpartition("/")[2])) is not None]
        ours = [name for name in parsed if name.request_time in named and action_family(name.action) == "write"]
        completed = {name.request_time for name in ours if name.state is State.COMPLETED}
        doomed = [n.format() for n in ours if n.state is state and n.request_time not in completed]
        table.storage.delete([f"{table.config.timeline_folder}/{name}" for name in doomed])


def insist(clock: Clock, act: Callable[[], bool]) -> bool:
    """What must be done before Hudi's lock passes on; a store that says no does not have the last word."""
    for attempt in range(limits.INSIST_ATTEMPTS_MAX):
        with contextlib.suppress(StorageError):
            return act()
        clock.sleep(0.05 * 2**attempt)
    return act()


def wait_out_skew(clock: Clock, config: TableConfig, time: str) -> None:
    """Keeps Hudi's lock until every clock that is wrong by no more than Hudi allows has passed the time just given.

    Hudi's writers take their times from their clocks alone: without this the next one could begin before us.
    """
    until_ms = parse_instant_time(time, config.zone) + config.clock_skew_ms
    ahead_ms = until_ms - clock.now_ms()
    if ahead_ms > 0:
        clock.sleep(min(ahead_ms, limits.CLOCK_AHEAD_MS_MAX) / 1000)


def past_strangers(table: TableAt, state: LedgerState, names: Iterable[str]) -> LedgerState:
    """The state with `last` moved past every time on the timeline of a table that is not shared: Hudi was at work once.

    `names` are those beyond a time that the state knows.
    """
    known = f"{table.config.timeline_folder}/{state.last}~"
    if all(name < known for name in names):
        return state
    return replace(state, last=max(state.last, greatest_time(list_timeline(table))))
