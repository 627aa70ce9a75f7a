# SPDX-License-Identifier: Apache-2.0
"""13. Consecutive reads of changes, joined, contain every published change once."""

from __future__ import annotations

from typing import Any

from simulator.oracle import Oracle, Rows, describe
from simulator.violation import Violation


class ChangesExactlyOnce:
    def __init__(self, oracle: Oracle) -> None:
        self._oracle = oracle

    def changes_read(self, reader: str, after: str, until: str, starts: list[str], mirror: Rows) -> None:
        """A reader took the writes `starts` for those of (after, until], and its mirror is now `mirror`."""
        expected = sorted(n.start for n in self._oracle.writes(after, until))
        if sorted(starts) != expected:
            missing, extra = sorted({*expected} - {*starts}), sorted({*starts} - {*expected})
            raise Violation(
                "13 changes exactly once",
                f"{reader} from {describe(after)} to {describe(until)} missed {[*map(describe, missing)]} and has "
                f"{[*map(describe, extra)]} too many",
            )
        table = self._oracle.table(until)
        if mirror != table:
            raise Violation(
                "13 changes exactly once", f"{reader}'s mirror at {describe(until)} is {mirror}, expected {table}"
            )

    def healed(self, scene: Any) -> None:
        for reader, position, mirror in scene.mirrors():
            if mirror != self._oracle.table(position):
                raise Violation("13 changes exactly once", f"{reader}'s mirror went astray at {describe(position)}")
