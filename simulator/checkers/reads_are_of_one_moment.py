# SPDX-License-Identifier: Apache-2.0
"""2. A reader's answer equals the oracle at some completion time between its start and its end, and nothing that completed
before that time appears later.
"""

from __future__ import annotations

from simulator.oracle import Note, Oracle, describe
from simulator.reading import Answer
from simulator.world.violation import Violation


class ReadsAreOfOneMoment:
    def __init__(self, oracle: Oracle) -> None:
        self._oracle = oracle
        self._told = "0"
        """The greatest moment that a reader was told of."""

    def publishing(self, note: Note) -> None:
        if note.completion < self._told and note.action != "savepoint":
            raise Violation(
                "2 reads are of one moment",
                f"{describe(note.request_time)} completed at {describe(note.completion)} and appears after a reader was told of "
                f"{describe(self._told)}",
            )

    def answered(self, answer: Answer) -> None:
        if answer.kind != "snapshot":
            return
        self._told = max(self._told, answer.completion)
        earliest, latest = self._oracle.newest_at(answer.began), self._oracle.newest
        # While a restore goes on, the moment is that of its decision.
        latest = max(latest, *(r.request_time for r in self._oracle.restores), "0")
        if not earliest <= answer.completion <= latest:
            raise Violation(
                "2 reads are of one moment",
                f"{answer.reader} claims the moment {describe(answer.completion)}, but read between "
                f"{describe(earliest)} and {describe(latest)}",
            )
        tables = self._oracle.tables(answer.completion, answer.began, answer.ended)
        if answer.rows not in tables:
            raise Violation(
                "2 reads are of one moment",
                f"{answer.reader} as of {describe(answer.completion)} read {answer.rows}, expected {tables}",
            )
