# SPDX-License-Identifier: Apache-2.0
"""Waiting for what another thread or process does. However busy the machine is, no test fails because of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

PATIENCE_SECONDS: Final = 900
"""After which it is not slow but hangs. Shorter than pytest's own timeout, which does not say what was waited for."""


def until(holds: Callable[[], object], what: str) -> None:
    """Returns when it holds."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < end, f"{PATIENCE_SECONDS} seconds, and still not: {what}"
        time.sleep(0.02)
