# SPDX-License-Identifier: Apache-2.0
"""Smaller histories that fail the same way: fewer actors, fewer rounds, fewer faults, fewer switches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from simulator.playing.tape import Tape
from simulator.world.faults import CALM
from simulator.world.schedule import Mark


def shrink(tape: Tape, report: Callable[[str], None] = lambda _: None, runs_max: int = 2000) -> Tape:
    """The smallest tape found by removing things for as long as the same invariant fails."""
    runs = 0

    def fails(candidate: Tape) -> bool:
        nonlocal runs
        runs += 1
        failure = candidate.play().failure
        return failure is not None and failure.invariant == tape.invariant

    best = replace(tape, setting=replace(tape.setting, rates=CALM))
    if not fails(best):
        report("the tape does not fail when it is played again")
        return tape
    is_smaller = True
    while is_smaller and runs < runs_max:
        is_smaller = False
        for candidate in _smaller(best):
            if runs >= runs_max:
                break
            if fails(candidate):
                best, is_smaller = candidate, True
                actors = len(best.setting.actors)
                report(f"{actors} actors, {len(best.marks)} marks after {runs} runs")
                break
    return best


def _smaller(tape: Tape) -> Iterator[Tape]:
    """Simpler tapes, boldest first."""
    yield from _fewer_marks(tape, 2)
    for at in reversed(range(len(tape.setting.actors))):
        if tape.setting.actors[at][0] != "nobody":
            yield _without_actor(tape, at)
    yield from _fewer_marks(tape, 8)
    for at, (kind, rounds) in enumerate(tape.setting.actors):
        if rounds > 1:
            actors = list(tape.setting.actors)
            actors[at] = (kind, rounds - 1)
            yield replace(tape, setting=replace(tape.setting, actors=tuple(actors)))
    for simpler in ({"executors": False}, {"partitions": 1}, {"buckets": 1}, {"skew_ms": 0}, {"drift": 0.0}):
        if any(getattr(tape.setting, name) != value for name, value in simpler.items()):
            yield replace(tape, setting=replace(tape.setting, **simpler))
    yield from _fewer_marks(tape, len(tape.marks))


def _fewer_marks(tape: Tape, parts: int) -> Iterator[Tape]:
    size = max(1, len(tape.marks) // max(parts, 1))
    for first in range(0, len(tape.marks), size):
        yield replace(tape, marks=tape.marks[:first] + tape.marks[first + size :])


def _without_actor(tape: Tape, at: int) -> Tape:
    """Actors are named by kind and place, so one that leaves is replaced by nobody under its own number."""
    actors = list(tape.setting.actors)
    name = tape.setting.names()[at][0]
    actors[at] = ("nobody", 0)
    marks: tuple[Mark, ...] = tuple(m for m in tape.marks if not m[0].startswith(name))
    return replace(tape, setting=replace(tape.setting, actors=tuple(actors)), marks=marks)
