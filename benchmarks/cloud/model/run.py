# SPDX-License-Identifier: Apache-2.0
"""Plays so many writers for so many seconds of simulated time: of the product, and of the protocol that it had before."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Final

from benchmarks.cloud.model.events import World
from benchmarks.cloud.model.product import Played, play_product
from benchmarks.cloud.model.script import commit_without_asks
from benchmarks.cloud.model.without_asks import Slots, Writer
from benchmarks.cloud.rig.latency import KINDS, Latencies
from benchmarks.cloud.writers import COMMITS
from benchmarks.suite.row import Row, percentile

SECONDS: Final = 40.0
PRODUCT_SECONDS: Final = 12.0
"""Its commits take CPU here."""
IN_ORDER_MAX: Final = 64
"""Of more writers whose commits appear one after the other, each would wait for longer than that."""
SECONDS_MAX: Final = 3600.0
COUNTS: Final = (1, 4, 16, 64, 256)


def without_asks(
    writers: int, latencies: Latencies, *, seconds: float, commits: float = math.inf, seed: int = 0
) -> tuple[Played, float]:
    """Until no writer does anything any more, or for so many seconds: of what has not ended by then nothing is known."""
    world, played = World(latencies, seed), Played()
    slots, script = Slots(), commit_without_asks(8)
    for _ in range(writers):
        world.start(Writer(world, slots, script, played.took.append, commits).run())
    seconds = min(seconds, world.run(seconds))
    played.sent.update(world.requests)
    return played, seconds


def as_row(played: Played, writers: int, seconds: float) -> Row:
    done = max(1, len(played.took))
    return {
        "writers": writers,
        "commits": len(played.took),
        "commits_per_s": len(played.took) / seconds,
        "p50_s": percentile(played.took, 0.5) if played.took else seconds,
        "p99_s": percentile(played.took, 0.99) if played.took else seconds,
        "requests": played.sent.total() / done,
        **{f"{kind}_requests": played.sent[kind] / done for kind in KINDS if played.sent[kind]},
    }


def modelled(latencies: Latencies, counts: Sequence[int], seed: int) -> Iterator[Row]:
    for writers in (count for count in counts if count in COMMITS):
        played, seconds = without_asks(writers, latencies, seconds=SECONDS_MAX, commits=COMMITS[writers], seed=seed)
        yield {"workload": "without asks, as many commits as measured", **as_row(played, writers, seconds)}
    for writers in counts:
        played, seconds = without_asks(writers, latencies, seconds=SECONDS, seed=seed)
        yield {"workload": "without asks, 8 buckets", **as_row(played, writers, seconds)}
    for order, is_ahead, writers in product(("each", "group"), (False, True), counts):
        if order == "each" and writers > IN_ORDER_MAX:
            continue
        played = play_product(
            writers,
            latencies,
            order=order,
            is_ahead=is_ahead,
            seconds=PRODUCT_SECONDS,
            seed=seed,
        )
        name = f"{order}, begun ahead" if is_ahead else order
        yield {"workload": f"asks, {name}, 8 buckets", **as_row(played, writers, played.seconds)}
