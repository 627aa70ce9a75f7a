# SPDX-License-Identifier: Apache-2.0
"""What a table is asked: its rows, what changed, and what happened to it. The first layer of `Table`, with all of its state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from lakebraid import limits
from lakebraid.errors import InvalidArgument, SnapshotExpired
from lakebraid.format.times import parse_user_time
from lakebraid.inspect.audit.run import Audit, Progress, audit_table
from lakebraid.inspect.detail import Detail, load_details
from lakebraid.inspect.story import Story, load_story
from lakebraid.reading.changes import Changes
from lakebraid.reading.plan import Mode, Source, Where
from lakebraid.reading.snapshot import Snapshot
from lakebraid.services.settings import open_table
from lakebraid.table.at import TableAt
from lakebraid.table.listing import TimelineListing, load_listing
from lakebraid.table.loading import pause
from lakebraid.table.view import load_view, load_views
from lakebraid.txn.liveness import leases
from lakebraid.txn.writer import Writing
from lakebraid.writing.retry import Destination

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession

T = TypeVar("T")
Time = str | int | float | datetime
"""A moment: an instant's 17 digits, a timezone-aware datetime, RFC 3339 text with an offset, epoch seconds or millis."""


class Reads:
    """The reads of a `Table`. Nothing is kept between two of them but where the table lies and what its properties say."""

    def __init__(
        self,
        table: TableAt,
        source: Source,
        properties: Mapping[str, str],
        told: Mapping[str, str] | None = None,
    ) -> None:
        """`told` goes before the properties in how the writes of this one get along with others."""
        self._table, self._source = table, source
        self._storage, self._config, self._clock = table.storage, table.config, table.clock
        self._properties = MappingProxyType(dict(properties))
        self._writing = Writing(table.storage, table.clock, told)
        self._destination = Destination(self._writing, source, table.config)

    @property
    def path(self) -> str:
        """Where the table lies."""
        return self._storage.url

    @property
    def name(self) -> str:
        """The table's name, as its properties have it."""
        return self._config.name

    @property
    def properties(self) -> Mapping[str, str]:
        """hoodie.properties as they were when the table was opened."""
        return self._properties

    @property
    def schema(self) -> pa.Schema:
        """The table's columns now, without Hudi's own."""
        return self.snapshot().schema

    def snapshot(self, as_of: Time | None = None) -> Snapshot:
        """The table now, or as of a completion time: exactly what was visible then, also between overlapping writers.

        SnapshotExpired if a clean removed files of that time. `with table.snapshot() as s:` keeps cleans from doing so,
        for users who may write to the table; others are warned (`SnapshotNotHeld`).
        """
        view = load_view(self._table, self._time("as_of", as_of))
        return Snapshot(self._storage, self._source, view, self._hold)

    def to_arrow(
        self,
        columns: Iterable[str] | None = None,
        where: Where | None = None,
        as_of: Time | None = None,
        mode: Mode = "snapshot",
        *,
        meta_columns: bool = False,
    ) -> pa.Table:
        """The rows as an Arrow table, read in this process, without Spark.

        `where` is SQL text (`"id = 'k7' and ts > 5"`) or pyarrow-style tuples. Both arguments prune what is read.
        `meta_columns` adds Hudi's five columns, where the table has them.
        """
        return self._read(as_of, lambda s: s.to_arrow(columns, where, mode=mode, meta_columns=meta_columns))

    def to_pandas(
        self,
        columns: Iterable[str] | None = None,
        where: Where | None = None,
        as_of: Time | None = None,
        mode: Mode = "snapshot",
        *,
        meta_columns: bool = False,
    ) -> pd.DataFrame:
        """As `to_arrow`, as a pandas data frame."""
        return self._read(as_of, lambda s: s.to_pandas(columns, where, mode=mode, meta_columns=meta_columns))

    def to_spark(
        self,
        columns: Iterable[str] | None = None,
        where: Where | None = None,
        as_of: Time | None = None,
        mode: Mode = "snapshot",
        *,
        meta_columns: bool = False,
        spark: SparkSession | None = None,
    ) -> DataFrame:
        """The rows as a lazy Spark data frame, of the moment of this call.

        Give `columns` and `where` here rather than to the result: Spark does not push them into Python code.
        """
        snapshot = self.snapshot(as_of)
        return snapshot.to_spark(columns, where, mode=mode, meta_columns=meta_columns, spark=spark)

    def view(
        self,
        name: str,
        columns: Iterable[str] | None = None,
        where: Where | None = None,
        as_of: Time | None = None,
        mode: Mode = "snapshot",
        *,
        meta_columns: bool = False,
        spark: SparkSession | None = None,
    ) -> DataFrame:
        """As `to_spark`, and SQL can use it under a name, as long as the session lives: `spark.sql("select … from name")`.

        It is of the moment of this call; call it again to look at a newer one.
        """
        frame = self.to_spark(columns, where, as_of, mode, meta_columns=meta_columns, spark=spark)
        frame.createOrReplaceTempView(name)
        return frame

    def count(self, where: Where | None = None, as_of: Time | None = None) -> int:
        """The number of rows, without Spark."""
        return self._read(as_of, lambda s: s.count(where))

    def changes(
        self,
        after: Time | None = None,
        until: Time | None = None,
        *,
        images: bool = False,
        kinds: bool = True,
        columns: Iterable[str] | None = None,
        meta_columns: bool = False,
    ) -> Changes:
        """What changed in (after, until] by completion time; None means from the beginning, and until now.

        `images` brings the rows before updates, too. Without `kinds` inserts and updates are both called upsert, which
        saves looking for them in the base files: a small commit is then read at the same cost from a table of any size.
        With `columns` only these are given, but a change of any other is a change, too. Start again from `.next_position`: a writer that started early and finished late is delivered exactly once.
        """
        start, end = self._time("after", after), self._time("until", until)
        if start is not None and end is not None and start > end:
            raise InvalidArgument(f"changes(after={start}, until={end}) is empty: `until` lies before `after`.")
        if images and not kinds:
            raise InvalidArgument(
                "changes(images=True, kinds=False): a row before an update tells that it is one. Take one of both."
            )
        times = (end,) if start is None else (end, start)
        newer, *older = load_views(self._table, times)
        before = older[0] if older else None
        return Changes(
            self._storage,
            self._source,
            before,
            newer,
            images=images,
            kinds=kinds,
            columns=columns,
            meta_columns=meta_columns,
        )

    def timeline(self, *, archived: bool = False) -> TimelineListing:
        """All instants with their times, action, state, rows and files; prints well, and shows itself in a notebook."""
        listing = load_listing(self._table, archived=archived)
        if not listing.has_open_writes:
            return listing
        return listing.by_writers(self._writing.open_writers(self._config))

    def audit(self, *, deep: bool = False, progress: Progress | None = None) -> Audit:
        """Holds what was committed against what readers get, and looks at everything around it; prints well.

        `deep` also reads the keys of all rows: each once, in its bucket and partition. `audit().is_healthy` says whether
        there is damage. Works on tables of Apache Hudi as well, and beside running writers. `progress` is told what is
        being looked at, and how many of how many are done.
        """
        return audit_table(self._storage, self._clock, deep=deep, progress=progress)

    def why(self, instant: str) -> Story:
        """The story of an instant: who wrote it, how it ended and by what rule, what hides its rows now; prints well."""
        return load_story(self._storage, self._clock, instant)

    def detail(self, instant: str) -> list[Detail]:
        """All that the files of an instant say: metadata, plan, written files. Several, if a savepoint shares its request time."""
        return load_details(self._table, instant)

    def _read(self, as_of: Time | None, read: Callable[[Snapshot], T]) -> T:
        """What `read` gives for a snapshot; a new one, if a clean or rollback removes files during the read."""
        for attempt in range(limits.READ_ATTEMPTS_MAX - 1):
            try:
                return read(self.snapshot(as_of))
            except SnapshotExpired as error:
                if "file" not in error.facts:
                    raise
                pause(self._clock, attempt)
        return read(self.snapshot(as_of))

    def _time(self, name: str, value: Time | None) -> str | None:
        if value is None:
            return None
        try:
            return parse_user_time(value, self._config.zone)
        except InvalidArgument as error:
            raise InvalidArgument(f"{name}: {error.message}", **error.facts) from None

    def _hold(self, time: str) -> AbstractContextManager[None]:
        """Holds the files of that completion time back from cleaning while the block runs."""
        return leases.leased(open_table(self._writing).ledger, time)
