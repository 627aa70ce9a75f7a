# SPDX-License-Identifier: Apache-2.0
"""25. Apache Hudi's readers, who take the files of the table from its metadata table, get those of published instants, and no others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakebraid.format.metadata.commits import FOLDER
from lakebraid.format.timeline.commit import parse_commit
from simulator.oracle import TIMELINE, Oracle
from simulator.world.metadata_table import hudi_lists
from simulator.world.violation import Violation

if TYPE_CHECKING:
    from simulator.scene import Scene


class BothTablesListTheSame:
    scene: Scene

    def __init__(self, oracle: Oracle) -> None:
        self._oracle = oracle
        self._named: dict[str, frozenset[str]] = {}

    def in_ledger(self, what: str, name: str, _data: bytes) -> None:
        if not self.scene.table.config.metadata_partitions or not self._oracle.published:
            return
        if name.startswith((f"{FOLDER}/", TIMELINE)):
            self._check(f"after the {what} of {name}")

    def _check(self, when: str) -> None:
        listed = hudi_lists(self.scene.world.disk)
        expected = {name for request_time in self._oracle.published for name in self._files(request_time)}
        # Files of a clean that is under way may be listed, or not any more.
        wrong = (listed ^ expected) - self._oracle.doomed.keys()
        if wrong:
            name = min(wrong)
            what = "lists, and it is not published" if name in listed else "does not list, and it is published"
            raise Violation("25 both tables list the same", f"{name} is what the metadata table {what}: {when}")

    def _files(self, request_time: str) -> frozenset[str]:
        known = self._named.get(request_time)
        if known is None:
            data = self._oracle.published[request_time].data
            known = self._named[request_time] = frozenset(parse_commit(data, request_time).file_paths)
        return known
