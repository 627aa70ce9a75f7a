# SPDX-License-Identifier: Apache-2.0
"""How much memory this process may still take, and a clear error before a read takes more than half of that.

A file is not refused because it compresses well: one text of 20 MB of blanks is a few hundred bytes, and legal. What counts is
what has to lie in memory at once. So the only bound on that is the memory that there is.
"""

from __future__ import annotations

import os
import resource
from pathlib import Path
from typing import Final

from lakebraid import limits
from lakebraid.errors import EnvironmentProblem

_MACHINE: Final = Path("/proc/meminfo")
_PROCESS: Final = Path("/proc/self/statm")
_CONTAINER: Final = Path("/sys/fs/cgroup")


def check_needed(needed: int, what: str) -> None:
    """Raises EnvironmentProblem if `what` needs more bytes at once than a read may take, before they are taken."""
    if needed > limits.HELD_BYTES_FREE and needed > (left := memory_left()) // 2:
        raise _too_much(needed, left, what)


def check_held(held: int, what: str) -> None:
    """The same for bytes that are already taken: as many must still be free."""
    if held > limits.HELD_BYTES_FREE and held > (left := memory_left()):
        raise _too_much(held, left, what)


def _too_much(size: int, left: int, what: str) -> EnvironmentProblem:
    return EnvironmentProblem(
        f"{what} takes {size:,} bytes of memory at once; {left:,} are free here, and a read leaves half of them to others. "
        "Nothing was changed, and nothing is damaged. Read fewer columns, read in batches (`to_batches`, `to_spark`), or use a "
        "machine with more memory.",
        needed_bytes=size,
        free_bytes=left,
    )


def memory_left() -> int:
    """Bytes that this process may still take: of the machine's, of its container's and of its own limit the fewest."""
    return min(_of_machine(), _of_container(), _of_process())


def _of_machine() -> int:
    try:
        lines = _MACHINE.read_text("ascii", "replace").splitlines()
        return next(int(line.split()[1]) * limits.KIB for line in lines if line.startswith("MemAvailable:"))
    except (OSError, ValueError, IndexError, StopIteration):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2  # not Linux: what is free is not told


def _of_container() -> int:
    try:
        most = int((_CONTAINER / "memory.max").read_text("ascii"))
        used = int((_CONTAINER / "memory.current").read_text("ascii"))
        # Files that were read stay in memory as long as no process needs it.
        kept = dict(line.split() for line in (_CONTAINER / "memory.stat").read_text("ascii").splitlines())
        return max(0, most - used + int(kept.get("inactive_file", 0)))
    except (OSError, ValueError):
        return limits.MEMORY_BYTES_UNKNOWN  # no container, or one without a limit


def _of_process() -> int:
    most = resource.getrlimit(resource.RLIMIT_AS)[0]
    if most == resource.RLIM_INFINITY:
        return limits.MEMORY_BYTES_UNKNOWN
    try:
        used = int(_PROCESS.read_text("ascii").split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        used = 0
    return max(0, most - used)
