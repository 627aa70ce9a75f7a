# SPDX-License-Identifier: Apache-2.0
"""11. After "refused" nothing of a write is ever visible; after "published" it always is; "unknown" becomes one of both."""

from __future__ import annotations

from typing import Any

from simulator.oracle import Note, Oracle, describe
from simulator.violation import Violation


class RefusedMeansRefused:
    def __init__(self, oracle: Oracle) -> None:
        self._oracle = oracle
        self._told: dict[str, str] = {}

    def resolved(self, start: str, outcome: str) -> None:
        if start in self._oracle.undone:
            return  # it was published perhaps, and is gone
        before = self._told.get(start)
        if before in ("published", "refused") and outcome not in (before, "open"):
            raise Violation("11 refused means refused", f"{describe(start)} was {before}, and is {outcome} now")
        self._told[start] = outcome
        is_there = start in self._oracle.published
        if outcome == "published" and not is_there:
            raise Violation("11 refused means refused", f"{describe(start)} is called published and is not there")
        if outcome in ("refused", "not done") and is_there:
            raise Violation("11 refused means refused", f"{describe(start)} is called {outcome} and is there")

    def publishing(self, note: Note) -> None:
        told = self._told.get(note.start)
        if told in ("refused", "not done"):
            raise Violation("11 refused means refused", f"{describe(note.start)} was {told} and is published now")

    def healed(self, scene: Any) -> None:
        for start in scene.open_starts():
            raise Violation("11 refused means refused", f"{describe(start)} never became published or refused")
