# SPDX-License-Identifier: Apache-2.0
"""The archived timeline, loaded only where it is needed."""

from __future__ import annotations

from dataclasses import dataclass

from lakebraid import limits
from lakebraid.errors import ObjectNotFound
from lakebraid.format.history import choose_manifest, parse_manifest, read_history
from lakebraid.format.names import State, parse_history_file, parse_manifest_name
from lakebraid.model.config import TableConfig
from lakebraid.model.instant import Instant
from lakebraid.storage.protocol import Storage


@dataclass(frozen=True, slots=True)
class Archived:
    """An archived instant, with its completed file's bytes if they were asked for."""

    instant: Instant
    metadata: bytes | None = None


def load_history(
    storage: Storage,
    config: TableConfig,
    first: str = "",
    *,
    actions: frozenset[str] | None = None,
    with_metadata: bool = False,
) -> list[Archived]:
    """Archived instants with starts from `first` on; files of the history before that are not opened."""
    for attempt in range(limits.READ_ATTEMPTS_MAX):
        try:
            return _load(storage, config, first, actions, with_metadata=with_metadata)
        except ObjectNotFound:
            # The archiver merged files of the history between our look at the manifest and at them: look again.
            if attempt + 1 == limits.READ_ATTEMPTS_MAX:
                raise
    return []


def _load(
    storage: Storage, config: TableConfig, first: str, actions: frozenset[str] | None, *, with_metadata: bool
) -> list[Archived]:
    found = []
    for name in _files(storage, config):
        span = parse_history_file(name)
        if span is None or span.last < first:
            continue
        path = f"{config.history_folder}/{name}"
        data = storage.read(path, limits.HISTORY_FILE_BYTES_MAX)
        for row in read_history(data, path, actions=actions, with_metadata=with_metadata):
            if first <= row.request_time:
                instant = Instant(row.request_time, row.action, State.COMPLETED, row.completion_time)
                found.append(Archived(instant, row.metadata))
    return found


def _files(storage: Storage, config: TableConfig) -> list[str]:
    """The files that the current manifest names; only those count."""
    if config.layout == 1:
        return []
    files, _ = storage.list_folder(config.history_folder)
    names = {f.name.rpartition("/")[2] for f in files}
    if not names:
        return []
    numbers = [n for n in map(parse_manifest_name, names) if n is not None]
    try:
        version = storage.read(f"{config.history_folder}/_version_", 64)
    except ObjectNotFound:
        version = None  # it is deleted and made again at each update
    number = choose_manifest(version, numbers)
    if number is None:
        return []
    path = f"{config.history_folder}/manifest_{number}"
    manifest = parse_manifest(storage.read(path, limits.HISTORY_MANIFEST_BYTES_MAX), path)
    return [entry.name for entry in manifest]
