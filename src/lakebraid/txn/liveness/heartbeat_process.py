# SPDX-License-Identifier: Apache-2.0
"""The process beside the driver that shows that a write lives while Spark runs its tasks.

The process that begins a write is Spark's, which ends it after a minute of rest; tasks may have to wait for an hour of
other stages. So a child is started that does nothing for one interval, and only then loads what it needs and beats. It
ends when its note is gone (commit and abort remove it), when the driver is gone, or when the write is no longer open.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from lakebraid.clock import SystemClock

_LOOK_S: Final = 0.5
"""How often it looks whether it is still wanted."""


def start_beating(url: str, options: dict[str, str], request_time: str, interval_s: float) -> str:
    """Starts the process; `stop_beating` with what this gives ends it."""
    handle, note = tempfile.mkstemp(prefix=f"lakebraid-{request_time}-")
    os.close(handle)
    child = subprocess.Popen(
        [sys.executable, "-P", "-m", "lakebraid.txn.liveness.heartbeat_process"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        close_fds=True,
    )
    told = {
        "url": url,
        "options": options,
        "request_time": request_time,
        "interval_s": interval_s,
        "note": note,
        "driver": os.getppid(),
    }
    if child.stdin is not None:
        child.stdin.write(json.dumps(told).encode())  # not on its command line, where others could read credentials
        child.stdin.close()
    return note


def stop_beating(note: str) -> None:
    Path(note).unlink(missing_ok=True)


def keep_beating(
    url: str, options: dict[str, str], request_time: str, interval_s: float, note: str, driver: int
) -> None:
    """Beats until its note or the driver is gone, or the write has ended."""
    clock, wanted = SystemClock(), Path(note)
    due = clock.monotonic() + interval_s
    while wanted.exists() and _is_alive(driver):
        if clock.monotonic() >= due:
            if not _beat(url, options, request_time):
                break
            due = clock.monotonic() + interval_s
        clock.sleep(_LOOK_S)
    stop_beating(note)


def _beat(url: str, options: dict[str, str], request_time: str) -> bool:
    """Whether the write is still open; if the store does not answer, it is taken to be."""
    from lakebraid.errors import LakebraidError  # noqa: PLC0415  most writes end before it comes to this
    from lakebraid.storage import open_storage  # noqa: PLC0415  the same
    from lakebraid.txn.liveness.heartbeat import beat  # noqa: PLC0415  the same
    from lakebraid.txn.writer import Writing  # noqa: PLC0415  the same

    try:
        storage = open_storage(url, options)
        writing = Writing(storage, SystemClock())
        if request_time not in writing.ledger(writing.settings()[0]).newest().state.open:
            return False
        beat(storage, request_time)
    except LakebraidError:
        return True
    return True


def _is_alive(driver: int) -> bool:
    try:
        os.kill(driver, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


if __name__ == "__main__":
    told = json.loads(sys.stdin.read())
    keep_beating(
        told["url"], told["options"], told["request_time"], told["interval_s"], note=told["note"], driver=told["driver"]
    )
