# SPDX-License-Identifier: Apache-2.0
"""Plans as values: decided by one process, executed by another, by any number of them, or found to be done.

Whoever executes a plan that somebody else has completed gets the result of that one (RFC-79, rows A to C). Whoever meets
a living executor is told so, and nothing is changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from lakebraid import limits
from lakebraid.errors import ClaimLost, CommitRefused, InvalidArgument
from lakebraid.format.names import State
from lakebraid.format.timeline.commit import CommitMetadata
from lakebraid.format.timeline.plans import CompactionPlan
from lakebraid.model.timeline.instant import WRITE_ACTIONS, Instant
from lakebraid.services.cleaning import Cleaned
from lakebraid.services.merging import compaction
from lakebraid.services.merging.clustered import clustered
from lakebraid.services.merging.clustering import run_clustering
from lakebraid.services.merging.compaction import Compacted
from lakebraid.services.merging.log_compaction import LogCompacted, run_log_plan
from lakebraid.table.grid import text_bytes
from lakebraid.table.history import load_history
from lakebraid.table.loading import load_commit
from lakebraid.tasks.data_files import in_partition
from lakebraid.txn.actions.clean import finish_clean, load_clean_plan
from lakebraid.txn.actions.rescue import Rescue
from lakebraid.txn.actions.rollback import decide_withdrawal, finish_rollback
from lakebraid.txn.ledger.entries import PendingPlan
from lakebraid.txn.ledger.ledger import Ledger
from lakebraid.txn.ledger.rounds import Already, Round
from lakebraid.txn.liveness.heartbeat import is_expired, silence_ms_max, storage_now_ms
from lakebraid.txn.writer import Writing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


PLAN_DELAY: Final = "hoodie.lakebraid.table.service.rollback.delay.minutes"


@dataclass(frozen=True, slots=True)
class Plan:
    """A service that was planned, or, with `dry_run`, only would be: then it has no instant."""

    kind: str
    """compaction, logcompaction, clustering or clean."""
    instant: str | None
    is_removable: bool = False
    """Whether it is executed once at most, and rolled back if that fails or nobody comes."""
    what: str = ""
    """What would be done, for people."""

    def __str__(self) -> str:
        name = f"{self.kind} {self.instant or 'not decided'}{', removable' if self.is_removable else ''}"
        return f"{name}: {self.what}" if self.what else name


@dataclass(frozen=True, slots=True)
class Service:
    """How plans of one kind are executed, and how the result of a completed one is read off its commit."""

    run: Callable[..., Any]
    """(writing, ledger, start, options=, spark=) -> result"""
    result: Callable[[str, str, CommitMetadata], Any]
    """(start, completion, metadata) -> the same result"""


def compacted(start: str, completion: str, metadata: CommitMetadata) -> Compacted:
    """The result of a compaction by its commit: the same that its executor was given."""
    stats = [stat for found in metadata.write_stats.values() for stat in found]
    bases = [stat for stat in stats if stat.log_files is None]
    return Compacted(
        start,
        completion,
        groups=len(bases),
        rows=sum(stat.num_writes or 0 for stat in bases),
        tombstones=sum(stat.num_deletes or 0 for stat in stats if stat.log_files is not None),
        bytes=sum(stat.file_size_in_bytes or 0 for stat in stats),
    )


def log_compacted(start: str, completion: str, metadata: CommitMetadata) -> LogCompacted:
    """The result of a log compaction by its commit: the same that its executor was given."""
    stats = [stat for found in metadata.write_stats.values() for stat in found]
    return LogCompacted(
        start,
        completion,
        groups=len(stats),
        logs=sum(stat.total_log_files_compacted or 0 for stat in stats),
        rows=sum(stat.num_writes or 0 for stat in stats),
        deletes=sum(stat.num_deletes or 0 for stat in stats),
        bytes=sum(stat.file_size_in_bytes or 0 for stat in stats),
    )


SERVICES: Final[Mapping[str, Service]] = {
    "compaction": Service(compaction.run_plan, compacted),
    "logcompaction": Service(run_log_plan, log_compacted),
    "clustering": Service(run_clustering, clustered),
}
"""By the action of their plans."""


def run_plan(
    writing: Writing,
    ledger: Ledger,
    start: str,
    *,
    services: Mapping[str, Service] = SERVICES,
    options: Mapping[str, str] | None = None,
    spark: SparkSession | None = None,
) -> Any:
    """The result of the plan: executed now, or by whoever completed it before or meanwhile.

    ClaimLost if a living executor has it, or if it is removable and was begun before; RolledBack if it was taken back.
    """
    found = _find(ledger, start)
    if found is None:
        return run_clean(ledger, start)
    if found.is_completed:
        return _result(ledger, found, services)
    service = _service(services, found, ledger)
    try:
        return service.run(writing, ledger, start, options=options, spark=spark)
    except CommitRefused:
        # Another one may have been faster, or have taken the plan over and come to its end.
        now = _find(ledger, start)
        if now is None or not now.is_completed:
            raise
        return _result(ledger, now, services)


def run_clean(ledger: Ledger, start: str) -> Cleaned:
    """Executes a planned clean, unless somebody has; ClaimLost if there is no plan of that start at all."""
    finish_clean(ledger, ledger.clock.token(), start)
    plan = load_clean_plan(ledger, start)
    if plan is None:
        raise ClaimLost(
            f"There is no plan {start} in {ledger.storage.url}: it was taken back, is long done, or never was. Nothing was "
            "changed. Plan a new one.",
            instant=start,
        )
    files = sorted(in_partition(partition, name) for partition, names in plan.files.items() for name in names)
    return Cleaned(instants=(start,), files=tuple(files))


def withdraw(ledger: Ledger, start: str | None) -> Rescue:
    """Takes a plan back that nobody executes, so that it stops nobody. Not that of a compaction: writes have been sliced by
    it since. InvalidArgument if there is no such plan, ClaimLost if somebody who is alive executes it.
    """
    txn, storage, config = ledger.clock.token(), ledger.storage, ledger.config
    plan = None if start is None else ledger.newest().state.plans.get(start)
    if start is None or plan is None or plan.action not in _WITHDRAWN:
        raise InvalidArgument(
            f"{storage.url} has no pending plan {start} that can be taken back: plans of a clustering or log compaction can, "
            "as long as they are pending. Nothing was changed. `table.status()` lists them.",
            instant=start,
        )

    def is_idle(plan: PendingPlan) -> bool:
        now_ms = storage_now_ms(storage, ledger.clock)
        return not plan.claimant or is_expired(storage, config, start, now_ms, silence_ms_max(config))

    rollback = decide_withdrawal(ledger, txn, start, is_idle, is_removable=True)
    if rollback is None:
        raise ClaimLost(
            f"The plan {start} of {storage.url} is done, or being executed by somebody who is alive. Nothing was changed. "
            "Let it work, or try again later.",
            instant=start,
        )
    finish_rollback(ledger, txn, rollback)
    return Rescue(plans=(start,))


_WITHDRAWN: Final = ("clustering", "logcompaction")


def groups_text(plan: CompactionPlan) -> str:
    """What a plan is about, for people."""
    logs = sum(len(operation.delta_file_names) for operation in plan.operations)
    size = int(sum(operation.metrics.get("TOTAL_LOG_FILES_SIZE", 0) for operation in plan.operations))
    return f"merge {logs:,} log files ({text_bytes(size)}) of {len(plan.operations):,} file groups"


def is_removable(properties: Mapping[str, str], kind: str, asked: bool | None = None) -> bool:
    """Whether a plan of that kind (clustering, logcompaction) is removable: as asked for, or as the table has it."""
    stated = properties.get(f"hoodie.lakebraid.{kind}.plans.removable", "").strip().lower()
    return stated == "true" if asked is None else asked


def plan_delay_ms(properties: Mapping[str, str], asked_minutes: float | None = None) -> int:
    """How old a removable plan must be before it is rolled back: as asked for, as the table has it, or an hour."""
    text = properties.get(PLAN_DELAY) if asked_minutes is None else str(asked_minutes)
    if text is None:
        return limits.PLAN_ROLLBACK_DELAY_MS
    try:
        minutes = float(text)
    except ValueError:
        minutes = -1.0
    if 0 <= minutes < 10**9:
        return int(minutes * 60_000)
    raise InvalidArgument(f"{PLAN_DELAY}={text!r:.60} is no number of minutes. Nothing was changed. Correct it.")


def _find(ledger: Ledger, start: str) -> Instant | None:
    """The plan as it is after the newest decision was made true: pending, completed, or None."""

    def rule(now: Round) -> Already[Instant | None]:
        instant = now.timeline().write(start)
        if instant is None:
            rows = load_history(ledger.storage, ledger.config, start, actions=WRITE_ACTIONS)
            instant = next((row.instant for row in rows if row.instant.request_time == start), None)
        if instant is not None and not instant.is_completed and start in now.state.gone:
            return Already(None)  # rolled back; its files are about to go
        return Already(instant)

    return ledger.decide("", rule)


def _service(services: Mapping[str, Service], instant: Instant, ledger: Ledger) -> Service:
    if instant.kind in services:
        return services[instant.kind]
    raise InvalidArgument(
        f"{instant.request_time} of {ledger.storage.url} is a {instant.kind}, and no plan that can be executed here. "
        f"Nothing was changed. Executed are: {', '.join(sorted(services))}.",
        instant=instant.request_time,
    )


def _result(ledger: Ledger, instant: Instant, services: Mapping[str, Service]) -> Any:
    metadata = load_commit(ledger.storage, ledger.config, instant, ledger.clock)
    kind = instant.kind if instant.kind in services else _KINDS.get(metadata.operation or "", instant.kind)
    service = _service(services, Instant(instant.request_time, kind, State.COMPLETED), ledger)
    return service.result(instant.request_time, instant.completion_time or instant.request_time, metadata)


_KINDS: Final = {"COMPACT": "compaction", "LOG_COMPACT": "logcompaction", "CLUSTER": "clustering"}
"""Of archived plans only the commit is left; its operation tells what it was."""
