# SPDX-License-Identifier: Apache-2.0
"""What the operating system's refusals mean to a user."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from lakebraid.errors import AccessDenied, StorageError

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


@contextmanager
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
