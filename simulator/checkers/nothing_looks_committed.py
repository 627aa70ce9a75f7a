# SPDX-License-Identifier: Apache-2.0
"""4. Hudi takes every file older than the first write of the timeline for committed: none of an unpublished write is."""

from __future__ import annotations

import re
from datetime import UTC
from typing import Any

from lakebraid.format.names import parse_data_file
from lakebraid.format.times import parse_instant_time
from simulator.oracle import TIMELINE, WRITES, Oracle, describe
from simulator.world.violation import Violation

_WRITE = re.compile(r"(\d{17})[^.]*\.([a-z]+)(?:\.[a-z]+)?")
_ACTIONS = WRITES | {"compaction", "logcompaction", "clustering"}


class NothingLooksCommitted:
    def __init__(self, oracle: Oracle) -> None:
        self._oracle = oracle
        self.scene: Any = None

    def withdrawn(self, request_time: str, completion: str | None, action: str, _state: str | None) -> None:
        if completion is not None and action in WRITES:
            self._check_request_times()
            first = self._first_active()
            for name in self.scene.world.disk.names:
                if not name.startswith(".hoodie"):
                    self._check(name, first)

    def _check_request_times(self) -> None:
        """A completed write older than every open or lately rolled-back one stays: late files of theirs may still come."""
        oracle = self._oracle
        older = min((s for s in self._active() if s in oracle.published and s not in oracle.undone), default="9")
        late = [
            request_time for request_time in (*oracle.sentenced, *oracle.undone) if not self._is_forgotten(request_time)
        ]
        for request_time in (*self.scene.open_request_times(), *late):
            if request_time < older and not self._is_foreign(request_time):
                raise Violation(
                    "4 nothing unpublished is visible",
                    f"no completed write before {describe(request_time)} is left on the timeline: Hudi takes late files of it for "
                    "committed",
                )

    def effect(self, what: str, name: str) -> None:
        if what == "create" and self._oracle.archived:
            self._check(name, self._first_active())

    def _check(self, name: str, first: str) -> None:
        parsed = parse_data_file(name.rpartition("/")[2])
        if parsed is None or parsed.request_time >= first:
            return
        request_time, oracle = parsed.request_time, self._oracle
        if (request_time in oracle.published and request_time not in oracle.undone) or self._is_foreign(request_time):
            return
        if self._is_forgotten(request_time):
            return
        raise Violation(
            "4 nothing unpublished is visible",
            f"{name} of {describe(request_time)}, which is not published, is older than the timeline, which begins with "
            f"{describe(first)}: Hudi takes it for committed",
        )

    def _is_forgotten(self, request_time: str) -> bool:
        """Whether it ended so long ago that nobody reckons with late files of it any more."""
        oracle = self._oracle
        if request_time in oracle.undone:
            ended_ms: float = parse_instant_time(oracle.undone[request_time], UTC)
        elif request_time in oracle.sentenced:
            ended_ms = oracle.sentenced[request_time]
        else:
            return False
        return bool(self.scene.world.now - ended_ms > self.scene.setting.gone_ms)

    def _is_foreign(self, request_time: str) -> bool:
        """Whether it is a write of Apache Hudi: what Hudi rolls back by itself the ledger does not know."""
        intent = self._oracle.intents.get(request_time)
        return intent is not None and intent.outcome == "foreign"

    def _first_active(self) -> str:
        return min(self._active(), default="")

    def _active(self) -> list[str]:
        """Request times of writes on the timeline."""
        request_times = []
        for info in self.scene.world.disk.folder(TIMELINE)[0]:
            found = _WRITE.fullmatch(info.name[len(TIMELINE) :])
            if found and found[2] in _ACTIONS:
                request_times.append(found[1])
        return request_times
