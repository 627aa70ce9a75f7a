# SPDX-License-Identifier: Apache-2.0
"""Decisions that take long to think about come to their turn beside decisions that do not."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from typing import Any

import pytest

from lakebraid import limits
from lakebraid.clock import SystemClock
from lakebraid.storage.memory import MemoryStorage
from lakebraid.table.at import TableAt
from lakebraid.txn.ledger.entries import LEDGER
from lakebraid.txn.ledger.ledger import Ledger
from lakebraid.txn.ledger.rounds import Already, Decision, Round
from tests.kit.tables.scene import TickingClock, WatchedStorage, make_table, row
from tests.kit.waiting import until

pytestmark = pytest.mark.unit


def deciding(now: Round) -> Decision[None]:
    return Decision("test", replace(now.state, is_fresh=False), value=None)


def marks(storage: Any) -> list[str]:
    return [info.name for info in storage.list(LEDGER) if "/turn." in info.name]


@pytest.fixture
def storage() -> MemoryStorage:
    storage = MemoryStorage("memory://turns", TickingClock())
    make_table(storage, storage.clock)
    return storage


def ledger_on(storage: Any, clock: Any, *, may_ask: bool = False) -> Ledger:
    config = make_table(MemoryStorage("memory://config", TickingClock()), TickingClock())._config
    return Ledger(TableAt(storage, config, clock), may_ask=may_ask)


def test_a_slow_decision_gets_through_beside_writers_that_never_pause(storage: MemoryStorage) -> None:
    clock, stop, rounds = SystemClock(), threading.Event(), []

    def hurry() -> None:
        ledger = ledger_on(storage, clock)
        while not stop.is_set():
            ledger.decide(clock.token(), deciding)

    def is_overtaken(number: int) -> bool:
        return ledger_on(storage, clock).newest().number > number

    def think(now: Round) -> Decision[None]:
        rounds.append(now.number)
        assert len(rounds) <= 50, "it asks, and nobody lets it go first"
        if marks(storage):
            time.sleep(0.05)  # fifty decisions of the others, did they not wait
        else:
            until(lambda: is_overtaken(now.number), "a decision of the others")
        return deciding(now)

    others = [threading.Thread(target=hurry, daemon=True) for _ in range(2)]
    for other in others:
        other.start()
    try:
        ledger_on(storage, clock, may_ask=True).decide("slow", think)
    finally:
        stop.set()
        for other in others:
            other.join()
    assert len(rounds) > limits.TURN_ROUNDS_LOST
    assert marks(storage) == []


def test_nobody_waits_longer_than_a_moment_for_one_who_does_not_come(storage: MemoryStorage) -> None:
    clock = TickingClock()
    storage.create(f"{LEDGER}/turn.abc", b"")
    begun = clock.monotonic()
    ledger_on(storage, clock).decide("x", deciding)
    assert clock.monotonic() - begun < 2 * limits.TURN_WAIT_SECONDS_MAX + 0.1


def test_who_loses_again_and_again_asks_again_for_as_long_as_its_rounds_take(storage: MemoryStorage) -> None:
    clock, asked = TickingClock(), []

    def think(now: Round) -> Decision[None]:
        clock.ms += 1500
        asked.append([name.rpartition("turn.")[2][:5] for name in marks(storage)])
        if len(asked) < 8:
            ledger_on(storage, TickingClock(), may_ask=True).decide("faster", deciding)
        if len(asked) == 5:
            storage.delete(marks(storage))  # void by now, and swept by others
        return deciding(now)

    ledger_on(storage, clock, may_ask=True).decide("slow", think)
    assert [len(names) for names in asked] == [0, 0, 0, 1, 1, 0, 1, 1]
    assert 3000 <= int(asked[-1][0]) <= 3100, "twice what the slowest took"
    assert marks(storage) == []


@pytest.mark.parametrize(
    ("mark", "seconds"), [("turn.03000.abc", 3.0), ("turn.99999.abc", 8.0), ("turn.1e500.abc", 1.0)]
)
def test_others_wait_for_as_long_as_somebody_asks_and_not_for_ever(
    storage: MemoryStorage, mark: str, seconds: float
) -> None:
    clock = TickingClock()
    storage.create(f"{LEDGER}/{mark}", b"")
    begun = clock.monotonic()
    ledger_on(storage, clock).decide("x", deciding)
    assert seconds <= clock.monotonic() - begun < seconds + 0.5


def test_a_mark_that_a_dead_process_left_is_ignored_and_removed(storage: MemoryStorage) -> None:
    storage.create(f"{LEDGER}/turn.abc", b"")
    assert isinstance(storage.clock, TickingClock)
    storage.clock.ms += limits.TURN_MS_MAX + 1000
    clock = TickingClock()
    ledger_on(storage, clock).decide("x", deciding)
    assert marks(storage) == [], "it was as new as the newest entry, until this decision made one"


def test_without_lost_rounds_a_decision_makes_no_call_more(storage: MemoryStorage) -> None:
    ledger_on(storage, storage.clock).decide("w", deciding)
    counts = []
    for may_ask in (False, True):
        watched = WatchedStorage(storage)
        ledger_on(watched, storage.clock, may_ask=may_ask).decide("x", deciding)
        counts.append(len(watched.calls))
    assert counts[0] == counts[1]


def test_a_mark_is_no_entry_and_whoever_asks_too_is_not_stopped_by_it(storage: MemoryStorage) -> None:
    before = ledger_on(storage, storage.clock).newest()
    storage.create(f"{LEDGER}/turn.abc", b"")
    assert ledger_on(storage, storage.clock).newest() == before
    clock = TickingClock()
    begun = clock.monotonic()
    ledger_on(storage, clock, may_ask=True).decide("x", lambda now: Already(now.number))
    assert clock.monotonic() - begun < limits.TURN_WAIT_SECONDS_MAX


def test_a_table_with_a_mark_reads_and_writes_as_ever() -> None:
    table = make_table(MemoryStorage("memory://other", TickingClock()), TickingClock())
    table._storage.create(f"{LEDGER}/turn.abc", b"")
    table.upsert([row("a", "1")])
    assert table.count() == 1
