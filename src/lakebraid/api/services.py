# SPDX-License-Identifier: Apache-2.0
"""`table.services`: everything that is due, once or again and again, in any number of processes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Protocol

from lakebraid.services.archiving import Archival
from lakebraid.services.cleaning import Cleaned, open_ledger
from lakebraid.services.due import Triggers, due_groups, group_lags, parse_triggers
from lakebraid.services.merging.choose_clusters import clustering_scope
from lakebraid.services.merging.clustered import Clustered
from lakebraid.services.merging.clustering import cluster, run_abandoned
from lakebraid.services.merging.clustering_rules import is_clustering_due
from lakebraid.services.merging.compaction import Compacted, compact
from lakebraid.services.merging.log_compaction import LogCompacted
from lakebraid.services.merging.scope import compaction_scope
from lakebraid.services.plans import is_removable, plan_delay_ms
from lakebraid.services.runner import ServiceRound, Step, chosen, parse_seconds, run_round, run_rounds
from lakebraid.table.view import load_view
from lakebraid.txn.actions.rescue import Rescue, rescue
from lakebraid.txn.liveness.heartbeat import silence_ms_max
from lakebraid.txn.writer import Writing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SERVICES: Final = ("rollback", "compact", "log_compact", "cluster", "clean", "archive")
"""In the order of a round: what is dead goes first, so that it holds nothing back; what others left comes with each."""


LOG_COMPACTION: Final = "hoodie.log.compaction.inline"


class Tended(Protocol):
    """What the services need of a table."""

    def rollback(self, *, timeout_seconds: float | None = None) -> Rescue: ...

    def log_compact(self, *, spark: SparkSession | None = None) -> list[LogCompacted]: ...

    def clean(self) -> Cleaned: ...

    def archive(self) -> Archival: ...


class Services:
    """The services of one table. Nobody is elected: whatever two processes try at once, one of them decides."""

    def __init__(self, table: Tended, writing: Writing, options: Mapping[str, str]) -> None:
        self._table, self._writing, self._options = table, writing, options

    def run(
        self,
        every: float | str = "30s",
        *,
        once: bool = False,
        only: Sequence[str] | str | None = None,
        triggers: Triggers | None = None,
        spark: SparkSession | None = None,
        stop: threading.Event | None = None,
        report: Callable[[ServiceRound], None] | None = None,
    ) -> ServiceRound:
        """Does what is due, again and again until `stop` is set or the process ends, or `once`; gives the last round.

        `only` names some of rollback, compact, log_compact, cluster, clean, archive; without it all run: log_compact if the
        table has `hoodie.log.compaction.inline=true`, cluster if it has `hoodie.clustering.inline` or
        `hoodie.clustering.async.enabled`, and else only for plans whose executors died. `triggers` say when a file group is due for compaction; without them the
        table's `hoodie.compact.inline.*` settings do: five log files, an hour, or logs of half the base file's size. An
        error of one service stops none of the others: it is in the round, which `report` is told.
        """
        seconds, clock = parse_seconds(every), self._writing.clock
        chosen(SERVICES, only)

        def one_round() -> ServiceRound:
            return run_round(self._steps(only, spark, triggers), clock)

        return run_rounds(one_round, clock, every_seconds=seconds, once=once, stop=stop, report=report)

    def run_inline(self) -> ServiceRound:
        """What is due after a commit, in its process. No error comes out of it: the write is published in any case."""
        steps = self._steps() | {"rollback": self._rescue}
        return run_round(steps, self._writing.clock)

    def _steps(
        self,
        only: Sequence[str] | str | None = None,
        spark: SparkSession | None = None,
        triggers: Triggers | None = None,
    ) -> dict[str, Step]:
        steps: dict[str, Step] = {
            "rollback": self._rollback,
            "compact": lambda: self._compact(spark, triggers),
            "log_compact": lambda: self._log_compact(spark, is_wanted=only is not None),
            "cluster": lambda: self._cluster(spark, is_wanted=only is not None),
            "clean": self._clean,
            "archive": self._archive,
        }
        return {name: steps[name] for name in chosen(SERVICES, only)}

    def _rollback(self) -> Rescue | None:
        done = self._table.rollback()
        return done if done != Rescue() else None

    def _rescue(self) -> Rescue | None:
        """The same without looking for stray files, which takes a listing of the whole table."""
        ledger, properties = open_ledger(self._writing)
        done = rescue(
            ledger,
            ledger.clock.token(),
            timeout_ms=silence_ms_max(ledger.config),
            plan_delay_ms=plan_delay_ms(properties),
        )
        return done if done != Rescue() else None

    def _compact(self, spark: SparkSession | None, triggers: Triggers | None) -> list[Compacted]:
        # Without any group this still executes the plans whose executors died.
        ledger, properties = open_ledger(self._writing)
        view = load_view(ledger.storage, ledger.config, ledger.clock)
        lags = group_lags(view, ledger.config.zone)
        due = due_groups(lags, triggers or parse_triggers(properties), ledger.clock.now_ms())
        scope = replace(compaction_scope(None, properties), groups=due)
        return compact(self._writing, scope=scope, options=self._options, spark=spark)

    def _log_compact(self, spark: SparkSession | None, *, is_wanted: bool) -> list[LogCompacted]:
        # Not every reader knows log compactions, and at the defaults a compaction is due as soon: so it is asked for.
        stated = open_ledger(self._writing)[1].get(LOG_COMPACTION, "")
        if not is_wanted and stated.strip().lower() != "true":
            return []
        return self._table.log_compact(spark=spark)

    def _cluster(self, spark: SparkSession | None, *, is_wanted: bool) -> list[Clustered]:
        ledger, properties = open_ledger(self._writing)
        if ledger.config.index == "bucket":
            return []
        if is_wanted or is_clustering_due(ledger, properties):
            scope, may_go = clustering_scope(properties), is_removable(properties, "clustering")
            return cluster(self._writing, scope=scope, options=self._options, spark=spark, is_removable=may_go)
        return run_abandoned(self._writing, ledger, options=self._options, spark=spark)

    def _clean(self) -> Cleaned | None:
        done = self._table.clean()
        return done if done.files or done.finished or done.rolled_back else None

    def _archive(self) -> Archival | None:
        done = self._table.archive()
        return done if done.instants else None
