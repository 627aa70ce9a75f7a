# SPDX-License-Identifier: Apache-2.0
"""Files and folders that are on the disk, not only in its cache, when a call returns."""

# What is promised here is a matter of system calls, so they are called by name and not through pathlib.
# ruff: noqa: PTH102, PTH108, PTH118, PTH120

from __future__ import annotations

import contextlib
import errno
import os
from typing import Final

from lakebraid.errors import OutcomeUnknown

TEMPORARY_PREFIX: Final = ".lakebraid-"
TEMPORARY_SUFFIX: Final = ".tmp"
"""Hudi takes no file of such a name for a log, base or timeline file. A killed process leaves one behind at worst."""


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
        # Made by somebody else a moment ago: it is used next, so it must not be lost either.
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
    """Removes a file nobody needs; that it cannot be removed is not worth an error."""
    with contextlib.suppress(OSError):
        os.unlink(path)


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
