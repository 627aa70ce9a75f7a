# SPDX-License-Identifier: Apache-2.0
"""9. What was rolled back is never published afterwards, what was published never rolled back, and the pending files
of a finished rollback's victim do not come back.
"""

from __future__ import annotations

from simulator.oracle import Note, Oracle, describe
from simulator.violation import Violation


class TheDeadStayDead:
    def __init__(self, oracle: Oracle) -> None:
        self._oracle = oracle
        self._victim_of: dict[str, str] = {}
        self._buried: set[str] = set()

    def publishing(self, note: Note) -> None:
        if note.start in self._oracle.sentenced:
            raise Violation("9 the dead stay dead", f"{describe(note.start)} was published after its rollback")
        if note.action == "rollback" and note.start in self._victim_of:
            self._buried.add(self._victim_of[note.start])

    def sentenced(self, rollback: str, victim: str) -> None:
        self._victim_of[rollback] = victim
        if victim in self._oracle.published:
            raise Violation("9 the dead stay dead", f"published {describe(victim)} was rolled back")

    def withdrawn(self, start: str, completion: str | None, action: str, _state: str | None) -> None:
        if completion is not None:
            raise Violation("9 the dead stay dead", f"the completed {action} {describe(start)} was taken back")

    def appeared(self, start: str, action: str, state: str) -> None:
        if start in self._buried:
            raise Violation("9 the dead stay dead", f"{describe(start)}.{action}.{state} came back after its rollback")
