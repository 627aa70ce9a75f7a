# SPDX-License-Identifier: Apache-2.0
"""Planted bugs of writes that are begun ahead."""

from __future__ import annotations

from typing import Any

from simulator.mutants.planting import Mutant
from simulator.world.faults import Rates

_AHEAD = "lakebraid.writing.ahead"
_LOOPS: dict[str, Any] = {
    "eager": True, "whole": True, "fixed": True, "call_ms": 5, "executors": False, "switch": 0.5, "depth": 0, "aborts": 0.1, "refusals": 0.0,
    "actors": (("looper", 3), ("looper", 3), ("writer", 3), ("rescuer", 3), ("reader", 4)),
    "rates": Rates(kill_after=0.003, pause=0.02, slow=0.02, late=0.02, lost=0.02),
}  # fmt: skip

OF_AHEAD = (
    Mutant(
        "writes are begun ahead though the commit time says which row wins", "ahead", _AHEAD, "can_begin_ahead",
        "config.merge_mode is MergeMode.EVENT_TIME", "True",
        ("24",), {**_LOOPS, "by_event": False},
    ),
    Mutant(
        "what was begun ahead is used for two writes", "ahead", _AHEAD, "Series.take",
        "held = self._held.pop()", "held = self._held[-1]",
        ("24",), {**_LOOPS, "by_event": True},
        elsewhere=((_AHEAD, "Ahead.use", "not self._claim.acquire(blocking=False)", "self._claim.acquire(blocking=False) is None"),),
    ),
    Mutant(
        "a write counts as begun by an entry that may mean nothing", "H2", _AHEAD, "Ahead.settle",
        "instant = self.beside.outcome(entry.state)", "instant = self._shown[0] if self._shown else self.beside.outcome(entry.state)",
        ("11", "15", "3", "1", "4", "9", "no crash"),
        {**_LOOPS, "fixed": False, "call_ms": 20, "by_event": True, "entries_kept": 1, "rates": Rates(pause=0.08, slow=0.06, lost=0.03)},
        elsewhere=((_AHEAD, "Ahead._show", " or self._shown[0] != instant", ""),),
    ),
)  # fmt: skip
