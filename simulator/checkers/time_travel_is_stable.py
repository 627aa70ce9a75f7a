# SPDX-License-Identifier: Apache-2.0
"""14. A read as of c gives the same answer for as long as c is retained."""

from __future__ import annotations

from simulator.oracle import Oracle, describe
from simulator.reading import Answer
from simulator.violation import Violation


class TimeTravelIsStable:
    def __init__(self, oracle: Oracle) -> None:
        self._oracle = oracle

    def answered(self, answer: Answer) -> None:
        if answer.kind != "as_of":
            return
        expected = self._oracle.table(answer.completion)
        if answer.rows != expected:
            raise Violation(
                "14 time travel is stable",
                f"{answer.reader} as of {describe(answer.completion)} read {answer.rows}, expected {expected}",
            )
