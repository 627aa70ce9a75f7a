# SPDX-License-Identifier: Apache-2.0
"""A world of processes that send requests to a store: time passes from event to event, and chance comes from a seed."""

from __future__ import annotations

import heapq
import random
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from benchmarks.cloud.rig.latency import Latencies


def _nothing() -> None:
    return None


@dataclass(frozen=True, slots=True)
class Request:
    """`effect` happens in the middle of the time that the request takes; its value is the answer."""

    kind: str
    effect: Callable[[], Any] = _nothing


Wanted: TypeAlias = float | Sequence[Request]
"""What a process waits for: so many seconds, or the answers to all of these requests, sent at once."""
Process: TypeAlias = Generator[Wanted, Any, Any]


class World:
    """Its store is whatever the effects of the requests change."""

    def __init__(self, latencies: Latencies, seed: int) -> None:
        self.now, self.requests = 0.0, Counter[str]()
        self.chance = random.Random(seed)
        self._latencies = latencies
        self._events: list[tuple[float, int, Callable[[], object]]] = []
        self._number = 0

    def start(self, process: Process) -> None:
        self._at(self.now, lambda: self._go_on(process, None))

    def run(self, until: float) -> float:
        """When the last event was."""
        while self._events and self._events[0][0] <= until:
            self.now, _, event = heapq.heappop(self._events)
            event()
        return self.now

    def send(self, requests: Sequence[Request], then: Callable[[list[Any]], None] = lambda _: None) -> None:
        """Sends all at once; `then` gets the answers when the last is there. Without it nobody waits."""
        answers: dict[int, Any] = {}

        def answered(at: int, value: Any) -> None:
            if at not in answers:
                answers[at] = value
                if len(answers) == len(requests):
                    then([answers[n] for n in range(len(requests))])

        for at, request in enumerate(requests):
            self._send(request, partial(answered, at))

    def _send(self, request: Request, answered: Callable[[Any], None]) -> None:
        taken = self._latencies.seconds(request.kind, self.chance)
        self.requests[request.kind] += 1
        end = self.now + taken

        def effect() -> None:
            value = request.effect()
            self._at(end, lambda: answered(value))

        self._at(self.now + taken / 2, effect)

    def _go_on(self, process: Process, value: Any) -> None:
        try:
            wanted = process.send(value)
        except StopIteration:
            return
        if isinstance(wanted, int | float):
            self._at(self.now + wanted, lambda: self._go_on(process, None))
        elif wanted:
            self.send(wanted, lambda answers: self._go_on(process, answers))
        else:
            self._go_on(process, [])

    def _at(self, time: float, event: Callable[[], object]) -> None:
        self._number += 1
        heapq.heappush(self._events, (time, self._number, event))
