# SPDX-License-Identifier: Apache-2.0
"""24. Each call of a writer gets a write of its own, which by commit time outranks all that were acknowledged before the call."""

from __future__ import annotations

from typing import Any

from simulator.oracle import Oracle, describe
from simulator.world.violation import Violation


class LaterCallsWin:
    scene: Any

    def __init__(self, oracle: Oracle) -> None:
        self._oracle = oracle
        self._acknowledged: dict[str, int] = {}
        """At which step the writer was told that its write is published."""
        self._called: set[str] = set()

    def resolved(self, request_time: str, outcome: str) -> None:
        if outcome == "published" and not self._oracle.by_event:
            self._acknowledged.setdefault(request_time, self.scene.world.step)

    def called(self, request_time: str, step: int) -> None:
        if request_time in self._called:
            raise Violation("24 later calls win", f"{describe(request_time)} is the write of two calls")
        self._called.add(request_time)
        for other, told in self._acknowledged.items():
            if told < step and other > request_time:
                raise Violation(
                    "24 later calls win",
                    f"{describe(request_time)} was called for at step {step}, after {describe(other)} was acknowledged at step {told}, "
                    "and loses to it",
                )
