# SPDX-License-Identifier: Apache-2.0
"""A folder on a local or network file system."""

# What is promised here is a matter of system calls, so they are called by name and not through pathlib.
# ruff: noqa: PTH100, PTH105, PTH108, PTH110, PTH116, PTH118, PTH120

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

import pyarrow as pa

from lakebraid.clock import Clock, SystemClock
from lakebraid.errors import ObjectExists, ObjectNotFound, StorageError
from lakebraid.storage.addressing import spark_address
from lakebraid.storage.checks import check_name, check_names, check_range, check_size, folder_name
from lakebraid.storage.disk import (
    explained,
    is_temporary,
    make_folder,
    os_failure,
    remove_quietly,
    settle_folder,
    write_temporary,
)
from lakebraid.storage.protocol import FolderListing, Names, ObjectInfo


@dataclass(frozen=True, slots=True)
class LocalStorage:
    """Objects are files below `root`. A create is a temporary file, fsync, link(2), fsync of the folder.

    An object can be seen by others in the instant before its folder is synced; a process that is told that it exists
    (ObjectExists, or a copy whose target is there) has synced the folder himself before he is told.

    Symbolic links below the root are refused, not skipped: following one may leave the table, skipping one would make
    a short answer without an error. The root itself may be one.
    """

    root: str
    clock: Clock = field(default_factory=SystemClock, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "root", os.path.abspath(self.root))

    @property
    def url(self) -> str:
        return self.root

    def read(self, name: str, size_max: int) -> bytes:
        with self._reading(name) as (descriptor, status):
            check_size(self._path(name), status.st_size, size_max)
            return _read_at(descriptor, 0, status.st_size)

    def read_range(self, name: str, start: int, length: int) -> bytes:
        check_range(start, length)
        with self._reading(name) as (descriptor, status):
            return _read_at(descriptor, start, min(length, status.st_size - start))

    def info(self, name: str) -> ObjectInfo:
        with self._reading(name) as (_, status):
            return ObjectInfo(name, status.st_size, status.st_mtime_ns // 1_000_000)

    def list(self, prefix: str = "", *, after: str = "") -> list[ObjectInfo]:
        found, folders = self._scan(folder_name(prefix), after)
        while folders:
            folder = folders.pop()
            # '0' follows '/': everything in the folder is below this text.
            if f"{folder}0" > after:
                more, deeper = self._scan(folder, after)
                found += more
                folders += deeper
        found.sort(key=attrgetter("name"))
        return found

    def list_folder(self, folder: str = "") -> FolderListing:
        objects, folders = self._scan(folder_name(folder))
        return sorted(objects, key=attrgetter("name")), sorted(folders)

    def list_names(self, folder: str) -> Names:
        """Without a look at each file, which costs ten times as much as its name."""
        path = self._checked_path(folder_name(folder))
        try:
            with os.scandir(path) as entries:
                return [entry.name for entry in entries if _is_object(entry)]
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise os_failure(error, "Listing", path, "Nothing was changed.") from error

    def create(self, name: str, data: bytes) -> None:
        path = self._checked_path(name)
        with explained("Creating", path, "Nothing was created.", linking=True):
            temporary = write_temporary(os.path.dirname(path), self.clock.token(), data)
            try:
                _link_new(temporary, path)
            finally:
                remove_quietly(temporary)
        settle_folder("Creating", path)

    def replace(self, name: str, data: bytes) -> None:
        path = self._checked_path(name)
        with explained("Writing", path, "The old content, if any, is still there."):
            temporary = write_temporary(os.path.dirname(path), self.clock.token(), data)
            try:
                _remove_checksum(path)
                os.replace(temporary, path)
            except BaseException:
                remove_quietly(temporary)
                raise
        if data:
            settle_folder("Writing", path)  # a heartbeat is empty: it is not needed after a crash

    def copy(self, source: str, target: str) -> None:
        """One link(2). The copy keeps the modification time of the source."""
        source_path, target_path = self._checked_path(source), self._checked_path(target)
        linked = explained("Copying to", target_path, "Nothing was created.", linking=True)
        with linked, contextlib.suppress(FileExistsError):
            _link_again(source_path, target_path)
        settle_folder("Copying to", target_path)

    def delete(self, names: Iterable[str]) -> None:
        """Not synced: what may be deleted has no meaning any more, also if a crash brings it back."""
        paths = [self._checked_path(name) for name in check_names(names)]
        for path in paths:
            with explained("Deleting", path, "Others that were to be deleted may be gone already."):
                _remove_checksum(path)
                with contextlib.suppress(FileNotFoundError, NotADirectoryError, IsADirectoryError):
                    os.unlink(path)

    def open_input(self, name: str) -> Any:
        """A `pyarrow.OSFile`. A memory map costs up to a tenth less CPU on files of tens of MiB and half as much again
        on small ones, but a damaged disk or a file cut short then kills the process instead of raising an error.
        """
        path = self._path(name)
        with self._reading(name), explained("Opening", path, "Nothing was changed."):
            try:
                return pa.OSFile(path)
            except FileNotFoundError as error:
                raise _absent(path) from error

    def native_path(self, name: str) -> str | None:
        check_name(name)
        return spark_address("file://", self._path(name))

    @contextlib.contextmanager
    def _reading(self, name: str) -> Iterator[tuple[int, os.stat_result]]:
        path = self._checked_path(name)
        with explained("Reading", path, "Nothing was changed."):
            try:
                # Without O_NONBLOCK a named pipe in the folder would stop us for ever.
                descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            except (FileNotFoundError, NotADirectoryError) as error:
                raise _absent(path) from error
            try:
                status = os.fstat(descriptor)
                if not stat.S_ISREG(status.st_mode):
                    raise _absent(path)
                yield descriptor, status
            finally:
                os.close(descriptor)

    def _scan(self, folder: str, after: str = "") -> FolderListing:
        objects, folders = [], []
        head = f"{folder}/" if folder else ""
        path = self._checked_path(folder) if folder else self.root
        below = after[len(head) :] if after.startswith(head) else ""
        try:
            with os.scandir(path) as entries:
                for entry in entries:
                    if f"{entry.name}0" <= below:
                        continue  # nor is anything below it greater, if it is a folder: '0' follows '/'
                    name = head + entry.name
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(name)
                    elif name > after and (entry.name[0] != "." or not _is_private(entry.name)):
                        status = _status(entry)
                        if status:
                            objects.append(ObjectInfo(name, status.st_size, status.st_mtime_ns // 1_000_000))
        except (FileNotFoundError, NotADirectoryError):
            pass  # a missing folder is an empty one
        except OSError as error:
            raise os_failure(error, "Listing", path, "Nothing was changed.") from error
        return objects, folders

    def _path(self, name: str) -> str:
        return os.path.join(self.root, name)

    def _checked_path(self, name: str) -> str:
        check_name(name)
        path = self.root
        for part in name.split("/"):
            path = os.path.join(path, part)
            try:
                if stat.S_ISLNK(os.lstat(path).st_mode):
                    raise _link_refused(path)
            except (FileNotFoundError, NotADirectoryError):
                break
            except OSError as error:
                raise os_failure(error, "Looking at", path, "Nothing was changed.") from error
        return self._path(name)


def _link_new(temporary: str, path: str) -> None:
    try:
        os.link(temporary, path)
    except FileExistsError as error:
        # NFS may repeat a request whose answer was lost, and then finds our own link.
        if os.stat(temporary).st_nlink > 1:
            return
        settle_folder("Creating", path)
        raise ObjectExists(f"{path} exists already. Nothing was changed.", path=path) from error


def _link_again(source: str, target: str) -> None:
    """Links, making the target's folder if that is what is missing; ObjectNotFound only if the source is."""
    for retry in (True, True, False):
        try:
            return os.link(source, target)
        except (FileNotFoundError, NotADirectoryError):
            _check_present(source)
            if not retry:
                raise
            make_folder(os.path.dirname(target))
    return None


def _check_present(path: str) -> None:
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise _absent(path) from error


def _status(entry: os.DirEntry[str]) -> os.stat_result | None:
    """Size and time of a file, or None for what is no object: gone by now, a pipe, a link to nothing."""
    try:
        status = entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return None
    if stat.S_ISREG(status.st_mode):
        return status
    if stat.S_ISLNK(status.st_mode) and os.path.exists(entry.path):
        raise _link_refused(entry.path)
    return None


def _is_object(entry: os.DirEntry[str]) -> bool:
    """Whether it is a file of ours, as far as the folder itself says; only what it says to be no file is looked at."""
    if entry.is_file(follow_symlinks=False):
        return entry.name[0] != "." or not _is_private(entry.name)
    return entry.is_symlink() and _status(entry) is not None


def _is_private(file: str) -> bool:
    return is_temporary(file) or (file.startswith(".") and file.endswith(".crc"))


def _remove_checksum(path: str) -> None:
    """Hadoop keeps `.<name>.crc` beside a file and then refuses the file if the two do not fit."""
    folder, file = os.path.split(path)
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        os.unlink(os.path.join(folder, f".{file}.crc"))


def _read_at(descriptor: int, start: int, length: int) -> bytes:
    chunks = []
    while length > 0:
        chunk = os.pread(descriptor, length, start)
        if not chunk:
            break
        chunks.append(chunk)
        start += len(chunk)
        length -= len(chunk)
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def _absent(path: str) -> ObjectNotFound:
    return ObjectNotFound(f"{path} does not exist. Nothing was changed.", path=path)


def _link_refused(path: str) -> StorageError:
    return StorageError(
        f"{path} is a symbolic link. Links below a table are not followed, for they may lead out of it. Nothing was "
        "read or changed. Replace the link by the file or folder itself.",
        path=path,
    )
