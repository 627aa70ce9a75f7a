# SPDX-License-Identifier: Apache-2.0
"""New data files: how a task puts them.

A file is put marker first, then whole, under its one name. A name is a function of the write, the task and the file group (or of the plan and its claim), so a second attempt of
a task meets the file of the first. It holds the same bytes, or the task's input was another one.

On an object store a task of a write announces all its files in one list, so that two round trips are enough for any number of them. On a local disk, and where a plan is
executed, each file has a marker of its own, which costs less if there is one file. Hudi reads either, but not both for one instant (FORMAT, section 12).
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from lakebraid import limits
from lakebraid.errors import CorruptFile, InvalidArgument, ObjectExists, ObjectNotFound, OutcomeUnknown, StorageError
from lakebraid.format.names import MarkerName, in_partition
from lakebraid.format.properties import PartitionMetadata, format_partition_metadata
from lakebraid.storage.checks import check_names
from lakebraid.storage.parallel import calls_at_once, map_calls, together, waiting
from lakebraid.storage.protocol import Storage
from lakebraid.storage.tries import patience_of
from lakebraid.tasks.staged_file import StagedFile

MARKERS: Final = ".hoodie/.temp"
_PARTITION_FILE: Final = ".hoodie_partition_metadata"
_TYPE_OF_LISTS: Final = b"TIMELINE_SERVER_BASED"
"""Hudi's name for markers in lists, which it looks for in `MARKERS.type`: without that file it reads no list."""
_LISTS: Final = 10**9
"""The numbers of lists have nine digits at most: Hudi's server parses them as 32-bit integers."""


@dataclass(frozen=True, slots=True)
class NewFiles:
    """Data files of one file group that a task is about to put."""

    names: tuple[tuple[str, str], ...]
    """The partition and the name of each. One that is not put in the end does no harm."""
    size: int
    """About how many bytes of memory making them takes."""
    put: Callable[[], list[StagedFile]]
    """Makes the files and puts them; they have been announced."""


def put_files(
    storage: Storage,
    request_time: str,
    groups: Iterable[NewFiles],
    ready: Callable[[], None] = lambda: None,
    announced: Collection[tuple[str, str]] = (),
) -> Iterator[StagedFile]:
    """The data files of one task of the write that began at `request_time`, put but not visible, in the order of the groups.

    All of them but those that were `announced` are, then, once they may be (`ready`), put side by side. Many or large ones are announced and put in
    portions, so that not all of them are in memory.
    """
    width = calls_at_once(storage)
    for number, portion in enumerate(_portions(groups)):
        others = [file for new in portion for file in new.names if file not in announced]
        if others:
            announce(storage, request_time, others, is_first=number == 0)
        ready()
        for at in range(0, len(portion), width):
            # Not all at once: between two files the caller may see that the write is refused, and stop.
            made = map_calls(storage, lambda new: new.put(), portion[at : at + width], size=lambda new: new.size)
            for files in made:
                yield from files


def _portions(groups: Iterable[NewFiles]) -> Iterator[list[NewFiles]]:
    held: list[NewFiles] = []
    size = 0
    for new in groups:
        is_full = size + new.size > limits.STORE_BYTES_AT_ONCE_MAX or len(held) == limits.ANNOUNCED_GROUPS_MAX
        if held and is_full:
            yield held
            held, size = [], 0
        held.append(new)
        size += new.size
    if held:
        yield held


def announce(storage: Storage, request_time: str, files: Sequence[tuple[str, str]], *, is_first: bool = True) -> None:
    """Says which files come, so that a rollback finds them, and makes their folders partitions for Hudi."""
    check_names(in_partition(*file) for file in files)
    partitions = dict.fromkeys(partition for partition, _ in files)
    calls: list[Callable[[], object]] = [
        partial(place_partition, storage, request_time, folder) for folder in partitions
    ]
    markers = [MarkerName(*file, "CREATE").format() for file in files]
    if calls_at_once(storage) == 1:
        calls += [partial(_create, storage, f"{MARKERS}/{request_time}/{marker}", b"") for marker in markers]
    else:
        calls.append(partial(_put_list, storage, request_time, markers))
        if is_first:
            calls.append(partial(_create, storage, f"{MARKERS}/{request_time}/MARKERS.type", _TYPE_OF_LISTS))
    together(storage, *calls)


def _put_list(storage: Storage, request_time: str, markers: list[str]) -> None:
    """The number of a list comes from its content, so a second attempt of a task meets the list of the first."""
    data = "".join(f"{marker}\n" for marker in sorted(markers)).encode()
    first = zlib.crc32(data)
    for further in range(limits.PLACE_ATTEMPTS_MAX):
        name = f"{MARKERS}/{request_time}/MARKERS{(first + further) % _LISTS}"
        if _create(storage, name, data) or _holds(storage, name, data):
            return
    raise StorageError(
        f"{storage.url}/{MARKERS}/{request_time} has other lists of markers under all names that a task tried. Its files were not "
        "put, and nothing is visible. Run the write again.",
        path=f"{storage.url}/{MARKERS}/{request_time}",
    )


def _holds(storage: Storage, name: str, data: bytes) -> bool:
    try:
        return storage.read(name, len(data)) == data
    except (CorruptFile, ObjectNotFound):
        return False


def place_partition(storage: Storage, request_time: str, partition: str) -> None:
    """Makes the folder a partition for Hudi, which looks for a file in it; once there, it stays."""
    name = in_partition(partition, _PARTITION_FILE)
    try:
        storage.info(name)
    except ObjectNotFound:
        depth = partition.count("/") + 1 if partition else 0
        _create(storage, name, format_partition_metadata(PartitionMetadata(request_time, depth)))


def place_file(storage: Storage, request_time: str, partition: str, name: str, data: bytes) -> None:
    """The data file of the plan that began at `request_time`, its marker before it, so that a rollback finds it; as `put_file`."""
    marker = MarkerName(partition, name, "CREATE").format()
    _create(storage, f"{MARKERS}/{request_time}/{marker}", b"")
    put_file(storage, request_time, partition, name, data)


def put_file(storage: Storage, request_time: str, partition: str, name: str, data: bytes) -> None:
    """A data file that has been announced.

    A file of that name with the same bytes is success. With other bytes InvalidArgument: nothing is ever overwritten.
    """
    path = in_partition(partition, name)
    if not _create(storage, path, data) and storage.read(path, limits.LOG_FILE_BYTES_MAX) != data:
        raise InvalidArgument(
            f"{storage.url}/{path} is there already with other rows: a task of the write {request_time} ran twice, and its "
            "input gave other rows the second time. Nothing was overwritten and nothing is visible. Make the input "
            "repeatable (cache or checkpoint it, no random or current-time columns), then run the write again.",
            path=f"{storage.url}/{path}",
            request_time=request_time,
        )


def _create(storage: Storage, name: str, data: bytes) -> bool:
    """Whether the object was made now; False if there was one. Asked again while the answer stays out."""
    patience = patience_of(storage)
    with waiting():
        while True:
            try:
                storage.create(name, data)
            except ObjectExists:
                return False
            except OutcomeUnknown:
                # The same bytes under the same name: whichever of the two requests makes the object is right.
                if not patience.wait():
                    raise
            else:
                return True
