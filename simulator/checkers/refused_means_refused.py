# SPDX-License-Identifier: Apache-2.0
"""11. After "refused" nothing of a write is ever visible; after "published" it always is; "unknown" becomes one of both."""

from __future__ import annotations

from typing import Any

from simulator.oracle import Note, Oracle, describe
from simulator.world.violation import Violation


class RefusedMeansRefused:
    def __init__(self, oracle: Oracle) -> None:
        self._oracle = oracle
        self._told: dict[str, str] = {}

    def resolved(self, request_time: str, outcome: str) -> None:
        if request_time in self._oracle.undone:
            return  # it was published perhaps, and is gone
        before = self._told.get(request_time)
        if before in ("published", "refused") and outcome not in (before, "open"):
            raise Violation("11 refused means refused", f"{describe(request_time)} was {before}, and is {outcome} now")
        self._told[request_time] = outcome
        is_there = request_time in self._oracle.published
        if outcome == "published" and not is_there:
            raise Violation(
                "11 refused means refused", f"{describe(request_time)} is called published and is not there"
            )
        if outcome in ("refused", "not done") and is_there:
            raise Violation("11 refused means refused", f"{describe(request_time)} is called {outcome} and is there")

    def publishing(self, note: Note) -> None:
        told = self._told.get(note.request_time)
        if told in ("refused", "not done"):
            raise Violation(
                "11 refused means refused", f"{describe(note.request_time)} was {told} and is published now"
            )

    def healed(self, scene: Any) -> None:
        for request_time in scene.open_request_times():
            raise Violation("11 refused means refused", f"{describe(request_time)} never became published or refused")
