# SPDX-License-Identifier: Apache-2.0
"""Data files, as a reader opens them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from lakebraid import limits
from lakebraid.errors import ObjectNotFound, SnapshotExpired
from lakebraid.storage.parallel import calls_at_once, waiting
from lakebraid.storage.protocol import Storage


def read_log(storage: Storage, name: str) -> bytes:
    """A whole log file; SnapshotExpired if it was removed since the snapshot was taken."""
    try:
        with waiting():
            return storage.read(name, limits.LOG_FILE_BYTES_MAX)
    except ObjectNotFound as error:
        raise _vanished(storage, name) from error


def open_base(storage: Storage, name: str) -> Any:
    """A base file, for reading parts of it; SnapshotExpired as above."""
    try:
        with waiting():
            return storage.open_input(name)
    except ObjectNotFound as error:
        raise _vanished(storage, name) from error


def base_source(storage: Storage, name: str, size: int) -> Any:
    """A base file as Arrow reads it; a small one of an object store in memory, fetched by one request."""
    if calls_at_once(storage) < 2 or size > limits.PARQUET_WHOLE_BYTES_MAX:
        return open_base(storage, name)
    try:
        with waiting():
            return pa.BufferReader(storage.read(name, size))
    except ObjectNotFound as error:
        raise _vanished(storage, name) from error


def _vanished(storage: Storage, name: str) -> SnapshotExpired:
    return SnapshotExpired(
        f"{storage.url}/{name} was removed while this version of the table was being read, by a clean or a rollback. "
        "The table itself is safe. Read it again: a new snapshot does not need the file.",
        path=storage.url,
        file=name,
    )
