# SPDX-License-Identifier: Apache-2.0
"""The services of a table: what keeps it small, fast and tidy, beside any number of writers."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, overload

from lakebraid.api.consumer import Consumer
from lakebraid.api.reads import Reads
from lakebraid.api.services import Services
from lakebraid.format.times import parse_user_time
from lakebraid.inspect.status import Status, load_status
from lakebraid.services import archiving, cleaning, plans, savepoints
from lakebraid.services.adoption.result import Adoption
from lakebraid.services.adoption.run import adopt
from lakebraid.services.archiving import ArchiveResult
from lakebraid.services.cleaning import CleanResult
from lakebraid.services.merging.choose_clusters import ClusteringRequest
from lakebraid.services.merging.clustering import ClusteringResult
from lakebraid.services.merging.compaction import CompactionResult
from lakebraid.services.merging.engine import MergeEngine, choose_engine
from lakebraid.services.merging.log_compaction import LogCompactionResult
from lakebraid.services.merging.scope import CompactionRequest
from lakebraid.services.plans import Plan
from lakebraid.services.retention import parse_retention
from lakebraid.services.rollback import roll_back_and_sweep, withdraw
from lakebraid.services.savepoints import RestoreResult
from lakebraid.services.settings import open_table
from lakebraid.txn.actions.rescue import RollbackResult
from lakebraid.txn.actions.savepoints import Savepoint
from lakebraid.txn.actions.write import write_status
from lakebraid.txn.liveness import leases

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Maintenance(Reads):
    """What a `Table` can do beside reading and writing rows. Every service may run in any number of processes at once."""

    @property
    def services(self) -> Services:
        """All services together: `table.services.run(every="30s")` does what is due, beside any number of others."""
        return Services(self, self._writing, dict(self._source.options))

    @overload
    def status(self, instant: None = None) -> Status: ...

    @overload
    def status(self, instant: str) -> Literal["published", "refused", "open"]: ...

    def status(self, instant: str | None = None) -> Status | Literal["published", "refused", "open"]:
        """How the table is: who writes, what waits, what is due, what to run; prints well, and changes nothing.

        With an instant: how that write ended, or that it has not.
        """
        if instant is None:
            return load_status(self._storage, self._clock)
        return write_status(self._writing.ledger(self._config), instant)

    def adopt(
        self, *, dry_run: bool = False, undo: bool = False, deep: bool = False, buckets: int | None = None
    ) -> Adoption:
        """What the table is, found out from its files; what they prove and hoodie.properties do not state is put there, so
        that the table can be written. UnsupportedTable if something is in the way. With `dry_run` nothing is changed.

        `deep` reads all keys. `buckets` is the number that its writers have, where its keys leave a choice. `undo` takes the
        lines of the last adoption out again.
        """
        return adopt(self._writing, dry_run=dry_run, undo=undo, deep=deep, buckets=buckets)

    def run(self, plan: Plan | str, *, spark: SparkSession | None = None) -> Any:
        """Executes a plan, given as such or by its instant; if another process completed it already, its result.

        CommitRefused if a living executor has it, or if it was withdrawn; nothing of this attempt is visible then.
        """
        instant = plans.instant_of(plan)
        return plans.run_plan(open_table(self._writing), instant, self._engine(spark))

    def _engine(self, spark: SparkSession | None) -> MergeEngine:
        return choose_engine(dict(self._source.options), spark)

    def rollback(
        self,
        *,
        timeout_seconds: float | None = None,
        table_service_rollback_delay_minutes: float | None = None,
        plan: Plan | str | None = None,
    ) -> RollbackResult:
        """Rolls back the writes of dead writers and removes what they left; also removable plans that no process
        executes and that are older than `table_service_rollback_delay_minutes`; without it the table's
        `hoodie.lakebraid.table.service.rollback.delay.minutes` counts, an hour.

        With `plan` only that plan of a clustering or log compaction, removable or not, unless it is being executed.

        A writer is dead if it has shown no heartbeat for `timeout_seconds`; without it the table's setting counts, two minutes.
        A living writer whose beat is merely late may be hit; its commit is then refused, and nothing of it is visible.
        """
        opened = open_table(self._writing)
        if plan is not None:
            return withdraw(opened.ledger, plan if isinstance(plan, str) else plan.instant)
        delay = table_service_rollback_delay_minutes
        return roll_back_and_sweep(opened, timeout_seconds=timeout_seconds, delay_minutes=delay)

    def plan_compaction(
        self,
        *,
        strategy: str | None = None,
        partitions: Sequence[str] | None = None,
        target_io_mb: int | None = None,
        logs_min: int | None = None,
        log_mb_min: float | None = None,
        older_than_seconds: float | None = None,
        sort_by: Sequence[str] = (),
        dry_run: bool = False,
    ) -> Plan | None:
        """Decides which groups to compact, for any process to `run`; None if there is nothing to do. Such a plan stays until
        it is executed. With `dry_run` nothing is decided. The other arguments are those of `compact`.
        """
        request = CompactionRequest(
            strategy, partitions, target_io_mb, logs_min, log_mb_min, older_than_seconds, sort_by
        )
        return plans.plan_compaction(open_table(self._writing), request, dry_run=dry_run)

    @overload
    def compact(
        self,
        *,
        strategy: str | None = None,
        partitions: Sequence[str] | None = None,
        target_io_mb: int | None = None,
        logs_min: int | None = None,
        log_mb_min: float | None = None,
        older_than_seconds: float | None = None,
        sort_by: Sequence[str] = (),
        spark: SparkSession | None = None,
        dry_run: Literal[False] = False,
    ) -> list[CompactionResult]: ...

    @overload
    def compact(
        self,
        *,
        strategy: str | None = None,
        partitions: Sequence[str] | None = None,
        target_io_mb: int | None = None,
        logs_min: int | None = None,
        log_mb_min: float | None = None,
        older_than_seconds: float | None = None,
        sort_by: Sequence[str] = (),
        spark: SparkSession | None = None,
        dry_run: Literal[True],
    ) -> Plan | None: ...

    def compact(
        self,
        *,
        strategy: str | None = None,
        partitions: Sequence[str] | None = None,
        target_io_mb: int | None = None,
        logs_min: int | None = None,
        log_mb_min: float | None = None,
        older_than_seconds: float | None = None,
        sort_by: Sequence[str] = (),
        spark: SparkSession | None = None,
        dry_run: bool = False,
    ) -> list[CompactionResult] | Plan | None:
        """Merges log files into base files, in process or, if there is much to do or `spark` is given, on Spark.

        Runs beside any number of writers and changes no answer. Afterwards executes plans whose executors died.

        `strategy` says which groups come first: "everything", "log_size", "log_count", "age", "bounded_io",
        "newest_partitions", or the name of Hudi's class for it; without it the table's `hoodie.compaction.strategy`.
        Groups with fewer log files than `logs_min`, fewer log bytes than `log_mb_min`, or whose oldest log is not
        `older_than_seconds` wait; no more than `target_io_mb` is read and written, but at least one group. `sort_by`
        sorts the rows of each base file, so that filters on these columns pass over row groups.
        """
        request = CompactionRequest(
            strategy, partitions, target_io_mb, logs_min, log_mb_min, older_than_seconds, sort_by
        )
        if dry_run:
            return plans.plan_compaction(open_table(self._writing), request, dry_run=True)
        return plans.compact(open_table(self._writing, is_written=True), request, self._engine(spark))

    def plan_log_compaction(
        self,
        *,
        logs_min: int | None = None,
        partitions: Sequence[str] | None = None,
        removable: bool | None = None,
        dry_run: bool = False,
    ) -> Plan | None:
        """Decides which log files to put together, for any process to `run`; None if there is nothing to do.

        A `removable` plan is executed once at most and withdrawn if that fails or no process executes it; without it the
        table's setting counts. The other arguments are those of `log_compact`.
        """
        return plans.plan_log_compaction(
            open_table(self._writing), logs_min=logs_min, partitions=partitions, removable=removable, dry_run=dry_run
        )

    def log_compact(
        self,
        *,
        logs_min: int | None = None,
        partitions: Sequence[str] | None = None,
        removable: bool | None = None,
        spark: SparkSession | None = None,
    ) -> list[LogCompactionResult]:
        """Puts the small log files of each group together, where rewriting base files would cost too much.

        Only groups with `logs_min` log files or more (5, or the table's `hoodie.log.compaction.blocks.threshold`), and
        only logs older than every open write. Changes no answer. Afterwards executes plans whose executors died.
        """
        opened, engine = open_table(self._writing, is_written=True), self._engine(spark)
        return plans.log_compact(opened, engine, logs_min=logs_min, partitions=partitions, removable=removable)

    def plan_clustering(
        self,
        *,
        sort_by: Sequence[str] | None = None,
        small_file_limit: int | None = None,
        target_size: int | None = None,
        max_bytes_per_group: int | None = None,
        max_groups: int | None = None,
        partitions: Sequence[str] | None = None,
        removable: bool | None = None,
        dry_run: bool = False,
    ) -> Plan | None:
        """Decides what to cluster, for any process to `run`; None if there is nothing to do. With `dry_run` nothing is decided.

        From here on writers are refused that touch one of its file groups, unless the table lets clusterings give way
        (see `cluster`). A `removable` plan is executed once at most and withdrawn if that fails or no process executes it;
        others stay until they are executed, give way, or are withdrawn: `rollback(plan=…)`.
        """
        request = ClusteringRequest(
            sort_by, small_file_limit, target_size, max_bytes_per_group, max_groups, partitions, removable
        )
        return plans.plan_clustering(open_table(self._writing), request, dry_run=dry_run)

    @overload
    def cluster(
        self,
        *,
        sort_by: Sequence[str] | None = None,
        small_file_limit: int | None = None,
        target_size: int | None = None,
        max_bytes_per_group: int | None = None,
        max_groups: int | None = None,
        partitions: Sequence[str] | None = None,
        removable: bool | None = None,
        spark: SparkSession | None = None,
        dry_run: Literal[False] = False,
    ) -> list[ClusteringResult]: ...

    @overload
    def cluster(
        self,
        *,
        sort_by: Sequence[str] | None = None,
        small_file_limit: int | None = None,
        target_size: int | None = None,
        max_bytes_per_group: int | None = None,
        max_groups: int | None = None,
        partitions: Sequence[str] | None = None,
        removable: bool | None = None,
        spark: SparkSession | None = None,
        dry_run: Literal[True],
    ) -> Plan | None: ...

    def cluster(
        self,
        *,
        sort_by: Sequence[str] | None = None,
        small_file_limit: int | None = None,
        target_size: int | None = None,
        max_bytes_per_group: int | None = None,
        max_groups: int | None = None,
        partitions: Sequence[str] | None = None,
        removable: bool | None = None,
        spark: SparkSession | None = None,
        dry_run: bool = False,
    ) -> list[ClusteringResult] | Plan | None:
        """Puts file groups smaller than `small_file_limit` bytes together into files of about `target_size`, sorted by the
        columns `sort_by`, so that filters on these pass over files and row groups. Changes no answer. Afterwards executes
        plans whose executors died.

        At most `max_bytes_per_group` are sorted together, in at most `max_groups` tasks; without these the table's
        `hoodie.clustering.plan.strategy.*` settings count. While a plan is pending, writers that touch its groups get a
        WriteConflict; with `hoodie.clustering.updates.strategy` = SparkAllowUpdateStrategy the clustering gives way to
        them instead (ClusteringYielded, a WriteConflict as well). No write is lost either way.
        """
        request = ClusteringRequest(
            sort_by, small_file_limit, target_size, max_bytes_per_group, max_groups, partitions, removable
        )
        opened = open_table(self._writing)
        if dry_run:
            return plans.plan_clustering(opened, request, dry_run=True)
        return plans.cluster(opened, request, self._engine(spark))

    def clean(
        self,
        *,
        commits: int | None = None,
        hours: float | None = None,
        versions: int | None = None,
        table_service_rollback_delay_minutes: float | None = None,
        dry_run: bool = False,
    ) -> CleanResult:
        """Removes files of versions that are too old: all but those of the last `commits`, of the last `hours`, or so
        many `versions` of each file group; without any of these the table's `hoodie.clean.*` settings count, ten commits.

        What a savepoint, a pending plan, an open write, a reader's lease or a consumer needs stays; the result says what
        holds back which files. Dead writers are rolled back first, and removable plans that no process executed, as by `rollback` and
        as Hudi's lazy cleaning does it. `dry_run` tells what would go, and changes nothing.
        """
        opened = open_table(self._writing)
        retention = parse_retention(opened.settings, commits=commits, hours=hours, versions=versions)
        delay = table_service_rollback_delay_minutes
        return cleaning.clean_table(opened, retention, delay_minutes=delay, dry_run=dry_run)

    def plan_clean(
        self,
        *,
        commits: int | None = None,
        hours: float | None = None,
        versions: int | None = None,
        dry_run: bool = False,
    ) -> Plan | None:
        """Decides what `clean` would remove, for any process to do: by `run`, or the next `clean`. None if nothing may go.

        The old versions are given up from here on, though their files are still there.
        """
        opened = open_table(self._writing)
        retention = parse_retention(opened.settings, commits=commits, hours=hours, versions=versions)
        return plans.plan_clean(opened, retention, dry_run=dry_run)

    def consumer(self, name: str, *, after: str | float | datetime | None = None) -> Consumer:
        """The consumer of that name, where it is. A new one begins at the time `after`, at the "beginning", or now.

        While it is registered no clean removes a version from its position on. SnapshotExpired if `after` is too old.
        """
        ledger, zone = open_table(self._writing).ledger, self._config.zone
        begin = None if after is None else leases.NEVER if after == "beginning" else parse_user_time(after, zone)
        position = leases.register_consumer(ledger, name, begin)
        return Consumer(self, ledger, name, position)

    def drop_consumer(self, name: str) -> bool:
        """Forgets a consumer and what it held back; False if there is none of that name."""
        return leases.drop_consumer(open_table(self._writing).ledger, name)

    def archive(
        self, *, keep_min: int | None = None, keep_max: int | None = None, dry_run: bool = False
    ) -> ArchiveResult:
        """Moves old instants from the timeline into the history once it has more than `keep_max` writes (30), so that
        `keep_min` (20) are left; both may be set in the table's properties (`hoodie.keep.max.commits`, …).

        Changes no answer: older versions stay as readable as they were. Nothing leaves that Apache Hudi, a savepoint or
        an unfinished action needs; `held_back_by` then says what. With `dry_run` nothing is changed.
        """
        return archiving.archive(open_table(self._writing, is_written=True), keep_min, keep_max, dry_run=dry_run)

    def plan_archive(
        self, *, keep_min: int | None = None, keep_max: int | None = None, dry_run: bool = False
    ) -> ArchiveResult | None:
        """Decides what is archived and leaves it to the next `archive()` of any process; None if there is nothing to do."""
        return archiving.plan_archive(open_table(self._writing, is_written=True), keep_min, keep_max, dry_run=dry_run)

    def savepoint(self, instant: str | None = None, *, comment: str = "", user: str = "") -> Savepoint:
        """Keeps the moment of a completed write, without `instant` that of the last one, until `delete_savepoint`.

        No clean takes its files and no archiving its place on the timeline; `restore` leads back to it. SnapshotExpired
        if a clean took, or is taking, files of that moment. A savepoint that is there already is given as it is.
        """
        return savepoints.set_savepoint(open_table(self._writing).ledger, instant, comment=comment, user=user)

    def savepoints(self) -> list[Savepoint]:
        """The savepoints of the table, Hudi's too, oldest write first."""
        return savepoints.load_savepoints(self._writing.ledger(self._config))

    def delete_savepoint(self, instant: str) -> bool:
        """Lets a savepoint go, named by the instant that it pins; False if there is none."""
        return savepoints.delete_savepoint(open_table(self._writing).ledger, instant)

    def restore(self, to: str | float | datetime, *, dry_run: bool = False) -> RestoreResult:
        """Takes the table back to a savepoint, or to a completion time: what completed after it is gone for good.

        `to` is the instant of a savepoint (or of any completed write), or a moment. Open writes and plans are refused
        when they come to publish. Readers see the table before, then the table after. `dry_run` tells what would go.
        """
        ledger = open_table(self._writing).ledger
        result = savepoints.restore(ledger, parse_user_time(to, self._config.zone), dry_run=dry_run)
        self._writing.remember(ledger)
        return result
