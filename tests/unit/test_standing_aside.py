# SPDX-License-Identifier: Apache-2.0
"""A refused write that is done again lets those go first who are at the same file groups, and waits for nobody else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lakebraid import limits
from lakebraid.api.transaction import Transaction
from lakebraid.errors import StorageError, WriteConflict
from lakebraid.txn.standing_aside import stand_aside
from tests.clustering import Grove
from tests.scene import Scene, TickingClock, WatchedStorage, row, table_on

pytestmark = pytest.mark.unit


class Waiting(TickingClock):
    """Notes how long was waited, and does something at each wait."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[float] = []
        self.meanwhile: Callable[[int], object] = lambda _: None

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        self.waits.append(seconds)
        self.meanwhile(len(self.waits))


class Met:
    """An optimistic table of four buckets, and a write that was refused over the bucket of `a`."""

    def __init__(self, **arguments: Any) -> None:
        self.clock = Waiting()
        self.scene = Scene(arguments={"concurrency": "occ", "buckets": 4} | arguments, clock=self.clock)
        refused, winner = self.begin("a"), self.begin("a")
        winner.commit()
        with pytest.raises(WriteConflict) as caught:
            refused.commit()
        self.conflict = caught.value

    def begin(self, *keys: str) -> Transaction:
        transaction = self.scene.other().begin()
        if keys:
            transaction.write([row(key, "x") for key in keys])
        return transaction

    def wait(self, attempt: int = 0) -> list[float]:
        """How it waits before it is done again."""
        table = self.scene.other()
        self.clock.waits.clear()
        stand_aside(table._writing.ledger(table._config), self.conflict, attempt)
        return self.clock.waits


def test_a_refused_write_waits_until_whoever_is_at_its_file_groups_has_ended():
    met = Met()
    rival = met.begin("a")
    met.clock.meanwhile = lambda waits: rival.commit() if waits == 4 else None
    assert len(met.wait()) == 5, "three looks at the rival, and two that saw nobody"


def test_a_write_that_has_announced_nothing_may_be_about_to_touch_the_same_groups():
    met = Met()
    rival = met.begin()
    met.clock.meanwhile = lambda waits: rival.abort() if waits == 3 else None
    assert len(met.wait()) == 4


def test_nobody_waits_for_a_writer_of_other_groups():
    met = Met()
    met.begin("b")
    assert len(met.wait()) == 2


@pytest.mark.parametrize(("attempt", "seconds"), [(0, limits.ASIDE_SECONDS), (2, 4 * limits.ASIDE_SECONDS), (29, 4.0)])
def test_nobody_waits_long_for_a_writer_that_takes_its_time(attempt, seconds):
    met = Met()
    met.begin("a")
    assert seconds <= sum(met.wait(attempt)) < seconds + 2 * limits.ASIDE_LOOK_SECONDS


def test_of_those_who_wait_the_second_sees_the_first_begin():
    met = Met()
    rivals: list[Transaction] = []
    met.clock.meanwhile = lambda waits: rivals.append(met.begin("a")) if waits == 2 else None
    assert len(met.wait()) > 3, "nobody was there at its first look, somebody at its second"


def test_a_write_that_a_pending_clustering_refused_waits_until_it_is_done():
    clock = Waiting()
    grove = Grove(groups=2, clock=clock)
    plan = grove.table.plan_clustering()
    with pytest.raises(WriteConflict) as caught:
        grove.table.upsert([row("00", "new")], retries=0)
    clock.waits.clear()
    clock.meanwhile = lambda waits: grove.other().run(plan) if waits == 3 else None
    stand_aside(grove.ledger(), caught.value, 0)
    assert len(clock.waits) == 4


def test_a_store_that_does_not_answer_ends_the_waiting():
    met = Met()

    def fails(_: object) -> None:
        raise StorageError("no answer")

    table = table_on(met.scene.storage, met.clock)
    ledger = table._writing.ledger(table._config)
    ledger.storage = WatchedStorage(met.scene.storage, before=fails)
    met.clock.waits.clear()
    stand_aside(ledger, met.conflict, 0)
    assert len(met.clock.waits) == 1


def test_an_upsert_that_was_refused_lets_the_one_at_its_groups_go_first(monkeypatch):
    met = Met()
    winner, rival = met.begin("a"), met.begin("a")
    publish = Transaction._publish

    def after_the_winner(self: Transaction) -> str:
        monkeypatch.setattr(Transaction, "_publish", publish)
        winner.commit()
        return publish(self)

    monkeypatch.setattr(Transaction, "_publish", after_the_winner)
    met.clock.meanwhile = lambda waits: rival.abort() if waits == 6 else None
    met.clock.waits.clear()
    assert met.scene.other().upsert([row("a", "mine")]).attempts == 2
    assert len(met.clock.waits) == 7, "it waited for the one that was still there"


def test_where_writers_never_wait_nobody_stands_aside_for_a_stream():
    scene = Scene(clock=Waiting())
    scene.begin(row("a", "x"))
    scene.clock.waits.clear()
    scene.table._stand_aside(WriteConflict("overwritten", groups=[]), 0)
    assert len(scene.clock.waits) == 1
