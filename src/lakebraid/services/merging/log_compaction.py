# SPDX-License-Identifier: Apache-2.0
"""Log compaction: many small log files of a group become one, and no answer changes.

Readers open fewer files and decode no version twice; base files stay as they are, so it is cheap and done often. The
old log files stay where they are until the whole slice is cleaned.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from lakebraid.format.names import in_partition, parse_data_file
from lakebraid.format.timeline.commit import CommitMetadata
from lakebraid.format.timeline.plans import (
    CompactionOperation,
    CompactionPlan,
    format_compaction_plan,
    parse_compaction_plan,
)
from lakebraid.model.merge_rules import merge_rules
from lakebraid.model.timeline.slicing import GroupId, LogFile
from lakebraid.model.writable import check_columns_writable
from lakebraid.services.merging.choose_groups import open_writes_of
from lakebraid.services.merging.choose_runs import IS_RUN, choose_runs
from lakebraid.services.merging.engine import LOCAL, Marks, MergeEngine
from lakebraid.services.merging.run import Held, MergeService
from lakebraid.services.merging.scope import Scope
from lakebraid.services.merging.tasks import compact_tasks, log_compaction_metadata
from lakebraid.services.settings import Opened
from lakebraid.table.view import View, load_view
from lakebraid.tasks.merging.compact import CompactTask, RunTask
from lakebraid.tasks.merging.log_compact import run_log_compaction_task
from lakebraid.tasks.staged_file import StagedFile
from lakebraid.txn.actions.plans import decide_plan, publish_plan
from lakebraid.txn.checks.pending_plans import planned_parts
from lakebraid.txn.ledger.ledger import Ledger
from lakebraid.txn.ledger.rounds import Round
from lakebraid.txn.metadata.files import Tell


@dataclass(frozen=True, slots=True)
class LogCompactionResult:
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
    opened: Opened, *, scope: Scope | None = None, is_removable: bool = False, engine: MergeEngine = LOCAL
) -> list[LogCompactionResult]:
    """Plans and executes a log compaction, then plans whose executors died; empty if there is nothing to do."""
    planned = plan_log_compaction(opened.ledger, scope, is_removable=is_removable, engine=engine)
    return LOG_COMPACTION.run_all(opened, planned, engine)


def plan_log_compaction(
    ledger: Ledger, scope: Scope | None = None, *, is_removable: bool = False, engine: MergeEngine = LOCAL
) -> str | None:
    """The request time of a new plan, or None if no group needs or may have it now."""
    ledger.may_ask = True
    known: dict[str, Marks] = {}

    def content(now: Round, _: str) -> bytes | None:
        plan = build_log_plan(now, scope, known, engine)
        return None if plan is None else format_compaction_plan(plan)

    if ledger.is_shared:
        # Log files are looked into before Apache Hudi's lock is taken; under it only new ones are.
        build_log_plan(Round(ledger, ledger.newest().state, 0), scope, known, engine)
    return decide_plan(ledger, ledger.clock.token(), "logcompaction", content, is_removable=is_removable)


def draft_log_compaction(
    ledger: Ledger, scope: Scope | None = None, engine: MergeEngine = LOCAL
) -> CompactionPlan | None:
    """The plan that would be decided now; nothing is."""
    return build_log_plan(Round(ledger, ledger.newest().state, 0), scope, {}, engine)


def build_log_plan(
    now: Round, scope: Scope | None, known: dict[str, Marks], engine: MergeEngine
) -> CompactionPlan | None:
    """The plan that would be decided in this round; `known` keeps what log files were seen to hold."""
    view, storage = now.view(), now.ledger.storage
    check_columns_writable(view.schema, storage.url)

    def peek(log: LogFile) -> Marks:
        # Log files never change, so what a lost round has learnt stays true.
        if log.name not in known:
            known[log.name] = engine.load_marks(storage, log.name)
        return known[log.name]

    by_event = bool(merge_rules(view.config, view.schema).order_columns)
    taken = frozenset(part.group for part in planned_parts(now.ledger.table, view.timeline))
    return choose_runs(view, now.state, peek, by_event=by_event, taken=taken, scope=scope)


@dataclass(frozen=True, slots=True)
class _LogCompaction:
    """The execution of one plan."""

    opened: Opened
    plan: CompactionPlan
    """With those of its groups that may still be done."""
    held: Held
    partitions: frozenset[str]
    sort_by: tuple[str, ...] = ()
    oldest_open: str = ""

    @property
    def run_task(self) -> RunTask:
        return run_log_compaction_task

    def check(self) -> None:
        """Whom it would meet was settled when it was planned."""

    def tasks(self, sizes: Mapping[str, int]) -> list[CompactTask]:
        return [_logs_only(task) for task in compact_tasks(self.plan, self.opened.config, sizes)]

    def metadata(self, files: Sequence[StagedFile], schema_text: str) -> CommitMetadata:
        return log_compaction_metadata(self.plan, files, self.held.request_time, schema_text)

    def publish(self, metadata: CommitMetadata, tell: Tell) -> str:
        held = self.held
        return publish_plan(self.opened.ledger, held.decider, held.request_time, held.epoch, lambda _: metadata, tell)

    def result(self, completion: str, metadata: CommitMetadata) -> LogCompactionResult:
        return log_compaction_result(self.held.request_time, completion, metadata)


def _begin(opened: Opened, plan: CompactionPlan, held: Held) -> _LogCompaction:
    partitions = frozenset(operation.partition_path for operation in plan.operations)
    return _LogCompaction(opened, plan if IS_RUN in plan.extra else _judged(opened.ledger, plan), held, partitions)


def log_compaction_result(request_time: str, completion: str, metadata: CommitMetadata) -> LogCompactionResult:
    """The result of a log compaction by its commit: the same for its executor and for a process that finds it done."""
    stats = [stat for found in metadata.write_stats.values() for stat in found]
    return LogCompactionResult(
        request_time,
        completion,
        groups=len(stats),
        logs=sum(stat.total_log_files_compacted or 0 for stat in stats),
        rows=sum(stat.num_writes or 0 for stat in stats),
        deletes=sum(stat.num_deletes or 0 for stat in stats),
        bytes=sum(stat.file_size_in_bytes or 0 for stat in stats),
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
    view = load_view(ledger.table)
    open_request_times = tuple(open_writes_of(view, now.state))
    return replace(plan, operations=tuple(o for o in plan.operations if _is_closed(o, view, open_request_times)))


def _is_closed(operation: CompactionOperation, view: View, open_request_times: tuple[str, ...]) -> bool:
    named = {in_partition(operation.partition_path, name) for name in operation.delta_file_names}
    request_times = [
        parsed.request_time for parsed in map(parse_data_file, operation.delta_file_names) if parsed is not None
    ]
    group = view.groups.get(GroupId(operation.partition_path, operation.file_id))
    newest = None if group is None else group.latest()
    if newest is None or not request_times:
        return False
    others = [log.request_time for log in newest.logs if log.name not in named]
    return min((*others, *open_request_times), default="9") > max(request_times)


LOG_COMPACTION: Final[MergeService[CompactionPlan, LogCompactionResult]] = MergeService(
    "logcompaction", parse_compaction_plan, _begin, log_compaction_result
)
