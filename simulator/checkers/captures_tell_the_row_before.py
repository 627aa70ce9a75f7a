# SPDX-License-Identifier: Apache-2.0
"""22. Where changes are captured, the slice that a commit names holds the rows as they were before it, and no others."""

from __future__ import annotations

from typing import Any

from lakebraid.format.timeline.commit import WriteStat, parse_commit
from simulator.oracle import Note, Oracle, Rows
from simulator.stand_ins.tasks import group_of, merge, read_placed, read_versions, rows_of
from simulator.world.violation import Violation

_RULE = "22 captures tell the row before"


class CapturesTellTheRowBefore:
    def __init__(self, oracle: Oracle) -> None:
        self._oracle = oracle
        self.scene: Any = None

    def publishing(self, note: Note) -> None:
        is_write = note.action == "deltacommit" and note.request_time in self._oracle.intents
        if not self.scene.setting.captures or not is_write:
            return
        for partition, stats in parse_commit(note.data, "the commit").write_stats.items():
            for stat in stats:
                if stat.log_files:
                    self._check(note, partition, stat, {s.path for s in stats})

    def _check(self, note: Note, partition: str, stat: WriteStat, own: set[str | None]) -> None:
        if not stat.base_file:
            raise Violation(
                _RULE, f"{note.request_time} begins {stat.file_id} without a base file: Hudi's query cannot read it"
            )
        logs = [f"{partition}/{name.removeprefix('./')}" for name in stat.log_files or ()]
        told = self._rows(f"{partition}/{stat.base_file}", [name for name in logs if name not in own])
        expected = self._before(note.completion, partition, stat.file_id or "")
        if told != expected:
            raise Violation(_RULE, f"{note.request_time} tells that {stat.file_id} held {told}, and it held {expected}")
        self.scene.mark("a slice before was told")

    def _rows(self, base: str, logs: list[str]) -> Rows:
        """What a CDC reader takes for the rows before."""
        objects = self.scene.world.disk.objects
        missing = [name for name in (base, *logs) if name not in objects]
        if missing:
            raise Violation(_RULE, f"{missing[0]} is named as part of a slice, and is not there")
        versions = [*read_versions(objects[base][0]), *read_placed([objects[name][0] for name in logs])]
        return rows_of(merge(versions, by_event=self._oracle.by_event))

    def _before(self, completion: str, partition: str, file_id: str) -> Rows:
        earlier = max((n.completion for n in self._oracle.notes if n.completion < completion), default="0")
        setting, rows = self.scene.setting, self._oracle.table(earlier)
        places = {key: group_of(key, setting.partitions, setting.buckets) for key in rows}
        return {
            k: rows[k] for k, (folder, bucket) in places.items() if (folder, bucket[:8]) == (partition, file_id[:8])
        }
