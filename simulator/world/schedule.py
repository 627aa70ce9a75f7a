# SPDX-License-Identifier: Apache-2.0
"""Who goes next, and what goes wrong: at random, by priorities, by a tape, or every possibility in turn.

A driver is asked twice at each call. What it answers against the default (go on, nothing goes wrong) is put on the
tape by the world under the thread's name and the number of its call, so a tape survives the removal of other actors.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Final, Protocol

from simulator.world.faults import READS, Fault, FaultTable, Rates

Mark = tuple[str, int, str, Any]
"""Thread, number of its call, what: a fault's kind with its length, or "to" with the thread that goes next."""


class Threadlike(Protocol):
    label: str
    calls: int
    index: int
    is_ready: bool
    target: str
    """The name that its call is about."""


class Driver(Protocol):
    def fault(self, thread: Threadlike, op: str) -> Fault | None:
        """What goes wrong at this call."""

    def next(self, last: Threadlike | None, ready: Sequence[Any]) -> Any:
        """Which of the ready threads goes on; `last` is the one that was running, ready or not."""


def by_default(last: Threadlike | None, ready: Sequence[Any]) -> Any:
    return last if last is not None and last.is_ready else ready[0]


class RandomWalk:
    """Switches with a fixed probability to any other thread."""

    def __init__(self, rng: Random, rates: Rates, timeout_ms: int, switch: float) -> None:
        self._rng, self._faults, self._switch = rng, FaultTable(rates, timeout_ms), switch

    def fault(self, thread: Threadlike, op: str) -> Fault | None:
        return self._faults.draw(op, self._rng)

    def next(self, last: Threadlike | None, ready: Sequence[Any]) -> Any:
        if last is not None and last.is_ready and self._rng.random() >= self._switch:
            return last
        return ready[int(self._rng.random() * len(ready))]


_STARVED: Final = 10_000


class Priorities:
    """PCT: the ready thread of highest priority goes; at `depth` random moments the running one drops to the bottom.

    After very many calls any of them goes: threads that wait for one of low priority would poll for ever.
    """

    def __init__(self, rng: Random, rates: Rates, timeout_ms: int, depth: int, length: int) -> None:
        self._rng, self._faults = rng, FaultTable(rates, timeout_ms)
        self._changes = {rng.randrange(1, max(length, 2)) for _ in range(depth)}
        self._priority: dict[str, float] = {}
        self._asked = 0
        self._lowest = 0.0

    def fault(self, thread: Threadlike, op: str) -> Fault | None:
        return self._faults.draw(op, self._rng)

    def next(self, last: Threadlike | None, ready: Sequence[Any]) -> Any:
        self._asked += 1
        if last is not None and self._asked in self._changes:
            self._lowest -= 1
            self._priority[last.label] = self._lowest
        if self._asked > _STARVED:
            return ready[int(self._rng.random() * len(ready))]
        return max(ready, key=lambda t: (self._of(t), -t.index))

    def _of(self, thread: Threadlike) -> float:
        if thread.label not in self._priority:
            self._priority[thread.label] = self._rng.random()
        return self._priority[thread.label]


class Replay:
    """Does what a tape says, and nothing else."""

    def __init__(self, marks: Iterable[Mark]) -> None:
        self._faults: dict[tuple[str, int], Fault] = {}
        self._switches: dict[tuple[str, int], str] = {}
        for label, calls, what, value in marks:
            if what == "to":
                self._switches[label, calls] = value
            else:
                self._faults[label, calls] = (what, value)

    def fault(self, thread: Threadlike, op: str) -> Fault | None:
        return self._faults.get((thread.label, thread.calls))

    def next(self, last: Threadlike | None, ready: Sequence[Any]) -> Any:
        wanted = self._switches.get((last.label, last.calls)) if last is not None else None
        chosen = [t for t in ready if t.label == wanted]
        return chosen[0] if chosen else by_default(last, ready)


@dataclass(frozen=True, slots=True)
class Cue:
    """What happens to a thread at its nth call of this kind on such a name; it survives calls that come and go."""

    label: str
    op: str
    part: str
    """A part of the name."""
    kind: str
    length: int = 0
    nth: int = 1


class Script:
    """Does what its cues say, and nothing else: for histories that chance would not find."""

    def __init__(self, cues: Iterable[Cue]) -> None:
        self._left = {cue: cue.nth for cue in cues}

    def fault(self, thread: Threadlike, op: str) -> Fault | None:
        for cue, left in self._left.items():
            if cue.label == thread.label and cue.op == op and cue.part in thread.target and left:
                self._left[cue] = left - 1
                if left == 1:
                    return cue.kind, cue.length
        return None

    def next(self, last: Threadlike | None, ready: Sequence[Any]) -> Any:
        return by_default(last, ready)


class Enumeration:
    """Every schedule of a small world: a depth-first walk over all answers, with at most so many switches and kills."""

    def __init__(self, switches_max: int, kills_max: int) -> None:
        self._switches_max, self._kills_max = switches_max, kills_max
        self._path: list[int] = []
        self._widths: list[int] = []
        self._at = 0
        self._switches = self._kills = 0

    def restart(self) -> bool:
        """Prepares the next schedule; False when all were tried."""
        while self._path and self._path[-1] + 1 >= self._widths[-1]:
            self._path.pop()
            self._widths.pop()
        self._switches = self._kills = self._at = 0
        if not self._path:
            return False
        self._path[-1] += 1
        return True

    def fault(self, thread: Threadlike, op: str) -> Fault | None:
        if op in READS or self._kills >= self._kills_max:
            return None
        kind = self._choose(3)
        self._kills += kind > 0
        return (None, ("kill_before", 0), ("kill_after", 0))[kind]

    def next(self, last: Threadlike | None, ready: Sequence[Any]) -> Any:
        if len(ready) == 1:
            return ready[0]
        if last is None or not last.is_ready:
            return ready[self._choose(len(ready))]
        if self._switches >= self._switches_max:
            return last
        others = [t for t in ready if t is not last]
        choice = self._choose(1 + len(others))
        self._switches += choice > 0
        return last if choice == 0 else others[choice - 1]

    def _choose(self, width: int) -> int:
        if self._at == len(self._path):
            self._path.append(0)
            self._widths.append(width)
        self._widths[self._at] = width
        self._at += 1
        return self._path[self._at - 1]
