# SPDX-License-Identifier: Apache-2.0
"""Looking for failures: seeds in turn, kills at every call, all schedules of small worlds, planted bugs."""

from __future__ import annotations

import contextlib
import gc
import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from math import inf

from simulator.mutants.planting import Mutant, planted
from simulator.scene import Outcome, run_history
from simulator.setting import Setting, drawn, plain, small
from simulator.world.faults import CALM
from simulator.world.schedule import Enumeration, Replay, Script


@dataclass
class Tally:
    """What a run has seen."""

    histories: int = 0
    calls: int = 0
    publications: int = 0
    marks: Counter[str] = field(default_factory=Counter)
    failures: list[Outcome] = field(default_factory=list)
    seconds: float = 0.0

    def add(self, outcome: Outcome) -> None:
        self.histories += 1
        self.calls += outcome.steps
        self.publications += outcome.published
        self.marks.update(outcome.marks)
        if outcome.failure is not None:
            self.failures.append(outcome)

    def merge(self, other: Tally) -> None:
        self.histories += other.histories
        self.calls += other.calls
        self.publications += other.publications
        self.marks.update(other.marks)
        self.failures += other.failures
        self.seconds += other.seconds


def walk(
    seeds: Iterable[int],
    failures_max: int = 1,
    bend: Callable[[Setting], Setting] | None = None,
    counts: Callable[[str], bool] | None = None,
    seconds: float = inf,
) -> Tally:
    """Histories of these seeds, unless so many have failed or the time is over; `counts` says by which invariants."""
    tally, began = Tally(), time.process_time()
    deadline = time.monotonic() + seconds
    with _few_collections() as played:
        for seed in seeds:
            setting = drawn(seed)
            outcome = run_history(bend(setting) if bend else setting)
            if outcome.failure is None or counts is None or counts(outcome.failure.invariant):
                tally.add(outcome)
            if len(tally.failures) >= failures_max or time.monotonic() > deadline:
                break
            played()
    tally.seconds = time.process_time() - began
    return tally


@contextlib.contextmanager
def _few_collections(histories: int = 100) -> Iterator[Callable[[], None]]:
    """A world is a web of cycles: looking for garbage while it lives costs a tenth and finds nothing."""
    count = itertools.count(1)

    def played() -> None:
        if next(count) % histories == 0:
            gc.collect()

    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield played
    finally:
        if was_enabled:
            gc.enable()


WalkJob = tuple[range, float, bool]
"""Seeds, for how many seconds at most, and whether the worlds are to be plain."""


def walk_whole(job: WalkJob) -> Tally:
    """What one of several processes does."""
    seeds, seconds, is_plain = job
    return walk(seeds, failures_max=3, bend=_plain if is_plain else None, seconds=seconds)


def _plain(setting: Setting) -> Setting:
    return plain(setting.seed)


def sweep(setting: Setting, kinds: tuple[str, ...] = ("kill_before", "kill_after")) -> Iterator[Outcome]:
    """One schedule again and again, with one fault at each of its calls in turn."""
    calm = replace(setting, rates=CALM)
    first = run_history(calm)
    switches = tuple(mark for mark in first.tape if mark[2] == "to")
    calls = Counter(line[2] for line in first.trace if line[3] not in ("reads", "heal", "dies", "arrives"))
    for label, count in sorted(calls.items()):
        if label in ("founder", "healer", "auditor", "-"):
            continue
        for call in range(1, count + 1):
            for kind in kinds:
                length = 3 * setting.timeout_ms if kind in ("pause", "slow", "late", "kill_late", "again") else 1
                yield run_history(calm, Replay((*switches, (label, call, kind, length))))


SweepJob = tuple[int, tuple[str, ...], bool]
"""A seed, the kinds of fault, and whether the world is to be small."""


def sweep_whole(job: SweepJob) -> tuple[int, Outcome | None]:
    """How many runs a seed's schedule took, and the one that failed."""
    seed, kinds, is_small = job
    runs = 0
    for outcome in sweep(small(seed) if is_small else drawn(seed), kinds):
        runs += 1
        if outcome.failure is not None:
            return runs, outcome
    return runs, None


def enumerate_all(setting: Setting, switches_max: int, kills_max: int, runs_max: int = 1_000_000) -> Iterator[Outcome]:
    """Every schedule of a small world with at most so many switches and kills."""
    driver = Enumeration(switches_max, kills_max)
    for _ in range(runs_max):
        yield run_history(setting, driver)
        if not driver.restart():
            return


def hunt(mutant: Mutant, histories_max: int, first_seed: int) -> tuple[Outcome | None, int, float]:
    """The first history in which an invariant that speaks of the planted bug fails, how many were played, CPU seconds."""
    began = time.process_time()
    with planted(mutant):
        if mutant.script:
            outcome = run_history(mutant.setting(drawn(first_seed)), Script(mutant.script))
            is_found = outcome.failure is not None and mutant.is_caught_by(outcome.failure.invariant)
            return (outcome if is_found else None), 1, time.process_time() - began
        seeds = range(first_seed, first_seed + histories_max)
        tally = walk(seeds, bend=mutant.setting, counts=mutant.is_caught_by)
    found = tally.failures[0] if tally.failures else None
    return found, tally.histories, time.process_time() - began
