# SPDX-License-Identifier: Apache-2.0
"""The protocol without asks: each decision is an entry of its own, and a writer that is beaten looks again (docs/spec/ledger.md)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.cloud.model.events import Process, Request, World
from benchmarks.cloud.model.script import COPY, LOOK, SWEEP, TIMELINE, Decision, Sent


@dataclass
class Slots:
    """The ledger and its staged objects, as the store has them: entry n stands at n - 1."""

    files: list[int] = field(default_factory=list)
    copied: list[int] = field(default_factory=list)
    """How many of them are on the timeline."""
    swept: list[bool] = field(default_factory=list)

    def newest(self) -> int:
        return len(self.files)

    def create(self, number: int, files: int) -> bool:
        if number != len(self.files) + 1:
            return False
        self.files.append(files)
        self.copied.append(0)
        self.swept.append(False)
        return True

    def copy(self, number: int, file: int) -> bool:
        """Whether its staged object is there."""
        if self.swept[number - 1]:
            return False
        self.copied[number - 1] = max(self.copied[number - 1], file + 1)
        return True

    def visible(self) -> int:
        """The newest entry of which a file is on the timeline."""
        return next((n for n in range(len(self.files), 0, -1) if self.copied[n - 1]), 0)


@dataclass
class Writer:
    """Makes so many commits without pause; `told` gets the seconds of each."""

    world: World
    slots: Slots
    script: Sequence[Decision]
    told: Callable[[float], None]
    commits: float = math.inf
    known: int = 0
    true: int = 0
    _mine: list[int] = field(default_factory=list)

    def run(self) -> Process:
        while self.commits > 0:
            begun, self.commits = self.world.now, self.commits - 1
            for decision in self.script:
                for sent in decision.before:
                    yield [self._request(sent)]
                yield from self._decide(decision)
            self.told(self.world.now - begun)

    def _decide(self, decision: Decision) -> Process:
        attempt = 0
        while not (yield from self._try(decision)):
            if attempt >= 2:
                yield min(0.001 * 2 ** min(attempt, 10), 0.25) * self.world.chance.random()
            attempt += 1
        mine = self._mine[-1]
        self.known, copies = mine, iter(range(decision.files))
        for sent in decision.rest:
            (answer,) = yield [self._request(sent, mine, copies)]
            if sent == LOOK and answer > mine:
                yield from self._newest(answer)
        self.true = max(self.true, mine)

    def _try(self, decision: Decision) -> Process:
        (seen,) = yield [self._request(LOOK)]
        yield from self._newest(seen)
        if self.known > self.true:
            yield from self._make_true(self.known)
        number = self.known + 1
        for sent in decision.think:
            (answer,) = yield [self._request(sent)]
            if sent == TIMELINE and answer > self.known:
                yield [Request("list")]  # something newer than the state: the whole timeline is loaded
        (created,) = yield [Request("put", lambda: self.slots.create(number, decision.files))]
        if created:
            self._mine.append(number)
        return created

    def _newest(self, seen: int) -> Process:
        while seen > self.known:
            yield [Request("get")]
            self.known = seen
            (seen,) = yield [Request("list", self.slots.newest)]

    def _make_true(self, number: int) -> Process:
        for file in range(self.slots.files[number - 1]):
            (is_there,) = yield [Request("copy", lambda file=file: self.slots.copy(number, file))]  # type: ignore[misc]
            if not is_there:
                break
        self.true = number

    def _request(self, sent: Sent, mine: int = 0, copies: Any = None) -> Request:
        if sent == LOOK:
            return Request("list", self.slots.newest)
        if sent == TIMELINE:
            return Request("list", self.slots.visible)
        if sent == COPY:
            file = next(copies)
            return Request("copy", lambda: self.slots.copy(mine, file))
        if sent == SWEEP:
            return Request("delete", self._sweep)
        return Request(sent.kind)

    def _sweep(self) -> None:
        for number in self._mine:
            self.slots.swept[number - 1] = True
        self._mine = self._mine[-1:]
