# SPDX-License-Identifier: Apache-2.0
"""14. What a clean is decided to remove is needed by nobody: not now, not as of a retained or held moment, not by a plan."""

from __future__ import annotations

from typing import Any

from lakebraid.format.timeline.plans import parse_compaction_plan
from simulator.oracle import TIMELINE, Note, Oracle, describe
from simulator.reading import read_all_seeing
from simulator.world.violation import Violation


class CleansTakeNothingNeeded:
    def __init__(self, oracle: Oracle) -> None:
        self._oracle = oracle
        self.scene: Any = None

    def cleaning(self, clean: str, names: dict[str, str]) -> None:
        """A clean was decided, and its plan has just appeared."""
        oracle, disk = self._oracle, self.scene.world.disk
        doomed = {*oracle.doomed, *names}
        for time, why in self._moments():
            rows, expected = read_all_seeing(disk, oracle, time, doomed), oracle.table(time)
            if rows != expected:
                raise Violation(
                    "14 time travel is stable",
                    f"the clean {describe(clean)} dooms files of {describe(time)} ({why}): {rows} is left of {expected}",
                )
        self._check_plans(clean, names)

    def published(self, note: Note) -> None:
        """A savepoint that is set must find its files, and none of them doomed."""
        pinned = self._oracle.published.get(note.request_time)
        if note.action != "savepoint" or pinned is None:
            return
        rows = read_all_seeing(self.scene.world.disk, self._oracle, pinned.completion, self._oracle.doomed)
        expected = self._oracle.table(pinned.completion)
        if rows != expected:
            raise Violation(
                "14 time travel is stable",
                f"the savepoint {describe(note.request_time)} was set, but of {expected} only {rows} will be left",
            )

    def _moments(self) -> list[tuple[str, str]]:
        oracle = self._oracle
        found = [(time, "retained") for time in oracle.retained_moments()]
        found += [(time, f"held by {who}") for who, time in self.scene.held_moments()]
        found += [
            (time, f"the savepoint {describe(request_time)}") for request_time, time in self.scene.savepoints.items()
        ]
        return [(time, why) for time, why in found if not oracle.is_lost(time, self.scene.world.step)]

    def _check_plans(self, clean: str, names: dict[str, str]) -> None:
        disk, done = self.scene.world.disk, self._oracle.published
        for info in disk.folder(TIMELINE)[0]:
            request_time, _, rest = info.name[len(TIMELINE) :].partition(".")
            if rest not in ("compaction.requested", "logcompaction.requested") or request_time in done:
                continue
            if request_time in self._oracle.sentenced or request_time in self._oracle.undone:
                continue
            for o in parse_compaction_plan(disk.objects[info.name][0], "the plan").operations:
                inputs = {f"{o.partition_path}/{n}" for n in (o.data_file_name, *o.delta_file_names) if n}
                if inputs & names.keys():
                    raise Violation(
                        "3 never half a commit",
                        f"the clean {describe(clean)} dooms {min(inputs & names.keys())}, input of {describe(request_time)}",
                    )
