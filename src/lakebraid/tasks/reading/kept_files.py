# SPDX-License-Identifier: Apache-2.0
"""Data files of object stores that this process fetched: what is listed as the same again is not fetched again.

Every read lists the table's files. A store that tells versions there (`ListedVersions`) says with it whether an object is
still the one that was read: a log file that has grown, a file that was replaced and a table that was made anew have others.
What a read gave is kept only under the version that came with its own answer, and given only to readers with the same
options. So nothing can be stale, and no entry has to be dropped when something changes. Folders on a disk tell no versions:
their files are read each time, for that costs little.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar, cast

import pyarrow as pa

from lakebraid import limits
from lakebraid.format.log.blocks import LogBlock, read_blocks
from lakebraid.format.parquet.rows import CheckedFile, open_parquet_file
from lakebraid.storage.parallel import calls_at_once
from lakebraid.storage.protocol import ListedVersions, Storage
from lakebraid.tasks.data_files import open_base, read_file, read_listed
from lakebraid.tasks.reading.cache import Cache
from lakebraid.tasks.slice_task import SliceTask

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Kept(Generic[T]):
    """What was made of the bytes of a file, which it still holds, and how many they are."""

    made: T
    size: int


class KeptFiles(Generic[T]):
    """What is made of whole files; the longest unused go when their bytes are more than `bytes_max`."""

    def __init__(self, bytes_max: int, make: Callable[[bytes, str], T]) -> None:
        """`make` is given the bytes of a file and its name."""
        self._make = make
        self._kept: Cache[_Kept[T]] = Cache(bytes_max, lambda kept: kept.size)

    def get(self, storage: Storage, name: str, version: str, size_max: int) -> T:
        """What `make` gives or gave for a file, which was listed with this `version`; a large one is fetched each time."""
        if not version or calls_at_once(storage) < 2:
            return self._make(read_file(storage, name, size_max), name)
        store = cast("ListedVersions", storage)  # otherwise it would not have told a version
        origin = (store.url, store.reader, name, version)
        found = self._kept.get(origin)
        if found is not None:
            return found.made
        data, read = read_listed(store, name, size_max)
        made = self._make(data, name)
        if read == version and len(data) <= limits.KEPT_FILE_BYTES_MAX:
            self._kept.keep(origin, _Kept(made, len(data)))
        return made

    @property
    def taken(self) -> int:
        """Bytes of the files that are kept."""
        return self._kept.taken


@dataclass(frozen=True, slots=True)
class OpenedLog:
    """A log file and its blocks, which are views on its bytes."""

    size: int
    blocks: tuple[LogBlock, ...]


@dataclass(frozen=True, slots=True)
class _WholeBase:
    data: pa.Buffer
    file: CheckedFile
    """Not to be read from: several threads may want it."""


def _opened_log(data: bytes, name: str) -> OpenedLog:
    return OpenedLog(len(data), read_blocks(data, name).blocks)


def _whole_base(data: bytes, name: str) -> _WholeBase:
    buffer = pa.py_buffer(data)
    return _WholeBase(buffer, open_parquet_file(pa.BufferReader(buffer), len(data), name))


KEPT_LOGS: Final = KeptFiles(limits.KEPT_FILES_BYTES, _opened_log)
"""Of this process."""

KEPT_BASES: Final = KeptFiles(limits.KEPT_FILES_BYTES, _whole_base)
"""Of this process."""


def open_log(storage: Storage, task: SliceTask, name: str) -> OpenedLog:
    """A log file of a slice. SnapshotExpired if it was removed, unless it is known."""
    return KEPT_LOGS.get(storage, name, task.versions.get(name, ""), limits.LOG_FILE_BYTES_MAX)


def open_base_file(storage: Storage, task: SliceTask) -> tuple[CheckedFile, Any]:
    """The base file of a slice that has one, and the source that it reads from. SnapshotExpired as above.

    A small one of an object store lies in memory, fetched by one request.
    """
    name, size = task.base_name or "", task.base_size
    if calls_at_once(storage) < 2 or size > limits.PARQUET_WHOLE_BYTES_MAX:
        source = open_base(storage, name)
        return open_parquet_file(source, size, name), source
    whole = KEPT_BASES.get(storage, name, task.versions.get(name, ""), size)
    source = pa.BufferReader(whole.data)
    return whole.file.again(source), source
