# SPDX-License-Identifier: Apache-2.0
"""The stream of changes for Sparks that ask how much a batch may take, from 4.2 on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxFiles,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from lakebraid.model.timeline.instant import Instant
from lakebraid.source.stream_source import POSITION, Offset, StreamReader, time_of

_ALL: Final = 2**62


class LimitedStreamReader(StreamReader, SupportsTriggerAvailableNow):
    """Gives batches of as many whole commits as the options allow."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        super().__init__(options, schema)
        self._limit: str | None = None
        """Where `availableNow` ends."""

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802  Spark's name
        """Spark asks for everything by a limit of its own (`once`); any other means: as the options say."""
        bounds = self.bounds
        if bounds.rows_max is None and bounds.files_max is not None:
            return ReadMaxFiles(bounds.files_max)
        return ReadMaxRows(bounds.rows_max or _ALL) if bounds.is_bounded else ReadAllAvailable()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # type: ignore[override]  # noqa: N802  Spark's name
        begin = start[POSITION]
        self.advance(begin)  # Spark asks for more when everything before is done
        found = self.looked().positions.after(begin)
        if self._limit is not None:
            found = [i for i in found if time_of(i) <= self._limit]
        if not isinstance(limit, ReadAllAvailable):
            found = self._admitted(found)
        return {POSITION: time_of(found[-1]) if found else begin}

    def reportLatestOffset(self) -> Offset | None:  # noqa: N802  Spark's name
        return None

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  Spark's name
        self._limit = self.newest()

    def _admitted(self, found: list[Instant]) -> list[Instant]:
        """The first of these commits that fit the options; one at least, for commits are not divided."""
        bounds, looked = self.bounds, self.looked()
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
