# SPDX-License-Identifier: Apache-2.0
"""Reads a table batch by batch in a process of its own and tells what that took: ``python -m tests.hostile.streamed path``."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.hostile.confined import ROOT, _reset_peak, _status


def read_streamed(path: Path, warm_up: Path, *, seconds_max: float = 120) -> dict[str, Any]:
    """How many rows and bytes came, how much memory that added at most, and how long it took."""
    command = [sys.executable, "-m", "tests.hostile.streamed", str(warm_up), str(path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=seconds_max, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _main(warm_up: str, path: str) -> None:
    _streamed(warm_up)
    gc.collect()
    before, started = _status("VmRSS"), time.process_time()
    _reset_peak()
    rows, taken = _streamed(path)
    grew, seconds = _status("VmHWM") - before, time.process_time() - started
    print(json.dumps({"rows": rows, "bytes": taken, "grew": grew, "seconds": seconds}))


def _streamed(path: str) -> tuple[int, int]:
    import lakebraid as lb

    rows = taken = 0
    for batch in lb.Table.open(path).snapshot().to_batches():
        rows, taken = rows + batch.num_rows, taken + batch.nbytes
    return rows, taken


if __name__ == "__main__":
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")  # gives memory back at once, so that peaks are true
    _main(sys.argv[1], sys.argv[2])
