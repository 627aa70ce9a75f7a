# SPDX-License-Identifier: Apache-2.0
"""The clock of one simulated process: world time, askew."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simulator.world.world import Process, World


class SimClock:
    """Satisfies `lakebraid.clock.Clock`. Sleeping is a scheduling point; looking at the time is not."""

    def __init__(self, world: World, process: Process, rng: Random, skew_ms: int, drift: float) -> None:
        self._world, self._process, self._rng = world, process, rng
        self.skew_ms, self._drift, self._began = skew_ms, drift, world.now

    def now_ms(self) -> int:
        elapsed = self._world.now - self._began
        return int(self._world.now + self.skew_ms + self._drift * elapsed)

    def sleep(self, seconds: float) -> None:
        self._world.sleep(seconds * 1000)

    def monotonic(self) -> float:
        return self._world.now / 1000

    def token(self) -> str:
        return f"{self._rng.getrandbits(64):016x}"

    def random(self) -> float:
        return self._rng.random()
