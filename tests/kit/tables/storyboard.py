# SPDX-License-Identifier: Apache-2.0
"""Tables with a history worth looking at: real writers, plans and rollbacks, at times that a clock is set to."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from lakebraid.api.table import Table
from lakebraid.errors import CommitRefused
from lakebraid.storage import Storage
from lakebraid.storage.memory import MemoryStorage
from lakebraid.writing.transaction import Transaction
from tests.kit.present import present
from tests.kit.tables.scene import TickingClock, make_table

NOON = int(datetime(2026, 3, 2, 12, tzinfo=UTC).timestamp() * 1000)
CITIES = ("Bergen", "Lima", "Oslo", "Rome")
SCHEMA = "id string, city string, price double, ts bigint"


class StoryClock(TickingClock):
    """A clock that is set to the moment of each scene, and goes on by itself from there."""

    def __init__(self) -> None:
        super().__init__(NOON)

    def at(self, seconds: float) -> None:
        self.ms = max(self.ms, NOON + int(seconds * 1000))


class Story:
    """One table and its writers by name."""

    def __init__(self, name: str = "orders", storage: Storage | None = None, **how: Any) -> None:
        self.clock = StoryClock()
        self.storage = storage or MemoryStorage(f"memory://{name}", self.clock)
        how = {"partition_by": "city", "buckets": 2, "name": name} | how
        self.table: Table = make_table(self.storage, self.clock, SCHEMA, **how)
        self._ts = 0

        self._acts: list[tuple[float, Callable[[], object]]] = []

    def at(self, seconds: float, act: Callable[[], object]) -> None:
        """Something that happens then; `play` does all of it in the order of time."""
        self._acts.append((seconds, act))

    def play(self) -> Story:
        acts, self._acts = sorted(self._acts, key=lambda act: act[0]), []
        for seconds, act in acts:
            self.clock.at(seconds)
            act()
        return self

    def begin(self, writer: str, rows: int = 40, cities: tuple[str, ...] = CITIES) -> Transaction:
        txn = self.table.begin("upsert", writer=writer)
        self._ts += 1
        made = [(i, cities[i % len(cities)]) for i in range(rows)]
        txn.write([{"id": f"{city}-{i}", "city": city, "price": 1.5 * i, "ts": self._ts} for i, city in made])
        return txn

    def write(self, at: float, took: float, writer: str, end: str = "commit", **how: Any) -> None:
        """A writer that begins then, and after so long commits, aborts or dies."""
        begun: list[Transaction] = []
        self.at(at, lambda: begun.append(self.begin(writer, **how)))
        self.at(at + took, lambda: self._end(begun[0], end))

    @staticmethod
    def _end(txn: Transaction, end: str) -> None:
        if end == "die":
            txn._heartbeat.stop()
        elif end == "abort":
            txn.abort()
        elif end == "refused":
            with contextlib.suppress(CommitRefused):
                txn.commit()
        else:
            txn.commit()

    def compact(self, at: float, took: float) -> None:
        planned: list[Any] = []
        self.at(at, lambda: planned.append(self.table.plan_compaction()))
        self.at(at + took, lambda: self.table.run(planned[0]))

    def add_column(self, name: str) -> None:
        txn = self.table.begin("upsert", writer="new-column")
        txn.write([{"id": "Oslo-0", "city": "Oslo", "ts": 400, name: "web"}])
        self.clock.at((self.clock.ms - NOON) / 1000 + 3)
        txn.commit()

    def clash_of_schemas(self, at: float) -> None:
        """Two writers bring the same column with different types: RFC-82 refuses the second."""
        first, second = (self.table.begin("upsert", writer=name) for name in ("schema-a", "schema-b"))
        first.write([{"id": "Oslo-1", "city": "Oslo", "ts": 500, "note": "text"}])
        second.write([{"id": "Oslo-2", "city": "Oslo", "ts": 501, "note": 7}])
        self.clock.at(at + 4)
        first.commit()
        self.clock.at(at + 6)
        with contextlib.suppress(CommitRefused):
            second.commit()


def braided(storage: Storage | None = None) -> Story:
    """Writers and services for five minutes: overlapping commits, late finishers, a dead and an aborted writer, a refused
    change of the schema, a savepoint, a clean, and at the end open writes and a plan that waits.
    """
    story = Story(storage=storage)
    table = story.table
    story.write(0, 4, "backfill", rows=400)
    for at in range(6, 60, 9):
        story.write(at, 5, "ingest-a", rows=30)
        story.write(at + 1.5, 6, "ingest-b", rows=24, cities=("Oslo", "Rome"))
    story.write(58, 26, "slow-join", rows=20, cities=("Oslo", "Lima"))
    story.write(60, 10, "doomed", end="die", rows=10)
    story.compact(66, 9)
    story.write(67, 6, "ingest-a", rows=12)
    for at in range(88, 126, 7):
        story.write(at, 4, "ingest-a", rows=16)
        story.write(at + 1, 7, "ingest-b", rows=18, cities=("Rome",))
    story.at(135, lambda: table.savepoint(comment="before the price change"))
    story.write(136, 7, "experiment", end="abort", rows=8)
    story.at(144, lambda: story.clash_of_schemas(144))
    story.at(196, lambda: table.rollback(timeout_seconds=60))
    for at in range(204, 240, 8):
        story.write(at, 3, "ingest-a", rows=20)
    story.write(238, 24, "slow-join", rows=14)
    story.compact(246, 7)
    story.at(266, lambda: table.clean(commits=6))
    for at in range(270, 300, 6):
        story.write(at, 9, "ingest-b", rows=9, cities=("Lima", "Bergen"))
    story.at(312, table.plan_compaction)
    story.at(316, lambda: story.begin("ingest-a", rows=5))
    story.at(322, lambda: None)
    return story.play()


def late_finisher() -> Story:
    """The demo of RFC-66: a writer that began before a compaction was planned and completes after it has run."""
    story = Story("rfc66", partition_by=None, buckets=1)
    story.write(0, 3, "ingest")
    story.write(4, 5, "ingest")
    story.write(6, 5, "other")
    story.write(8, 18, "slow")
    story.compact(13, 5)
    story.write(15, 4, "ingest")
    story.write(20, 4, "other")
    story.write(28, 4, "ingest")
    return story.play()


def optimistic() -> Story:
    """RFC-71: writers of different buckets do not meet; of two in the same bucket the second to commit is refused."""
    story = Story("rfc71", concurrency="occ", buckets=1)
    story.write(0, 3, "load")
    story.write(5, 8, "oslo-a", cities=("Oslo",))
    story.write(6, 4, "rome", cities=("Rome",))
    story.write(7, 9, "oslo-b", end="refused", cities=("Oslo",))
    story.write(18, 4, "oslo-b", cities=("Oslo",))
    story.write(19, 6, "rome", cities=("Rome",))
    return story.play()


def left_plans() -> Story:
    """RFC-79: a plan that its planner never executes is executed by whoever comes; a removable one is rolled back."""
    story = Story("rfc79", properties={"hoodie.lakebraid.table.service.rollback.delay.minutes": "0.5"})
    table, plans = story.table, []
    for at in range(0, 66, 6):
        story.write(at, 4, "ingest", rows=16)
    story.write(20, 22, "slow", rows=8)
    story.at(14, lambda: plans.append(present(table.plan_compaction())))
    story.at(30, lambda: table.run(plans[0]))
    story.at(52, lambda: table.plan_log_compaction(logs_min=2, removable=True))
    story.at(190, lambda: table.rollback(timeout_seconds=60))
    for at in range(194, 220, 8):
        story.write(at, 5, "ingest", rows=16)
    story.compact(222, 5)
    return story.play()


def schemas() -> Story:
    """RFC-82: one writer adds a column while others write; of two that change a column in two ways, one is refused."""
    story = Story("rfc82", partition_by=None, buckets=1)
    story.write(0, 3, "ingest")
    story.write(4, 12, "ingest")
    story.at(7, lambda: story.add_column("channel"))
    story.write(9, 4, "other")
    story.at(20, lambda: story.clash_of_schemas(20))
    story.write(30, 4, "ingest")
    return story.play()
