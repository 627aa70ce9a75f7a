# SPDX-License-Identifier: Apache-2.0
"""Writers of the product itself, in simulated time: its own code, each request of which takes as long as on an object store.

CPU takes no time here, so a figure says what the protocol costs, for more writers than a machine carries; and nothing else that the machine does
changes it. Not played: failures and throttling.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any
from unittest.mock import patch

from benchmarks.cloud.rig.latency import Latencies
from benchmarks.cloud.workloads import AHEAD_AFTER, COLUMNS, TABLE, some_rows
from benchmarks.cloud.writers import ORDER
from benchmarks.simulated import SlowStorage, World, WorldClock
from lakebraid.api.table import Table
from lakebraid.api.writer import Writer
from lakebraid.limits import STORE_CALLS_AT_ONCE_MAX
from lakebraid.model.creation.plan import plan_table
from lakebraid.reading.plan import Source
from lakebraid.storage.memory import MemoryStorage
from lakebraid.table.at import TableAt
from lakebraid.table.loading import load_config
from lakebraid.txn.actions.create import create_table
from lakebraid.txn.liveness.heartbeat import Heartbeat


class FarStorage(SlowStorage):
    """Says that its calls are worth making side by side, as object stores do."""

    calls_at_once = STORE_CALLS_AT_ONCE_MAX


@dataclass
class Played:
    """What the commits of some writers took, in seconds, and how many requests of each kind all of them sent."""

    took: list[float] = field(default_factory=list)
    sent: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    """From the first commit that counts to the end of the last."""


def play_product(
    writers: int,
    latencies: Latencies,
    *,
    order: str = "each",
    is_ahead: bool = False,
    buckets: int = 8,
    seconds: float = math.inf,
    commits: float = math.inf,
    seed: int = 0,
) -> Played:
    """Writers that come at once and commit 1,000 rows again and again, each until one of the two bounds. Where they begin ahead, those
    commits of each are not counted after which it does so.
    """
    world, played, first = World(), Played(), math.inf
    clock = WorldClock(world, Random(seed))
    storage = MemoryStorage("memory://product", clock)
    create_table(storage, clock, plan_table(storage.url, COLUMNS, buckets=buckets, properties={ORDER: order}, **TABLE))
    _opened(storage, clock).upsert(some_rows(1000, 10_000, 1))

    def write(number: int) -> None:
        nonlocal first
        own = WorldClock(world, Random(f"{seed} {number}"))
        slow = FarStorage(storage, own, lambda kind: latencies.seconds(kind, own.chance))
        table = _opened(slow, own)
        writer = table.writer(f"writer {number}") if is_ahead else table
        done, since = -AHEAD_AFTER if is_ahead else 0, world.seconds
        while done < commits and world.seconds - since < seconds:
            begun = world.seconds
            if done <= 0:
                since = begun
                slow.calls.clear()
            writer.upsert(some_rows(1000, 10_000, own.now_ms(), number, seed=number))
            if done >= 0:
                first = min(first, begun)
                played.took.append(world.seconds - begun)
                played.seconds = world.seconds - first
            done += 1
        played.sent.update(slow.calls)
        if isinstance(writer, Writer):
            writer.close()

    for number in range(writers):
        world.spawn(partial(write, number))
    with patch.object(Heartbeat, "run", lambda _: None), patch("os.cpu_count", lambda: 1):  # threads have another time
        world.run()
    return played


def _opened(storage: Any, clock: WorldClock) -> Table:
    config, properties = load_config(storage)
    return Table(TableAt(storage, config, clock), Source(storage.url), properties)
