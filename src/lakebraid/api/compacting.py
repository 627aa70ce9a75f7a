# SPDX-License-Identifier: Apache-2.0
"""Compaction and log compaction of a table: what makes reads cheap again after many small writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, overload

from lakebraid import limits
from lakebraid.clock import Clock
from lakebraid.digits import whole_number
from lakebraid.errors import InvalidArgument
from lakebraid.format.times import format_instant_time
from lakebraid.reading.plan import Source
from lakebraid.services.cleaning import open_ledger
from lakebraid.services.merging import compaction, log_compaction
from lakebraid.services.merging.compaction import Compacted
from lakebraid.services.merging.log_compaction import LogCompacted
from lakebraid.services.merging.scope import Scope, compaction_scope
from lakebraid.services.plans import Plan, groups_text, is_removable
from lakebraid.txn.ledger.ledger import Ledger
from lakebraid.txn.writer import Writing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

THRESHOLD = "hoodie.log.compaction.blocks.threshold"


class Compacting:
    """What a `Table` can do about its log files, beside any number of writers and without changing an answer."""

    _source: Source
    _clock: Clock
    _writing: Writing

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
        """Decides which groups to compact, for anybody to `run`; None if there is nothing to do. Such a plan stays until
        it is executed. With `dry_run` nothing is decided. The other arguments are those of `compact`.
        """
        ledger, properties = open_ledger(self._writing)
        wish = _Wish(strategy, partitions, target_io_mb, logs_min, log_mb_min, older_than_seconds)
        scope = wish.scope(ledger, properties)
        if dry_run:
            draft = compaction.draft_compaction(ledger, scope, _texts(sort_by))
            return None if draft is None else Plan("compaction", None, what=groups_text(draft))
        start = compaction.plan_compaction(ledger, scope, _texts(sort_by))
        self._writing.remember(ledger)
        if start is None:
            return None
        return Plan("compaction", start, what=groups_text(compaction.load_plan(ledger, start)))

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
    ) -> list[Compacted]: ...

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
    ) -> list[Compacted] | Plan | None:
        """Merges log files into base files, in process or, if there is much to do or `spark` is given, on Spark.

        Runs beside any number of writers and changes no answer. Afterwards executes plans whose executors died.

        `strategy` says which groups come first: "everything", "log_size", "log_count", "age", "bounded_io",
        "newest_partitions", or the name of Hudi's class for it; without it the table's `hoodie.compaction.strategy`.
        Groups with fewer log files than `logs_min`, fewer log bytes than `log_mb_min`, or whose oldest log is not
        `older_than_seconds` wait; no more than `target_io_mb` is read and written, but at least one group. `sort_by`
        sorts the rows of each base file, so that filters on these columns pass over row groups.
        """
        wish = _Wish(strategy, partitions, target_io_mb, logs_min, log_mb_min, older_than_seconds)
        ledger, properties = open_ledger(self._writing)
        scope = wish.scope(ledger, properties)
        if dry_run:
            draft = compaction.draft_compaction(ledger, scope, _texts(sort_by))
            return None if draft is None else Plan("compaction", None, what=groups_text(draft))
        options = dict(self._source.options)
        return compaction.compact(self._writing, scope=scope, sort_by=_texts(sort_by), options=options, spark=spark)

    def plan_log_compaction(
        self,
        *,
        logs_min: int | None = None,
        partitions: Sequence[str] | None = None,
        removable: bool | None = None,
        dry_run: bool = False,
    ) -> Plan | None:
        """Decides which log files to put together, for anybody to `run`; None if there is nothing to do.

        A `removable` plan is executed once at most and rolled back if that fails or nobody comes; without it the
        table's setting counts. The other arguments are those of `log_compact`.
        """
        ledger, properties = open_ledger(self._writing)
        scope = _log_scope(properties, logs_min, partitions)
        may_go = is_removable(properties, "logcompaction", removable)
        if dry_run:
            draft = log_compaction.draft_log_compaction(ledger, scope)
            return None if draft is None else Plan("logcompaction", None, may_go, groups_text(draft))
        start = log_compaction.plan_log_compaction(ledger, scope, is_removable=may_go)
        self._writing.remember(ledger)
        if start is None:
            return None
        return Plan("logcompaction", start, may_go, groups_text(log_compaction.load_log_plan(ledger, start)))

    def log_compact(
        self,
        *,
        logs_min: int | None = None,
        partitions: Sequence[str] | None = None,
        removable: bool | None = None,
        spark: SparkSession | None = None,
    ) -> list[LogCompacted]:
        """Puts the small log files of each group together, where rewriting base files would cost too much.

        Only groups with `logs_min` log files or more (5, or the table's `hoodie.log.compaction.blocks.threshold`), and
        only logs older than every open write. Changes no answer. Afterwards executes plans whose executors died.
        """
        properties = open_ledger(self._writing)[1]
        return log_compaction.log_compact(
            self._writing,
            scope=_log_scope(properties, logs_min, partitions),
            options=dict(self._source.options),
            spark=spark,
            is_removable=is_removable(properties, "logcompaction", removable),
        )


@dataclass(frozen=True, slots=True)
class _Wish:
    """What the caller says about the groups to compact."""

    strategy: str | None
    partitions: Sequence[str] | None
    target_io_mb: int | None
    logs_min: int | None
    log_mb_min: float | None
    older_than_seconds: float | None

    def scope(self, ledger: Ledger, properties: Mapping[str, str]) -> Scope:
        before = None
        if self.older_than_seconds is not None:
            moment_ms = ledger.clock.now_ms() - int(self.older_than_seconds * 1000)
            before = format_instant_time(moment_ms, ledger.config.zone)
        return compaction_scope(
            self.strategy,
            properties,
            partitions=None if self.partitions is None else _texts(self.partitions),
            target_io_mb=self.target_io_mb,
            logs_min=self.logs_min,
            log_mb_min=self.log_mb_min,
            before=before,
        )


def _log_scope(properties: Mapping[str, str], logs_min: int | None, partitions: Sequence[str] | None) -> Scope:
    text = properties.get(THRESHOLD, "")
    known = whole_number(text.strip(), 9)
    known = limits.LOG_COMPACT_FILES_MIN if known is None else known
    if logs_min is not None and logs_min < 2:
        raise InvalidArgument(
            f"log_compact(logs_min={logs_min!r}): it takes two log files at least. Nothing was changed."
        )
    return Scope(logs_min=logs_min or known, partitions=None if partitions is None else _texts(partitions))


def _texts(names: Sequence[str]) -> tuple[str, ...]:
    if isinstance(names, str):
        raise InvalidArgument(f"A list of names is wanted, not the text {names[:100]!r}. Nothing was changed.")
    return tuple(names)
