# SPDX-License-Identifier: Apache-2.0
"""3. All files of a published instant exist when it is published, and until they are cleaned."""

from __future__ import annotations

from typing import Any

from lakebraid.format.names import parse_data_file
from lakebraid.format.timeline.commit import parse_commit
from simulator.oracle import TIMELINE, WRITES, Note, Oracle, describe
from simulator.stand_ins.tasks import by_group
from simulator.world.violation import Violation


class NeverHalfACommit:
    def __init__(self, oracle: Oracle) -> None:
        self._oracle = oracle
        self._needed: dict[str, str] = {}
        self.scene: Any = None

    def publishing(self, note: Note) -> None:
        if note.action not in WRITES or not note.data:
            return
        names = parse_commit(note.data, "the commit").file_paths
        for name in names:
            if name not in self.scene.world.disk.objects:
                raise Violation("3 never half a commit", f"{describe(note.request_time)} was published without {name}")
            self._needed[name] = note.request_time
        self._check_intent(note, names)

    filled = publishing
    """Of a commit of Hudi that appeared empty."""

    def _check_intent(self, note: Note, names: tuple[str, ...]) -> None:
        intent = self._oracle.intents.get(note.request_time)
        if intent is not None:
            setting = self.scene.setting
            for (partition, file_id), _ in by_group(intent.changes, setting.partitions, setting.buckets):
                stem = "" if setting.placed else f"{file_id[:8]}-"
                own = (n for n in names if n.startswith((f"{partition}/.{stem}", f"{partition}/{stem}")))
                if not any(f"_{note.request_time}." in n for n in own):
                    raise Violation(
                        "3 never half a commit", f"{describe(note.request_time)} names no file of {partition}"
                    )

    def effect(self, what: str, name: str) -> None:
        if what == "delete" and name in self._oracle.doomed:
            return
        if what == "delete" and self._is_undone(name):
            self._check_unpublished(name)
            return
        if what == "delete" and name in self._needed:
            raise Violation("3 never half a commit", f"{name} of published {describe(self._needed[name])} was deleted")
        if what == "delete":
            self._check_planned(name)

    def _is_undone(self, name: str) -> bool:
        parsed = parse_data_file(name.rpartition("/")[2])
        return parsed is not None and parsed.request_time in self._oracle.undone

    def _check_unpublished(self, name: str) -> None:
        """Whoever does not know of a restore sees a commit as long as its files are there, and no longer."""
        parsed = parse_data_file(name.rpartition("/")[2])
        note = self._oracle.published.get(parsed.request_time) if parsed else None
        if note and f"{TIMELINE}{note.request_time}_{note.completion}.{note.action}" in self.scene.world.disk.objects:
            raise Violation(
                "3 never half a commit", f"{name} was removed before {describe(note.request_time)} was un-published"
            )

    def _check_planned(self, name: str) -> None:
        parsed = parse_data_file(name.rpartition("/")[2])
        if parsed is not None and parsed.request_time in self._oracle.published:
            note = self._oracle.published[parsed.request_time]
            if not note.data or name.encode() in note.data:
                raise Violation("3 never half a commit", f"{name} of {describe(note.request_time)} was deleted")
