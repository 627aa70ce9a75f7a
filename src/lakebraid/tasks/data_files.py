# SPDX-License-Identifier: Apache-2.0
"""Data files: how a write puts them, and how a reader opens them.

A file is put marker first, then whole, under its one name. A name is a function of the write, the task and the file group (or of the plan and its claim), so a second attempt of
a task meets the file of the first. It holds the same bytes, or the task's input was another one.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from lakebraid import limits
from lakebraid.errors import InvalidArgument, ObjectExists, ObjectNotFound, OutcomeUnknown, SnapshotExpired
from lakebraid.format.names import MarkerName
from lakebraid.format.properties import PartitionMetadata, format_partition_metadata
from lakebraid.storage.parallel import calls_at_once, waiting
from lakebraid.storage.protocol import Storage

_PARTITION_FILE: Final = ".hoodie_partition_metadata"


def place_partition(storage: Storage, start: str, partition: str) -> None:
    """Makes the folder a partition for Hudi, which looks for a file in it; once there, it stays."""
    name = in_partition(partition, _PARTITION_FILE)
    try:
        storage.info(name)
    except ObjectNotFound:
        depth = partition.count("/") + 1 if partition else 0
        _create(storage, name, format_partition_metadata(PartitionMetadata(start, depth)))


def place_file(storage: Storage, start: str, partition: str, name: str, data: bytes) -> None:
    """The data file of the write that began at `start`, its marker before it, so that a rollback finds it.

    A file of that name with the same bytes is success. With other bytes InvalidArgument: nothing is ever overwritten.
    """
    marker = MarkerName(partition, name, "CREATE").format()
    _create(storage, f".hoodie/.temp/{start}/{marker}", b"")
    path = in_partition(partition, name)
    if not _create(storage, path, data) and storage.read(path, limits.LOG_FILE_BYTES_MAX) != data:
        raise InvalidArgument(
            f"{storage.url}/{path} is there already with other rows: a task of the write {start} ran twice, and its "
            "input gave other rows the second time. Nothing was overwritten and nothing is visible. Make the input "
            "repeatable (cache or checkpoint it, no random or current-time columns), then run the write again.",
            path=f"{storage.url}/{path}",
            start=start,
        )


def in_partition(partition: str, name: str) -> str:
    """The name below the table of a file in a partition; the empty partition is the table's own folder."""
    return f"{partition}/{name}" if partition else name


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


def _create(storage: Storage, name: str, data: bytes) -> bool:
    """Whether the object was made now; False if there was one. Asked again while the answer stays out."""
    for attempt in range(1, limits.PLACE_ATTEMPTS_MAX + 1):
        try:
            with waiting():
                storage.create(name, data)
        except ObjectExists:
            return False
        except OutcomeUnknown:
            # The same bytes under the same name: whichever of the two requests makes the object is right.
            if attempt == limits.PLACE_ATTEMPTS_MAX:
                raise
        else:
            return True
    return False


def _vanished(storage: Storage, name: str) -> SnapshotExpired:
    return SnapshotExpired(
        f"{storage.url}/{name} was removed while this version of the table was being read, by a clean or a rollback. "
        "The table itself is safe. Read it again: a new snapshot does not need the file.",
        path=storage.url,
        file=name,
    )
