# SPDX-License-Identifier: Apache-2.0
"""6. Completion times rise in the order of publishing, no instant is published twice, and no time is given twice. Files that
appear side by side may come in any order, but only among those of one entry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simulator.oracle import Note, Oracle, describe
from simulator.world.violation import Violation

if TYPE_CHECKING:
    from simulator.scene import Scene


class CompletionTimesRise:
    scene: Scene

    def __init__(self, oracle: Oracle) -> None:
        self._oracle = oracle
        self._greatest = ""
        self._begun: set[str] = set()
        self._given: set[str] = set()

    def publishing(self, note: Note) -> None:
        is_beside = self._oracle.group_of(note.completion) is not None
        if note.action == "savepoint":
            self._fresh(note.completion, f"the savepoint {describe(note.request_time)} was set", is_beside=is_beside)
            return
        if any(self._is_same(n, note) and n.completion != note.completion for n in self._oracle.notes):
            raise Violation("6 completion times rise", f"{describe(note.request_time)} was published twice")
        if any(self._is_same(n, note) for n in self._oracle.notes):
            raise Violation(
                "6 completion times rise", f"{describe(note.request_time)} appeared again after it was removed"
            )
        what = f"{describe(note.request_time)} was published as {describe(note.completion)}"
        self._fresh(note.completion, what, is_beside=is_beside)
        if note.completion <= note.request_time:
            raise Violation("6 completion times rise", f"{describe(note.request_time)} ended before it began")

    @staticmethod
    def _is_same(one: Note, other: Note) -> bool:
        return one.request_time == other.request_time and "savepoint" not in (one.action, other.action)

    def appeared(self, request_time: str, action: str, state: str) -> None:
        self._begins(request_time, f"a {action} began at {describe(request_time)}")

    def sentenced(self, rollback: str, victim: str) -> None:
        self._begins(rollback, f"the rollback of {describe(victim)} began at {describe(rollback)}")

    def _begins(self, request_time: str, what: str) -> None:
        if request_time not in self._begun:
            self._begun.add(request_time)
            self._fresh(request_time, what, is_beside=self.scene.setting.grouped)

    def _fresh(self, time: str, what: str, *, is_beside: bool) -> None:
        """`is_beside`: whether files of the same entry, which have later times, may be there before this one."""
        if time <= (self._oracle.before if is_beside else self._greatest) or time in self._given:
            raise Violation("6 completion times rise", f"{what}, when {describe(self._greatest)} had been given")
        self._greatest = max(self._greatest, time)
        self._given.add(time)
