# SPDX-License-Identifier: Apache-2.0
"""Plays so many writers for so many seconds of the model's time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from benchmarks.cloud.model import asks, without_asks
from benchmarks.cloud.model.events import World
from benchmarks.cloud.model.script import commit_without_asks
from benchmarks.cloud.rig.latency import KINDS, Latencies
from benchmarks.cloud.writers import COMMITS
from benchmarks.suite.row import Row, percentile

SECONDS = 40.0
SECONDS_MAX = 3600.0
COUNTS = (1, 4, 16, 64, 256)
Start = Callable[[World, int, Callable[[float], None]], None]
"""Lets so many writers begin in a world; they tell how long each commit took."""


def start_without_asks(world: World, writers: int, told: Callable[[float], None], commits: float = math.inf) -> None:
    slots, script = without_asks.Slots(), commit_without_asks(8)
    for _ in range(writers):
        world.start(without_asks.Writer(world, slots, script, told, commits).run())


def start_asks(world: World, writers: int, told: Callable[[float], None], **how: Any) -> None:
    folder = asks.Folder()
    for _ in range(writers):
        world.start(asks.Writer(world, folder, told, **how).run())


def play(start: Start, writers: int, latencies: Latencies, *, seconds: float = SECONDS, seed: int = 0) -> Row:
    """Until nobody does anything any more, or for so many seconds: then p50 and p99 are of the commits that ended."""
    world, taken = World(latencies, seed), list[float]()
    start(world, writers, taken.append)
    seconds = min(seconds, world.run(seconds))
    done = max(1, len(taken))
    return {
        "writers": writers,
        "commits": len(taken),
        "commits_per_s": len(taken) / seconds,
        "p50_s": percentile(taken, 0.5) if taken else seconds,
        "p99_s": percentile(taken, 0.99) if taken else seconds,
        "requests": world.requests.total() / done,
        **{f"{kind}_requests": world.requests[kind] / done for kind in KINDS if world.requests[kind]},
    }


def modelled(latencies: Latencies, counts: Sequence[int], seed: int) -> Iterator[Row]:
    protocols: dict[str, Start] = {
        "without asks": start_without_asks,
        "asks, each": partial(start_asks, order="each"),
        "asks, group": partial(start_asks, order="group"),
        "asks, group, begun ahead": partial(start_asks, order="group", ahead=True),
    }
    for writers in (count for count in counts if count in COMMITS):
        finite = partial(start_without_asks, commits=COMMITS[writers])
        row = play(finite, writers, latencies, seconds=SECONDS_MAX, seed=seed)
        yield {"workload": "without asks, as many commits as measured", **row}
    for name, start in protocols.items():
        for writers in counts:
            yield {"workload": f"{name}, 8 buckets", **play(start, writers, latencies, seed=seed)}
