# SPDX-License-Identifier: Apache-2.0
"""A disk: files and folders that are on it, not only in its cache, when a call returns, and what its refusals mean to a user."""

# What is promised here is a matter of system calls, so they are called by name and not through pathlib.
# ruff: noqa: PTH102, PTH108, PTH118, PTH120

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from typing import Final

from lakebraid.errors import AccessDenied, OutcomeUnknown, StorageError

TEMPORARY_PREFIX: Final = ".lakebraid-"
TEMPORARY_SUFFIX: Final = ".tmp"
"""Hudi takes no file of such a name for a log, base or timeline file. A killed process leaves one behind at worst."""


_NO_LINKS: Final = (
    "the file system has no hard links, or forbids them for files of another user",
    "Safe commits need them: use another file system (ext4, xfs, NFS), or let all writers run as one user.",
)

# errno: (what happened, what to do)
_MEANINGS: Final = {
    errno.ENOSPC: ("the disk is full", "Free some space, then run it again."),
    errno.EDQUOT: ("the disk quota is used up", "Free some space or raise the quota, then run it again."),
    errno.EFBIG: (
        "the file would be larger than this process or file system may write",
        "Raise the limit (`ulimit -f`), then run it again.",
    ),
    errno.EACCES: ("permission was denied", "Check the owner and mode of the file and of its folders."),
    errno.EPERM: ("the operation is not permitted", "Check the owner and attributes of the file and its folder."),
    errno.EROFS: ("the file system is read-only", "Mount it writable, or use another path."),
    errno.EIO: ("the disk reported an input/output error", "Check the disk (`dmesg`) before anything else."),
    errno.ENOTDIR: ("a part of the path is a file, not a folder", "Check the path; move that file out of the way."),
    errno.EISDIR: ("it is a folder, not a file", "Check the path; move that folder out of the way."),
    errno.ENAMETOOLONG: (
        "a part of the path is longer than the file system allows",
        "Use a shorter table path or shorter partition values.",
    ),
    errno.EMFILE: ("this process has too many files open", "Raise the limit (`ulimit -n`), then run it again."),
    errno.ENFILE: ("the machine has too many files open", "Close other programs, then run it again."),
    errno.ELOOP: ("it is a symbolic link", "Replace the link by the file or folder itself."),
    errno.EXDEV: ("the table spans two file systems", "Keep a table on one file system."),
}

_DENIED: Final = (errno.EACCES, errno.EPERM, errno.EROFS)

_LINK_MEANINGS: Final = {errno.EPERM: _NO_LINKS, errno.EOPNOTSUPP: _NO_LINKS, errno.ENOSYS: _NO_LINKS}


def write_temporary(folder: str, token: str, data: bytes) -> str:
    """The path of a new, synced file with these bytes in `folder`; nothing is left behind if that fails."""
    path = os.path.join(folder, f"{TEMPORARY_PREFIX}{token}{TEMPORARY_SUFFIX}")
    descriptor = _open_new(path)
    try:
        try:
            if data:
                _write_all(descriptor, data)
                os.fsync(descriptor)  # of an empty file there is only the name, which its folder keeps
        finally:
            os.close(descriptor)
    except BaseException:
        remove_quietly(path)
        raise
    return path


def is_temporary(file: str) -> bool:
    return file.startswith(TEMPORARY_PREFIX) and file.endswith(TEMPORARY_SUFFIX)


def make_folder(folder: str) -> None:
    """Makes the folder and those above it; each entry that was missing is synced."""
    try:
        os.mkdir(folder)
    except FileNotFoundError:
        make_folder(os.path.dirname(folder))
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder)
    except FileExistsError:
        # Made by another process a moment ago: it is used next, so it must not be lost either.
        pass
    sync_folder(os.path.dirname(folder))


def sync_folder(folder: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some network and user-space file systems keep their folders elsewhere and say so.
        if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP):
            raise
    finally:
        os.close(descriptor)


def settle_folder(action: str, path: str) -> None:
    """Syncs the folder of a file just made or removed; if that fails, the change may not survive a crash."""
    try:
        sync_folder(os.path.dirname(path))
    except OSError as error:
        raise OutcomeUnknown(
            f"{action} {path} happened, but the disk did not confirm it ({error.strerror}). It may be gone after a "
            "crash. Look whether it is there before trying again, and check the disk (`dmesg`).",
            path=path,
            errno=error.errno,
        ) from error


def remove_quietly(path: str) -> None:
    """Removes a file that is not needed; that it cannot be removed is not worth an error."""
    with contextlib.suppress(OSError):
        os.unlink(path)


@contextlib.contextmanager
def explained(action: str, path: str, safety: str, *, linking: bool = False) -> Iterator[None]:
    """Turns an OSError inside the block into a StorageError that says what happened and what to do."""
    try:
        yield
    except OSError as error:
        raise os_failure(error, action, path, safety, linking=linking) from error


def os_failure(error: OSError, action: str, path: str, safety: str, *, linking: bool = False) -> StorageError:
    """The StorageError for an OSError; `safety` says what became of the data."""
    number = error.errno or 0
    links = _LINK_MEANINGS.get(number) if linking else None
    known = links or _MEANINGS.get(number)
    reason, advice = known or (error.strerror or type(error).__name__, "Look into it, then run it again.")
    kind = AccessDenied if number in _DENIED and links is None else StorageError
    return kind(f"{action} {path} failed: {reason}. {safety} {advice}", path=path, errno=number)


def _open_new(path: str) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        return os.open(path, flags, 0o666)
    except FileNotFoundError:
        make_folder(os.path.dirname(path))
        return os.open(path, flags, 0o666)


def _write_all(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
