# SPDX-License-Identifier: Apache-2.0
"""Clustering: small file groups become larger ones, their rows sorted if wanted, and no answer changes.

Planning is one decision in the ledger, execution is claimed, as for compaction. What is new: the old groups are replaced
as a whole, so no write may come between the plan and its end. Either writers are refused that touch a group of a pending
plan (the default), or the clustering gives way to them: docs/decisions/0015-clustering.md.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from lakebraid.errors import ClaimLost, ClusteringYielded, CorruptFile, ObjectNotFound
from lakebraid.format.timeline.commit import CommitMetadata
from lakebraid.format.timeline.plans import (
    ClusteringPlan,
    RequestedReplace,
    format_requested_replace,
    parse_requested_replace,
)
from lakebraid.model.conflicts import Begun, Clash, Strategy, WriteKind
from lakebraid.model.timeline.slicing import GroupId
from lakebraid.model.writable import check_columns_writable
from lakebraid.services.merging.choose_clusters import (
    ClusteringScope,
    SortedAs,
    bucketed,
    check_no_bucket_ids,
    choose_clustering,
    sort_columns_of,
)
from lakebraid.services.merging.engine import LOCAL, MergeEngine
from lakebraid.services.merging.run import Held, MergeService
from lakebraid.services.merging.tasks import cluster_tasks, clustering_metadata
from lakebraid.services.settings import Opened
from lakebraid.table.loading import load_timeline
from lakebraid.tasks.merging.cluster import ClusterTask, run_clustering_task
from lakebraid.tasks.merging.compact import RunTask
from lakebraid.tasks.staged_file import StagedFile
from lakebraid.txn.actions.plans import decide_plan, publish_plan
from lakebraid.txn.actions.rollback import decide_withdrawal, finish_rollback
from lakebraid.txn.actions.write import write_completion, write_status
from lakebraid.txn.checks.file_groups import UPDATES, Rivals, begun, groups_text, writer_of
from lakebraid.txn.checks.pending_plans import planned_parts
from lakebraid.txn.checks.rivalry import mask_of
from lakebraid.txn.ledger.ledger import Ledger
from lakebraid.txn.ledger.rounds import Round
from lakebraid.txn.metadata.files import Tell

ACTIVE_FROM: Final = "lakebraid.active_from"
"""In a plan's extra metadata: where the timeline began when it was made; who has left it since is looked up in the history."""


@dataclass(frozen=True, slots=True)
class ClusteringResult:
    """A clustering that was executed and published."""

    instant: str
    completion_time: str
    replaced: int
    """File groups that were put together."""
    groups: int
    """File groups that hold their rows now."""
    rows: int
    bytes: int


def cluster(
    opened: Opened, *, scope: ClusteringScope | None = None, is_removable: bool = False, engine: MergeEngine = LOCAL
) -> list[ClusteringResult]:
    """Plans and executes a clustering, then plans whose executors died; empty if there is nothing to do."""
    check_clusterable(opened)
    planned = plan_clustering(opened.ledger, scope, is_removable=is_removable)
    return CLUSTERING.run_all(opened, planned, engine)


def check_clusterable(opened: Opened) -> None:
    """UnsupportedTable if base files cannot be written anew; InvalidArgument for a table with a bucket index: the place
    of a row there follows from its key.
    """
    opened.check_rewritable()
    config = opened.config
    if config.index == "bucket" or config.buckets is not None or opened.storage.list_folder(".hoodie/.bucket_index")[1]:
        raise bucketed(opened.storage.url)


def plan_clustering(ledger: Ledger, scope: ClusteringScope | None = None, *, is_removable: bool = False) -> str | None:
    """The request time of a new plan, or None if there is nothing to put together or to sort."""
    ledger.may_ask = True

    def content(now: Round, request_time: str) -> bytes | None:
        plan = build_clustering(now, scope)
        if plan is None:
            return None
        stated = replace(plan, extra={**plan.extra, ACTIVE_FROM: begun(now, request_time).active_from})
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
    check_no_bucket_ids(view, ledger.storage.url)
    check_columns_writable(view.schema, ledger.storage.url)
    taken = frozenset(part.group for part in planned_parts(ledger.table, view.timeline))
    return choose_clustering(view, scope or ClusteringScope(), taken=taken, sorted_as=_sorted_as(now))


def _sorted_as(now: Round) -> SortedAs:
    known: dict[str, tuple[str, ...] | None] = {}

    def sorted_as(request_time: str) -> tuple[str, ...] | None:
        if request_time not in known:
            instant, known[request_time] = now.timeline().write(request_time), None
            if instant is not None and instant.kind == "clustering":
                with contextlib.suppress(CorruptFile, ObjectNotFound, ClaimLost):
                    known[request_time] = sort_columns_of(CLUSTERING.load(now.ledger, request_time))
        return known[request_time]

    return sorted_as


@dataclass(frozen=True, slots=True)
class _Clustering:
    """The execution of one plan. It is held against every write that touches one of its groups between the plan and its
    end (RFC-71); if there is one, the plan is withdrawn and ClusteringYielded raised.
    """

    opened: Opened
    plan: ClusteringPlan
    held: Held
    guard: _Guard
    oldest_open: str = ""

    @property
    def run_task(self) -> RunTask:
        return run_clustering_task

    @property
    def sort_by(self) -> tuple[str, ...]:
        return sort_columns_of(self.plan)

    @property
    def partitions(self) -> Iterable[str]:
        return (part.partition_path for group in self.plan.groups for part in group.slices)

    def check(self) -> None:
        """ClusteringYielded if the plan can no longer be published; what counts is the check in `publish`."""
        ledger = self.opened.ledger
        try:
            self.guard.check(Round(ledger, ledger.newest().state, 0))
        except ClusteringYielded:
            if _give_way(ledger, self.held):
                raise
            raise _taken_over(self.held.request_time) from None

    def tasks(self, sizes: Mapping[str, int]) -> list[ClusterTask]:
        config = self.opened.config
        shares = config.may_share_logs
        visible = load_timeline(self.opened.table).as_of(self.held.request_time).visibility() if shares else None
        return cluster_tasks(self.plan, config, sizes, visible)

    def metadata(self, files: Sequence[StagedFile], schema_text: str) -> CommitMetadata:
        return clustering_metadata(self.plan, files, self.held.request_time, schema_text)

    def publish(self, metadata: CommitMetadata, tell: Tell) -> str:
        ledger, held = self.opened.ledger, self.held
        checked = partial(self.guard.passed, metadata=metadata)
        try:
            return publish_plan(ledger, held.decider, held.request_time, held.epoch, checked, tell)
        except ClusteringYielded:
            if _give_way(ledger, held):
                raise
            if write_status(ledger, held.request_time) != "published":
                raise _taken_over(held.request_time) from None
            return write_completion(ledger, held.request_time)  # an answer got lost: it was published before

    def result(self, completion: str, metadata: CommitMetadata) -> ClusteringResult:
        return clustering_result(self.held.request_time, completion, metadata)


@dataclass(frozen=True, slots=True)
class _Guard:
    """The writes that touch one of the plan's groups between the plan and its end (RFC-71)."""

    rivals: Rivals
    groups: frozenset[GroupId]

    def check(self, now: Round) -> None:
        """ClusteringYielded if there is one."""
        # Besides what is published, writes that are under way make a clustering give way: that is a courtesy to them, for
        # they would be refused. So none need be looked for again.
        with now.minding(mask_of(now.ledger.config, self.groups)):
            clash = self.rivals.clash(now, self.groups)
        if clash is not None:
            raise _yielded(now, self.rivals.begun.request_time, clash)

    def passed(self, now: Round, metadata: CommitMetadata) -> CommitMetadata:
        """What is to be published, if there is none."""
        self.check(now)
        return metadata


def _begin(opened: Opened, plan: ClusteringPlan, held: Held) -> _Clustering:
    noted = Begun(held.request_time, frozenset(), plan.extra.get(ACTIVE_FROM, ""))
    # The plan's request time exceeds every completion that it saw and is below every later one, whichever process executes it.
    rivals = Rivals(noted, Strategy.BY_COMPLETION, opened.settings.allows_updates, WriteKind.CLUSTERING)
    groups = frozenset(GroupId(s.partition_path, s.file_id) for g in plan.groups for s in g.slices)
    return _Clustering(opened, plan, held, _Guard(rivals, groups))


def _parse(data: bytes, name: str) -> ClusteringPlan | None:
    return parse_requested_replace(data, name).plan


def clustering_result(request_time: str, completion: str, metadata: CommitMetadata) -> ClusteringResult:
    """The result of a clustering by its commit: the same for its executor and for a process that finds it done."""
    stats = [stat for found in metadata.write_stats.values() for stat in found]
    return ClusteringResult(
        request_time,
        completion,
        replaced=sum(len(ids) for ids in metadata.replaced.values()),
        groups=len(stats),
        rows=sum(stat.num_writes or 0 for stat in stats),
        bytes=sum(stat.file_size_in_bytes or 0 for stat in stats),
    )


def _taken_over(request_time: str) -> ClaimLost:
    return ClaimLost(
        f"The plan {request_time} was taken over by another executor, or withdrawn because this one was silent for "
        "too long. Nothing of this attempt is visible. Cluster again.",
        instant=request_time,
    )


def _yielded(now: Round, request_time: str, clash: Clash) -> ClusteringYielded:
    other, rival = clash.other, writer_of(now, clash.other)
    done = f"completed {other.completion_time}" if other.is_completed else "is under way"
    return ClusteringYielded(
        f"The clustering {request_time} of {now.ledger.storage.url} gave way: the {other.kind} {other.request_time} (by {rival}, {done}) "
        f"touches file groups of its plan: {groups_text(clash.groups)}. The rule: {clash.rule}. Nothing was changed, no row "
        "is lost, and the plan is withdrawn. Cluster again at a calmer time, or only partitions that are not written; with "
        f"{UPDATES}=SparkRejectUpdateStrategy writers are refused instead.",
        instant=request_time,
        other=other.request_time,
        other_writer=rival,
        groups=[(g.partition, g.file_id) for g in clash.groups],
        rule=clash.rule,
    )


def _give_way(ledger: Ledger, held: Held) -> bool:
    """Withdraws the plan, removable or not: its input is not what it was, so it could never be published. False if the
    claim is not ours any more, another process has withdrawn the plan, or it was published.
    """
    rollback = decide_withdrawal(
        ledger, held.decider, held.request_time, lambda p: p.epoch == held.epoch, is_removable=True
    )
    if rollback is None:
        return False
    undoing = ledger.newest().state.rollbacks.get(rollback)
    finish_rollback(ledger, held.decider, rollback)
    # If another process has finished the rollback since, it is not known which one decided it: then we did not give way.
    return undoing is not None and undoing.decider == held.decider


CLUSTERING: Final[MergeService[ClusteringPlan, ClusteringResult]] = MergeService(
    "clustering",
    _parse,
    _begin,
    clustering_result,
    yields=(ClaimLost, ClusteringYielded),
    check=Opened.check_rewritable,
)
