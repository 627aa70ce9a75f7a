# SPDX-License-Identifier: Apache-2.0
"""Compaction: log files become part of their next base file, and no answer changes.

Planning is one decision in the ledger. Execution is claimed, so that of several executors one publishes; its output
is a function of the plan alone, so it does not matter which.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lakebraid.format.timeline.commit import CommitMetadata
from lakebraid.format.timeline.plans import CompactionPlan, format_compaction_plan, parse_compaction_plan
from lakebraid.model.merge_rules import merge_rules
from lakebraid.model.timeline.slicing import LogFile
from lakebraid.model.writable import check_columns_writable
from lakebraid.services.merging.choose_groups import OLDEST_OPEN, choose_groups
from lakebraid.services.merging.engine import LOCAL, MergeEngine
from lakebraid.services.merging.run import Held, MergeService
from lakebraid.services.merging.scope import Scope, parse_sort_columns, sorted_by
from lakebraid.services.merging.tasks import compact_tasks, compaction_metadata
from lakebraid.services.settings import Opened
from lakebraid.table.loading import load_timeline
from lakebraid.tasks.merging.compact import CompactTask, RunTask, run_compaction_task
from lakebraid.tasks.merging.hazards import Hazard
from lakebraid.tasks.staged_file import StagedFile
from lakebraid.txn.actions.plans import decide_plan, publish_plan
from lakebraid.txn.checks.pending_plans import planned_parts
from lakebraid.txn.ledger.ledger import Ledger
from lakebraid.txn.ledger.rounds import Round
from lakebraid.txn.metadata.files import Tell


@dataclass(frozen=True, slots=True)
class CompactionResult:
    """A compaction that was executed and published."""

    instant: str
    completion_time: str
    groups: int
    rows: int
    tombstones: int
    """Deletes that go on in the new slices, because an older event may still arrive."""
    bytes: int


def compact(
    opened: Opened, *, scope: Scope | None = None, sort_by: Sequence[str] = (), engine: MergeEngine = LOCAL
) -> list[CompactionResult]:
    """Plans and executes a compaction, then executes plans whose executors died; empty if there is nothing to do."""
    # The runner names the groups that are due; often there is none, and only plans that others left are looked for.
    has_groups = scope is None or scope.groups is None or bool(scope.groups)
    planned = plan_compaction(opened.ledger, scope, sort_by, engine) if has_groups else None
    return COMPACTION.run_all(opened, planned, engine)


def plan_compaction(
    ledger: Ledger, scope: Scope | None = None, sort_by: Sequence[str] = (), engine: MergeEngine = LOCAL
) -> str | None:
    """The request time of a new plan, or None if no group needs or may have it now; its base files are sorted by `sort_by`."""
    ledger.may_ask = True
    build = _builder(ledger, scope, sort_by, engine)

    def content(now: Round, request_time: str) -> bytes | None:
        plan = build(now, request_time)
        return None if plan is None else format_compaction_plan(plan)

    if ledger.is_shared:
        # Log files are looked into before Apache Hudi's lock is taken; under it only new ones are.
        now = Round(ledger, ledger.newest().state, 0)
        build(now, now.time())
    return decide_plan(ledger, ledger.clock.token(), "compaction", content)


def draft_compaction(
    ledger: Ledger, scope: Scope | None = None, sort_by: Sequence[str] = (), engine: MergeEngine = LOCAL
) -> CompactionPlan | None:
    """The plan that would be decided now; nothing is."""
    now = Round(ledger, ledger.newest().state, 0)
    return _builder(ledger, scope, sort_by, engine)(now, now.time())


def _builder(
    ledger: Ledger, scope: Scope | None, sort_by: Sequence[str], engine: MergeEngine
) -> Callable[[Round, str], CompactionPlan | None]:
    known: dict[str, Sequence[Hazard]] = {}

    def build(now: Round, request_time: str) -> CompactionPlan | None:
        view = now.view()
        check_columns_writable(view.schema, ledger.storage.url)
        rules = merge_rules(view.config, view.schema)

        def hazards(log: LogFile) -> Sequence[Hazard]:
            # Log files never change, so what a lost round has learnt stays true.
            if log.name not in known:
                known[log.name] = engine.find_hazards(ledger.storage, log.name, rules, view.schema)
            return known[log.name]

        taken = frozenset(part.group for part in planned_parts(ledger.table, view.timeline))
        # A row that is carried in a log file, and has none in the base file, would not be found by its key.
        may_carry = not (ledger.is_shared or ledger.config.is_placed)
        plan = choose_groups(view, now.state, request_time, hazards, taken=taken, scope=scope, may_carry=may_carry)
        return None if plan is None else sorted_by(plan, sort_by, view.schema)

    return build


@dataclass(frozen=True, slots=True)
class _Compaction:
    """The execution of one plan."""

    opened: Opened
    plan: CompactionPlan
    held: Held

    @property
    def run_task(self) -> RunTask:
        return run_compaction_task

    @property
    def sort_by(self) -> tuple[str, ...]:
        return parse_sort_columns(self.plan)

    @property
    def oldest_open(self) -> str:
        return self.plan.extra.get(OLDEST_OPEN, "")

    @property
    def partitions(self) -> Iterable[str]:
        return (operation.partition_path for operation in self.plan.operations)

    def check(self) -> None:
        """Whom it would meet was settled when it was planned."""

    def tasks(self, sizes: Mapping[str, int]) -> list[CompactTask]:
        config = self.opened.config
        shares = config.may_share_logs
        visible = load_timeline(self.opened.table).as_of(self.held.request_time).visibility() if shares else None
        return compact_tasks(self.plan, config, sizes, visible)

    def metadata(self, files: Sequence[StagedFile], schema_text: str) -> CommitMetadata:
        return compaction_metadata(self.plan, files, self.held.request_time, schema_text)

    def publish(self, metadata: CommitMetadata, tell: Tell) -> str:
        held = self.held
        return publish_plan(self.opened.ledger, held.decider, held.request_time, held.epoch, lambda _: metadata, tell)

    def result(self, completion: str, metadata: CommitMetadata) -> CompactionResult:
        return compaction_result(self.held.request_time, completion, metadata)


def compaction_result(request_time: str, completion: str, metadata: CommitMetadata) -> CompactionResult:
    """The result of a compaction by its commit: the same for its executor and for a process that finds it done."""
    stats = [stat for found in metadata.write_stats.values() for stat in found]
    bases = [stat for stat in stats if stat.log_files is None]
    return CompactionResult(
        request_time,
        completion,
        groups=len(bases),
        rows=sum(stat.num_writes or 0 for stat in bases),
        tombstones=sum(stat.num_deletes or 0 for stat in stats if stat.log_files is not None),
        bytes=sum(stat.file_size_in_bytes or 0 for stat in stats),
    )


COMPACTION: Final[MergeService[CompactionPlan, CompactionResult]] = MergeService(
    "compaction", parse_compaction_plan, _Compaction, compaction_result
)
