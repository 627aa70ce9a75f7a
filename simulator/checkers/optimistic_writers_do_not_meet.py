# SPDX-License-Identifier: Apache-2.0
"""12. Of two published optimistic writes of one bucket one began after the other was published: else it did not know of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simulator.oracle import Note, Oracle, describe
from simulator.tasks import group_of
from simulator.violation import Violation

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
        ours = self._groups(note.start)
        for other in self._oracle.writes(after=note.start, until=note.completion):
            if other.start == note.start or other.start in self._oracle.undone:
                continue
            met = ours & self._groups(other.start)
            if met:
                raise Violation(
                    "12 optimistic writers do not meet",
                    f"{describe(note.start)} did not know of {describe(other.start)}, which wrote {min(met)}, too",
                )

    def _groups(self, start: str) -> set[tuple[str, str]]:
        """Where a write has rows; none for services, which plan beside writers and are settled there."""
        intent, setting = self._oracle.intents.get(start), self.scene.setting
        return {group_of(c.key, setting.partitions, setting.buckets) for c in (intent.changes if intent else ())}
