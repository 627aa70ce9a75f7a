# SPDX-License-Identifier: Apache-2.0
"""8. A writer that never missed a beat is never rolled back by another."""

from __future__ import annotations

from datetime import UTC
from itertools import pairwise
from typing import Any

from lakebraid.format.times import parse_instant_time
from simulator.oracle import Oracle, describe
from simulator.world.violation import Violation


class TheLivingAreSpared:
    def __init__(self, oracle: Oracle) -> None:
        self._oracle = oracle
        self.scene: Any = None

    def sentenced(self, _rollback: str, victim: str) -> None:
        intent = self._oracle.intents.get(victim)
        if intent is None or intent.outcome == "aborting" or victim in self._oracle.sentenced:
            return
        if victim in self._oracle.undone:
            return  # a restore is taking it off the timeline, and Hudi saw what was left of it
        # Without any beat a write counts as alive from its request time; the request time is a time of its own clock.
        # It may run ahead of the storage's, by which beats are dated: after the first beat it says nothing.
        beats = self._oracle.beats_ms.get(victim, [])
        if self.scene.setting.shared and not beats:
            return  # Apache Hudi takes a write without a heartbeat file for dead
        begun = min(parse_instant_time(victim, UTC), self._oracle.first_seen_ms[victim], *beats[:1])
        moments = [begun, *beats, self.scene.world.now]
        gap = max(b - a for a, b in pairwise(sorted(moments)))
        if gap < self.scene.setting.timeout_ms - 2:  # times of the storage are whole milliseconds
            raise Violation(
                "8 the living are spared",
                f"{intent.owner}'s {describe(victim)} was rolled back; its longest silence was {gap:.0f} ms of "
                f"{self.scene.setting.timeout_ms}",
            )
