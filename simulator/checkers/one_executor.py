# SPDX-License-Identifier: Apache-2.0
"""7. Never two executors of one plan, both alive, while nobody missed a beat; and of a removable plan never two at all."""

from __future__ import annotations

from itertools import pairwise
from math import inf
from typing import Any, NamedTuple

from simulator.oracle import Oracle, describe
from simulator.world.violation import Violation


class _Executor(NamedTuple):
    process: Any
    since: float
    epoch: int | None
    """Of its claim; an executor of Apache Hudi has none."""


class OneExecutor:
    def __init__(self, oracle: Oracle) -> None:
        self._oracle = oracle
        self.scene: Any = None
        self._at_work: dict[str, list[_Executor]] = {}
        self._begun: dict[str, int] = {}

    def executing(
        self, request_time: str, process: Any, *, is_removable: bool, epoch: int | None = None, judged_ms: float = inf
    ) -> None:
        """`judged_ms`: when it found nobody alive, where others may have begun, and beaten, between that and its own work."""
        now, timeout_ms = self.scene.world.now, self.scene.setting.timeout_ms
        for other in self._at_work.get(request_time, ()):
            gap = self._silence_ms(request_time, other.process, min(other.since, judged_ms))
            if gap == inf:  # it came afterwards
                gap = self._silence_ms(request_time, other.process, other.since)
            # A sleeper that begins after it was overtaken missed beats itself: it can publish nothing any more. When it
            # wakes up it may beat before it looks, so its silence is counted from before the other one began.
            is_overtaken = epoch is not None and other.epoch is not None and epoch < other.epoch
            is_awake = self._silence_ms(request_time, process, other.since if is_overtaken else now) < timeout_ms
            if not other.process.is_dead and is_awake and gap < timeout_ms and other.process is not process:
                raise Violation(
                    "7 one executor",
                    f"{process.name} executes {describe(request_time)}, as {other.process.name} does, whose longest silence was "
                    f"{gap:.0f} ms",
                )
        self._begun[request_time] = self._begun.get(request_time, 0) + 1
        if is_removable and self._begun[request_time] > 1:
            raise Violation(
                "7 one executor", f"the removable plan {describe(request_time)} is executed for the second time"
            )
        self._at_work.setdefault(request_time, []).append(_Executor(process, now, epoch))

    def sentenced(self, _rollback: str, victim: str) -> None:
        """A plan is taken back: nobody may be at work on it."""
        for process, since, _ in self._at_work.get(victim, ()):
            gap = self._silence_ms(victim, process, since)
            if not process.is_dead and gap < self.scene.setting.timeout_ms:
                raise Violation(
                    "8 the living are spared",
                    f"the plan {describe(victim)} was taken back from {process.name}, whose longest silence was {gap:.0f} ms",
                )

    def _silence_ms(self, request_time: str, process: Any, since: float) -> float:
        """How long at most nobody could know that this process is at work on the plan: between its own beats, from the
        last one before its work. Without any of its own it was never known to live.
        """
        beats = self._oracle.own_beats_ms.get((request_time, process.name), [])
        before = [beat for beat in beats if beat <= since]
        if not before:
            return inf
        now: float = self.scene.world.now
        return max(b - a for a, b in pairwise([before[-1], *(b for b in beats if b > since), now]))

    def executed(self, request_time: str, process: Any) -> None:
        self._at_work[request_time] = [e for e in self._at_work.get(request_time, ()) if e.process is not process]
