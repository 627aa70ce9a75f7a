# SPDX-License-Identifier: Apache-2.0
"""9. What was rolled back is never published afterwards, what was published never rolled back, and the pending files
of a finished rollback's victim do not come back.
"""

from __future__ import annotations

from typing import Any

from simulator.history import archived_instants
from simulator.oracle import WRITES, Note, Oracle, describe
from simulator.world.violation import Violation

PENDING_WRITES = WRITES | {"compaction", "logcompaction", "clustering"}


class TheDeadStayDead:
    def __init__(self, oracle: Oracle) -> None:
        self._oracle = oracle
        self.scene: Any = None
        self._victim_of: dict[str, str] = {}
        self._buried: set[str] = set()

    def publishing(self, note: Note) -> None:
        intent = self._oracle.intents.get(note.request_time)
        if intent is not None and intent.outcome == "foreign" and note.request_time in self._oracle.sentenced:
            del self._oracle.sentenced[note.request_time]  # nothing stops a slow Hudi writer; then its rollback must
        if note.request_time in self._oracle.sentenced:
            raise Violation("9 the dead stay dead", f"{describe(note.request_time)} was published after its rollback")
        if note.action in WRITES and note.request_time in self._oracle.undone:
            raise Violation(
                "9 the dead stay dead", f"{describe(note.request_time)} was published after it was restored away"
            )
        if note.action == "rollback" and note.request_time in self._victim_of:
            self._buried.add(self._victim_of[note.request_time])

    def sentenced(self, rollback: str, victim: str) -> None:
        self._victim_of[rollback] = victim
        if victim in self._oracle.published and victim not in self._oracle.undone:
            raise Violation("9 the dead stay dead", f"published {describe(victim)} was rolled back")

    def withdrawn(self, request_time: str, completion: str | None, action: str, _state: str | None) -> None:
        if action == "savepoint" or (action in WRITES and request_time in self._oracle.undone):
            return
        if completion is not None and (request_time, action) in archived_instants(self.scene.world.disk):
            self._oracle.archived.add(request_time)
            return
        if completion is not None:
            raise Violation("9 the dead stay dead", f"the completed {action} {describe(request_time)} was taken back")

    def appeared(self, request_time: str, action: str, state: str) -> None:
        intent = self._oracle.intents.get(request_time)
        if intent is not None and intent.outcome == "foreign":
            return  # a slow Hudi writer makes its own inflight file; it is rolled back once more
        if request_time in self._oracle.archived and action != "savepoint":
            raise Violation(
                "9 the dead stay dead", f"{describe(request_time)}.{action}.{state} came back from the history"
            )
        if action in PENDING_WRITES and request_time in self._oracle.undone:
            raise Violation(
                "9 the dead stay dead", f"{describe(request_time)}.{action}.{state} came back after a restore"
            )
        if request_time in self._buried:
            raise Violation(
                "9 the dead stay dead", f"{describe(request_time)}.{action}.{state} came back after its rollback"
            )
