# SPDX-License-Identifier: Apache-2.0
"""Log compaction: many small log files of a group become one, and no answer changes.

Readers open fewer files and decode no version twice; base files stay as they are, so it is cheap and done often. The
old log files stay where they are until the whole slice is cleaned.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lakebraid.errors import ClaimLost
from lakebraid.format.log.blocks import BlockType, read_blocks
from lakebraid.format.names import parse_data_file
from lakebraid.format.timeline.plans import CompactionOperation, CompactionPlan, format_compaction_plan
from lakebraid.model.log_order import BlockOrigin
from lakebraid.model.merge_rules import merge_rules
from lakebraid.model.timeline.slicing import GroupId, LogFile
from lakebraid.services.merging.choose_groups import open_writes_of
from lakebraid.services.merging.choose_runs import IS_RUN, Marks, choose_runs
from lakebraid.services.merging.leftovers import load_merging, prepare_run
from lakebraid.services.merging.run import Held, abandoned_plans, claimed
from lakebraid.services.merging.scope import Scope
from lakebraid.services.merging.tasks import (
    compact_plan,
    compact_tasks,
    log_compaction_metadata,
    run_tasks,
)
from lakebraid.storage.protocol import Storage
from lakebraid.table.view import View, load_view
from lakebraid.tasks.data_files import in_partition, read_log
from lakebraid.tasks.merging.compact import CompactTask
from lakebraid.tasks.merging.log_compact import run_log_compaction_task
from lakebraid.txn.actions.plans import decide_plan, publish_plan
from lakebraid.txn.checks.pending_plans import planned_parts
from lakebraid.txn.ledger.ledger import Ledger
from lakebraid.txn.ledger.rounds import Round
from lakebraid.txn.liveness.markers import forget
from lakebraid.txn.writer import Writing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_HOLD_ROWS = (BlockType.AVRO, BlockType.PARQUET, BlockType.DELETE)


@dataclass(frozen=True, slots=True)
class LogCompacted:
    """A log compaction that was executed and published."""

    instant: str
    completion_time: str
    groups: int
    """Groups that have a new log file; those that may not have one any more were passed over."""
    logs: int
    """The log files that it stands for."""
    rows: int
    deletes: int
    bytes: int


def log_compact(
    writing: Writing,
    *,
    scope: Scope | None = None,
    options: Mapping[str, str] | None = None,
    spark: SparkSession | None = None,
    is_removable: bool = False,
) -> list[LogCompacted]:
    """Plans and executes a log compaction, then plans whose executors died; empty if there is nothing to do."""
    config, _ = writing.settings()
    ledger = writing.ledger(config)
    planned = plan_log_compaction(ledger, scope, is_removable=is_removable)
    done = [] if planned is None else [run_log_plan(writing, ledger, planned, options=options, spark=spark)]
    for start in abandoned_plans(ledger, "logcompaction", load_log_plan):
        with contextlib.suppress(ClaimLost):  # another one was faster
            done.append(run_log_plan(writing, ledger, start, options=options, spark=spark))
    writing.remember(ledger)
    return done


def plan_log_compaction(ledger: Ledger, scope: Scope | None = None, *, is_removable: bool = False) -> str | None:
    """The start of a new plan, or None if no group needs or may have it now."""
    ledger.may_ask = True
    known: dict[str, Marks] = {}

    def content(now: Round, _: str) -> bytes | None:
        plan = build_log_plan(now, scope, known)
        return None if plan is None else format_compaction_plan(plan)

    if ledger.is_shared:
        # Log files are looked into before Apache Hudi's lock is taken; under it only new ones are.
        build_log_plan(Round(ledger, ledger.newest().state, 0), scope, known)
    return decide_plan(ledger, ledger.clock.token(), "logcompaction", content, is_removable=is_removable)


def draft_log_compaction(ledger: Ledger, scope: Scope | None = None) -> CompactionPlan | None:
    """The plan that would be decided now; nothing is."""
    return build_log_plan(Round(ledger, ledger.newest().state, 0), scope, {})


def build_log_plan(now: Round, scope: Scope | None, known: dict[str, Marks]) -> CompactionPlan | None:
    """The plan that would be decided in this round; `known` keeps what log files were seen to hold."""
    view, storage = now.view(), now.ledger.storage

    def peek(log: LogFile) -> Marks:
        # Log files never change, so what a lost round has learnt stays true.
        if log.name not in known:
            known[log.name] = load_marks(storage, log.name)
        return known[log.name]

    by_event = bool(merge_rules(view.config, view.schema).order_columns)
    taken = frozenset(part.group for part in planned_parts(now.ledger.storage, now.ledger.config, view.timeline))
    return choose_runs(view, now.state, peek, by_event=by_event, taken=taken, scope=scope)


def load_marks(storage: Storage, name: str) -> Marks:
    """What the block headers of a log file say."""
    blocks = read_blocks(read_log(storage, name), name).blocks
    origins = (
        BlockOrigin(block.instant_time or "", block.compacted_times, holds_rows=block.type in _HOLD_ROWS)
        for block in blocks
    )
    return Marks(tuple(origins), any(block.is_partial for block in blocks))


def run_log_plan(
    writing: Writing,
    ledger: Ledger,
    start: str,
    *,
    options: Mapping[str, str] | None = None,
    spark: SparkSession | None = None,
) -> LogCompacted:
    """Claims, executes and publishes a pending plan. ClaimLost if another executor has it or took it over.

    If it fails on the way, nothing is visible and the plan stays: somebody else, or the same process, may run it again.
    """
    plan = load_log_plan(ledger, start)
    with claimed(ledger, start) as held:
        return _run_claimed(writing, ledger, plan, held, options or {}, spark)


def load_log_plan(ledger: Ledger, start: str) -> CompactionPlan:
    """The plan of the log compaction that begins at `start`."""
    return load_merging(ledger, start, "logcompaction")


def _run_claimed(
    writing: Writing,
    ledger: Ledger,
    plan: CompactionPlan,
    held: Held,
    options: Mapping[str, str],
    spark: SparkSession | None,
) -> LogCompacted:
    storage, config = ledger.storage, ledger.config
    partitions = (operation.partition_path for operation in plan.operations)
    sizes, schema = prepare_run(writing, ledger, partitions, held, "logcompaction")
    plan = plan if IS_RUN in plan.extra else _judged(ledger, plan)
    tasks = [_logs_only(task) for task in compact_tasks(plan, config, sizes)]
    work = compact_plan(storage, options, config, schema.columns, held.start, held.epoch)
    files = run_tasks(storage, work, tasks, spark=spark, check=held.check, run_task=run_log_compaction_task)
    metadata = log_compaction_metadata(plan, files, held.start, schema.text)
    completion = publish_plan(ledger, held.txn, held.start, held.epoch, lambda _: metadata)
    forget(storage, held.start)
    return LogCompacted(
        held.start,
        completion,
        groups=len(files),
        logs=sum(stat.total_log_files_compacted or 0 for found in metadata.write_stats.values() for stat in found),
        rows=sum(file.rows for file in files),
        deletes=sum(file.deletes for file in files),
        bytes=sum(file.size for file in files),
    )


def _logs_only(task: CompactTask) -> CompactTask:
    """The task without base file and without the late logs before it, which only say where the run begins."""
    part = task.slice
    first = part.base_request_time if part.has_late_log else ""
    pairs = list(zip(part.log_names, part.log_request_times, strict=True))
    kept = [(name, time) for name, time in pairs if time > first]
    logs = replace(
        part,
        base_name=None,
        base_request_time="",
        log_names=tuple(name for name, _ in kept),
        log_request_times=tuple(time for _, time in kept),
    )
    return replace(task, slice=logs, earlier_logs=tuple(name for name, time in pairs if time <= first))


def _judged(ledger: Ledger, plan: CompactionPlan) -> CompactionPlan:
    """Of a plan of Apache Hudi the groups that may still be done: those where nothing can lie between the logs it names.

    What is left out stays as it is, which is right as well. A group is in or out whatever the executor: a write that
    may come between either completes, and then the group is out for ever, or it never counts.
    """
    now = Round(ledger, ledger.newest().state, 0)
    view = load_view(ledger.storage, ledger.config, ledger.clock)
    open_starts = tuple(open_writes_of(view, now.state))
    return replace(plan, operations=tuple(o for o in plan.operations if _is_closed(o, view, open_starts)))


def _is_closed(operation: CompactionOperation, view: View, open_starts: tuple[str, ...]) -> bool:
    named = {in_partition(operation.partition_path, name) for name in operation.delta_file_names}
    starts = [parsed.request_time for parsed in map(parse_data_file, operation.delta_file_names) if parsed is not None]
    group = view.groups.get(GroupId(operation.partition_path, operation.file_id))
    newest = None if group is None else group.latest()
    if newest is None or not starts:
        return False
    others = [log.request_time for log in newest.logs if log.name not in named]
    return min((*others, *open_starts), default="9") > max(starts)
