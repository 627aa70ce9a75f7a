# SPDX-License-Identifier: Apache-2.0
"""14. A read as of c gives the same answer for as long as c is retained."""

from __future__ import annotations

from typing import Any

from simulator.oracle import Oracle, describe
from simulator.reading import Answer
from simulator.violation import Violation


class TimeTravelIsStable:
    def __init__(self, oracle: Oracle) -> None:
        self._oracle = oracle
        self.scene: Any = None
        self._let_go = ""
        """Cleans were free to take what is older. A restore that makes fewer versions count brings none of it back."""

    def cleaning(self, _clean: str, _names: dict[str, str]) -> None:
        self._let_go = max(self._let_go, self._retained_since())

    def expired(self, reader: str, kind: str, time: str, _began: int, why: str) -> None:
        """A reader was told that a version is gone. While it read without a lease, others may have written and cleaned."""
        oracle = self._oracle
        if oracle.may_be_refused(time, self.scene.world.step):
            return
        if kind == "held":
            raise Violation("14 time travel is stable", f"{reader} held {describe(time)}, and was told: {why}")
        if time >= max(self._retained_since(), self._let_go):
            raise Violation("14 time travel is stable", f"{describe(time)} is retained, but {reader} was told: {why}")

    def _retained_since(self) -> str:
        oracle = self._oracle
        done = [n.completion for n in oracle.writes() if n.start not in oracle.undone]
        return done[-self.scene.setting.retained :][0] if done else "9"

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
