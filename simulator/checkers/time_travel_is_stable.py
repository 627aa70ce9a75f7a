# SPDX-License-Identifier: Apache-2.0
"""14. A read as of c gives the same answer for as long as c is retained."""

from __future__ import annotations

from typing import Any

from simulator.oracle import Oracle, describe
from simulator.reading import Answer
from simulator.world.violation import Violation


class TimeTravelIsStable:
    def __init__(self, oracle: Oracle) -> None:
        self._oracle = oracle
        self.scene: Any = None

    def expired(self, reader: str, kind: str, time: str, _began: int, why: str) -> None:
        """A reader was told that a version is gone. While it read without a lease, others may have written and cleaned."""
        oracle = self._oracle
        if oracle.may_be_refused(time, self.scene.world.step):
            return
        if kind == "held":
            raise Violation("14 time travel is stable", f"{reader} held {describe(time)}, and was told: {why}")
        if time >= min(oracle.retained_moments(), default="9"):
            raise Violation("14 time travel is stable", f"{describe(time)} is retained, but {reader} was told: {why}")

    def answered(self, answer: Answer) -> None:
        if answer.kind not in ("as_of", "held"):
            return
        if self._oracle.is_lost(answer.completion, answer.began - 1):
            raise Violation(
                "14 time travel is stable",
                f"{answer.reader} read the table as of {describe(answer.completion)}, which a restore had taken back",
            )
        tables = self._oracle.tables(answer.completion, answer.began, answer.ended)
        if answer.rows not in tables:
            raise Violation(
                "14 time travel is stable",
                f"{answer.reader} as of {describe(answer.completion)} read {answer.rows}, expected {tables}",
            )
