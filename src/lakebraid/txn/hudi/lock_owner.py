# SPDX-License-Identifier: Apache-2.0
"""Who holds a lock, written so that another process of the same machine can tell whether he still lives."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")
_DEAD_STATES: Final = ("Z", "X", "x")


@dataclass(frozen=True, slots=True)
class Owner:
    """One process, and one lock that it took. Pids mean something only within one boot and one namespace of it."""

    host: str
    boot: str
    namespace: str
    pid: int
    started: str
    """Ticks from boot to the start of the process, so that a pid given to another process is noticed."""
    token: str
    since_ms: int

    def __str__(self) -> str:
        return f"process {self.pid} of lakebraid on {self.host}"


def this_process(token: str, since_ms: int) -> Owner:
    """This very process, also after a fork; texts are empty where the system does not tell them."""
    pid = os.getpid()
    state_and_start = _state_and_start(pid)
    return Owner(
        host=socket.gethostname(),
        boot=_boot(),
        namespace=_namespace(),
        pid=pid,
        started=state_and_start[1] if state_and_start else "",
        token=token,
        since_ms=since_ms,
    )


def is_dead(owner: Owner) -> bool:
    """Whether the process certainly runs no more. False where that cannot be judged: another machine, boot, container."""
    if not (owner.boot and owner.namespace and owner.started):
        return False
    if (owner.host, owner.boot, owner.namespace) != (socket.gethostname(), _boot(), _namespace()):
        return False
    now = _state_and_start(owner.pid)
    if now is None:
        return not (_PROC / str(owner.pid)).exists()
    state, started = now
    # A process that was killed stays until its parent looks at it; while a thread of it hangs in a system call, it lives.
    return started != owner.started or (state in _DEAD_STATES and _threads(owner.pid) <= 1)


@dataclass(frozen=True, slots=True)
class Processes:
    """How the processes that take a lock are told apart, and which of their locks count as given back."""

    this: Callable[[str, int], Owner] = this_process
    is_dead: Callable[[Owner], bool] = is_dead
    abandoned: set[str] = field(default_factory=set)
    """Tokens of locks that could not be removed; they are as good as those of the dead."""

    def is_over(self, owner: Owner) -> bool:
        """Whether another process may remove the lock of this owner."""
        return owner.token in self.abandoned or self.is_dead(owner)


MACHINE: Final = Processes()
"""Those of this machine. The simulator has its own."""


def format_owner(owner: Owner) -> bytes:
    return json.dumps({"lakebraid": 1, **asdict(owner)}).encode()


def parse_owner(data: bytes) -> Owner | None:
    """The owner in a lock file's content; None if it is not one of ours."""
    try:
        record = json.loads(data)
        if record.pop("lakebraid") != 1:
            return None
        owner = Owner(**record)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    texts = (owner.host, owner.boot, owner.namespace, owner.started, owner.token)
    numbers = (owner.pid, owner.since_ms)
    is_plain = owner.__class__ is Owner and all(isinstance(t, str) for t in texts) and _is_token(owner.token)
    return owner if is_plain and all(type(n) is int for n in numbers) else None


def _is_token(text: str) -> bool:
    """A token becomes part of a name."""
    return 0 < len(text) <= 64 and text.isascii() and text.isalnum()


def _boot() -> str:
    return _text(_PROC / "sys/kernel/random/boot_id").strip()


def _namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")  # noqa: PTH115  the text of the link is wanted, it leads nowhere
    except OSError:
        return ""


def _state_and_start(pid: int) -> tuple[str, str] | None:
    # The second field is the program's name in parentheses and may itself hold any character.
    fields = _text(_PROC / str(pid) / "stat").rpartition(")")[2].split()
    return (fields[0], fields[19]) if len(fields) > 19 else None


def _threads(pid: int) -> int:
    try:
        return sum(1 for _ in (_PROC / str(pid) / "task").iterdir())
    except OSError:
        return 0


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
