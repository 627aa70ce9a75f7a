# SPDX-License-Identifier: Apache-2.0
"""Compaction: log files become part of their next base file, and no answer changes.

Planning is one decision in the ledger. Execution is claimed, so that of several executors one publishes; its output
is a function of the plan alone, so it does not matter which.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakebraid import limits
from lakebraid.errors import CorruptFile, LakebraidError, ObjectNotFound
from lakebraid.format.names import State, parse_data_file
from lakebraid.format.plans import CompactionPlan, parse_compaction_plan, parse_requested_replace
from lakebraid.model.instant import Instant
from lakebraid.model.merge_rules import merge_rules
from lakebraid.model.slicing import GroupId, LogFile
from lakebraid.model.timeline import Timeline
from lakebraid.services.choosing import Scope, choose_groups
from lakebraid.services.executing import compact_plan, compact_tasks, compaction_metadata, run_tasks
from lakebraid.storage.protocol import ObjectInfo, Storage
from lakebraid.table.loading import load_timeline
from lakebraid.tasks.hazards import Hazard, find_hazards
from lakebraid.tasks.staged_file import StagedFile
from lakebraid.txn import operations
from lakebraid.txn.heartbeat import (
    Heartbeat,
    beat,
    beat_interval_ms,
    is_expired,
    silence_ms_max,
    storage_now_ms,
)
from lakebraid.txn.ledger import Ledger, Round
from lakebraid.txn.markers import forget
from lakebraid.txn.operations import ClaimLost
from lakebraid.txn.session import Writing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PLANNED = frozenset({"compaction", "logcompaction", "clustering"})


@dataclass(frozen=True, slots=True)
class Compacted:
    """A compaction that was executed and published."""

    instant: str
    completion_time: str
    groups: int
    rows: int
    tombstones: int
    """Deletes that go on in the new slices, because an older event may still arrive."""
    bytes: int


def compact(
    writing: Writing,
    *,
    scope: Scope | None = None,
    options: Mapping[str, str] | None = None,
    spark: SparkSession | None = None,
) -> list[Compacted]:
    """Plans and executes a compaction, then executes plans whose executors died; empty if there is nothing to do.

    `options` are those of the storage, for Spark's executors.
    """
    config, _ = writing.settings()
    ledger = writing.ledger(config)
    planned = plan_compaction(ledger, scope)
    done = [] if planned is None else [run_plan(writing, ledger, planned, options=options, spark=spark)]
    for start in abandoned_plans(ledger):
        with contextlib.suppress(ClaimLost):  # another one was faster
            done.append(run_plan(writing, ledger, start, options=options, spark=spark))
    writing.remember(ledger)
    return done


def plan_compaction(ledger: Ledger, scope: Scope | None = None) -> str | None:
    """The start of a new plan, or None if no group needs or may have it now."""
    known: dict[str, Sequence[Hazard]] = {}

    def build(now: Round, start: str) -> CompactionPlan | None:
        view = now.view()
        rules = merge_rules(view.config, view.schema)

        def hazards(log: LogFile) -> Sequence[Hazard]:
            # Log files never change, so what a lost round has learnt stays true.
            if log.name not in known:
                known[log.name] = find_hazards(ledger.storage, log.name, rules, view.schema)
            return known[log.name]

        taken = frozenset(_planned_groups(ledger, view.timeline))
        return choose_groups(view, now.state, start, hazards, taken=taken, scope=scope)

    if ledger.is_shared:
        # Log files are looked into before Apache Hudi's lock is taken; under it only new ones are.
        now = Round(ledger, ledger.newest().state, 0)
        build(now, now.time())
    return operations.plan_compaction(ledger, ledger.clock.token(), build)


def run_plan(
    writing: Writing,
    ledger: Ledger,
    start: str,
    *,
    options: Mapping[str, str] | None = None,
    spark: SparkSession | None = None,
) -> Compacted:
    """Claims, executes and publishes a pending plan. ClaimLost if another executor has it or took it over.

    If it fails on the way, nothing is visible and the plan stays: somebody else, or the same process, may run it again.
    """
    plan = load_plan(ledger, start)
    claim = _claim(ledger, start)
    lost = threading.Event()
    interval_s = beat_interval_ms(ledger.config) / 1000
    heartbeat = Heartbeat(ledger.storage, start, interval_s, lambda: _is_held(ledger, claim), lost.set)
    heartbeat.run()
    try:
        return _run_claimed(writing, ledger, plan, claim, lost, options or {}, spark)
    except ClaimLost:
        raise  # the heartbeat is another one's by now
    except BaseException:
        with contextlib.suppress(LakebraidError):  # so that others need not wait until the heartbeat has expired
            operations.release(ledger, claim.txn, start, claim.epoch)
        raise
    finally:
        heartbeat.stop()


def abandoned_plans(ledger: Ledger) -> list[str]:
    """Starts of pending compactions that nobody has worked on for a while, oldest first."""
    pending = [i.request_time for i in load_timeline(ledger.storage, ledger.config).pending if i.kind == "compaction"]
    if not pending:
        return []
    released = {s for s, plan in ledger.newest().state.plans.items() if plan.epoch and not plan.claimant}
    storage, config = ledger.storage, ledger.config
    now_ms, silence_ms = storage_now_ms(storage, ledger.clock), silence_ms_max(config)
    free = [s for s in pending if s in released or is_expired(storage, config, s, now_ms, silence_ms)]
    return [start for start in free if _is_whole(ledger, start)]


def _is_whole(ledger: Ledger, start: str) -> bool:
    """Whether the plan can be read; a torn one is nobody's to execute, and not ours to remove (scenario F20)."""
    with contextlib.suppress(CorruptFile, ClaimLost):
        load_plan(ledger, start)
        return True
    return False


def load_plan(ledger: Ledger, start: str) -> CompactionPlan:
    """The plan of the compaction that begins at `start`."""
    name = f"{ledger.config.timeline_folder}/{start}.compaction.requested"
    try:
        data = ledger.storage.read(name, limits.TIMELINE_FILE_BYTES_MAX)
    except ObjectNotFound as error:
        raise ClaimLost(
            f"There is no compaction plan {start} in {ledger.storage.url}: it was taken back or archived. Nothing was "
            "changed. Plan a new one.",
            instant=start,
        ) from error
    return parse_compaction_plan(data, name)


@dataclass(frozen=True, slots=True)
class _Claim:
    txn: str
    start: str
    epoch: int


def _claim(ledger: Ledger, start: str) -> _Claim:
    seen = _judged_epoch(ledger, start)
    beat(ledger.storage, start)  # before others can see the claim, so that nobody takes it for a dead one's
    txn = ledger.clock.token()
    return _Claim(txn, start, operations.claim(ledger, txn, start, seen=seen))


def _judged_epoch(ledger: Ledger, start: str) -> int | None:
    """The claim that is on the plan now, if it may be taken over; ClaimLost if its holder is alive."""
    plan = ledger.newest().state.plans.get(start)
    known = load_timeline(ledger.storage, ledger.config).write(start)
    # A plan of Apache Hudi is not in the ledger; its executor leaves an inflight file and beats.
    is_held = plan.claimant != "" if plan is not None else known is not None and known.state is State.INFLIGHT
    if is_held:
        now_ms = storage_now_ms(ledger.storage, ledger.clock)
        if not is_expired(ledger.storage, ledger.config, start, now_ms, silence_ms_max(ledger.config)):
            raise ClaimLost(
                f"The compaction {start} of {ledger.storage.url} is being executed by somebody who is alive. Nothing was "
                "changed. Let it work, or try again later.",
                instant=start,
            )
    return None if plan is None else plan.epoch


def _is_held(ledger: Ledger, claim: _Claim) -> bool:
    watching = Ledger(ledger.storage, ledger.clock, ledger.config)
    plan = watching.newest().state.plans.get(claim.start)
    return plan is not None and plan.epoch == claim.epoch


def _run_claimed(
    writing: Writing,
    ledger: Ledger,
    plan: CompactionPlan,
    claim: _Claim,
    lost: threading.Event,
    options: Mapping[str, str],
    spark: SparkSession | None,
) -> Compacted:
    storage, config = ledger.storage, ledger.config
    found = list(_list_partitions(storage, plan))
    # What earlier executors left can never be published any more, and holds what we are about to write again.
    storage.delete([info.name for info in found if _is_left_behind(info.name, claim)])
    schema = writing.schema(ledger)
    if schema is None:
        raise CorruptFile(f"{storage.url} has a compaction plan and no schema. Nothing was changed.", path=storage.url)
    visible = load_timeline(storage, config).as_of(claim.start).visibility() if config.may_share_logs else None
    tasks = compact_tasks(plan, config, {info.name: info.size for info in found}, visible)
    work = compact_plan(storage, options, config, schema.columns, claim.start, claim.epoch)
    files = run_tasks(storage, work, tasks, spark=spark, check=lambda: _check_held(lost, claim))
    metadata = compaction_metadata(plan, files, claim.start, schema.text)
    completion = operations.publish_plan(ledger, claim.txn, claim.start, claim.epoch, lambda _: metadata)
    forget(storage, claim.start)
    return _compacted(claim.start, completion, files)


def _check_held(lost: threading.Event, claim: _Claim) -> None:
    if lost.is_set():
        raise ClaimLost(f"The compaction {claim.start} was taken over by another executor. Nothing of ours is visible.")


def _list_partitions(storage: Storage, plan: CompactionPlan) -> Iterator[ObjectInfo]:
    for partition in sorted({operation.partition_path for operation in plan.operations}):
        files, _ = storage.list_folder(partition)
        yield from files


def _is_left_behind(name: str, claim: _Claim) -> bool:
    """Whether the file was written for this plan under an earlier claim of ours."""
    parsed = parse_data_file(name.rpartition("/")[2])
    if parsed is None or parsed.request_time != claim.start or parsed.write_token is None:
        return False
    *first, epoch = parsed.write_token.split("-")
    return first == ["0", "0"] and epoch.isdigit() and 0 < int(epoch) < claim.epoch


def _planned_groups(ledger: Ledger, timeline: Timeline) -> Iterator[GroupId]:
    """The groups of all pending plans. A torn plan is passed over, as readers do: nobody can execute it."""
    for instant in timeline.pending:
        if instant.kind in _PLANNED:
            with contextlib.suppress(CorruptFile, ObjectNotFound):
                yield from _groups_of(ledger, instant)


def _groups_of(ledger: Ledger, instant: Instant) -> Iterator[GroupId]:
    name = f"{ledger.config.timeline_folder}/{instant.file_name(State.REQUESTED)}"
    data = ledger.storage.read(name, limits.TIMELINE_FILE_BYTES_MAX)
    if instant.kind == "clustering":
        plan = parse_requested_replace(data, name).plan
        parts = [part for group in (plan.groups if plan else ()) for part in group.slices]
        yield from (GroupId(part.partition_path, part.file_id) for part in parts)
    else:
        named = parse_compaction_plan(data, name).operations
        yield from (GroupId(operation.partition_path, operation.file_id) for operation in named)


def _compacted(start: str, completion: str, files: Sequence[StagedFile]) -> Compacted:
    return Compacted(
        start,
        completion,
        groups=sum(file.is_base for file in files),
        rows=sum(file.rows for file in files),
        tombstones=sum(file.deletes for file in files),
        bytes=sum(file.size for file in files),
    )
