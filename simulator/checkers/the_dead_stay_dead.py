# SPDX-License-Identifier: Apache-2.0
"""9. What was rolled back is never published afterwards, what was published never rolled back, and the pending files
of a finished rollback's victim do not come back.
"""

from __future__ import annotations

from typing import Any

from simulator.history import archived_instants
from simulator.oracle import WRITES, Note, Oracle, describe
from simulator.violation import Violation

PENDING_WRITES = WRITES | {"compaction", "logcompaction", "clustering"}


class TheDeadStayDead:
    def __init__(self, oracle: Oracle) -> None:
        self._oracle = oracle
        self.scene: Any = None
        self._victim_of: dict[str, str] = {}
        self._buried: set[str] = set()

    def publishing(self, note: Note) -> None:
        intent = self._oracle.intents.get(note.start)
        if intent is not None and intent.outcome == "foreign" and note.start in self._oracle.sentenced:
            del self._oracle.sentenced[note.start]  # nothing stops a slow Hudi writer; then its rollback must
        if note.start in self._oracle.sentenced:
            raise Violation("9 the dead stay dead", f"{describe(note.start)} was published after its rollback")
        if note.action in WRITES and note.start in self._oracle.undone:
            raise Violation("9 the dead stay dead", f"{describe(note.start)} was published after it was restored away")
        if note.action == "rollback" and note.start in self._victim_of:
            self._buried.add(self._victim_of[note.start])

    def sentenced(self, rollback: str, victim: str) -> None:
        self._victim_of[rollback] = victim
        if victim in self._oracle.published and victim not in self._oracle.undone:
            raise Violation("9 the dead stay dead", f"published {describe(victim)} was rolled back")

    def withdrawn(self, start: str, completion: str | None, action: str, _state: str | None) -> None:
        if action == "savepoint" or (action in WRITES and start in self._oracle.undone):
            return
        if completion is not None and (start, action) in archived_instants(self.scene.world.disk):
            self._oracle.archived.add(start)
            return
        if completion is not None:
            raise Violation("9 the dead stay dead", f"the completed {action} {describe(start)} was taken back")

    def appeared(self, start: str, action: str, state: str) -> None:
        intent = self._oracle.intents.get(start)
        if intent is not None and intent.outcome == "foreign":
            return  # a slow Hudi writer makes its own inflight file; it is rolled back once more
        if start in self._oracle.archived and action != "savepoint":
            raise Violation("9 the dead stay dead", f"{describe(start)}.{action}.{state} came back from the history")
        if action in PENDING_WRITES and start in self._oracle.undone:
            raise Violation("9 the dead stay dead", f"{describe(start)}.{action}.{state} came back after a restore")
        if start in self._buried:
            raise Violation("9 the dead stay dead", f"{describe(start)}.{action}.{state} came back after its rollback")
