# SPDX-License-Identifier: Apache-2.0
"""Simulated time: it passes only while a greenlet waits, so nothing else that the machine does changes what is measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from heapq import heappop, heappush
from random import Random
from typing import Any, Final

from greenlet import getcurrent, greenlet

from lakebraid.storage.memory import MemoryStorage

KINDS: Final[Mapping[str, str]] = {
    "read": "get",
    "read_range": "get",
    "info": "head",
    "list": "list",
    "list_folder": "list",
    "create": "put",
    "replace": "put",
    "copy": "copy",
    "delete": "delete",
    "open_input": "get",
}
"""Calls of a storage, and the kind of request that each is."""
_EPOCH_MS: Final = 1_767_225_600_000


class World:
    """Greenlets that sleep, and the time at which each wakes."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._sleeping: list[tuple[float, int, greenlet]] = []
        self._count = 0
        self._hub = getcurrent()

    def spawn(self, body: Callable[[], None]) -> None:
        self._wake_at(self.seconds, greenlet(body, self._hub))

    def sleep(self, seconds: float) -> None:
        if getcurrent() is self._hub or getcurrent().parent is not self._hub:
            self.seconds += seconds  # before the writers begin
            return
        self._wake_at(self.seconds + seconds, getcurrent())
        self._hub.switch()

    def run(self) -> None:
        while self._sleeping:
            self.seconds, _, sleeper = heappop(self._sleeping)
            sleeper.switch()

    def side_by_side(self, calls: Sequence[Callable[[], Any]]) -> list[Any]:
        """What the calls give that a writer makes at once."""
        caller, left = getcurrent(), len(calls)
        if caller.parent is not self._hub or left < 2:
            return [call() for call in calls]
        found: list[Any] = [None] * left
        failed: list[Exception] = []

        def make(at: int) -> None:
            nonlocal left
            try:
                found[at] = calls[at]()
            except Exception as error:  # noqa: BLE001 - raised in the caller's greenlet
                failed.append(error)
            left -= 1
            if not left:
                self._wake_at(self.seconds, caller)

        for at in range(left):
            self.spawn(partial(make, at))
        self._hub.switch()
        if failed:
            raise failed[0]
        return found

    def behind(self, work: Callable[[], None]) -> Callable[[], None]:
        """Begins what goes on behind a writer's back; what is given back returns once it is done."""
        if getcurrent().parent is not self._hub:
            work()
            return lambda: None
        begun = greenlet(work, self._hub)
        self._wake_at(self.seconds, begun)

        def join() -> None:
            while not begun.dead:
                self.sleep(0.001)

        return join

    def _wake_at(self, seconds: float, sleeper: greenlet) -> None:
        self._count += 1
        heappush(self._sleeping, (seconds, self._count, sleeper))


@dataclass
class WorldClock:
    """Satisfies `lakebraid.clock.Clock`."""

    world: World
    chance: Random

    def now_ms(self) -> int:
        return _EPOCH_MS + int(self.world.seconds * 1000)

    def monotonic(self) -> float:
        return self.world.seconds

    def sleep(self, seconds: float) -> None:
        self.world.sleep(seconds)

    def token(self) -> str:
        return f"{self.chance.getrandbits(64):016x}"

    def random(self) -> float:
        return self.chance.random()


class SlowStorage:
    """A store in memory whose calls take time, and may be made side by side."""

    def __init__(self, storage: MemoryStorage, clock: WorldClock, seconds: Callable[[str], float]) -> None:
        """`seconds` says how long a request of a kind takes."""
        self.storage, self.clock, self.url = storage, clock, storage.url
        self._seconds = seconds
        self.calls = Counter[str]()
        """By their kinds."""

    def side_by_side(self, work: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        return self.clock.world.side_by_side([partial(work, item) for item in items])

    def behind(self, run: Callable[[], None]) -> Callable[[], None]:
        return self.clock.world.behind(run)

    def __getattr__(self, name: str) -> Any:
        real = getattr(self.storage, name)
        return partial(self.call, KINDS[name], real) if name in KINDS else real

    def call(self, kind: str, real: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        # Half of the way there, half of it back: others come in between.
        self.calls[kind] += 1
        half = self._seconds(kind) / 2
        self.clock.sleep(half)
        try:
            found = real(*arguments, **named)
        finally:
            self.clock.sleep(half)
        return found
