# SPDX-License-Identifier: Apache-2.0
"""Writing the history: a Parquet file, then the next manifest, created only if absent; the loser of that race looks again.

A manifest holds everything that the one before it held, so what was archived once stays archived, and a file that is
named no more is never named again. An archiver that slept while its number was used, and removed again, creates a
manifest below the newest: it means nothing, and its author sees that when he looks whether his instants are there.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from itertools import groupby

from lakebraid import limits
from lakebraid.errors import (
    CorruptFile,
    EnvironmentProblem,
    InvalidArgument,
    ObjectExists,
    ObjectNotFound,
    OutcomeUnknown,
    StorageError,
)
from lakebraid.format.names import HistoryFileName, history_file_name, manifest_name, parse_history_file
from lakebraid.format.timeline.history import (
    ArchivedInstant,
    HistoryFile,
    format_manifest,
    parse_manifest,
    read_history,
    write_history,
)
from lakebraid.storage.protocol import Storage
from lakebraid.table.at import TableAt
from lakebraid.table.history import (
    Manifest,
    history_rows,
    load_archived_keys,
    load_history_file,
    load_manifest,
    with_manifest,
)
from lakebraid.table.loading import pause

Key = tuple[str, str]


def add_to_history(table: TableAt, rows: Sequence[ArchivedInstant]) -> set[Key]:
    """Sees to it that the history has these instants; gives request time and action of what it has, as read back from it.

    Also `_version_` points at it then, for readers of Hudi go by that.
    """
    request_times = {row.request_time for row in rows}
    for attempt in range(limits.HISTORY_ATTEMPTS_MAX):
        manifest, known = with_manifest(table, lambda m: (m, load_archived_keys(table, m, request_times)))
        missing = [row for row in rows if _key(row) not in known]
        if not missing:
            point_at_newest(table, manifest)
            return known
        with contextlib.suppress(OutcomeUnknown):
            file = _put_file(table, missing, 0)
            _create_manifest(table, manifest, (*manifest.files, file))
        if attempt > 1:
            pause(table.clock, attempt)
    raise StorageError(
        f"The history of {table.storage.url} could not be written in {limits.HISTORY_ATTEMPTS_MAX} attempts: other archivers "
        "were faster, or the store did not answer. Nothing left the timeline that is not in the history. Try again.",
        path=table.storage.url,
    )


def point_at_newest(table: TableAt, seen: Manifest | None = None) -> None:
    """Writes the newest manifest's number into `_version_`, unless it is there. Readers of Hudi go by it.

    A sleeper's late answer may put an older number there afterwards. Our readers take the greatest manifest anyway, and
    the next archiver comes by here.
    """
    for _ in range(limits.READ_ATTEMPTS_MAX):
        manifest, seen = seen or load_manifest(table), None
        number = str(manifest.number).encode()
        if not manifest.number or (manifest.version or b"").strip() == number:
            return
        table.storage.replace(f"{table.config.history_folder}/_version_", number)


def merge_layers(table: TableAt) -> int:
    """Merges files of the history layer by layer, so that their number stays small; gives how many merges were made.

    Files that are damaged, missing or too large are left as they are: their instants may still be brought back.
    """
    for done in range(limits.HISTORY_MERGES_MAX):
        manifest = load_manifest(table)
        merged = choose_merge(manifest.files)
        if not merged:
            return done
        try:
            rows = {_key(row): row for row in history_rows(table, merged)}
            file = _put_file(table, list(rows.values()), _name(merged[0]).layer + 1, is_whole=True)
        except (CorruptFile, EnvironmentProblem, InvalidArgument, ObjectNotFound, OutcomeUnknown):
            return done
        kept = [entry for entry in manifest.files if entry not in merged]
        _create_manifest(table, manifest, (*kept, file))
    return limits.HISTORY_MERGES_MAX


def choose_merge(files: Iterable[HistoryFile]) -> tuple[HistoryFile, ...]:
    """The files that become one of the next layer: neighbours of one layer, the lowest and oldest first."""
    ordered = sorted(files, key=lambda file: (_name(file).layer, _name(file).first))
    for _, same in groupby(ordered, key=lambda file: _name(file).layer):
        layer = tuple(same)
        for place in range(len(layer) - limits.HISTORY_MERGE_FILES + 1):
            window = layer[place : place + limits.HISTORY_MERGE_FILES]
            if sum(file.size for file in window) <= limits.HISTORY_MERGE_BYTES_MAX:
                return window
    return ()


def tidy_history(table: TableAt) -> None:
    """Removes manifests before the last few, what only they name, and what killed archivers left behind.

    Nothing of it is ever named again: a file leaves the manifests when it was merged, and one that never came into them
    is dead once all it holds is in the history in another way.
    """
    manifest = load_manifest(table)
    numbers = manifest.numbers
    old, kept = numbers[: -limits.HISTORY_MANIFESTS_KEPT], numbers[-limits.HISTORY_MANIFESTS_KEPT :]
    folder = table.config.history_folder
    named = [_named(table.storage, folder, number) for number in kept]
    if manifest.number not in kept or None in named:
        return  # one is newer than the listing, gone or torn: what lives is not known, so the next one may tidy up
    living = {file.name for files in named for file in files or ()}
    past = {file.name for number in old for file in _named(table.storage, folder, number) or ()} - living
    strays = [n for n in manifest.names - living - past if _is_dead(table, manifest, n)]
    table.storage.delete([f"{folder}/{name}" for name in sorted([*(past & manifest.names), *strays])])
    table.storage.delete([f"{folder}/{manifest_name(number)}" for number in old])


def _named(storage: Storage, folder: str, number: int) -> tuple[HistoryFile, ...] | None:
    """The files that a manifest names; None if it is torn, or gone."""
    path = f"{folder}/{manifest_name(number)}"
    with contextlib.suppress(CorruptFile, ObjectNotFound):
        return parse_manifest(storage.read(path, limits.HISTORY_MANIFEST_BYTES_MAX), path)
    return None


def _is_dead(table: TableAt, manifest: Manifest, name: str) -> bool:
    """Whether no archiver will ever name that file, although none has so far.

    One with the same instants missing, or the same files to merge, would take it over: see `_put_file`.
    """
    span = parse_history_file(name)
    if span is None:
        return False
    if span.layer > 0:
        below = [_name(file) for file in manifest.files if _name(file).layer == span.layer - 1]
        return not any(span.first <= part.first and part.last <= span.last for part in below)
    try:
        keys = {_key(row) for row in load_history_file(table, HistoryFile(name, 0))}
        return keys <= load_archived_keys(table, manifest, {request_time for request_time, _ in keys})
    except (CorruptFile, ObjectNotFound):
        return False  # torn, so not of our making; or others are at work here


def _put_file(table: TableAt, rows: Sequence[ArchivedInstant], layer: int, *, is_whole: bool = False) -> HistoryFile:
    """A file of the history with the rows, or with as many of the first of them as find a free name.

    The name tells only the first and the last request time. A killed archiver may have left a file of that name: if it holds
    the same it is taken over; if it does not (Hudi's are torn then) it is left alone, for no name is written twice.
    """
    ordered = sorted(rows, key=_key)
    for end in range(len(ordered), 0, -1):
        part = ordered[:end]
        name = history_file_name(part[0].request_time, part[-1].request_time, layer)
        size = _put(table.storage, f"{table.config.history_folder}/{name}", part)
        if size is not None:
            return HistoryFile(name, size)
        if is_whole:
            break
    raise CorruptFile(
        f"{table.config.history_folder}/{name} in {table.storage.url} is in the way: an archiver left it unfinished, and no manifest "
        "names it. Nothing was archived; the table is as before. Remove this file, then archive again.",
        path=table.storage.url,
    )


def _put(storage: Storage, path: str, rows: list[ArchivedInstant]) -> int | None:
    """The size of the file, or None if another one has its name."""
    data = write_history(rows)
    try:
        storage.create(path, data)
    except ObjectExists:
        with contextlib.suppress(CorruptFile, ObjectNotFound):
            found = storage.read(path, limits.HISTORY_FILE_BYTES_MAX)
            return len(found) if read_history(found, path, with_metadata=True) == rows else None
        return None
    return len(data)


def _create_manifest(table: TableAt, seen: Manifest, files: Iterable[HistoryFile]) -> None:
    """Creates the manifest after the one that was seen, if it is not there; the caller looks again to know whether its own counts."""
    number = max(seen.number, *seen.numbers, 0) + 1  # past torn ones of Hudi, too
    with contextlib.suppress(ObjectExists, OutcomeUnknown):
        table.storage.create(f"{table.config.history_folder}/{manifest_name(number)}", format_manifest(files))


def _key(row: ArchivedInstant) -> Key:
    return row.request_time, row.action


def _name(file: HistoryFile) -> HistoryFileName:
    parsed = parse_history_file(file.name)
    if parsed is None:
        raise CorruptFile(f"{file.name!r} is no file of a history.", path=file.name)
    return parsed
