# SPDX-License-Identifier: Apache-2.0
"""5. Compaction changes no answer: straight after it, and for Apache Hudi's way of reading too."""

from __future__ import annotations

from typing import Any

from simulator.history import archived_instants
from simulator.oracle import Note, Oracle, Rows, describe
from simulator.reading import HudiAnswer, read_all_seeing
from simulator.stand_ins.tasks import group_of
from simulator.world.violation import Violation


class MergesAgree:
    def __init__(self, oracle: Oracle) -> None:
        self._oracle = oracle
        self.scene: Any = None
        self._removed = -1
        """The last step at which a data file went."""

    def effect(self, what: str, _name: str) -> None:
        if what == "delete":
            self._removed = self.scene.world.step

    def published(self, note: Note) -> None:
        if note.action == "commit" or b"LOG_COMPACT" in note.data or b"CLUSTER" in note.data:
            self._compare(read_all_seeing(self.scene.world.disk, self._oracle), f"after compaction {note.request_time}")

    def healed(self, scene: Any) -> None:
        self._compare(read_all_seeing(scene.world.disk, self._oracle), "at the end")

    def _compare(self, rows: Rows, when: str) -> None:
        expected = self._oracle.table(self._oracle.newest)
        if rows != expected:
            raise Violation("5 merges agree", f"{when} the files hold {rows}, expected {expected}")

    def hudi_answered(self, reader: str, answer: HudiAnswer, began: int) -> None:
        """Hudi shows what the oracle has, but for hidden groups (trap 1) and ties between ordering values."""
        setting = self.scene.setting
        # What is archived counts as committed, and may have completed after all that is still on the timeline.
        archived = {request_time for request_time, _ in archived_instants(self.scene.world.disk)}
        newest = max(
            (*answer.completions, *(n.completion for n in self._oracle.notes if n.request_time in archived)),
            default="0",
        )
        hidden = {_bucket(group) for group in answer.hidden}
        if self._removed >= began or any(r.step >= began for r in self._oracle.restores):
            return  # it was slow, and files went under its hands
        # Hudi knows nothing of a restore that is decided: what is on the timeline counts.
        shown_still = {n.request_time for n in self._oracle.notes if n.completion in answer.completions}
        skipped = self._skipped(reader, answer, newest, began)
        for key, row in self._oracle.table(newest, frozenset(self._oracle.undone) - shown_still | skipped).items():
            if _bucket(group_of(key, setting.partitions, setting.buckets)) in hidden or not self._oracle.by_event:
                continue
            shown = answer.rows.get(key)
            if shown is None and self._has_equal_delete(key, row[0], newest):
                continue
            if shown is None or shown[0] != row[0]:
                raise Violation(
                    "5 merges agree", f"{reader} (as Hudi) read {key} as {shown} at {describe(newest)}, expected {row}"
                )

    def _skipped(self, reader: str, answer: HudiAnswer, newest: str, began: int) -> frozenset[str]:
        """Writes that completed before what Hudi saw last, and that it did not see: where commits of one entry appear side by
        side these are of the same entry, and appeared while it looked. An incremental reader of Hudi never returns for them.
        """
        group = self._oracle.group_of(newest)
        since = newest if group is None else group.since
        late = [n for n in self._oracle.writes(since, newest) if n.completion not in answer.completions]
        seen = [n for n in late if n.step < began and n.request_time not in self._oracle.archived]
        if seen:
            raise Violation(
                "5 merges agree",
                f"{reader} (as Hudi) did not see {describe(seen[0].request_time)}, which was there before it looked",
            )
        if late or any(c not in answer.completions for c in (group.completions if group else ()) if c < newest):
            self.scene.mark("a plain incremental reader skipped a commit")
        return frozenset(n.request_time for n in late if n.request_time not in self._oracle.archived)

    def _has_equal_delete(self, key: str, order: int, newest: str) -> bool:
        notes = self._oracle.writes(until=newest)
        changes = [
            c
            for n in notes
            if n.request_time in self._oracle.intents
            for c in self._oracle.intents[n.request_time].changes
        ]
        return any(c.key == key and c.value is None and c.order == order for c in changes)


def _bucket(group: tuple[str, str]) -> tuple[str, str]:
    """Partition and number of the bucket that a file group is of, whatever overwrites made of its id."""
    return group[0], group[1][:8]
