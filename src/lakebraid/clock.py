# SPDX-License-Identifier: Apache-2.0
"""The only reader of time and source of randomness. The simulator puts its own in this place."""

from __future__ import annotations

import secrets  # noqa: TID251  this module is where it may be
import time
from typing import Protocol


class Clock(Protocol):
    """Time and chance, as one actor sees them."""

    def now_ms(self) -> int:
        """Milliseconds since 1970, UTC."""

    def sleep(self, seconds: float) -> None:
        """Lets at least that much time pass."""

    def monotonic(self) -> float:
        """Seconds that never run backwards; only differences mean anything."""

    def token(self) -> str:
        """Sixteen hexadecimal digits that no other process draws."""

    def random(self) -> float:
        """A number in [0, 1), for jitter."""


class SystemClock:
    """The machine's own clock."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000  # noqa: TID251

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)  # noqa: TID251

    def monotonic(self) -> float:
        return time.monotonic()

    def token(self) -> str:
        return secrets.token_hex(8)

    def random(self) -> float:
        return secrets.randbelow(1 << 53) / (1 << 53)
