# SPDX-License-Identifier: Apache-2.0
"""17. An overwrite replaces nothing that was published after it had begun: its user could not have known of it."""

from __future__ import annotations

from simulator.oracle import Note, Oracle, describe
from simulator.world.violation import Violation


class OverwritesDropNothing:
    def __init__(self, oracle: Oracle) -> None:
        self._oracle = oracle

    def publishing(self, note: Note) -> None:
        intent = self._oracle.intents.get(note.request_time)
        if note.action == "savepoint" or intent is None or intent.replaces == frozenset():
            return
        for other in self._oracle.writes(after=note.request_time, until=note.completion):
            known = self._oracle.intents.get(other.request_time)
            if known is None or other.request_time == note.request_time or other.request_time in self._oracle.undone:
                continue
            touched = {self._oracle.partition_of(change.key) for change in known.changes}
            met = touched if intent.replaces is None else touched & intent.replaces
            if met:
                raise Violation(
                    "17 overwrites drop nothing",
                    f"the overwrite {describe(note.request_time)} drops rows of {describe(other.request_time)} in {min(met)}",
                )
