# SPDX-License-Identifier: Apache-2.0
"""The archived timeline, loaded only where it is needed."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import TypeVar

from lakebraid import limits
from lakebraid.errors import CorruptFile, ObjectNotFound
from lakebraid.format.names import State, parse_history_file, parse_manifest_name
from lakebraid.format.timeline.history import (
    ArchivedInstant,
    HistoryFile,
    manifests_to_try,
    parse_manifest,
    read_history,
)
from lakebraid.model.timeline.instant import Instant
from lakebraid.table.at import TableAt

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Archived:
    """An archived instant, with its completed file's bytes if they were asked for."""

    instant: Instant
    metadata: bytes | None = None
    plan: bytes | None = None


@dataclass(frozen=True, slots=True)
class Manifest:
    """What the history holds now: only the files named here count."""

    number: int = 0
    """0 if there is no history."""
    files: tuple[HistoryFile, ...] = ()
    names: frozenset[str] = frozenset()
    """Everything that lay in the folder of the history, also what does not count."""
    version: bytes | None = None
    """What `_version_` said."""

    @property
    def numbers(self) -> list[int]:
        """The manifests that were there, in order."""
        return sorted(n for n in map(parse_manifest_name, self.names) if n is not None)


def load_history(
    table: TableAt,
    first: str = "",
    *,
    actions: frozenset[str] | None = None,
    with_metadata: bool = False,
) -> list[Archived]:
    """Archived instants with request times from `first` on; files of the history before that are not opened."""

    def load(manifest: Manifest) -> list[Archived]:
        found = []
        for file in manifest.files:
            if _span(file)[1] < first:
                continue
            for row in load_history_file(table, file, actions=actions, with_metadata=with_metadata):
                if first <= row.request_time:
                    instant = Instant(row.request_time, row.action, State.COMPLETED, row.completion_time)
                    found.append(Archived(instant, row.metadata, row.plan))
        return found

    return with_manifest(table, load)


def load_archived_keys(table: TableAt, manifest: Manifest, request_times: Collection[str]) -> set[tuple[str, str]]:
    """Request time and action of what the history has in those files in which one of the request times may be."""
    ordered = sorted(request_times)
    found = set()
    for file in manifest.files:
        first, last = _span(file)
        place = bisect_left(ordered, first)
        if place < len(ordered) and ordered[place] <= last:
            found |= {(row.request_time, row.action) for row in load_history_file(table, file)}
    return found


def with_manifest(table: TableAt, load: Callable[[Manifest], T]) -> T:
    """What `load` makes of the history, again with a newer manifest if the archiver took files away under its hands."""
    manifest = load_manifest(table)
    while True:
        try:
            return load(manifest)
        except ObjectNotFound as error:
            newer = load_manifest(table)
            if newer.number == manifest.number:
                raise CorruptFile(
                    f"The history of {table.storage.url} is not whole: manifest_{manifest.number} names a file that is not "
                    f"there ({error.message}) The instants in it are unknown; newer ones, and all rows, are untouched. "
                    "Nothing was changed. Bring the file back from a copy of the table.",
                    path=table.storage.url,
                ) from error
            manifest = newer


def load_manifest(table: TableAt) -> Manifest:
    """The manifest that counts now. CorruptFile if it is torn; one that Hudi never pointed at is then passed over."""
    if table.config.layout == 1:
        return Manifest()
    for attempt in range(limits.READ_ATTEMPTS_MAX):
        try:
            return _load_manifest(table)
        except ObjectNotFound:
            # The archiver took it away between our listing and our look at it: there are newer ones.
            if attempt + 1 == limits.READ_ATTEMPTS_MAX:
                raise
    return Manifest()


def _load_manifest(table: TableAt) -> Manifest:
    folder = table.config.history_folder
    listed, _ = table.storage.list_folder(folder)
    names = frozenset(f.name.rpartition("/")[2] for f in listed)
    if not names:
        return Manifest()
    try:
        version = table.storage.read(f"{folder}/_version_", 64)
    except ObjectNotFound:
        version = None  # Hudi deletes it and makes it again at each update
    numbers = manifests_to_try(version, (n for n in map(parse_manifest_name, names) if n is not None))
    for number in numbers:
        path = f"{folder}/manifest_{number}"
        try:
            files = parse_manifest(table.storage.read(path, limits.HISTORY_MANIFEST_BYTES_MAX), path)
        except CorruptFile:
            if number == numbers[-1]:
                raise
        else:
            return Manifest(number, files, names, version)
    return Manifest(names=names, version=version)


def load_history_file(
    table: TableAt,
    file: HistoryFile,
    *,
    actions: frozenset[str] | None = None,
    with_metadata: bool = False,
) -> list[ArchivedInstant]:
    """The instants of one file of the history."""
    path = f"{table.config.history_folder}/{file.name}"
    if not with_metadata and file.size > limits.HISTORY_READ_WHOLE_BYTES:
        return read_history(table.storage.open_input(path), path, actions=actions)
    data = table.storage.read(path, limits.HISTORY_FILE_BYTES_MAX)
    return read_history(data, path, actions=actions, with_metadata=with_metadata)


def history_rows(table: TableAt, files: Collection[HistoryFile]) -> Iterator[ArchivedInstant]:
    """All that these files hold, contents too."""
    for file in files:
        yield from load_history_file(table, file, with_metadata=True)


def _span(file: HistoryFile) -> tuple[str, str]:
    span = parse_history_file(file.name)
    return ("", "9") if span is None else (span.first, span.last)
