# SPDX-License-Identifier: Apache-2.0
"""7. Never two executors of one plan, both alive, while nobody missed a beat; and of a removable plan never two at all."""

from __future__ import annotations

from itertools import pairwise
from math import inf
from typing import Any

from simulator.oracle import Oracle, describe
from simulator.violation import Violation


class OneExecutor:
    def __init__(self, oracle: Oracle) -> None:
        self._oracle = oracle
        self.scene: Any = None
        self._at_work: dict[str, list[tuple[Any, float]]] = {}
        self._begun: dict[str, int] = {}

    def executing(self, start: str, process: Any, *, is_removable: bool) -> None:
        now, timeout_ms = self.scene.world.now, self.scene.setting.timeout_ms
        # A sleeper that begins after it was overtaken missed beats itself: it can publish nothing any more.
        is_awake = self._silence_ms(start, process, now) < timeout_ms
        for other, since in self._at_work.get(start, ()):
            gap = self._silence_ms(start, other, since)
            if not other.is_dead and is_awake and gap < timeout_ms and other is not process:
                raise Violation(
                    "7 one executor",
                    f"{process.name} executes {describe(start)}, as {other.name} does, whose longest silence was {gap:.0f} ms",
                )
        self._begun[start] = self._begun.get(start, 0) + 1
        if is_removable and self._begun[start] > 1:
            raise Violation("7 one executor", f"the removable plan {describe(start)} is executed for the second time")
        self._at_work.setdefault(start, []).append((process, now))

    def sentenced(self, _rollback: str, victim: str) -> None:
        """A plan is taken back: nobody may be at work on it."""
        for process, since in self._at_work.get(victim, ()):
            gap = self._silence_ms(victim, process, since)
            if not process.is_dead and gap < self.scene.setting.timeout_ms:
                raise Violation(
                    "8 the living are spared",
                    f"the plan {describe(victim)} was taken back from {process.name}, whose longest silence was {gap:.0f} ms",
                )

    def _silence_ms(self, start: str, process: Any, since: float) -> float:
        """How long at most nobody could know that this process is at work on the plan: between its own beats, from the
        last one before its work. Without any of its own it was never known to live.
        """
        beats = self._oracle.own_beats_ms.get((start, process.name), [])
        before = [beat for beat in beats if beat <= since]
        if not before:
            return inf
        return max(b - a for a, b in pairwise([before[-1], *(b for b in beats if b > since), self.scene.world.now]))

    def executed(self, start: str, process: Any) -> None:
        self._at_work[start] = [(p, since) for p, since in self._at_work.get(start, ()) if p is not process]
