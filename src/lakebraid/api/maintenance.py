# SPDX-License-Identifier: Apache-2.0
"""The services of a table: what keeps it small, fast and tidy, beside any number of writers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, cast, overload

from lakebraid.api.clustering import Clustering
from lakebraid.api.compacting import Compacting
from lakebraid.api.consumer import Changing, Consumer
from lakebraid.api.services import Services
from lakebraid.clock import Clock
from lakebraid.errors import InvalidArgument
from lakebraid.format.times import parse_user_time
from lakebraid.inspect.status import Status, load_status
from lakebraid.model.config import TableConfig
from lakebraid.reading.plan import Source
from lakebraid.services import archiving, cleaning, savepoints
from lakebraid.services.archiving import Archival
from lakebraid.services.cleaning import Cleaned, open_ledger
from lakebraid.services.plans import Plan, plan_delay_ms, run_plan, withdraw
from lakebraid.services.retention import parse_retention
from lakebraid.services.savepoints import RestoreResult
from lakebraid.storage import Storage
from lakebraid.txn.actions.rescue import Rescue, rescue, sweep
from lakebraid.txn.actions.savepoints import Savepoint
from lakebraid.txn.actions.write import write_status
from lakebraid.txn.liveness import leases
from lakebraid.txn.liveness.heartbeat import silence_ms_max
from lakebraid.txn.writer import Writing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Maintenance(Compacting, Clustering):
    """What a `Table` can do beside reading and writing rows. Every service may run in any number of processes at once."""

    _storage: Storage
    _source: Source
    _config: TableConfig
    _clock: Clock
    _writing: Writing

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

    def run(self, plan: Plan | str, *, spark: SparkSession | None = None) -> Any:
        """Executes a plan, given as such or by its instant; if somebody completed it already, the result of that one.

        CommitRefused if a living executor has it, or if it was taken back; nothing of this attempt is visible then.
        """
        instant = plan if isinstance(plan, str) else plan.instant
        if instant is None:
            raise InvalidArgument(
                "This plan was only thought of (dry_run). Nothing was changed. Plan it without dry_run."
            )
        ledger, _ = open_ledger(self._writing)
        done = run_plan(self._writing, ledger, instant, options=dict(self._source.options), spark=spark)
        self._writing.remember(ledger)
        return done

    def rollback(
        self,
        *,
        timeout_seconds: float | None = None,
        table_service_rollback_delay_minutes: float | None = None,
        plan: Plan | str | None = None,
    ) -> Rescue:
        """Takes back the writes of dead writers and removes what they left behind; removable plans, too, that nobody
        works on and that are older than `table_service_rollback_delay_minutes`; without it the table's
        `hoodie.lakebraid.table.service.rollback.delay.minutes` counts, an hour.

        With `plan` only that plan of a clustering or log compaction, removable or not, unless it is being executed.

        Dead is who has shown no heartbeat for `timeout_seconds`; without it the table's setting counts, two minutes.
        A living writer whose beat is merely late may be hit; its commit is then refused, and nothing of it is visible.
        """
        ledger, properties = open_ledger(self._writing)
        if plan is not None:
            return withdraw(ledger, plan if isinstance(plan, str) else plan.instant)
        timeout_ms = silence_ms_max(self._config) if timeout_seconds is None else int(timeout_seconds * 1000)
        delay_ms = plan_delay_ms(properties, table_service_rollback_delay_minutes)
        done = rescue(ledger, self._clock.token(), timeout_ms=timeout_ms, plan_delay_ms=delay_ms)
        return replace(done, removed=sweep(self._storage, self._clock, self._config, ledger))

    def clean(
        self,
        *,
        commits: int | None = None,
        hours: float | None = None,
        versions: int | None = None,
        table_service_rollback_delay_minutes: float | None = None,
        dry_run: bool = False,
    ) -> Cleaned:
        """Removes files of versions that are too old: all but those of the last `commits`, of the last `hours`, or so
        many `versions` of each file group; without any of these the table's `hoodie.clean.*` settings count, ten commits.

        What a savepoint, a pending plan, an open write, a reader's lease or a consumer needs stays; the result says who
        holds back what. Dead writers are rolled back first, and removable plans to which nobody came, as by `rollback` and
        as Hudi's lazy cleaning does it. `dry_run` tells what would go, and changes nothing.
        """
        ledger, properties = open_ledger(self._writing)
        retention = parse_retention(properties, commits=commits, hours=hours, versions=versions)
        delay_ms = plan_delay_ms(properties, table_service_rollback_delay_minutes)
        if dry_run:
            return cleaning.clean(ledger, retention, dry_run=True)
        token, timeout_ms = self._clock.token(), silence_ms_max(self._config)
        first = rescue(ledger, token, timeout_ms=timeout_ms, plan_delay_ms=delay_ms)
        return replace(cleaning.clean(ledger, retention), rolled_back=first.rolled_back + first.plans)

    def plan_clean(
        self,
        *,
        commits: int | None = None,
        hours: float | None = None,
        versions: int | None = None,
        dry_run: bool = False,
    ) -> Plan | None:
        """Decides what `clean` would remove, for anybody to do: `run`, or the next `clean`. None if nothing may go.

        The old versions are given up from here on, though their files are still there.
        """
        ledger, properties = open_ledger(self._writing)
        retention = parse_retention(properties, commits=commits, hours=hours, versions=versions)
        if dry_run:
            count = len(cleaning.clean(ledger, retention, dry_run=True).files)
            return Plan("clean", None, what=f"remove {count:,} files") if count else None
        start, choice = cleaning.plan_clean(ledger, retention)
        return None if start is None else Plan("clean", start, what=f"remove {len(choice.files):,} files")

    def consumer(self, name: str, *, after: str | float | datetime | None = None) -> Consumer:
        """The consumer of that name, where it is. A new one begins at the time `after`, at the "beginning", or now.

        While it is registered no clean removes a version from its position on. SnapshotExpired if `after` is too old.
        """
        ledger, _ = open_ledger(self._writing)
        begin = None if after is None else leases.NEVER if after == "beginning" else self._moment(after)
        position = leases.register_consumer(ledger, name, begin)
        return Consumer(cast("Changing", self), ledger, name, position)

    def drop_consumer(self, name: str) -> bool:
        """Forgets a consumer and what it held back; False if there is none of that name."""
        return leases.drop_consumer(open_ledger(self._writing)[0], name)

    def _moment(self, time: str | float | datetime) -> str:
        return parse_user_time(time, self._config.zone)

    @contextmanager
    def _hold(self, time: str) -> Iterator[None]:
        """Holds the files of that completion time back from cleaning while the block runs."""
        with leases.leased(open_ledger(self._writing)[0], time):
            yield

    def archive(self, *, keep_min: int | None = None, keep_max: int | None = None, dry_run: bool = False) -> Archival:
        """Moves old instants from the timeline into the history once it has more than `keep_max` writes (30), so that
        `keep_min` (20) are left; both may be set in the table's properties (`hoodie.keep.max.commits`, …).

        Changes no answer: older versions stay as readable as they were. Nothing leaves that Apache Hudi, a savepoint or
        an unfinished action needs; `held_back_by` then says what. With `dry_run` nothing is changed.
        """
        return archiving.archive(self._writing, keep_min, keep_max, dry_run=dry_run)

    def plan_archive(
        self, *, keep_min: int | None = None, keep_max: int | None = None, dry_run: bool = False
    ) -> Archival | None:
        """Decides what is archived and leaves it to the next `archive()`, anybody's; None if there is nothing to do."""
        return archiving.plan_archive(self._writing, keep_min, keep_max, dry_run=dry_run)

    def savepoint(self, instant: str | None = None, *, comment: str = "", user: str = "") -> Savepoint:
        """Keeps the moment of a completed write, without `instant` that of the last one, until `delete_savepoint`.

        No clean takes its files and no archiving its place on the timeline; `restore` leads back to it. SnapshotExpired
        if a clean took, or is taking, files of that moment. A savepoint that is there already is given as it is.
        """
        ledger, _ = open_ledger(self._writing)
        return savepoints.set_savepoint(ledger, instant, comment=comment, user=user)

    def savepoints(self) -> list[Savepoint]:
        """The savepoints of the table, Hudi's too, oldest write first."""
        return savepoints.load_savepoints(self._writing.ledger(self._config))

    def delete_savepoint(self, instant: str) -> bool:
        """Lets a savepoint go, named by the instant that it pins; False if there is none."""
        return savepoints.delete_savepoint(open_ledger(self._writing)[0], instant)

    def restore(self, to: str | float | datetime, *, dry_run: bool = False) -> RestoreResult:
        """Takes the table back to a savepoint, or to a completion time: what completed after it is gone for good.

        `to` is the instant of a savepoint (or of any completed write), or a moment. Open writes and plans are refused
        when they come to publish. Readers see the table before, then the table after. `dry_run` tells what would go.
        """
        ledger, _ = open_ledger(self._writing)
        result = savepoints.restore(ledger, self._moment(to), dry_run=dry_run)
        self._writing.remember(ledger)
        return result
