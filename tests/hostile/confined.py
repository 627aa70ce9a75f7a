# SPDX-License-Identifier: Apache-2.0
"""Reads tables in a process of its own that may take only so much memory: ``python -m tests.hostile.confined paths``.

It prints one line of JSON for each table: what came of it, how much processor time it took, how much memory it added. A
process that dies, or hangs, took its reader with it, and fails the test.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.kit.waiting import PATIENCE_SECONDS

ROOT = Path(__file__).parents[2]
MEMORY_MAX = 2 << 30


def read_confined(paths: Sequence[Path | str], *, warm_up: Path | str) -> list[dict[str, Any]]:
    """The outcomes of reading these tables one after the other in one confined process."""
    command = [sys.executable, "-X", "faulthandler", "-m", "tests.hostile.confined", str(warm_up), *map(str, paths)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert done.returncode == 0, f"died after {len(lines)} tables with {done.returncode}: {done.stderr[-3000:]}"
    assert len(lines) == len(paths)
    return lines


def _main(warm_up: str, paths: list[str]) -> None:
    from lakebraid.errors import LakebraidError
    from tests.hostile.attack import look_at_everything

    look_at_everything(warm_up)  # whatever is loaded once is loaded before memory is counted
    gc.collect()
    used = _status("VmSize")
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY_MAX, resource.RLIM_INFINITY))
    for path in paths:
        before, started = _status("VmRSS"), time.process_time()
        _reset_peak()
        outcome: dict[str, Any] = {"error": None, "message": ""}
        try:
            outcome["rows"] = look_at_everything(path)
        except LakebraidError as error:
            outcome |= {"error": type(error).__name__, "message": str(error)}
        except BaseException as error:  # noqa: BLE001 - whatever else it is, the test is told
            outcome |= {"error": f"raw {type(error).__name__}", "message": str(error)[:1000]}
        outcome |= {"seconds": time.process_time() - started, "grew": _status("VmHWM") - before}
        print(json.dumps(outcome), flush=True)
        gc.collect()


def _status(key: str) -> int:
    """A line of /proc/self/status, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{key}:")) * 1024


def _reset_peak() -> None:
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")


if __name__ == "__main__":
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")  # gives memory back at once, so that peaks are true
    _main(sys.argv[1], sys.argv[2:])
