# SPDX-License-Identifier: Apache-2.0
"""The public face of a table."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import pyarrow as pa

from lakebraid import limits
from lakebraid.api.maintenance import Maintenance
from lakebraid.api.writes import Writes
from lakebraid.clock import Clock, SystemClock
from lakebraid.errors import InvalidArgument, SnapshotExpired
from lakebraid.format.times import parse_user_time
from lakebraid.inspect.audit.run import Audit, Progress, audit_table
from lakebraid.inspect.detail import Detail, load_details
from lakebraid.inspect.story import Story, load_story
from lakebraid.model.config import TableConfig
from lakebraid.model.creation.plan import check_agrees, plan_table
from lakebraid.reading.changes import Changes
from lakebraid.reading.plan import Mode, Source, Where
from lakebraid.reading.snapshot import Snapshot
from lakebraid.storage import open_storage
from lakebraid.table.at import TableAt
from lakebraid.table.grid import printable
from lakebraid.table.listing import TimelineListing, load_listing
from lakebraid.table.loading import load_config, pause
from lakebraid.table.view import load_view, load_views
from lakebraid.txn.actions.create import create_table
from lakebraid.txn.writer import Writing
from lakebraid.writing.engines import arrow_schema
from lakebraid.writing.request import SCHEMA_CONFLICT, SchemaConflicts, check_schema_conflict
from lakebraid.writing.retry import Destination

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession

T = TypeVar("T")
Time = str | int | float | datetime
"""A moment: an instant's 17 digits, a timezone-aware datetime, RFC 3339 text with an offset, epoch seconds or millis."""
Inline = Literal["inline"] | None
Rows = Any
"""Rows to write: a Spark DataFrame, an Arrow table or reader, a pandas or polars DataFrame, a list of dictionaries."""


class Table(Writes, Maintenance):
    """An Apache Hudi table, made by lakebraid, Hudi or any engine that writes the format.

    Every call looks at the table anew; nothing is cached but where it lies and what its properties say.
    """

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

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        storage_options: Mapping[str, str] | None = None,
        *,
        clock: Clock | None = None,
    ) -> Table:
        """The table at a path or URL (`s3://`, `gs://`, `az://`, with options for obstore).

        NotATable if there is none; UnsupportedTable, before any data is read, names a feature that cannot be read.
        """
        storage = open_storage(path, storage_options)
        config, properties = load_config(storage)
        source = Source(storage.url, tuple(sorted((storage_options or {}).items())))
        return cls(TableAt(storage, config, clock or SystemClock()), source, properties)

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        schema: Any = None,
        *,
        record_keys: str | Sequence[str],
        ordering_fields: str | Sequence[str] | Mapping[str, str | Sequence[str]] | None = None,
        partition_by: str | Sequence[str] | None = None,
        table_type: str = "mor",
        buckets: int = 8,
        concurrency: str | None = None,
        index: str = "bucket",
        properties: Mapping[str, Any] | None = None,
        name: str | None = None,
        seed_base: bool | None = None,
        hive_style_partitioning: bool | None = None,
        shared: bool = False,
        publication_order: str | None = None,
        schema_conflict: SchemaConflicts = "abort",
        exist_ok: bool = False,
        storage_options: Mapping[str, str] | None = None,
        clock: Clock | None = None,
    ) -> Table:
        """A new table of version 9; `schema` is an Arrow schema, a Spark StructType, DDL text, or None: the first rows say.

        With `ordering_fields` the greatest ordering value of a key wins, else the last writer; as
        `{"order_ts": ["status", "price"], "pay_ts": ["paid"]}` they order groups of columns apart. `table_type` is "mor" or
        "cow"; `index` "bucket", or "simple" and "global_simple", which look keys up. Only "mor" with buckets lets writers
        never wait ("nbcc", the default there); others are optimistic ("occ") or have one writer ("single"). `shared=True` if Apache
        Hudi jobs write the table as well: then every decision is made inside Hudi's own lock. `publication_order="group"` lets
        commits that are decided together appear side by side: faster on object stores with many writers, for tables whose
        changes nobody reads with Apache Hudi; "each" is the default. `schema_conflict="merge"`
        joins schema changes of concurrent writers where they fit together, instead of refusing the second one.
        """
        check_schema_conflict(schema_conflict)
        if schema_conflict != "abort":
            properties = {**(properties or {}), SCHEMA_CONFLICT: schema_conflict}
        storage = open_storage(path, storage_options)
        clock = clock or SystemClock()
        spec = plan_table(
            storage.url,
            arrow_schema(schema),
            record_keys=record_keys,
            ordering_fields=ordering_fields,
            partition_by=partition_by,
            table_type=table_type,
            buckets=buckets,
            concurrency=concurrency,
            index=index,
            properties=properties,
            name=name,
            seed_base=seed_base,
            hive_style_partitioning=hive_style_partitioning,
            shared=shared,
            publication_order=publication_order,
        )
        try:
            create_table(storage, clock, spec)
        except InvalidArgument as error:
            if not (exist_ok and error.facts.get("exists")):
                raise
            check_agrees(spec, load_config(storage)[0])
        return cls.open(path, storage_options, clock=clock)

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
        """All that the files of an instant say: metadata, plan, written files. Several, if a savepoint shares its start."""
        return load_details(self._table, instant)

    def _read(self, as_of: Time | None, read: Callable[[Snapshot], T]) -> T:
        """What `read` gives for a snapshot; a new one, if a clean or rollback takes files away under our hands."""
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

    def __repr__(self) -> str:
        config = self._config
        facts: list[tuple[str, Any]] = [
            ("path", self.path),
            ("type", f"{config.table_type.replace('_', ' ').lower()}, version {config.version}"),
            ("record key", ", ".join(config.record_keys) or "(none)"),
            ("partitioned by", ", ".join(config.partition_fields) or "(not partitioned)"),
            ("ordered by", f"{_ordering(config)} ({config.merge_mode.lower().replace('_', ' ')})"),
        ]
        if config.buckets is not None:
            facts.append(("buckets", config.buckets))
        width = max(len(name) for name, _ in facts)
        lines = [f"  {name:<{width}}  {printable(str(value))}" for name, value in facts]
        return "\n".join([f"Table {config.name!r}", *lines])


def told_table(table: Table, told: Mapping[str, str]) -> Table:
    """The same table, with writes that get along with others as they are told, whatever its properties say."""
    own = (table._table, table._source, table._properties)  # noqa: SLF001  its own module
    return Table(*own, told) if told else table


def _ordering(config: TableConfig) -> str:
    groups = "; ".join(f"{by}: {', '.join(own)}" for by, own in config.ordering_groups)
    return ", ".join(config.ordering_fields) or groups or "nothing"
