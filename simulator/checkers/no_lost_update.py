# SPDX-License-Identifier: Apache-2.0
"""1. Every published row is in every later read, unless a published row of the same key outranks it."""

from __future__ import annotations

from simulator.oracle import Oracle, describe
from simulator.reading import Answer
from simulator.world.violation import Violation


class NoLostUpdate:
    def __init__(self, oracle: Oracle) -> None:
        self._oracle = oracle

    def answered(self, answer: Answer) -> None:
        if answer.kind != "snapshot":
            return
        tables = self._oracle.tables(answer.completion, answer.began, answer.ended)
        if answer.rows in tables:
            return
        for key, row in tables[-1].items():
            if key not in answer.rows or answer.rows[key] < row:
                shown = answer.rows.get(key)
                raise Violation(
                    "1 no lost update",
                    f"{answer.reader} read {key} as {shown}, but {describe(row[1])} published {row} "
                    f"(as of {describe(answer.completion)})",
                )
