# SPDX-License-Identifier: Apache-2.0
"""A stream of changes: offsets are completion times, so a write that began early and was published late is delivered once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from lakebraid.api.consumer import Consumer
from lakebraid.api.table import Table
from lakebraid.clock import SystemClock
from lakebraid.errors import InvalidArgument, SnapshotExpired
from lakebraid.format.times import parse_user_time
from lakebraid.model.config import TableConfig, parse_config
from lakebraid.model.timeline.instant import Instant
from lakebraid.options import read_options, source_options
from lakebraid.source.planning import open_table, plan_source
from lakebraid.source.reader import LakebraidReader, SourcePartition
from lakebraid.storage import open_storage
from lakebraid.table.at import TableAt
from lakebraid.table.loading import load_commit
from lakebraid.table.positions import Positions

POSITION: Final = "completion_time"
_BEGINNING: Final = "0" * 17
Offset = dict[str, str]
"""A position, as Spark keeps it."""


class StreamReader(DataSourceStreamReader):
    """Gives batches of whole commits. One lives as long as the query does, in a process of its own; tasks get copies."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._options, self._schema = dict(options), schema
        self.bounds = source_options(self._options)
        self._looking: Looking | None = None
        self._consumer: Consumer | None = None

    def initialOffset(self) -> Offset:  # noqa: N802  Spark's name
        begin = self._begin()
        if self.bounds.consumer is not None:
            after = "beginning" if begin == _BEGINNING else begin
            begin = self._registered(after).position or _BEGINNING
        return {POSITION: begin}

    def latestOffset(self, start: Offset | None = None, limit: object = None) -> Offset:  # noqa: N802, ARG002  Spark's name; before 4.2 it gives neither
        if self.bounds.is_bounded:
            raise InvalidArgument(
                "This Spark takes whatever there is into a batch; bounds of a stream came with 4.2. Nothing was read. Leave the "
                "options that bound a batch out, or read batches with `table.changes(after=…, until=…)`."
            )
        return {POSITION: max(self.newest(), self._begin())}  # which may be a time to come

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        begin, until = start[POSITION], end[POSITION]
        if begin >= until:
            return []
        between = {
            "hoodie.datasource.query.type": "incremental",
            "hoodie.datasource.read.begin.instanttime": begin,
            "hoodie.datasource.read.end.instanttime": until,
        }
        try:
            shared, parts = plan_source({**self._options, **between}, self._schema.names, None)
        except SnapshotExpired as error:
            raise SnapshotExpired(
                f"The stream cannot go on after {begin}: what it has not read yet was cleaned away or removed by a restore. "
                f"Nothing was skipped or guessed. ({error.message}) Start with a new checkpoint, and either with "
                "startingFrom=earliest, which delivers all rows that are there now, or with startingFrom=latest, which goes on "
                "with new changes only. With the option `consumer` no clean removes what the stream still needs.",
                position=begin,
            ) from error
        return [SourcePartition(shared, part) for part in parts]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return LakebraidReader(self._options, self._schema, None).read(partition)

    def commit(self, end: Offset) -> None:
        """The batches up to there are done: a clean may have what only they needed."""
        self.advance(end[POSITION])

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_looking": None, "_consumer": None}

    def _begin(self) -> str:
        """Where a stream without a checkpoint begins."""
        said = self.bounds.starting_from
        if said.lower() == "earliest" or not said.strip("0"):
            return _BEGINNING
        return self.newest() if said.lower() == "latest" else parse_user_time(said, self.looked().config.zone)

    def newest(self) -> str:
        """The completion time of the last commit."""
        found = self.looked().positions.after("")
        return time_of(found[-1]) if found else _BEGINNING

    def advance(self, position: str) -> None:
        """Tells the table that everything up to there is done, if it keeps files for this stream."""
        if self.bounds.consumer is None:
            return
        consumer = self._registered("beginning" if position == _BEGINNING else position)
        if (consumer.position or _BEGINNING) < position:
            consumer.commit(position)

    def _registered(self, after: str) -> Consumer:
        if self._consumer is None:
            self._consumer = self.looked().table.consumer(str(self.bounds.consumer), after=after)
        return self._consumer

    def looked(self) -> Looking:
        """The table, as the process knows it that plans the batches."""
        if self._looking is None:
            self._looking = Looking(open_table(read_options(self._options)), dict(read_options(self._options).storage))
        return self._looking


class Looking:
    """What the process that plans the batches keeps of the table."""

    def __init__(self, table: Table, storage_options: Mapping[str, str]) -> None:
        self.table = table
        self.config: TableConfig = parse_config(table.properties, table.path)
        self._at = TableAt(open_storage(table.path, dict(storage_options)), self.config, SystemClock())
        self.positions = Positions(self._at)
        self._sizes: dict[str, tuple[int, int]] = {}

    def is_write(self, instant: Instant) -> bool:
        """Whether rows may have come with it: a compaction brings none."""
        return instant.action in (self.config.write_action, "replacecommit")

    def size(self, instant: Instant) -> tuple[int, int]:
        """Files and rows of a commit, by its metadata; what services rewrite does not count."""
        if not self.is_write(instant):
            return 0, 0
        known = self._sizes.get(instant.request_time)
        if known is None:
            commit = load_commit(self._at, instant)
            stats = [stat for part in commit.write_stats.values() for stat in part]
            known = len(stats), sum((s.num_writes or 0) + (s.num_deletes or 0) for s in stats)
            self._sizes[instant.request_time] = known
        return known


def time_of(instant: Instant) -> str:
    """The completion time of a commit."""
    return instant.completion_time or instant.request_time
