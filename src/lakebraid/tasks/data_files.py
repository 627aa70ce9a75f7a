# SPDX-License-Identifier: Apache-2.0
"""Data files, as a reader opens them."""

from __future__ import annotations

from typing import Any

from lakebraid import limits
from lakebraid.errors import ObjectNotFound, SnapshotExpired
from lakebraid.storage.parallel import waiting
from lakebraid.storage.protocol import ListedVersions, Storage


def read_log(storage: Storage, name: str) -> bytes:
    """A whole log file; SnapshotExpired if it was removed since the snapshot was taken."""
    return read_file(storage, name, limits.LOG_FILE_BYTES_MAX)


def read_file(storage: Storage, name: str, size_max: int) -> bytes:
    """A whole file; SnapshotExpired as above."""
    try:
        with waiting():
            return storage.read(name, size_max)
    except ObjectNotFound as error:
        raise _vanished(storage, name) from error


def read_listed(storage: ListedVersions, name: str, size_max: int) -> tuple[bytes, str]:
    """A whole file and its version; SnapshotExpired as above."""
    try:
        with waiting():
            return storage.read_listed(name, size_max)
    except ObjectNotFound as error:
        raise _vanished(storage, name) from error


def open_base(storage: Storage, name: str) -> Any:
    """A base file, for reading parts of it; SnapshotExpired as above."""
    try:
        with waiting():
            return storage.open_input(name)
    except ObjectNotFound as error:
        raise _vanished(storage, name) from error


def _vanished(storage: Storage, name: str) -> SnapshotExpired:
    return SnapshotExpired(
        f"{storage.url}/{name} was removed while this version of the table was being read, by a clean or a rollback. "
        "The table itself is safe. Read it again: a new snapshot does not need the file.",
        path=storage.url,
        file=name,
    )
