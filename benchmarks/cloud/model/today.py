# SPDX-License-Identifier: Apache-2.0
"""Today's protocol: each decision is an entry of its own, and a writer that is beaten looks again (docs/spec/ledger.md)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.cloud.model.events import Process, Request, World
from benchmarks.cloud.model.script import (
    Decision,
    Step,
    is_entry,
    is_look,
    is_sweep,
    is_timeline_copy,
    is_timeline_list,
)
from benchmarks.cloud.rig.calls import Call


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
                for step in decision.before:
                    yield [self._request(call) for call in step]
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
        for step in decision.rest:
            answers = yield [self._request(call, mine, copies) for call in step]
            looked = [answer for call, answer in zip(step, answers, strict=True) if is_look(call)]
            if looked and max(looked) > mine:
                yield from self._newest(max(looked))
        self.true = max(self.true, mine)

    def _try(self, decision: Decision) -> Process:
        answers = yield [self._request(call) for call in decision.look]
        seen = [answer for call, answer in zip(decision.look, answers, strict=True) if is_look(call)]
        yield from self._newest(max(seen))
        if self.known > self.true:
            yield from self._make_true(self.known)
        number = self.known + 1
        for step in decision.think:
            answers = yield [self._request(call) for call in step]
            shown = [answer for call, answer in zip(step, answers, strict=True) if is_timeline_list(call)]
            if shown and max(shown) > self.known:
                yield [Request("list")]  # something newer than the state: the whole timeline is loaded
        create = Request("put", lambda: self.slots.create(number, decision.files))
        answers = yield [create if is_entry(call) else self._request(call) for call in decision.create]
        created = any(a for call, a in zip(decision.create, answers, strict=True) if is_entry(call))
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

    def _request(self, call: Call, mine: int = 0, copies: Any = None) -> Request:
        if is_look(call):
            return Request("list", self.slots.newest)
        if is_timeline_list(call):
            return Request("list", self.slots.visible)
        if mine and is_timeline_copy(call):
            file = next(copies)
            return Request("copy", lambda: self.slots.copy(mine, file))
        if mine and is_sweep(call):
            return Request("delete", self._sweep)
        return Request(call.kind)

    def _sweep(self) -> None:
        for number in self._mine:
            self.slots.swept[number - 1] = True
        self._mine = self._mine[-1:]


def steps_of(script: Sequence[Decision]) -> list[Step]:
    """All steps of a commit that meets nobody, in order."""
    return [s for d in script for s in (*d.before, d.look, *d.think, d.create, *d.rest)]
