# SPDX-License-Identifier: Apache-2.0
"""16. Healing ends within its bound, which is the world's, and nothing is pending afterwards."""

from __future__ import annotations

import re
from typing import Any

from simulator.oracle import TIMELINE, Oracle
from simulator.world.violation import Violation

_PENDING = re.compile(r"(\d{17})\.[a-z]+\.(?:requested|inflight)")


class Liveness:
    def __init__(self, oracle: Oracle) -> None:
        self._oracle = oracle

    def healed(self, scene: Any) -> None:
        done = {n.request_time for n in self._oracle.notes if n.action != "savepoint"}
        for name in scene.world.disk.names:
            found = _PENDING.fullmatch(name.removeprefix(TIMELINE))
            if found and found[1] not in done and not _is_torn_plan(name, scene.world.disk.objects[name][0]):
                raise Violation("16 liveness", f"{name} is still pending after healing")


def _is_torn_plan(name: str, data: bytes) -> bool:
    """A piece of a plan that a job of Hudi's left when it died: nobody can execute it, nobody may remove it (F20)."""
    return name.endswith("compaction.requested") and not data
