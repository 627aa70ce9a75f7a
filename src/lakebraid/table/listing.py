# SPDX-License-Identifier: Apache-2.0
"""The timeline as something to look at: each instant with its times, state, rows and files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC

from lakebraid.errors import CorruptFile, InvalidArgument, ObjectNotFound
from lakebraid.format.names import State
from lakebraid.format.timeline.commit import CommitMetadata
from lakebraid.format.times import parse_instant_time
from lakebraid.model.timeline.instant import WRITE_ACTIONS, Instant
from lakebraid.table.at import TableAt
from lakebraid.table.grid import SHOWN_MAX, Grid, text_bytes
from lakebraid.table.history import load_history
from lakebraid.table.loading import load_commit, load_timeline
from lakebraid.table.picture import Bar, draw_lanes


@dataclass(frozen=True, slots=True)
class ListedInstant:
    """One instant with what its metadata says; the counts are None where it says nothing or was not read."""

    instant: Instant
    archived: bool = False
    operation: str | None = None
    rows: int | None = None
    files: int | None = None
    bytes: int | None = None
    problem: str | None = None
    writer: str | None = None

    @property
    def request_time(self) -> str:
        """When it began, as Hudi writes it."""
        return self.instant.request_time

    @property
    def completion_time(self) -> str | None:
        """When it was published; None as long as it is not."""
        return self.instant.completion_time

    @property
    def action(self) -> str:
        """The word of its file on the timeline: `deltacommit`, `commit`, `clean`."""
        return self.instant.action

    @property
    def state(self) -> State:
        """How far it is: requested, inflight or completed."""
        return self.instant.state

    @property
    def planned(self) -> str | None:
        """The word of its plan, where one is there: `compaction`, `clustering`."""
        return self.instant.planned

    @property
    def is_completed(self) -> bool:
        """Whether it is published: readers see it."""
        return self.instant.is_completed

    @property
    def is_write(self) -> bool:
        """Whether the completed action may make rows visible."""
        return self.instant.is_write

    @property
    def kind(self) -> str:
        """What a person calls it: a compaction stays one after it has completed as a commit."""
        return self.instant.kind


@dataclass(frozen=True, slots=True)
class TimelineListing:
    """The instants of a table by request time; prints as a grid, and shows itself in a notebook."""

    name: str
    entries: tuple[ListedInstant, ...]
    zone: str

    def __iter__(self) -> Iterator[ListedInstant]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def __getitem__(self, index: int) -> ListedInstant:
        return self.entries[index]

    @property
    def has_open_writes(self) -> bool:
        """Whether there is a write that began and has not ended."""
        return any(e.instant.is_write and not e.instant.is_completed for e in self.entries)

    def by_writers(self, names: Mapping[str, str | None]) -> TimelineListing:
        """The same with who has the open writes of these request times: their own files say so only at the end."""
        entries = (e if e.writer else replace(e, writer=names.get(e.instant.request_time)) for e in self.entries)
        return replace(self, entries=tuple(entries))

    def __repr__(self) -> str:
        if not self.entries:
            return f"Timeline of {self.name!r}: no instants yet"
        return f"{self._caption()}\n{self._grid()}"

    def _repr_html_(self) -> str:
        return draw_lanes([_bar(e) for e in self.entries[-SHOWN_MAX:]]) + self._grid().html(self._caption())

    def _caption(self) -> str:
        pending = sum(not e.instant.is_completed for e in self.entries)
        return f"Timeline of {self.name!r}: {len(self.entries)} instants, {pending} pending; times in {self.zone}"

    def _grid(self) -> Grid:
        titles = ("start", "completion", "took", "action", "state", "operation", "rows", "files", "bytes", "")
        return Grid(titles, [_row(e) for e in self.entries], right={2, 6, 7, 8})


def _bar(entry: ListedInstant) -> Bar:
    instant, kind = entry.instant, entry.instant.kind
    is_service = kind not in WRITE_ACTIONS
    lane = kind if is_service else entry.writer or ("writers" if instant.is_completed else "open writes")
    words = f"{kind} {instant.state.lower()}, {instant.request_time}" + (f", {entry.rows:,} rows" if entry.rows else "")
    return Bar(lane, kind, instant.request_time, instant.completion_time, words, is_service=is_service)


def _row(entry: ListedInstant) -> tuple[object, ...]:
    instant = entry.instant
    opened = f"by {entry.writer}" if entry.writer and not instant.is_completed else ""
    note = entry.problem or ("archived" if entry.archived else opened)
    size = None if entry.bytes is None else text_bytes(entry.bytes)
    request_time, end = instant.request_time, instant.completion_time
    return (
        request_time, end, _took(request_time, end), instant.kind, instant.state.lower(), entry.operation, entry.rows, entry.files, size, note,
    )  # fmt: skip


def _took(request_time: str, end: str | None) -> str | None:
    if end is None or end == request_time:
        return None
    try:
        seconds = (parse_instant_time(end, UTC) - parse_instant_time(request_time, UTC)) / 1000
    except InvalidArgument:
        return None  # Hudi uses times that are in no calendar as marks
    return f"{seconds:,.1f} s"


def load_listing(table: TableAt, *, archived: bool = False, details_max: int = SHOWN_MAX) -> TimelineListing:
    """All instants; the metadata of the newest `details_max` completed writes is read for their counts."""
    timeline = load_timeline(table)
    entries = [ListedInstant(i) for i in timeline]
    known = {(e.instant.request_time, e.instant.action) for e in entries}
    if archived:
        old = [a.instant for a in load_history(table)]
        entries += [ListedInstant(i, archived=True) for i in old if (i.request_time, i.action) not in known]
    entries.sort(key=lambda e: (e.instant.request_time, e.instant.action))
    detailed = [e for e in entries if e.instant.is_write and e.instant.is_completed and not e.archived][-details_max:]
    chosen = {id(e) for e in detailed}
    full = tuple(_detailed(table, e) if id(e) in chosen else e for e in entries)
    return TimelineListing(
        table.config.name, full, "UTC" if table.config.timezone == "UTC" else "the writers' local zone"
    )


def _detailed(table: TableAt, entry: ListedInstant) -> ListedInstant:
    try:
        metadata: CommitMetadata = load_commit(table, entry.instant)
    except (CorruptFile, ObjectNotFound) as error:
        return ListedInstant(entry.instant, problem=type(error).__name__)
    stats = [s for group in metadata.write_stats.values() for s in group]
    size = sum(s.file_size_in_bytes or s.total_write_bytes or 0 for s in stats)
    return ListedInstant(
        entry.instant, False, metadata.operation, metadata.rows_written, len(stats), size, None, metadata.writer
    )
