# SPDX-License-Identifier: Apache-2.0
"""Clustering: small file groups become larger ones, their rows sorted if wanted, and no answer changes.

Planning is one decision in the ledger, execution is claimed, as for compaction. What is new: the old groups are replaced
as a whole, so no write may come between the plan and its end. Either writers are refused that touch a group of a pending
plan (the default), or the clustering gives way to them: docs/decisions/0015-clustering.md.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from lakebraid.errors import ClaimLost, ClusteringYielded, CorruptFile, ObjectNotFound
from lakebraid.format.timeline.commit import CommitMetadata
from lakebraid.format.timeline.plans import (
    ClusteringPlan,
    RequestedReplace,
    format_requested_replace,
    parse_requested_replace,
)
from lakebraid.model.conflicts import Begun, Clash, Kind, Strategy
from lakebraid.model.timeline.slicing import GroupId
from lakebraid.services.merging.choose_clusters import ClusteringScope, SortedAs, choose_clustering, sort_columns_of
from lakebraid.services.merging.clustered import Clustered, cluster_tasks, clustered, clustering_metadata
from lakebraid.services.merging.clustering_rules import check_no_bucket_ids, check_unbucketed, load_clusterable
from lakebraid.services.merging.leftovers import prepare_run, read_plan
from lakebraid.services.merging.run import Held, abandoned_plans, claimed
from lakebraid.services.merging.tasks import compact_plan, run_tasks
from lakebraid.table.loading import load_properties, load_timeline
from lakebraid.tasks.merging.cluster import run_clustering_task
from lakebraid.txn.actions.plans import decide_plan, publish_plan
from lakebraid.txn.actions.rollback import decide_withdrawal, finish_rollback
from lakebraid.txn.actions.write import write_completion, write_status
from lakebraid.txn.checks.file_groups import UPDATES, Rivals, allows_updates, begun, groups_text, writer_of
from lakebraid.txn.checks.pending_plans import planned_parts
from lakebraid.txn.ledger.ledger import Ledger
from lakebraid.txn.ledger.rounds import Round
from lakebraid.txn.liveness.markers import forget
from lakebraid.txn.writer import Writing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ACTIVE_FROM = "lakebraid.active_from"
"""In a plan's extra metadata: where the timeline began when it was made; who has left it since is looked up in the history."""


def cluster(
    writing: Writing,
    *,
    scope: ClusteringScope | None = None,
    options: Mapping[str, str] | None = None,
    spark: SparkSession | None = None,
    is_removable: bool = False,
) -> list[Clustered]:
    """Plans and executes a clustering, then plans whose executors died; empty if there is nothing to do."""
    ledger, _ = open_clustering(writing)
    planned = plan_clustering(ledger, scope, is_removable=is_removable)
    done = [] if planned is None else [run_clustering(writing, ledger, planned, options=options, spark=spark)]
    done += run_abandoned(writing, ledger, options=options, spark=spark)
    writing.remember(ledger)
    return done


def open_clustering(writing: Writing) -> tuple[Ledger, Mapping[str, str]]:
    """A ledger of a table that may be clustered, and its properties; InvalidArgument or UnsupportedTable if it may not."""
    config, properties = load_clusterable(writing)
    check_unbucketed(config, writing.storage)
    return writing.ledger(config), properties


def run_abandoned(
    writing: Writing,
    ledger: Ledger,
    *,
    options: Mapping[str, str] | None = None,
    spark: SparkSession | None = None,
) -> list[Clustered]:
    """Executes plans that nobody has worked on for a while."""
    done = []
    for start in abandoned_plans(ledger, "clustering", load_clustering_plan):
        # Another one was faster, or a write was.
        with contextlib.suppress(ClaimLost, ClusteringYielded):
            done.append(run_clustering(writing, ledger, start, options=options, spark=spark))
    return done


def plan_clustering(ledger: Ledger, scope: ClusteringScope | None = None, *, is_removable: bool = False) -> str | None:
    """The start of a new plan, or None if there is nothing to put together or to sort."""
    ledger.may_ask = True

    def content(now: Round, start: str) -> bytes | None:
        plan = build_clustering(now, scope)
        if plan is None:
            return None
        stated = replace(plan, extra={**plan.extra, ACTIVE_FROM: begun(now, start).active_from})
        return format_requested_replace(RequestedReplace("CLUSTER", stated), ledger.storage.url)

    return decide_plan(ledger, ledger.clock.token(), "clustering", content, is_removable=is_removable)


def draft_clustering(ledger: Ledger, scope: ClusteringScope | None = None) -> ClusteringPlan | None:
    """The plan that would be decided now; nothing is."""
    return build_clustering(Round(ledger, ledger.newest().state, 0), scope)


def build_clustering(now: Round, scope: ClusteringScope | None) -> ClusteringPlan | None:
    """The plan that would be decided in this round. No group of another pending plan is in it: one of two that merge the
    same files would bring back what the other replaced.
    """
    view, ledger = now.view(), now.ledger
    check_no_bucket_ids(view, ledger.storage)
    taken = frozenset(part.group for part in planned_parts(ledger.storage, ledger.config, view.timeline))
    return choose_clustering(view, scope or ClusteringScope(), taken=taken, sorted_as=_sorted_as(now))


def _sorted_as(now: Round) -> SortedAs:
    known: dict[str, tuple[str, ...] | None] = {}

    def sorted_as(start: str) -> tuple[str, ...] | None:
        if start not in known:
            instant, known[start] = now.timeline().write(start), None
            if instant is not None and instant.kind == "clustering":
                with contextlib.suppress(CorruptFile, ObjectNotFound, ClaimLost):
                    known[start] = sort_columns_of(load_clustering_plan(now.ledger, start))
        return known[start]

    return sorted_as


def load_clustering_plan(ledger: Ledger, start: str) -> ClusteringPlan:
    """The plan of the clustering that begins at `start`; CorruptFile if it has none."""
    data, name = read_plan(ledger, start, "clustering")
    plan = parse_requested_replace(data, name).plan
    if plan is None:
        raise CorruptFile(f"{name} of {ledger.storage.url} holds no clustering plan. Nothing was changed.", path=name)
    return plan


def run_clustering(
    writing: Writing,
    ledger: Ledger,
    start: str,
    *,
    options: Mapping[str, str] | None = None,
    spark: SparkSession | None = None,
) -> Clustered:
    """Claims, executes and publishes a pending plan. ClaimLost if another executor has it or took it over;
    ClusteringYielded if a write has touched one of its groups since it was planned: the plan is taken back then.

    If it fails on the way, nothing is visible and the plan stays: somebody else, or the same process, may run it again.
    """
    load_clusterable(writing)
    plan = load_clustering_plan(ledger, start)
    with claimed(ledger, start) as held:
        return _run_claimed(writing, ledger, plan, held, options or {}, spark)


def _run_claimed(
    writing: Writing,
    ledger: Ledger,
    plan: ClusteringPlan,
    held: Held,
    options: Mapping[str, str],
    spark: SparkSession | None,
) -> Clustered:
    storage, config = ledger.storage, ledger.config
    guard, metadata = _guard(ledger, plan, held.start), None
    try:
        guard.check(Round(ledger, ledger.newest().state, 0))  # before any work; what counts is the check in the round
        partitions = (part.partition_path for group in plan.groups for part in group.slices)
        sizes, schema = prepare_run(writing, ledger, partitions, held, "clustering")
        visible = load_timeline(storage, config).as_of(held.start).visibility() if config.may_share_logs else None
        work = compact_plan(storage, options, config, schema.columns, held.start, held.epoch, sort_columns_of(plan))
        tasks = cluster_tasks(plan, config, sizes, visible)
        files = run_tasks(storage, work, tasks, spark=spark, check=held.check, run_task=run_clustering_task)
        metadata = clustering_metadata(plan, files, held.start, schema.text)
        checked = partial(guard.passed, metadata=metadata)
        completion = publish_plan(ledger, held.txn, held.start, held.epoch, checked)
    except ClusteringYielded:
        if _give_way(ledger, held):
            raise
        if metadata is None or write_status(ledger, held.start) != "published":
            raise ClaimLost(
                f"The plan {held.start} was taken over by another executor, or taken back because this one was silent for "
                "too long. Nothing of this attempt is visible. Cluster again.",
                instant=held.start,
            ) from None
        completion = write_completion(ledger, held.start)  # an answer got lost: it was published before
    forget(storage, held.start)
    return clustered(held.start, completion, metadata)


@dataclass(frozen=True, slots=True)
class _Guard:
    """What a clustering is held against: whoever touches one of its groups between its plan and its end (RFC-71)."""

    rivals: Rivals
    groups: frozenset[GroupId]

    def check(self, now: Round) -> None:
        """ClusteringYielded if somebody does."""
        clash = self.rivals.clash(now, self.groups)
        if clash is not None:
            raise _yielded(now, self.rivals.begun.start, clash)

    def passed(self, now: Round, metadata: CommitMetadata) -> CommitMetadata:
        """What is to be published, if nobody does."""
        self.check(now)
        return metadata


def _guard(ledger: Ledger, plan: ClusteringPlan, start: str) -> _Guard:
    noted = Begun(start, frozenset(), plan.extra.get(ACTIVE_FROM, ""))
    # The plan's start exceeds every completion that it saw and is below every later one, whoever executes it.
    allowed = allows_updates(load_properties(ledger.storage))
    rivals = Rivals(noted, Strategy.BY_COMPLETION, allowed, Kind.CLUSTERING)
    return _Guard(rivals, frozenset(GroupId(s.partition_path, s.file_id) for g in plan.groups for s in g.slices))


def _yielded(now: Round, start: str, clash: Clash) -> ClusteringYielded:
    other, rival = clash.other, writer_of(now, clash.other)
    done = f"completed {other.completion_time}" if other.is_completed else "is under way"
    return ClusteringYielded(
        f"The clustering {start} of {now.ledger.storage.url} gave way: the {other.kind} {other.request_time} (by {rival}, {done}) "
        f"touches file groups of its plan: {groups_text(clash.groups)}. The rule: {clash.rule}. Nothing was changed, no row "
        "is lost, and the plan is taken back. Cluster again at a calmer time, or only partitions that are not written; with "
        f"{UPDATES}=SparkRejectUpdateStrategy writers are refused instead.",
        instant=start,
        other=other.request_time,
        other_writer=rival,
        groups=[(g.partition, g.file_id) for g in clash.groups],
        rule=clash.rule,
    )


def _give_way(ledger: Ledger, held: Held) -> bool:
    """Takes the plan back, whatever kind it is: its input is not what it was, so nobody could ever execute it. False if
    it is not ours any more, was taken back by another one, or was published.
    """
    rollback = decide_withdrawal(ledger, held.txn, held.start, lambda p: p.epoch == held.epoch, is_removable=True)
    if rollback is None:
        return False
    undoing = ledger.newest().state.rollbacks.get(rollback)
    finish_rollback(ledger, held.txn, rollback)
    # Of one that others have finished meanwhile nobody knows who had decided it: then it is not said that we gave way.
    return undoing is not None and undoing.decider == held.txn
