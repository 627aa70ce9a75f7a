# SPDX-License-Identifier: Apache-2.0
"""12. Of two published optimistic writes of one bucket one began after the other was published: else it did not know of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simulator.oracle import Note, Oracle, describe
from simulator.stand_ins.tasks import group_of
from simulator.world.violation import Violation

if TYPE_CHECKING:
    from simulator.scene import Scene


class OptimisticWritersDoNotMeet:
    """That none is refused in vain is judged in small worlds; here a process may be refused for many reasons."""

    scene: Scene

    def __init__(self, oracle: Oracle) -> None:
        self._oracle = oracle

    def publishing(self, note: Note) -> None:
        if not self.scene.setting.optimistic or note.action == "savepoint":
            return
        ours = self._groups(note.request_time)
        for other in self._oracle.writes(after=note.request_time, until=note.completion):
            if other.request_time == note.request_time or other.request_time in self._oracle.undone:
                continue
            met = ours & self._groups(other.request_time)
            if met:
                raise Violation(
                    "12 optimistic writers do not meet",
                    f"{describe(note.request_time)} did not know of {describe(other.request_time)}, which wrote {min(met)}, too",
                )

    def _groups(self, request_time: str) -> set[tuple[str, str]]:
        """Where a write has rows; none for services, which plan beside writers and are settled there."""
        intent, setting = self._oracle.intents.get(request_time), self.scene.setting
        return {group_of(c.key, setting.partitions, setting.buckets) for c in (intent.changes if intent else ())}
