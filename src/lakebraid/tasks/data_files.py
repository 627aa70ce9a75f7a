# SPDX-License-Identifier: Apache-2.0
"""Putting data files of an open write into place: marker first, then the file, whole, under its one name.

A name is a function of the write, the task and the file group (or of the plan and its claim), so a second attempt of
a task meets the file of the first. It holds the same bytes, or the task's input was another one.
"""

from __future__ import annotations

from typing import Final

from lakebraid import limits
from lakebraid.errors import InvalidArgument, ObjectExists, ObjectNotFound, OutcomeUnknown
from lakebraid.format.names import MarkerName
from lakebraid.format.properties import PartitionMetadata, format_partition_metadata
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


def _create(storage: Storage, name: str, data: bytes) -> bool:
    """Whether the object was made now; False if there was one. Asked again while the answer stays out."""
    for attempt in range(1, limits.PLACE_ATTEMPTS_MAX + 1):
        try:
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
