# SPDX-License-Identifier: Apache-2.0
"""How much work something is, measured so that no machine and nothing else that it does changes the answer."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Final

_TEXT: Final = json.dumps([{"name": f"column_{number}", "type": ["null", "string"]} for number in range(500)])
_SECONDS: Final = 0.2
"""What the yardstick takes on the machine on which bounds in seconds were chosen."""


def calls_of(work: Callable[[], object]) -> int:
    """How many functions were called in this thread, those written in C included."""
    count = 0

    def watch(_frame: object, event: str, _what: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


def slowness() -> float:
    """How many times longer than where bounds in seconds were chosen a piece of work takes here and now; at least 1.

    It is processor time: waiting for others on a busy machine does not count, and sharing a core with them does.
    """
    started = time.process_time()
    for _ in range(100):
        json.loads(_TEXT)
        sorted(_TEXT)
    return max(1.0, (time.process_time() - started) / _SECONDS)
