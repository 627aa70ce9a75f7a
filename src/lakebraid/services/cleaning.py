# SPDX-License-Identifier: Apache-2.0
"""Cleaning: files go that no retained version needs, and that no reader, savepoint, plan or write still holds.

What goes is decided in the ledger, against the timeline of that very moment, so no savepoint, plan, write or lease can
slip in between. The deletes come afterwards; a process that finds a clean unfinished finishes it.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from lakebraid import limits
from lakebraid.errors import CorruptFile
from lakebraid.format.names import BaseFileName, State, file_name, in_partition
from lakebraid.format.timeline.rollbacks import InstantInfo
from lakebraid.format.timeline.services import CleanPlan, parse_clean_metadata, parse_savepoint_metadata
from lakebraid.format.times import format_instant_time
from lakebraid.model.timeline.instant import COMPLETED_AS, Instant, action_family
from lakebraid.model.timeline.timeline import Timeline
from lakebraid.services.retention import Choice, Committed, Holder, Past, Retention, choose_files
from lakebraid.services.rollback import plan_delay_ms, roll_back_dead
from lakebraid.services.settings import Opened
from lakebraid.table.grid import text_bytes
from lakebraid.table.loading import Loaded, load_table
from lakebraid.table.replaced import load_replacements
from lakebraid.txn.actions.clean import Removal, decide_clean, finish_clean
from lakebraid.txn.actions.savepoints import savepoints_on
from lakebraid.txn.checks.pending_plans import planned_parts
from lakebraid.txn.hudi.reconcile import load_rollback_plan
from lakebraid.txn.ledger.entries import LedgerState
from lakebraid.txn.ledger.ledger import Ledger
from lakebraid.txn.ledger.rounds import Round
from lakebraid.txn.liveness.heartbeat import storage_now_ms
from lakebraid.txn.liveness.leases import NEVER, expired_leases


@dataclass(frozen=True, slots=True)
class CleanResult:
    """What a clean removed, or, as a dry run, would remove."""

    instants: tuple[str, ...] = ()
    """The request times of the cleans that were decided; none if there was nothing to do, or as a dry run."""
    files: tuple[str, ...] = ()
    bytes: int = 0
    readable_since: str | None = None
    """Every version from this completion time on stays readable; None: all that there are."""
    held_back: tuple[str, ...] = ()
    """What holds back files that the policy alone would remove, the oldest first."""
    finished: tuple[str, ...] = ()
    """Cleans that others had left unfinished."""
    rolled_back: tuple[str, ...] = ()
    """Request times of dead writes and of removable plans without an executor: they were rolled back first."""
    is_dry_run: bool = False

    def __str__(self) -> str:
        verb = "would remove" if self.is_dry_run else "removed"
        lines = [f"clean: {verb} {len(self.files):,} files, {text_bytes(self.bytes)}"]
        lines += [f"  rolled back: {request_time}" for request_time in self.rolled_back]
        lines += [f"  held back by {hold}" for hold in self.held_back]
        return "\n".join(lines)


def clean_table(
    opened: Opened, retention: Retention, *, delay_minutes: float | None = None, dry_run: bool = False
) -> CleanResult:
    """Rolls dead writers back, and removable plans that are older than `delay_minutes` or the table's setting; then
    removes what the policy allows and is not held back.
    """
    plan_delay_ms(opened.settings, delay_minutes)  # a wrong one is refused by a dry run, too
    if dry_run:
        return clean(opened.ledger, retention, dry_run=True)
    first = roll_back_dead(opened, delay_minutes=delay_minutes)
    return replace(clean(opened.ledger, retention), rolled_back=first.rolled_back + first.plans)


def clean(ledger: Ledger, retention: Retention, *, dry_run: bool = False) -> CleanResult:
    """Removes what the policy allows and is not held back; first finishes cleans that other processes left."""
    if dry_run:
        now = Round(ledger, ledger.newest().state, 0)
        choice = _choose(now, retention, expired_leases(ledger, now.state))
        return replace(_cleaned((), [choice]), is_dry_run=True)
    decider = ledger.clock.token()
    finished = finish_cleans(ledger, decider)
    request_times: list[str] = []
    choices: list[Choice] = []
    while len(request_times) < limits.CLEANS_MAX:
        request_time, choice = plan_clean(ledger, retention)
        choices.append(choice)
        if request_time is None:
            break
        request_times.append(request_time)
        finish_clean(ledger, decider, request_time)
        if len(choice.files) < limits.CLEAN_FILES_MAX:
            break
    return replace(_cleaned(tuple(request_times), choices), finished=finished)


def plan_clean(ledger: Ledger, retention: Retention) -> tuple[str | None, Choice]:
    """Decides a clean that any process may execute: its request time, or None if nothing may go; and what was chosen."""
    ledger.may_ask = True
    chosen: list[Choice] = [Choice()]

    def build(now: Round, _request_time: str) -> Removal:
        expired = expired_leases(ledger, now.state)
        choice = chosen[0] = _choose(now, retention, expired)
        plan = _plan(choice, retention, now) if choice.files else None
        return Removal(plan, choice.horizon, expired)

    return decide_clean(ledger, ledger.clock.token(), build), chosen[0]


def finish_cleans(ledger: Ledger, decider: str) -> tuple[str, ...]:
    """Finishes every clean that was decided and not reported done; the process that decided it may do so as well."""
    left = sorted(ledger.newest().state.cleans)
    return tuple(request_time for request_time in left if finish_clean(ledger, decider, request_time) is not None)


def _cleaned(request_times: tuple[str, ...], choices: Sequence[Choice]) -> CleanResult:
    files = {file.name: file for choice in choices for file in choice.files}
    return CleanResult(
        instants=request_times,
        files=tuple(sorted(files)),
        bytes=sum(file.size for file in files.values()),
        readable_since=choices[0].since,
        held_back=tuple(str(hold) for hold in choices[0].holds),
    )


def _plan(choice: Choice, retention: Retention, now: Round) -> CleanPlan:
    files: dict[str, list[str]] = defaultdict(list)
    for file in sorted(choice.files, key=lambda file: file.name):
        files[file.group.partition].append(file_name(file.name))
    writes = now.timeline().writes
    first = next((i for i in writes if i.request_time == choice.earliest), None)
    return CleanPlan(
        retention.policy,
        {partition: tuple(names) for partition, names in files.items()},
        earliest_to_retain=InstantInfo(choice.earliest, first.action if first else "commit"),
        last_completed=max((i.request_time for i in writes), default=""),
    )


def _choose(now: Round, retention: Retention, expired: Sequence[str]) -> Choice:
    ledger = now.ledger
    loaded = load_table(ledger.table)
    timeline = loaded.timeline
    if any(i.action == "restore" for i in timeline.pending) or now.state.restores:
        return Choice(holds=(Holder("an unfinished restore", NEVER, is_lasting=True),))
    return choose_files(
        _past(ledger, loaded),
        retention,
        holds=[*_holds(now, timeline, expired)],
        named={*_planned_inputs(ledger, timeline), *_savepointed(now, timeline)},
        cutoff=_cutoff(ledger, retention),
        earliest_before=_earliest_before(ledger, timeline),
        files_max=limits.CLEAN_FILES_MAX,
    )


def _past(ledger: Ledger, loaded: Loaded) -> Past:
    files = []
    for file in loaded.files:
        request_time = file.parsed.request_time
        completion = loaded.timeline.completion_of(request_time)
        if completion is not None:
            is_base = isinstance(file.parsed, BaseFileName)
            files.append(Committed(file.group, file.name, request_time, completion, is_base, file.size))
    replacements = load_replacements(ledger.table, loaded.timeline)
    return Past(tuple(files), loaded.timeline.writes, replacements)


def _cutoff(ledger: Ledger, retention: Retention) -> str:
    if retention.policy != "KEEP_LATEST_BY_HOURS":
        return ""
    # By the storage's time: with a clock that is wrong by a day everything would be old.
    then_ms = storage_now_ms(ledger.storage, ledger.clock) - int(retention.amount * 3_600_000)
    return format_instant_time(then_ms, ledger.config.zone)


def _holds(now: Round, timeline: Timeline, expired: Sequence[str]) -> Iterator[Holder]:
    """Everything that still needs an older version."""
    yield from _work_in_progress(now, timeline)
    for token, lease in now.state.leases.items():
        if token not in expired:
            yield Holder(f"the lease of {lease.holder}", lease.time)
    for name, position in now.state.consumers.items():
        if position != NEVER:
            yield Holder(f"the consumer {name!r}", position, is_lasting=True)
    for instant in _savepoints(now, timeline):
        commit = timeline.completion_of(instant.request_time) or instant.request_time
        for time in {commit, instant.completion_time or commit}:
            yield Holder(f"the savepoint {instant.request_time}", time)


def _work_in_progress(now: Round, timeline: Timeline) -> Iterator[Holder]:
    """Open writes may have read what was there since they began; a plan that cannot be read needs what it began with."""
    pending = {i.request_time: i.kind for i in timeline.pending if action_family(i.action) == "write"}
    known = {request_time: plan.action for request_time, plan in now.state.plans.items()}
    opened = {request_time: write.action for request_time, write in now.state.open.items()}
    for request_time, kind in (pending | opened | known).items():
        if request_time in now.state.gone:
            continue  # it reads nothing any more
        is_plan = kind in COMPLETED_AS
        yield Holder(
            f"the {'planned' if is_plan else 'open'} {kind} {request_time}", request_time, is_lasting=not is_plan
        )
    yield from _foreign_rollbacks(now.ledger, now.state, timeline)


def _foreign_rollbacks(ledger: Ledger, state: LedgerState, timeline: Timeline) -> Iterator[Holder]:
    """Apache Hudi also rolls completed writes back: the versions before that are about to be the newest again."""
    for instant in timeline.pending:
        if instant.action == "rollback" and instant.request_time not in state.rollbacks:
            plan = load_rollback_plan(ledger.table, instant.request_time)
            victim = NEVER if plan is None or plan.instant is None else plan.instant.request_time
            yield Holder(f"the unfinished rollback {instant.request_time}", victim, is_lasting=True)


def _planned_inputs(ledger: Ledger, timeline: Timeline) -> Iterator[str]:
    """What pending plans are about to read: without it they could never be executed (scenario F5).

    The inputs of a torn plan are kept by the hold on its request time.
    """
    for part in planned_parts(ledger.table, timeline):
        yield from part.files


def _savepoints(now: Round, timeline: Timeline) -> list[Instant]:
    """Those that are set, and those that Apache Hudi is about to set."""
    coming = [i for i in timeline if i.action == "savepoint" and not i.is_completed]
    return [*savepoints_on(timeline, now.state), *coming]


def _savepointed(now: Round, timeline: Timeline) -> Iterator[str]:
    for instant in savepoints_on(timeline, now.state):
        data, path = _read(now.ledger, instant, State.COMPLETED)
        for partition, names in parse_savepoint_metadata(data, path).files.items():
            yield from (in_partition(partition, name) for name in names)


def _earliest_before(ledger: Ledger, timeline: Timeline) -> str:
    """What the last clean left to Hudi. It never goes back, for what is gone stays gone."""
    done = [i for i in timeline.completed if i.action == "clean"]
    if not done:
        return ""
    data, path = _read(ledger, done[-1], State.COMPLETED)
    with contextlib.suppress(CorruptFile):
        return parse_clean_metadata(data, path).earliest_commit_to_retain
    return ""


def _read(ledger: Ledger, instant: Instant, state: State) -> tuple[bytes, str]:
    path = f"{ledger.config.timeline_folder}/{instant.file_name(state)}"
    return ledger.storage.read(path, limits.TIMELINE_FILE_BYTES_MAX), path
