# SPDX-License-Identifier: Apache-2.0
"""Real processes on a table in a folder, each of which stops or dies at a call of its storage that the test names.

They are forked, so none has to start Python anew. Whoever is stopped beats no more, all of its threads with it; whoever is
killed says nothing more. Time passes by making heartbeats older, so no test waits for a silence.
"""

from __future__ import annotations

import os
import pickle
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lakebraid.api.table import Table
from lakebraid.clock import SystemClock
from lakebraid.errors import LakebraidError
from lakebraid.storage.local import LocalStorage
from lakebraid.txn.liveness.heartbeat import HEARTBEATS
from tests.kit.tables.scene import Call, WatchedStorage, table_on
from tests.kit.waiting import PATIENCE_SECONDS

Body = Callable[[Table], Any]
Moment = tuple[str, Callable[[Call], object]]
"""Before or after the first call that is meant."""


@dataclass(frozen=True)
class Failed:
    """What a process says of an error of the product."""

    kind: str
    message: str


@dataclass
class Child:
    """A process of its own."""

    pid: int
    said: int

    def wait_until_stopped(self) -> None:
        """It has stopped itself, and not ended."""
        _, status = os.waitpid(self.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status), f"it never came to where it was to stop: {self.answer()!r}"

    def wait_until_killed(self) -> None:
        status = self._reap()
        os.close(self.said)
        assert os.WIFSIGNALED(status), "it never came to where it was to die"

    def wake(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def go_on(self) -> Any:
        """Wakes it up; what it says in the end."""
        self.wake()
        return self.end()

    def end(self) -> Any:
        """What it gave, or what it failed with."""
        answer = self.answer()
        self._reap()
        return answer

    def _reap(self) -> int:
        _, status = os.waitpid(self.pid, 0)
        _running.discard(self.pid)
        return status

    def answer(self) -> Any:
        with os.fdopen(self.said, "rb") as pipe:
            answer = pickle.loads(pipe.read() or pickle.dumps("nothing"))
        assert not isinstance(answer, str), answer
        return answer


_running: set[int] = set()


@contextmanager
def none_left() -> Iterator[None]:
    """However a test ends, no process of its stays behind: a stopped one would for ever."""
    try:
        yield
    finally:
        for pid in _running:
            with suppress(ProcessLookupError, ChildProcessError):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
        _running.clear()


def started(path: Path, body: Body, moment: Moment | None = None, how: signal.Signals | None = None) -> Child:
    """A process that has the table open and does this; it stops (SIGSTOP) or dies (SIGKILL) at a moment."""
    said, tell = os.pipe()
    pid = os.fork()
    if pid:
        os.close(tell)
        _running.add(pid)
        return Child(pid, said)
    signal.alarm(PATIENCE_SECONDS)  # it comes to its end, whatever it meets
    with os.fdopen(tell, "wb") as pipe:
        pipe.write(pickle.dumps(_outcome(path, body, moment, how)))
    os._exit(0)


def _outcome(path: Path, body: Body, moment: Moment | None, how: signal.Signals | None) -> Any:
    try:
        return body(opened(path, moment, how))
    except LakebraidError as error:
        return Failed(type(error).__name__, error.message)
    except BaseException as error:  # noqa: BLE001  it must not come back into the test's own process
        return f"an error of the test: {error!r}"


def opened(path: Path, moment: Moment | None = None, how: signal.Signals | None = None) -> Table:
    """The table as another process has it open."""
    clock = SystemClock()
    storage = LocalStorage(str(path))
    if moment is None:
        return table_on(storage, clock)
    when, is_meant = moment
    done: list[Call] = []

    def hook(call: Call) -> None:
        if not done and is_meant(call):
            done.append(call)
            os.kill(os.getpid(), how or signal.SIGSTOP)

    return table_on(WatchedStorage(storage, **{when: hook}), clock)


def let_pass(path: Path, seconds: int = 7_200) -> None:
    """Time has passed since anybody beat."""
    then = time.time() - seconds
    for beat in (path / HEARTBEATS).glob("*"):
        os.utime(beat, (then, then))
