# SPDX-License-Identifier: Apache-2.0
"""A stream of changes: offsets are completion times, so a write that began early and was published late is delivered once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxFiles,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from lakebraid.api.consumer import Consumer
from lakebraid.api.table import Table
from lakebraid.clock import SystemClock
from lakebraid.errors import SnapshotExpired
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

_POSITION: Final = "completion_time"
_BEGINNING: Final = "0" * 17
_ALL: Final = 2**62


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Gives batches of whole commits. One lives as long as the query does, in a process of its own; tasks get copies."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._options, self._schema = dict(options), schema
        self._bounds = source_options(self._options)
        self._limit: str | None = None
        """Where `availableNow` ends."""
        self._looking: _Looking | None = None
        self._consumer: Consumer | None = None

    def initialOffset(self) -> dict[str, str]:  # noqa: N802  Spark's name
        begin = self._begin()
        if self._bounds.consumer is not None:
            after = "beginning" if begin == _BEGINNING else begin
            begin = self._registered(after).position or _BEGINNING
        return {_POSITION: begin}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802  Spark's name
        """Spark asks for everything by a limit of its own (`once`); any other means: as the options say."""
        bounds = self._bounds
        if bounds.rows_max is None and bounds.files_max is not None:
            return ReadMaxFiles(bounds.files_max)
        return ReadMaxRows(bounds.rows_max or _ALL) if bounds.is_bounded else ReadAllAvailable()

    def latestOffset(self, start: dict[str, str], limit: ReadLimit) -> dict[str, str]:  # noqa: N802  Spark's name
        begin = start[_POSITION]
        if self._bounds.consumer is not None:
            self._advance(begin)  # Spark asks for more when everything before is done
        found = self._looked().positions.after(begin)
        if self._limit is not None:
            found = [i for i in found if _time(i) <= self._limit]
        if not isinstance(limit, ReadAllAvailable):
            found = self._admitted(found)
        return {_POSITION: _time(found[-1]) if found else begin}

    def reportLatestOffset(self) -> dict[str, str] | None:  # noqa: N802  Spark's name
        return None

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  Spark's name
        self._limit = self._last()

    def partitions(self, start: dict[str, str], end: dict[str, str]) -> Sequence[InputPartition]:
        begin, until = start[_POSITION], end[_POSITION]
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

    def commit(self, end: dict[str, str]) -> None:
        """The batches up to there are done: a clean may have what only they needed."""
        if self._bounds.consumer is not None:
            self._advance(end[_POSITION])

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_looking": None, "_consumer": None}

    def _begin(self) -> str:
        """Where a stream without a checkpoint begins."""
        said = self._bounds.starting_from
        if said.lower() == "earliest" or not said.strip("0"):
            return _BEGINNING
        return self._last() if said.lower() == "latest" else parse_user_time(said, self._looked().config.zone)

    def _last(self) -> str:
        found = self._looked().positions.after("")
        return _time(found[-1]) if found else _BEGINNING

    def _admitted(self, found: list[Instant]) -> list[Instant]:
        """The first of these commits that fit the options; one at least, for commits are not divided."""
        bounds, looked = self._bounds, self._looked()
        commits = files = rows = 0
        counts_rows = (bounds.files_max, bounds.rows_max) != (None, None)
        for at, instant in enumerate(found):
            commits += looked.is_write(instant)
            more_files, more_rows = looked.size(instant) if counts_rows else (0, 0)
            files, rows = files + more_files, rows + more_rows
            is_full = (
                commits > (bounds.commits_max or _ALL)
                or files > (bounds.files_max or _ALL)
                or rows > (bounds.rows_max or _ALL)
            )
            if is_full and at:
                return found[:at]
        return found

    def _advance(self, position: str) -> None:
        consumer = self._registered("beginning" if position == _BEGINNING else position)
        if (consumer.position or _BEGINNING) < position:
            consumer.commit(position)

    def _registered(self, after: str) -> Consumer:
        if self._consumer is None:
            self._consumer = self._looked().table.consumer(str(self._bounds.consumer), after=after)
        return self._consumer

    def _looked(self) -> _Looking:
        if self._looking is None:
            self._looking = _Looking(open_table(read_options(self._options)), dict(read_options(self._options).storage))
        return self._looking


class _Looking:
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


def _time(instant: Instant) -> str:
    return instant.completion_time or instant.request_time
