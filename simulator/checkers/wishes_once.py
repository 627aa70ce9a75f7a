# SPDX-License-Identifier: Apache-2.0
"""23. A wish is decided once; what an entry copies is there when it is created; no ask goes that could still be decided."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakebraid import limits
from lakebraid.format.metadata.commits import FOLDER
from lakebraid.txn.ledger.asks import parse_asks
from lakebraid.txn.ledger.entries import STAGED, Entry, parse_entry, parse_entry_name
from simulator.oracle import TIMELINE, Oracle
from simulator.world.violation import Violation

if TYPE_CHECKING:
    from simulator.scene import Scene

_NAME = "23 wishes once"


class WishesOnce:
    scene: Scene

    def __init__(self, _oracle: Oracle) -> None:
        self._newest: Entry | None = None
        self._decided: dict[str, int] = {}
        self._sources: set[str] = set()
        """Names that were ever staged or asked under."""
        self._appeared: set[str] = set()
        """Timeline files that were ever there."""

    def in_ledger(self, what: str, name: str, data: bytes) -> None:
        if name.startswith((TIMELINE, f"{FOLDER}/")):
            self._appeared.add(name)
        elif parse_entry_name(name) is not None:
            if what == "create":
                self._enter(parse_entry(data, name))
        elif name.startswith(f"{STAGED}/") or parse_asks([name]):
            if what == "delete":
                self._check_dead(name)
            elif name in self._sources:
                raise Violation(_NAME, f"{name} was put a second time")
            self._sources.add(name)

    def _enter(self, entry: Entry) -> None:
        if self._newest is not None and entry.number <= self._newest.number:
            return  # in a slot that was trimmed: it means nothing
        self._newest = entry
        for wish, told in entry.state.decided.items():
            if told.number == entry.number and self._decided.setdefault(wish, told.number) != told.number:
                raise Violation(_NAME, f"{wish} was decided in {self._decided[wish]}, and again in {told.number}")
        if self.scene.setting.shared:
            return  # beside Hudi an entry may be void
        missing = [
            s for s, target in entry.files if s not in self.scene.world.disk.objects and target not in self._appeared
        ]
        if missing:
            raise Violation(_NAME, f"entry {entry.number} copies {missing[0]}, which is not there")

    def _check_dead(self, name: str) -> None:
        for ask in parse_asks([name]):
            newest = self._newest
            if newest is None or ask.seen + limits.ASK_ENTRIES_MAX <= newest.number:
                return
            if ask.id not in self._decided:
                raise Violation(_NAME, f"{name} went, and could still be decided")
            if newest.number == self._decided[ask.id]:
                late = [target for _, target in newest.files if target not in self._appeared]
                if late:
                    raise Violation(_NAME, f"{name} went before {late[0]} was there")
