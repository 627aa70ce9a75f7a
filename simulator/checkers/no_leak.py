# SPDX-License-Identifier: Apache-2.0
"""15. After healing, every data file belongs to a published instant and is named by it. A finished rollback has removed
whatever its victim had written when it was condemned; only late files are left to the sweeper.
"""

from __future__ import annotations

from typing import Any

from lakebraid.format.names import parse_data_file
from simulator.oracle import Note, Oracle, describe
from simulator.world.violation import Violation


class NoLeak:
    def __init__(self, oracle: Oracle) -> None:
        self._oracle = oracle
        self._victim_of: dict[str, str] = {}
        self._doomed: dict[str, set[str]] = {}
        self._gone: set[str] = set()
        self.scene: Any = None

    def sentenced(self, rollback: str, victim: str) -> None:
        self._victim_of[rollback] = victim
        names = [n for n in self.scene.world.disk.names if not n.startswith(".hoodie") and victim in n]
        self._doomed[rollback] = set(names)

    def effect(self, what: str, name: str) -> None:
        if what == "delete":
            self._gone.add(name)
            for names in self._doomed.values():
                names.discard(name)  # if it comes again, it is a late one

    def published(self, note: Note) -> None:
        victim = self._victim_of.get(note.request_time, "")
        # A slow writer of Hudi was published after all; or a restore has the victim, and is not done.
        if note.action == "rollback" and victim not in self._oracle.published:
            left = sorted(self._doomed.get(note.request_time, set()) & self.scene.world.disk.objects.keys())
            if left:
                raise Violation(
                    "15 no leak", f"the rollback of {describe(self._victim_of[note.request_time])} left {left}"
                )

    def healed(self, scene: Any) -> None:
        for name in scene.world.disk.names:
            parsed = None if name.startswith(".hoodie") else parse_data_file(name.rpartition("/")[2])
            if parsed is None:
                continue
            note = self._oracle.published.get(parsed.request_time)
            if name in self._oracle.doomed and name in self._gone:
                continue  # a second, late request of its maker brought it back; the next clean takes it
            if name in self._oracle.doomed:
                raise Violation("15 no leak", f"{name} was left by the clean {describe(self._oracle.doomed[name])}")
            if parsed.request_time in self._oracle.undone:
                raise Violation(
                    "15 no leak", f"{name} of {describe(parsed.request_time)}, restored away, was left behind"
                )
            if note is None:
                raise Violation("15 no leak", f"{name} of {describe(parsed.request_time)} was left behind")
            # A late twin of an archived compaction goes with its slice.
            if note.data and name.encode() not in note.data and note.request_time not in self._oracle.archived:
                raise Violation("15 no leak", f"{name} is not named by its commit")
