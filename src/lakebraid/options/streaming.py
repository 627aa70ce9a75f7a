# SPDX-License-Identifier: Apache-2.0
"""What a stream is told by options, beside what every read or write is told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lakebraid.digits import whole_number
from lakebraid.errors import InvalidArgument
from lakebraid.options.parsing import Sorted, sort_options


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """Where a stream of changes begins, and how much of them makes a batch. None: no bound."""

    starting_from: str = "earliest"
    commits_max: int | None = None
    files_max: int | None = None
    rows_max: int | None = None
    consumer: str | None = None
    """The name under which the table keeps files for it."""

    @property
    def is_bounded(self) -> bool:
        return (self.commits_max, self.files_max, self.rows_max) != (None, None, None)


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """Who writes a stream, and where Spark keeps its progress."""

    writer: str
    checkpoint: str | None = None


def source_options(given: Mapping[str, Any]) -> SourceOptions:
    found = sort_options(given, "read")
    return SourceOptions(
        starting_from=found.get("startingFrom") or "earliest",
        commits_max=_count(found, "maxCommitsPerTrigger"),
        files_max=_count(found, "maxFilesPerTrigger"),
        rows_max=_count(found, "maxRowsPerTrigger"),
        consumer=found.get("consumer"),
    )


def sink_options(given: Mapping[str, Any]) -> SinkOptions:
    """InvalidArgument if the writer has no name: its batches could not be told from another stream's."""
    found = sort_options(given, "write")
    writer = found.get("lakebraid.writer")
    if not writer:
        raise InvalidArgument(
            "A stream into a table needs a name of its own, so that a batch that comes again is known. Nothing was begun. "
            'Give the option `lakebraid.writer`, such as .option("lakebraid.writer", "orders"), and keep it over restarts.',
            option="lakebraid.writer",
        )
    return SinkOptions(writer, found.get("checkpointLocation"))


def _count(found: Sorted, name: str) -> int | None:
    text = found.get(name)
    if text is None:
        return None
    count = whole_number(text.strip())
    if not count:
        raise InvalidArgument(
            f"The option {name} must be a whole number from 1 on, not {text[:200]!r}. Nothing was read.", option=name
        )
    return count
