# SPDX-License-Identifier: Apache-2.0
"""Compaction: log files become part of their next base file, and no answer changes.

Planning is one decision in the ledger. Execution is claimed, so that of several executors one publishes; its output
is a function of the plan alone, so it does not matter which.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakebraid.errors import ClaimLost
from lakebraid.format.timeline.plans import CompactionPlan, format_compaction_plan
from lakebraid.model.merge_rules import merge_rules
from lakebraid.model.timeline.slicing import LogFile
from lakebraid.services.merging.choose_groups import OLDEST_OPEN, choose_groups
from lakebraid.services.merging.leftovers import load_merging, prepare_run
from lakebraid.services.merging.run import Held, abandoned_plans, claimed
from lakebraid.services.merging.scope import Scope, parse_sort_columns, sorted_by
from lakebraid.services.merging.tasks import compact_plan, compact_tasks, compaction_metadata, run_tasks
from lakebraid.table.loading import load_timeline
from lakebraid.tasks.merging.hazards import Hazard, find_hazards
from lakebraid.tasks.staged_file import StagedFile
from lakebraid.txn.actions.plans import decide_plan, publish_plan
from lakebraid.txn.checks.pending_plans import planned_parts
from lakebraid.txn.ledger.ledger import Ledger
from lakebraid.txn.ledger.rounds import Round
from lakebraid.txn.liveness.markers import forget
from lakebraid.txn.writer import Writing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
    sort_by: Sequence[str] = (),
    options: Mapping[str, str] | None = None,
    spark: SparkSession | None = None,
) -> list[Compacted]:
    """Plans and executes a compaction, then executes plans whose executors died; empty if there is nothing to do.

    `options` are those of the storage, for Spark's executors.
    """
    config, _ = writing.settings()
    ledger = writing.ledger(config)
    # The runner names the groups that are due; often there is none, and only plans that others left are looked for.
    has_groups = scope is None or scope.groups is None or bool(scope.groups)
    planned = plan_compaction(ledger, scope, sort_by) if has_groups else None
    done = [] if planned is None else [run_plan(writing, ledger, planned, options=options, spark=spark)]
    for start in abandoned_plans(ledger, "compaction", load_plan):
        with contextlib.suppress(ClaimLost):  # another one was faster
            done.append(run_plan(writing, ledger, start, options=options, spark=spark))
    writing.remember(ledger)
    return done


def plan_compaction(ledger: Ledger, scope: Scope | None = None, sort_by: Sequence[str] = ()) -> str | None:
    """The start of a new plan, or None if no group needs or may have it now; its base files are sorted by `sort_by`."""
    ledger.may_ask = True
    build = _builder(ledger, scope, sort_by)

    def content(now: Round, start: str) -> bytes | None:
        plan = build(now, start)
        return None if plan is None else format_compaction_plan(plan)

    if ledger.is_shared:
        # Log files are looked into before Apache Hudi's lock is taken; under it only new ones are.
        now = Round(ledger, ledger.newest().state, 0)
        build(now, now.time())
    return decide_plan(ledger, ledger.clock.token(), "compaction", content)


def draft_compaction(ledger: Ledger, scope: Scope | None = None, sort_by: Sequence[str] = ()) -> CompactionPlan | None:
    """The plan that would be decided now; nothing is."""
    now = Round(ledger, ledger.newest().state, 0)
    return _builder(ledger, scope, sort_by)(now, now.time())


def _builder(
    ledger: Ledger, scope: Scope | None, sort_by: Sequence[str]
) -> Callable[[Round, str], CompactionPlan | None]:
    known: dict[str, Sequence[Hazard]] = {}

    def build(now: Round, start: str) -> CompactionPlan | None:
        view = now.view()
        rules = merge_rules(view.config, view.schema)

        def hazards(log: LogFile) -> Sequence[Hazard]:
            # Log files never change, so what a lost round has learnt stays true.
            if log.name not in known:
                known[log.name] = find_hazards(ledger.storage, log.name, rules, view.schema)
            return known[log.name]

        taken = frozenset(part.group for part in planned_parts(ledger.storage, ledger.config, view.timeline))
        # A row that is carried in a log file, and has none in the base file, would not be found by its key.
        may_carry = not (ledger.is_shared or ledger.config.is_placed)
        plan = choose_groups(view, now.state, start, hazards, taken=taken, scope=scope, may_carry=may_carry)
        return None if plan is None else sorted_by(plan, sort_by, view.schema)

    return build


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
    with claimed(ledger, start) as held:
        return _run_claimed(writing, ledger, plan, held, options or {}, spark)


def load_plan(ledger: Ledger, start: str) -> CompactionPlan:
    """The plan of the compaction that begins at `start`."""
    return load_merging(ledger, start, "compaction")


def _run_claimed(
    writing: Writing,
    ledger: Ledger,
    plan: CompactionPlan,
    held: Held,
    options: Mapping[str, str],
    spark: SparkSession | None,
) -> Compacted:
    storage, config = ledger.storage, ledger.config
    partitions = (operation.partition_path for operation in plan.operations)
    sizes, schema = prepare_run(writing, ledger, partitions, held, "compaction")
    visible = load_timeline(storage, config).as_of(held.start).visibility() if config.may_share_logs else None
    tasks = compact_tasks(plan, config, sizes, visible)
    sort_by = parse_sort_columns(plan)
    oldest = plan.extra.get(OLDEST_OPEN, "")
    work = compact_plan(storage, options, config, schema.columns, held.start, held.epoch, sort_by, oldest)
    files = run_tasks(storage, work, tasks, spark=spark, check=held.check)
    metadata = compaction_metadata(plan, files, held.start, schema.text)
    completion = publish_plan(ledger, held.txn, held.start, held.epoch, lambda _: metadata)
    forget(storage, held.start)
    return _compacted(held.start, completion, files)


def _compacted(start: str, completion: str, files: Sequence[StagedFile]) -> Compacted:
    return Compacted(
        start,
        completion,
        groups=sum(file.is_base for file in files),
        rows=sum(file.rows for file in files),
        tombstones=sum(file.deletes for file in files),
        bytes=sum(file.size for file in files),
    )
