# SPDX-License-Identifier: Apache-2.0
"""What letting others go first is worth: the same writers with a mechanism and without it, in simulated time.

    uv run python -m benchmarks.politeness

Writers are greenlets of one process, and time passes only while one of them waits: each call to the store takes a while, each
byte what a network takes, looking at a large table what it costs. So a figure says how often writers were in each other's
way, and nothing else that the machine does changes it. The same seed gives the same figure.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any, Final
from unittest.mock import patch

import pyarrow as pa

from benchmarks.simulated import SlowStorage, World, WorldClock
from lakebraid import limits
from lakebraid.api.table import Table
from lakebraid.errors import WriteConflict
from lakebraid.model.creation.plan import plan_table
from lakebraid.reading.plan import Source
from lakebraid.storage.memory import MemoryStorage
from lakebraid.table.at import TableAt
from lakebraid.table.loading import load_config
from lakebraid.txn.actions.create import create_table
from lakebraid.txn.ledger import asking
from lakebraid.txn.ledger.ledger import Ledger
from lakebraid.txn.liveness.heartbeat import Heartbeat
from lakebraid.writing import gate, retry

_SCHEMA: Final = "id bigint, ts bigint, v string"


class Store(SlowStorage):
    """Counts the base files that are put."""

    def __init__(self, storage: MemoryStorage, clock: WorldClock, case: Case) -> None:
        super().__init__(storage, clock, lambda _: case.call_seconds * (0.5 + clock.random()))
        self._bytes_per_second = case.bytes_per_second
        self.base_files = 0
        """So many were put, also in vain."""

    def create(self, name: str, data: bytes) -> None:
        if name.endswith(".parquet"):
            self.base_files += 1
            self.clock.sleep(len(data) / self._bytes_per_second)
        self.call("put", self.storage.create, name, data)


@dataclass
class Case:
    """Some writers at one table, for so many seconds."""

    writers: int
    rows: int
    arguments: dict[str, Any]
    seconds: float = 60.0
    call_seconds: float = 0.02
    bytes_per_second: int = 20 << 20
    """Of a base file that is rewritten, decoding and encoding included."""
    filled: int = 0
    spread: int = 10_000
    commits: int = 0
    compacts: bool = False
    think_seconds: float = 0.0
    """What one look of the compaction at the whole table costs beside its calls."""
    sleeps: bool = False
    """Whether a writer began, put its files down and does not go on."""
    found: dict[str, list[float]] = field(
        default_factory=lambda: {name: [] for name in ("write", "refused", "service", "rounds", "base files", "calls")}
    )

    def run(self, seed: int) -> dict[str, list[float]]:
        world = World()
        clock = WorldClock(world, Random(seed))
        storage = MemoryStorage("memory://politeness", clock)
        create_table(
            storage, clock, plan_table(storage.url, _SCHEMA, record_keys="id", ordering_fields="ts", **self.arguments)
        )
        first = _opened(storage, clock)
        if self.filled:
            first.upsert(_batch(range(self.filled), 0))
        for number in range(self.commits):
            first.upsert(_batch([number], 1))
        sleeper = first.begin() if self.sleeps else None
        if sleeper is not None:
            sleeper.write(_batch(range(100), 1))
        began = world.seconds
        for number in range(self.writers):
            world.spawn(partial(self._write, number, storage, WorldClock(world, Random(f"{seed} {number}")), began))
        if self.compacts:
            world.spawn(partial(self._compact, storage, WorldClock(world, Random(f"{seed} service")), began))
        world.run()
        return self.found

    def _write(self, number: int, storage: MemoryStorage, clock: WorldClock, began: float) -> None:
        slow = Store(storage, clock, self)
        table = _opened(slow, clock)
        while clock.monotonic() - began < self.seconds:
            at = clock.monotonic()
            ids = sorted({clock.chance.randrange(self.spread) for _ in range(self.rows)})
            try:
                table.upsert(_batch(ids, clock.now_ms()))
                self.found["write"].append(clock.monotonic() - at)
            except WriteConflict:
                self.found["refused"].append(clock.monotonic() - at)
        self.found["base files"].append(slow.base_files)
        self.found["calls"].append(slow.calls.total())

    def _compact(self, storage: MemoryStorage, clock: WorldClock, began: float) -> None:
        table = _opened(Store(storage, clock, self), clock)
        rounds = 0
        real = Ledger._asked

        def asked(ledger: Ledger, *arguments: Any) -> Any:
            nonlocal rounds
            if ledger.clock is clock and ledger.may_ask:
                rounds += 1
                clock.sleep(self.think_seconds)
            return real(ledger, *arguments)

        with patch.object(Ledger, "_asked", asked):
            while clock.monotonic() - began < self.seconds:
                at, rounds = clock.monotonic(), 0
                table.compact()
                self.found["service"].append(clock.monotonic() - at)
                self.found["rounds"].append(rounds)


def _opened(storage: Any, clock: WorldClock) -> Table:
    config, properties = load_config(storage)
    return Table(TableAt(storage, config, clock), Source(storage.url), properties)


def _batch(ids: Any, ts: int) -> pa.Table:
    keys = pa.array([*ids], pa.int64())
    return pa.table({"id": keys, "ts": pa.array([ts] * len(keys), pa.int64()), "v": pa.array(["x" * 20] * len(keys))})


_OCC: Final = {"concurrency": "occ"}
_COW: Final = {"table_type": "cow", "buckets": 4} | _OCC
# Files of 20 KiB stand for files of 20 MiB, so that a run is short.
_REWRITES: Final = partial(
    Case, 8, 20, _COW, filled=4000, spread=4000, seconds=120, bytes_per_second=limits.REWRITTEN_BYTES_PER_SECOND >> 10
)
_BESIDE: Final = partial(Case, 8, 1, {"buckets": 4}, compacts=True)
CASES: Final[dict[str, Callable[[], Case]]] = {
    "a compaction beside 8 small writers": partial(_BESIDE, seconds=20, call_seconds=0.005, think_seconds=0.1),
    "one that looks for 2 s beside 8": partial(_BESIDE, seconds=40, think_seconds=2.0),
    "16 small writers that ask": partial(Case, 16, 10, {"buckets": 4}, seconds=20),
    "64 small writers that ask": partial(Case, 64, 10, {"buckets": 4}, seconds=20, call_seconds=0.04),
    "8 optimistic writers, logs": partial(Case, 8, 100, {"buckets": 4} | _OCC, seconds=30),
    "8 optimistic writers, rewrites": _REWRITES,
    "8 optimistic writers, one asleep": partial(_REWRITES, sleeps=True),
}


def _ignored(*_: Any) -> bool:
    return False


def _no_seconds(*_: Any) -> float:
    return 0.0


def _random_pause(ledger: Ledger, _: Any) -> None:
    ledger.clock.sleep(2.0 * ledger.clock.random())


VARIANTS: Final[dict[str, list[tuple[Any, str, Any]]]] = {
    "as it is": [],
    "no turns": [(limits, "TURN_ROUNDS_LOST", 10**9)],
    "turns of 1 s": [(limits, "TURN_LONG_SECONDS_MAX", 0.0)],
    "no asks": [(limits, "ASK_CALL_SECONDS_MIN", 10.0**9)],
    "help at once": [(limits, "ASK_HELP_SECONDS", 0.0), (limits, "ASK_HELP_SECONDS_EACH", 0.0)],
    "help after a second": [(limits, "ASK_HELP_SECONDS", 1.0)],
    "help all at once": [(limits, "ASK_HELP_SECONDS_EACH", 0.0)],
    "large entries not waited for": [(limits, "ASK_HELP_SECONDS_FILE", 0.0)],
    "every entry is applied by all": [(limits, "ASK_HELP_FILES_MAX", 10**9)],
    "looks five times as often": [(limits, "ASK_POLL_SECONDS", (0.004, 0.012))],
    "looks five times as seldom": [(limits, "ASK_POLL_SECONDS", (0.1, 0.3))],
    "looks at even intervals": [(limits, "ASK_POLL_SHARE", 0.0)],
    "looks while files are copied": [(asking, "_applying_seconds", _no_seconds), (limits, "ASK_POLL_SHARE", 0.0)],
    "refused: at once again": [(retry, "stand_aside", _ignored)],
    "refused: random pause": [(retry, "stand_aside", _random_pause)],
    "refused: half a second": [(limits, "ASIDE_SECONDS", 0.5)],
    "earlier ones not waited for": [(gate, "let_earlier_ones_end", _ignored)],
    "neither": [(gate, "let_earlier_ones_end", _ignored), (retry, "stand_aside", _ignored)],
    "neither, random pause": [(gate, "let_earlier_ones_end", _ignored), (retry, "stand_aside", _random_pause)],
    "one look": [(limits, "LOOKS_MAX", 1)],
    "two looks": [(limits, "LOOKS_MAX", 2)],
    "sleepers waited for": [(limits, "LIVELY_TIMES", 10**9)],
}
TRIED: Final = {
    "a compaction beside 8 small writers": ("as it is", "no turns", "turns of 1 s"),
    "one that looks for 2 s beside 8": ("as it is", "no turns", "turns of 1 s"),
    "16 small writers that ask": (
        "as it is",
        "no asks",
        "help at once",
        "help after a second",
        "help all at once",
        "large entries not waited for",
        "every entry is applied by all",
        "looks five times as often",
        "looks five times as seldom",
        "looks at even intervals",
        "looks while files are copied",
    ),
    "64 small writers that ask": (
        "as it is",
        "help at once",
        "large entries not waited for",
        "every entry is applied by all",
        "looks at even intervals",
        "looks while files are copied",
    ),
    "8 optimistic writers, logs": ("as it is", "no turns"),  # none is refused: whole rows in log files go by each other
    "8 optimistic writers, rewrites": tuple(
        name
        for name in VARIANTS
        if name == "as it is" or name.startswith(("refused", "earlier", "neither", "one ", "two "))
    ),
    "8 optimistic writers, one asleep": ("as it is", "sleepers waited for"),
}


@contextmanager
def changed(variant: str, case: Case) -> Iterator[None]:
    with ExitStack() as stack:
        stack.enter_context(patch.object(Heartbeat, "run", lambda _: None))  # of threads, which have another time
        stack.enter_context(patch("os.cpu_count", lambda: 1))  # nor may merges be done in threads
        stack.enter_context(patch.object(limits, "REWRITTEN_BYTES_PER_SECOND", case.bytes_per_second))
        for home, name, value in VARIANTS[variant]:
            stack.enter_context(patch.object(home, name, value))
        yield


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--seeds", type=int, default=3)
    arguments.add_argument("--only", default="", help="part of the name of a case")
    arguments.add_argument("--variant", default="", help="part of the name of a variant")
    given = arguments.parse_args()
    for name, case in CASES.items():
        for variant in (v for v in TRIED[name] if given.only in name and given.variant in v):
            found: dict[str, list[float]] = {}
            for seed in range(given.seeds):
                made = case()
                with changed(variant, made):
                    for what, values in made.run(seed).items():
                        found.setdefault(what, []).extend(values)
            print(f"{name:44} {variant:30} {_shown(found, case().seconds * given.seeds)}", flush=True)


def _shown(found: dict[str, list[float]], seconds: float) -> str:
    took = sorted(found["write"])
    text = f"{len(took) / seconds:6.2f} commits/s, median {_at(took, 0.5):6.2f} s, p99 {_at(took, 0.99):6.2f} s, {len(found['refused'])} refused"
    text += f", {sum(found['calls']) / max(len(took), 1):.0f} calls per commit"
    if sum(found["base files"]):
        text += f", {sum(found['base files']) / len(took):.1f} base files put per commit"
    if found["service"]:
        services, rounds = sorted(found["service"]), sorted(found["rounds"])
        text += f"; {len(services)} compactions, median {_at(services, 0.5):.1f} s, longest {services[-1]:.1f} s, rounds {_at(rounds, 0.5):.0f} to {rounds[-1]:.0f}"
    return text


def _at(values: list[float], share: float) -> float:
    return values[min(int(len(values) * share), len(values) - 1)] if values else 0.0


if __name__ == "__main__":
    main()
