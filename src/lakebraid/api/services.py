# SPDX-License-Identifier: Apache-2.0
"""`table.services`: everything that is due, once or again and again, in any number of processes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from lakebraid.services.archiving import ArchiveResult
from lakebraid.services.cleaning import CleanResult
from lakebraid.services.due import Triggers
from lakebraid.services.merging.clustering import ClusteringResult
from lakebraid.services.merging.compaction import CompactionResult
from lakebraid.services.merging.engine import choose_engine
from lakebraid.services.merging.log_compaction import LogCompactionResult
from lakebraid.services.metadata.due import MetadataTended, tend_metadata
from lakebraid.services.plans import cluster_due, compact_due
from lakebraid.services.rollback import roll_back_dead
from lakebraid.services.runner import ServiceRound, Step, chosen, parse_seconds, run_round, run_rounds
from lakebraid.services.settings import open_table
from lakebraid.txn.actions.rescue import RollbackResult
from lakebraid.txn.writer import Writing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SERVICES: Final = ("rollback", "compact", "log_compact", "cluster", "clean", "metadata", "archive")
"""In the order of a round: what is dead goes first, so that it holds nothing back; what others left comes with each."""


class Tended(Protocol):
    """What the services need of a table."""

    def rollback(self, *, timeout_seconds: float | None = None) -> RollbackResult: ...

    def log_compact(self, *, spark: SparkSession | None = None) -> list[LogCompactionResult]: ...

    def clean(self) -> CleanResult: ...

    def archive(self) -> ArchiveResult: ...


class Services:
    """The services of one table. No process is elected: whatever two of them try at once, one of them decides."""

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

        `only` names some of rollback, compact, log_compact, cluster, clean, metadata, archive; without it all run: log_compact if the
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
        steps = self._steps() | {"rollback": self._roll_back_dead}
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
            "metadata": self._metadata,
            "archive": self._archive,
        }
        return {name: steps[name] for name in chosen(SERVICES, only)}

    def _rollback(self) -> RollbackResult | None:
        done = self._table.rollback()
        return done if done != RollbackResult() else None

    def _roll_back_dead(self) -> RollbackResult | None:
        """The same without looking for stray files, which takes a listing of the whole table."""
        done = roll_back_dead(open_table(self._writing))
        return done if done != RollbackResult() else None

    def _compact(self, spark: SparkSession | None, triggers: Triggers | None) -> list[CompactionResult]:
        opened = open_table(self._writing, is_written=True)
        return compact_due(opened, triggers, choose_engine(self._options, spark))

    def _log_compact(self, spark: SparkSession | None, *, is_wanted: bool) -> list[LogCompactionResult]:
        # Not every reader knows log compactions, and at the defaults a compaction is due as soon: so it is asked for.
        if not is_wanted and not open_table(self._writing).settings.log_compaction_inline.is_true:
            return []
        return self._table.log_compact(spark=spark)

    def _cluster(self, spark: SparkSession | None, *, is_wanted: bool) -> list[ClusteringResult]:
        engine = choose_engine(self._options, spark)
        return cluster_due(open_table(self._writing), engine, is_wanted=is_wanted)

    def _clean(self) -> CleanResult | None:
        done = self._table.clean()
        return done if done.files or done.finished or done.rolled_back else None

    def _metadata(self) -> MetadataTended | None:
        done = tend_metadata(open_table(self._writing))
        return done if done != MetadataTended() else None

    def _archive(self) -> ArchiveResult | None:
        done = self._table.archive()
        return done if done.instants else None
