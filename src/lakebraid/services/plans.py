# SPDX-License-Identifier: Apache-2.0
"""Plans as values: decided by one process, executed by another, by any number of them, or found to be done.

A process that executes a plan which another one has completed gets the result of that one (RFC-79, rows A to C). If the
plan has a living executor, it is refused with that reason, and nothing is changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from lakebraid.errors import ClaimLost, CommitRefused, InvalidArgument
from lakebraid.format.names import in_partition
from lakebraid.format.timeline.plans import ClusteringPlan, CompactionPlan
from lakebraid.format.times import format_instant_time
from lakebraid.model.timeline.instant import WRITE_ACTIONS, Instant
from lakebraid.services import cleaning
from lakebraid.services.cleaning import CleanResult
from lakebraid.services.due import Triggers, due_groups, group_lags, parse_triggers
from lakebraid.services.merging import clustering, compaction, log_compaction
from lakebraid.services.merging.choose_clusters import (
    ClusteringRequest,
    clustering_scope,
    is_clustering_due,
    sort_columns_of,
)
from lakebraid.services.merging.clustering import CLUSTERING, ClusteringResult, check_clusterable
from lakebraid.services.merging.compaction import COMPACTION, CompactionResult
from lakebraid.services.merging.engine import LOCAL, MergeEngine
from lakebraid.services.merging.log_compaction import LOG_COMPACTION, LogCompactionResult
from lakebraid.services.merging.run import MergeService
from lakebraid.services.merging.scope import (
    CompactionRequest,
    Scope,
    compaction_scope,
    list_of_names,
    log_compaction_scope,
)
from lakebraid.services.retention import Retention
from lakebraid.services.settings import Opened, Setting
from lakebraid.table.grid import text_bytes
from lakebraid.table.history import load_history
from lakebraid.table.loading import load_commit, load_timeline
from lakebraid.table.view import load_view
from lakebraid.txn.actions.clean import finish_clean, load_clean_plan
from lakebraid.txn.ledger.ledger import Ledger
from lakebraid.txn.ledger.rounds import Already, Round

P = TypeVar("P")
_SERVICES: Final[Mapping[str, MergeService[Any, Any]]] = {
    service.action: service for service in (COMPACTION, LOG_COMPACTION, CLUSTERING)
}
"""By the action of their plans."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A service that was planned, or, with `dry_run`, only would be: then it has no instant."""

    kind: str
    """compaction, logcompaction, clustering or clean."""
    instant: str | None
    is_removable: bool = False
    """Whether it is executed once at most, and rolled back if that fails or no process claims it."""
    what: str = ""
    """What would be done, for people."""

    def __str__(self) -> str:
        name = f"{self.kind} {self.instant or 'not decided'}{', removable' if self.is_removable else ''}"
        return f"{name}: {self.what}" if self.what else name


def plan_compaction(opened: Opened, request: CompactionRequest, *, dry_run: bool = False) -> Plan | None:
    """Decides which groups to compact; None if there is nothing to do. With `dry_run` nothing is decided."""
    ledger, scope, sort_by = opened.ledger, _scope(opened, request), list_of_names(request.sort_by)
    if dry_run:
        return _drafted(compaction.draft_compaction(ledger, scope, sort_by), COMPACTION, groups_text)
    return _decided(opened, compaction.plan_compaction(ledger, scope, sort_by), COMPACTION, groups_text)


def compact(opened: Opened, request: CompactionRequest, engine: MergeEngine) -> list[CompactionResult]:
    """Plans and executes a compaction, then executes plans whose executors died."""
    sort_by = list_of_names(request.sort_by)
    return compaction.compact(opened, scope=_scope(opened, request), sort_by=sort_by, engine=engine)


def compact_due(opened: Opened, triggers: Triggers | None, engine: MergeEngine) -> list[CompactionResult]:
    """Compacts the groups that are due by these triggers, or by the table's, then executes plans whose executors died."""
    ledger, settings = opened.ledger, opened.settings
    lags = group_lags(load_view(ledger.table), ledger.config.zone)
    due = due_groups(lags, triggers or parse_triggers(settings), ledger.clock.now_ms())
    return compaction.compact(opened, scope=replace(compaction_scope(settings), groups=due), engine=engine)


def _scope(opened: Opened, request: CompactionRequest) -> Scope:
    before = None
    if request.older_than_seconds is not None:
        moment_ms = opened.ledger.clock.now_ms() - int(request.older_than_seconds * 1000)
        before = format_instant_time(moment_ms, opened.config.zone)
    return compaction_scope(opened.settings, request, before=before)


def plan_log_compaction(
    opened: Opened,
    *,
    logs_min: int | None = None,
    partitions: Sequence[str] | None = None,
    removable: bool | None = None,
    dry_run: bool = False,
) -> Plan | None:
    """Decides which log files to put together; None if there is nothing to do. With `dry_run` nothing is decided."""
    ledger, scope = opened.ledger, log_compaction_scope(opened.settings, logs_min=logs_min, partitions=partitions)
    may_go = _is_removable(opened.settings.log_compaction_removable, removable)
    if dry_run:
        return _drafted(log_compaction.draft_log_compaction(ledger, scope), LOG_COMPACTION, groups_text, may_go)
    request_time = log_compaction.plan_log_compaction(ledger, scope, is_removable=may_go)
    return _decided(opened, request_time, LOG_COMPACTION, groups_text, may_go)


def log_compact(
    opened: Opened,
    engine: MergeEngine,
    *,
    logs_min: int | None = None,
    partitions: Sequence[str] | None = None,
    removable: bool | None = None,
) -> list[LogCompactionResult]:
    """Plans and executes a log compaction, then executes plans whose executors died."""
    scope = log_compaction_scope(opened.settings, logs_min=logs_min, partitions=partitions)
    may_go = _is_removable(opened.settings.log_compaction_removable, removable)
    return log_compaction.log_compact(opened, scope=scope, is_removable=may_go, engine=engine)


def plan_clustering(opened: Opened, request: ClusteringRequest, *, dry_run: bool = False) -> Plan | None:
    """Decides what to cluster; None if there is nothing to do. With `dry_run` nothing is decided."""
    check_clusterable(opened)
    ledger, scope = opened.ledger, clustering_scope(opened.settings, request)
    may_go = _is_removable(opened.settings.clustering_removable, request.removable)
    if dry_run:
        return _drafted(clustering.draft_clustering(ledger, scope), CLUSTERING, _clusters_text, may_go)
    request_time = clustering.plan_clustering(ledger, scope, is_removable=may_go)
    return _decided(opened, request_time, CLUSTERING, _clusters_text, may_go)


def cluster(opened: Opened, request: ClusteringRequest, engine: MergeEngine) -> list[ClusteringResult]:
    """Plans and executes a clustering, then executes plans whose executors died."""
    scope = clustering_scope(opened.settings, request)
    may_go = _is_removable(opened.settings.clustering_removable, request.removable)
    return clustering.cluster(opened, scope=scope, is_removable=may_go, engine=engine)


def cluster_due(opened: Opened, engine: MergeEngine, *, is_wanted: bool = False) -> list[ClusteringResult]:
    """Clusters if the table's settings ask for it or `is_wanted`; else executes only plans whose executors died. A table
    with a bucket index is passed over.
    """
    if opened.config.index == "bucket":
        return []
    if is_wanted or is_clustering_due(load_timeline(opened.table).writes, opened.settings):
        return cluster(opened, ClusteringRequest(), engine)
    return CLUSTERING.run_abandoned(opened, engine)


def plan_clean(opened: Opened, retention: Retention, *, dry_run: bool = False) -> Plan | None:
    """Decides what a clean removes; None if nothing may go. With `dry_run` nothing is decided."""
    if dry_run:
        count = len(cleaning.clean(opened.ledger, retention, dry_run=True).files)
        return Plan("clean", None, what=f"remove {count:,} files") if count else None
    request_time, choice = cleaning.plan_clean(opened.ledger, retention)
    return None if request_time is None else Plan("clean", request_time, what=f"remove {len(choice.files):,} files")


def _drafted(
    plan: P | None, service: MergeService[P, Any], text: Callable[[P], str], may_go: bool = False
) -> Plan | None:
    return None if plan is None else Plan(service.action, None, may_go, text(plan))


def _decided(
    opened: Opened,
    request_time: str | None,
    service: MergeService[P, Any],
    text: Callable[[P], str],
    may_go: bool = False,
) -> Plan | None:
    opened.writing.remember(opened.ledger)
    if request_time is None:
        return None
    return Plan(service.action, request_time, may_go, text(service.load(opened.ledger, request_time)))


def _is_removable(stated: Setting, asked: bool | None) -> bool:
    return stated.is_true if asked is None else asked


def instant_of(plan: Plan | str) -> str:
    """The instant of a plan, given as such or by it; InvalidArgument if it was never decided."""
    instant = plan if isinstance(plan, str) else plan.instant
    if instant is None:
        raise InvalidArgument("This plan was only thought of (dry_run). Nothing was changed. Plan it without dry_run.")
    return instant


def run_plan(opened: Opened, request_time: str, engine: MergeEngine = LOCAL) -> Any:
    """The result of the plan: executed now, or by the process that has completed it.

    ClaimLost if a living executor has it, or if it is removable and was begun before; RolledBack if it was rolled back.
    """
    done = _run(opened, request_time, engine)
    opened.writing.remember(opened.ledger)
    return done


def _run(opened: Opened, request_time: str, engine: MergeEngine) -> Any:
    ledger = opened.ledger
    found = _find(ledger, request_time)
    if found is None:
        return run_clean(ledger, request_time)
    if found.is_completed:
        return _result(ledger, found)
    service = _service(found.kind, request_time, ledger)
    try:
        return service.run(opened, request_time, engine)
    except CommitRefused:
        # Another one may have been faster, or have taken the plan over and come to its end.
        now = _find(ledger, request_time)
        if now is None or not now.is_completed:
            raise
        return _result(ledger, now)


def run_clean(ledger: Ledger, request_time: str) -> CleanResult:
    """Executes a planned clean, unless that was done; ClaimLost if there is no plan of that request time at all."""
    finish_clean(ledger, ledger.clock.token(), request_time)
    plan = load_clean_plan(ledger, request_time)
    if plan is None:
        raise ClaimLost(
            f"There is no plan {request_time} in {ledger.storage.url}: it was withdrawn, is long done, or never was. Nothing was "
            "changed. Plan a new one.",
            instant=request_time,
        )
    files = sorted(in_partition(partition, name) for partition, names in plan.files.items() for name in names)
    return CleanResult(instants=(request_time,), files=tuple(files))


def groups_text(plan: CompactionPlan) -> str:
    """What a plan is about, for people."""
    logs = sum(len(operation.delta_file_names) for operation in plan.operations)
    size = int(sum(operation.metrics.get("TOTAL_LOG_FILES_SIZE", 0) for operation in plan.operations))
    return f"merge {logs:,} log files ({text_bytes(size)}) of {len(plan.operations):,} file groups"


def _clusters_text(plan: ClusteringPlan) -> str:
    slices = sum(len(group.slices) for group in plan.groups)
    outputs = sum(group.output_file_groups for group in plan.groups)
    order = ", ".join(sort_columns_of(plan))
    return f"put {slices:,} file groups into {outputs:,}" + (f", sorted by {order}" if order else "")


def _find(ledger: Ledger, request_time: str) -> Instant | None:
    """The plan as it is after the newest decision was made true: pending, completed, or None."""

    def rule(now: Round) -> Already[Instant | None]:
        instant = now.timeline().write(request_time)
        if instant is None:
            rows = load_history(ledger.table, request_time, actions=WRITE_ACTIONS)
            instant = next((row.instant for row in rows if row.instant.request_time == request_time), None)
        if instant is not None and not instant.is_completed and request_time in now.state.gone:
            return Already(None)  # rolled back; its files are about to go
        return Already(instant)

    return ledger.decide("", rule)


def _service(kind: str, request_time: str, ledger: Ledger) -> MergeService[Any, Any]:
    if kind in _SERVICES:
        return _SERVICES[kind]
    raise InvalidArgument(
        f"{request_time} of {ledger.storage.url} is a {kind}, and no plan that can be executed here. "
        f"Nothing was changed. Executed are: {', '.join(sorted(_SERVICES))}.",
        instant=request_time,
    )


def _result(ledger: Ledger, instant: Instant) -> Any:
    metadata = load_commit(ledger.table, instant)
    request_time, kind = instant.request_time, instant.kind
    service = _service(kind if kind in _SERVICES else _KINDS.get(metadata.operation or "", kind), request_time, ledger)
    return service.result(request_time, instant.completion_time or request_time, metadata)


_KINDS: Final = {"COMPACT": "compaction", "LOG_COMPACT": "logcompaction", "CLUSTER": "clustering"}
"""Of archived plans only the commit is left; its operation tells what it was."""
