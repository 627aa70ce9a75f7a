# SPDX-License-Identifier: Apache-2.0
"""6. Completion times rise in the order of publishing, no instant is published twice, and no time is given twice."""

from __future__ import annotations

from simulator.oracle import Note, Oracle, describe
from simulator.violation import Violation


class CompletionTimesRise:
    def __init__(self, oracle: Oracle) -> None:
        self._oracle = oracle
        self._greatest = ""
        self._begun: set[str] = set()

    def publishing(self, note: Note) -> None:
        if note.action == "savepoint":
            self._fresh(note.completion, f"the savepoint {describe(note.start)} was set")
            return
        if any(self._is_same(n, note) and n.completion != note.completion for n in self._oracle.notes):
            raise Violation("6 completion times rise", f"{describe(note.start)} was published twice")
        if any(self._is_same(n, note) for n in self._oracle.notes):
            raise Violation("6 completion times rise", f"{describe(note.start)} appeared again after it was removed")
        self._fresh(note.completion, f"{describe(note.start)} was published as {describe(note.completion)}")
        if note.completion <= note.start:
            raise Violation("6 completion times rise", f"{describe(note.start)} ended before it began")

    @staticmethod
    def _is_same(one: Note, other: Note) -> bool:
        return one.start == other.start and "savepoint" not in (one.action, other.action)

    def appeared(self, start: str, action: str, state: str) -> None:
        if start not in self._begun:
            self._begun.add(start)
            self._fresh(start, f"a {action} began at {describe(start)}")

    def sentenced(self, rollback: str, victim: str) -> None:
        if rollback not in self._begun:
            self._begun.add(rollback)
            self._fresh(rollback, f"the rollback of {describe(victim)} began at {describe(rollback)}")

    def _fresh(self, time: str, what: str) -> None:
        if time <= self._greatest:
            raise Violation("6 completion times rise", f"{what}, when {describe(self._greatest)} had been given")
        self._greatest = time
