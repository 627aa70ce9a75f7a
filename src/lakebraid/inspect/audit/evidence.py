# SPDX-License-Identifier: Apache-2.0
"""What an audit looks at: everything a table says of itself, of one moment, gathered even where parts of it are broken."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from lakebraid import limits
from lakebraid.errors import CorruptFile, LakebraidError, ObjectNotFound
from lakebraid.format.names import (
    BaseFileName,
    LogFileName,
    State,
    TimelineFileName,
    parse_data_file,
    parse_timeline_file,
)
from lakebraid.format.timeline.commit import CommitMetadata, parse_commit
from lakebraid.format.timeline.services import CleanMetadata, parse_clean_metadata
from lakebraid.format.times import format_instant_time
from lakebraid.inspect.audit.findings import Finding
from lakebraid.model.config import TableConfig
from lakebraid.model.timeline.instant import WRITE_ACTIONS, Instant
from lakebraid.model.timeline.slicing import GroupId
from lakebraid.model.timeline.timeline import Timeline, build_timeline
from lakebraid.storage.protocol import ObjectInfo, Storage
from lakebraid.table.at import TableAt
from lakebraid.table.history import history_rows, load_history_file, load_manifest
from lakebraid.table.loading import PARTITION_MARK
from lakebraid.table.view import View, load_view
from lakebraid.txn.ledger.entries import LEDGER, Entry, parse_entry, parse_entry_name

_REMOVERS = (".clean", ".rollback", ".restore")


@dataclass(frozen=True, slots=True)
class Object:
    """A data file that lies in a folder of the table, marked as a partition or not."""

    info: ObjectInfo
    group: GroupId
    parsed: BaseFileName | LogFileName


@dataclass(frozen=True)
class Evidence:
    """One moment of a table. What could not be read is among the findings."""

    table: TableAt
    properties: Mapping[str, str]
    names: Mapping[str, ObjectInfo]
    """The files of the active timeline, by name without folder."""
    objects: Mapping[str, Object]
    """The data files, by full name."""
    marks: frozenset[str]
    """Folders that are partitions."""
    view: View | None
    """What readers see; None if reading fails."""
    entry: Entry | None
    """The newest decision of the ledger."""
    findings: tuple[Finding, ...] = ()
    _held: _Held = field(default_factory=lambda: _Held(), repr=False)  # noqa: PLW0108  it is defined below

    @property
    def storage(self) -> Storage:
        return self.table.storage

    @property
    def config(self) -> TableConfig:
        return self.table.config

    @cached_property
    def now_ms(self) -> int:
        return self.table.clock.now_ms()

    @cached_property
    def parsed(self) -> dict[str, TimelineFileName]:
        """The timeline files whose names are such, by name."""
        found = {name: parse_timeline_file(name, self.config.layout) for name in self.names}
        return {name: parsed for name, parsed in found.items() if parsed is not None}

    @cached_property
    def timeline(self) -> Timeline:
        """As readers see it; where they fail, as the names spell it."""
        if self.view is not None:
            return self.view.timeline
        times = {name: format_instant_time(info.modified_ms, self.config.zone) for name, info in self.names.items()}
        layout = self.config.layout
        return build_timeline(self.names, layout=layout, completion_times=times if layout == 2 else None)

    @cached_property
    def listed(self) -> Timeline:
        """As the names spell it that were listed after the ledger was read."""
        return build_timeline(self.names, layout=self.config.layout)

    @cached_property
    def request_times(self) -> frozenset[str]:
        """All request times on the timeline, as it is after the files were listed."""
        return frozenset(parsed.request_time for parsed in self.parsed.values())

    @cached_property
    def archived(self) -> dict[str, Instant]:
        """The archived writes by request time, without their metadata; empty if the history cannot be read."""
        return {instant.request_time: instant for instant, _ in self._history(with_metadata=False)}

    @cached_property
    def has_schema_on_read(self) -> bool:
        """Whether Hudi keeps a history of schemas by which columns are renamed and change their types."""
        return bool(self.storage.list(".hoodie/.schema"))

    def commits(self, *, archived: bool = True) -> Iterator[tuple[Instant, CommitMetadata]]:
        """All completed writes that count, archived ones first; those that cannot be read are left out."""
        active = {instant.request_time for instant in self.timeline.writes}
        if archived:
            yield from self._archived_commits(lambda request_time: request_time not in active)
        gone = set()
        for instant in self.timeline.writes:
            try:
                yield instant, parse_commit(self.read(instant), instant.request_time)
            except ObjectNotFound:
                gone.add(instant.request_time)
            except CorruptFile:
                continue
        if gone:  # archived since
            yield from self._archived_commits(gone.__contains__)

    def _archived_commits(self, wanted: Callable[[str], bool]) -> Iterator[tuple[Instant, CommitMetadata]]:
        for instant, metadata in self._history(with_metadata=True):
            if wanted(instant.request_time):
                with contextlib.suppress(CorruptFile):
                    yield instant, parse_commit(metadata, f"archived {instant.request_time}")

    def cleans(self) -> Iterator[tuple[Instant, CleanMetadata]]:
        """All completed cleans, active and archived."""
        with contextlib.suppress(LakebraidError):
            for row in history_rows(self.table, load_manifest(self.table).files):
                if row.action == "clean" and row.metadata:
                    done = Instant(row.request_time, "clean", State.COMPLETED, row.completion_time)
                    with contextlib.suppress(CorruptFile):
                        yield done, parse_clean_metadata(row.metadata, row.request_time)
        for instant in self.timeline.completed:
            if instant.action == "clean":
                with contextlib.suppress(CorruptFile, ObjectNotFound):
                    yield instant, parse_clean_metadata(self.read(instant), instant.request_time)

    def read(self, instant: Instant, state: State = State.COMPLETED) -> bytes:
        """The content of an instant's file; ObjectNotFound if it is not there."""
        name = instant.file_name(state, self.config.layout)
        if state is State.COMPLETED and name not in self.names:
            # Left from an upgrade: the name has no completion time.
            name = TimelineFileName(instant.request_time, None, instant.action, state).format(self.config.layout)
        return self._held.read(self.storage, f"{self.config.timeline_folder}/{name}")

    def age_ms(self, info: ObjectInfo) -> int:
        return self.now_ms - info.modified_ms

    def _history(self, *, with_metadata: bool) -> Iterator[tuple[Instant, bytes]]:
        # One file at a time: the history of a table may be long.
        with contextlib.suppress(LakebraidError):
            for file in load_manifest(self.table).files:
                rows = load_history_file(self.table, file, actions=WRITE_ACTIONS, with_metadata=with_metadata)
                for row in rows:
                    done = Instant(row.request_time, row.action, State.COMPLETED, row.completion_time)
                    yield done, row.metadata or b""


@dataclass
class _Held:
    """Contents of timeline files that were read already, as many as may be held."""

    data: dict[str, bytes] = field(default_factory=dict)
    size: int = 0

    def read(self, storage: Storage, name: str) -> bytes:
        found = self.data.get(name)
        if found is None:
            found = storage.read(name, limits.TIMELINE_FILE_BYTES_MAX)
            if self.size + len(found) <= limits.AUDIT_HELD_BYTES:
                self.data[name] = found
                self.size += len(found)
        return found


def load_evidence(table: TableAt, properties: Mapping[str, str]) -> Evidence:
    """The table at one moment: looked at again if files were removed by a service while it was being looked at."""
    for _ in range(limits.READ_ATTEMPTS_MAX - 1):
        before = _removals(_timeline_names(table))
        found = _load(table, properties)
        if before == _removals(found.names):
            return found
    return _load(table, properties)


def _load(table: TableAt, properties: Mapping[str, str]) -> Evidence:
    findings = []
    view = None
    try:
        view = load_view(table)
    except LakebraidError as error:
        findings.append(Finding("reading-fails", table.storage.url, error.message))
    objects, marks = _objects(table.storage)
    entry, problem = _newest_entry(table.storage)
    names = _timeline_names(table)
    return Evidence(table, properties, names, objects, marks, view, entry, (*findings, *([problem] if problem else ())))


def _timeline_names(table: TableAt) -> dict[str, ObjectInfo]:
    files, _ = table.storage.list_folder(table.config.timeline_folder)
    return {info.name.rpartition("/")[2]: info for info in files}


def _removals(names: Mapping[str, ObjectInfo]) -> set[str]:
    return {name for name in names if any(word in name for word in _REMOVERS)}


def _objects(storage: Storage) -> tuple[dict[str, Object], frozenset[str]]:
    """All data files, also in folders that readers pass over, and the folders that they do not."""
    files, folders = storage.list_folder("")
    listed = [*files, *(info for folder in folders if folder != ".hoodie" for info in storage.list(folder))]
    objects, marks = {}, set()
    for info in listed:
        folder, _, name = info.name.rpartition("/")
        parsed = parse_data_file(name)
        if name.startswith(PARTITION_MARK):
            marks.add(folder)
        elif parsed is not None:
            objects[info.name] = Object(info, GroupId(folder, parsed.file_id), parsed)
    return objects, frozenset(marks)


def _newest_entry(storage: Storage) -> tuple[Entry | None, Finding | None]:
    """The newest entry of the ledger, without making it true or touching anything."""
    for _ in range(limits.READ_ATTEMPTS_MAX):
        names = [info.name for info in storage.list(LEDGER) if parse_entry_name(info.name) is not None]
        if not names:
            return None, None
        try:
            return parse_entry(storage.read(names[-1], limits.LEDGER_ENTRY_BYTES_MAX), names[-1]), None
        except ObjectNotFound:
            continue  # trimmed since
        except CorruptFile as error:
            return None, Finding("ledger-damaged", names[-1], error.message)
    return None, None
