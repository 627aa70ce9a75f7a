# SPDX-License-Identifier: Apache-2.0
"""13. Consecutive reads of changes, joined, contain every published change once: nothing appears behind a reader."""

from __future__ import annotations

from typing import Any

from simulator.oracle import Note, Oracle, Rows, describe
from simulator.world.violation import Violation


class ChangesExactlyOnce:
    def __init__(self, oracle: Oracle) -> None:
        self._oracle = oracle
        self._read_until = "0"

    def publishing(self, note: Note) -> None:
        if note.completion < self._read_until and note.action != "savepoint":
            raise Violation(
                "13 changes exactly once",
                f"{describe(note.request_time)} appeared at {describe(note.completion)}, and changes were read until "
                f"{describe(self._read_until)}",
            )

    def changes_read(
        self, reader: str, after: str, until: str, request_times: list[str], mirror: Rows, began: int, ended: int
    ) -> None:
        """A reader took the writes `request_times` for those of (after, until], and its mirror is now `mirror`."""
        self._read_until = max(self._read_until, until)
        moments = self._oracle.undone_between(began, ended)
        if not any(self._is_true(after, until, request_times, mirror, undone) for undone in moments):
            self._explain(reader, after, until, request_times, mirror, moments[-1])

    def _is_true(self, after: str, until: str, request_times: list[str], mirror: Rows, undone: frozenset[str]) -> bool:
        missing, extra = self._differences(after, until, request_times, undone)
        return not missing and not extra and mirror == self._oracle.table(until, undone)

    def _differences(
        self, after: str, until: str, request_times: list[str], undone: frozenset[str]
    ) -> tuple[list[str], list[str]]:
        expected = {n.request_time for n in self._oracle.writes(after, until)} - undone
        # Archived writes are looked up only where that matters; their rows are compared all the same.
        return sorted(expected - {*request_times} - self._oracle.archived), sorted({*request_times} - expected)

    def _explain(
        self, reader: str, after: str, until: str, request_times: list[str], mirror: Rows, undone: frozenset[str]
    ) -> None:
        missing, extra = self._differences(after, until, request_times, undone)
        if missing or extra:
            raise Violation(
                "13 changes exactly once",
                f"{reader} from {describe(after)} to {describe(until)} missed {[*map(describe, missing)]} and has "
                f"{[*map(describe, extra)]} too many",
            )
        table = self._oracle.table(until, undone)
        raise Violation(
            "13 changes exactly once", f"{reader}'s mirror at {describe(until)} is {mirror}, expected {table}"
        )

    def healed(self, scene: Any) -> None:
        for reader, position, mirror in scene.mirrors():
            if mirror not in self._oracle.tables(position, 0, scene.world.step):
                raise Violation("13 changes exactly once", f"{reader}'s mirror went astray at {describe(position)}")
