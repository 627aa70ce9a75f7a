# SPDX-License-Identifier: Apache-2.0
"""Who lets whom go first: a refused write those who are at its file groups, one that rewrites them those who began before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from lakebraid import limits
from lakebraid.errors import StorageError, WriteConflict
from lakebraid.txn.ledger.ledger import Ledger
from lakebraid.txn.liveness.waiting import stand_aside
from lakebraid.writing.transaction import Transaction
from tests.kit.present import present
from tests.kit.tables.clustering import Grove
from tests.kit.tables.scene import Call, Scene, TickingClock, WatchedStorage, row, table_on

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

    def wait(self) -> list[float]:
        """How it waits before it is done again."""
        table = self.scene.other()
        self.clock.waits.clear()
        stand_aside(table._writing.ledger(table._config), self.conflict)
        return self.clock.waits


def test_a_refused_write_waits_until_whoever_is_at_its_file_groups_has_ended() -> None:
    met = Met()
    rival = met.begin("a")
    met.clock.meanwhile = lambda waits: rival.commit() if waits == 4 else None
    assert len(met.wait()) == 5, "three looks at the rival, and two that saw nobody"


def test_a_write_that_has_announced_nothing_may_be_about_to_touch_the_same_groups() -> None:
    met = Met()
    rival = met.begin()
    met.clock.meanwhile = lambda waits: rival.abort() if waits == 3 else None
    assert len(met.wait()) == 4


def test_nobody_waits_for_a_writer_of_other_groups() -> None:
    met = Met()
    met.begin("b")
    assert len(met.wait()) == 2


def test_no_write_waits_long_for_a_writer_that_takes_its_time() -> None:
    met = Met()
    met.begin("a")
    assert limits.ASIDE_SECONDS <= sum(met.wait()) < limits.ASIDE_SECONDS + 2 * limits.ASIDE_LOOK_SECONDS


def test_of_those_who_wait_the_second_sees_the_first_begin() -> None:
    met = Met()
    rivals: list[Transaction] = []
    met.clock.meanwhile = lambda waits: rivals.append(met.begin("a")) if waits == 2 else None
    assert len(met.wait()) > 3, "nobody was there at its first look, somebody at its second"


def test_a_write_that_a_pending_clustering_refused_waits_until_it_is_done() -> None:
    clock = Waiting()
    grove = Grove(groups=2, clock=clock)
    plan = present(grove.table.plan_clustering())
    with pytest.raises(WriteConflict) as caught:
        grove.table.upsert([row("00", "new")], retries=0)
    clock.waits.clear()
    clock.meanwhile = lambda waits: grove.other().run(plan) if waits == 3 else None
    stand_aside(grove.ledger(), caught.value)
    assert len(clock.waits) == 4


def test_a_store_that_does_not_answer_ends_the_waiting() -> None:
    met = Met()

    def fails(_: object) -> None:
        raise StorageError("no answer")

    table = table_on(met.scene.storage, met.clock)
    at = replace(table._writing.ledger(table._config).table, storage=WatchedStorage(met.scene.storage, before=fails))
    ledger = Ledger(at)
    met.clock.waits.clear()
    stand_aside(ledger, met.conflict)
    assert len(met.clock.waits) == 1


def test_an_upsert_that_was_refused_lets_the_one_at_its_groups_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    met = Met()
    rival = met.begin("a")
    publish = Transaction._publish

    def after_the_winner(self: Transaction) -> str:
        monkeypatch.setattr(Transaction, "_publish", publish)
        met.begin("a").commit()
        return publish(self)

    monkeypatch.setattr(Transaction, "_publish", after_the_winner)
    met.clock.meanwhile = lambda waits: rival.abort() if waits == 6 else None
    met.clock.waits.clear()
    assert met.scene.other().upsert([row("a", "mine")]).attempts == 2
    assert len(met.clock.waits) == 7, "it waited for the one that was still there"


WORK_SECONDS = 0.5


@pytest.fixture
def rewriting(monkeypatch: pytest.MonkeyPatch) -> Rewriting:
    """One whose base files take half a second each."""
    found = Rewriting()
    size = min(file.size for file in found.scene.storage.list() if file.name.endswith(".parquet"))
    monkeypatch.setattr(limits, "REWRITTEN_BYTES_PER_SECOND", size / WORK_SECONDS)
    return found


class Rewriting:
    """A copy-on-write table with a row for each of four buckets, and how an upsert of one of them waits."""

    def __init__(self) -> None:
        self.clock = Waiting()
        arguments = {"concurrency": "occ", "buckets": 4, "table_type": "cow"}
        self.scene = Scene(arguments=arguments, clock=self.clock)
        self.scene.table.upsert([row(key, "first", 1) for key in "abcd"])

    def begin(self, key: str, *, is_at_work: bool = True) -> Transaction:
        transaction = self.scene.other().begin()
        transaction.write([row(key, "earlier", 2)])
        if is_at_work:
            transaction._stage()  # its file is announced and written, as at the beginning of its commit
            transaction._stage = lambda: None  # type: ignore[method-assign]  # not twice
        return transaction

    def upsert(self, *, key: str = "a", retries: int | None = None) -> int:
        """The attempts that it took."""
        self.clock.waits.clear()
        return self.scene.other().upsert([row(key, "later", 2)], retries=retries).attempts

    def shown(self, key: str = "a") -> str:
        return str(self.scene.table.to_arrow(["v"], where=[("id", "=", key)])["v"][0])


def test_a_rewrite_lets_the_one_that_began_before_it_end_and_is_not_refused(rewriting: Rewriting) -> None:
    earlier = rewriting.begin("a")
    rewriting.clock.meanwhile = lambda waits: earlier.commit() if waits == 3 else None
    assert rewriting.upsert() == 1
    assert len(rewriting.clock.waits) == 3
    assert rewriting.shown() == "later"
    assert rewriting.scene.table.audit().findings.counts == {}


def test_a_rewrite_waits_for_those_who_are_about_to_begin_theirs(rewriting: Rewriting) -> None:
    earlier = rewriting.begin("a", is_at_work=False)
    rewriting.clock.meanwhile = lambda waits: earlier.commit() if waits == 2 else None
    assert rewriting.upsert() == 1
    assert len(rewriting.clock.waits) == 2


@pytest.mark.parametrize("who", ["of other groups", "that has been there for long"])
def test_a_rewrite_does_not_wait_for_writers(who: str, rewriting: Rewriting) -> None:
    if who == "of other groups":
        rewriting.begin("b")
    else:
        rewriting.begin("a")
        rewriting.clock.sleep(10 * WORK_SECONDS)
    assert rewriting.upsert() == 1
    assert not rewriting.clock.waits


def test_a_rewrite_does_not_wait_for_one_that_began_later(rewriting: Rewriting) -> None:
    ours = rewriting.scene.other()
    later: list[Transaction] = []

    def begin_later(call: Call) -> None:
        if call.name == "copy" and call.target.endswith("commit.requested") and not later:
            later.append(rewriting.begin("a"))

    storage = WatchedStorage(rewriting.scene.storage, after=begin_later)
    ours = table_on(storage, rewriting.clock)
    rewriting.clock.waits.clear()
    assert ours.upsert([row("a", "ours", 2)]).attempts == 1
    assert later and not rewriting.clock.waits


def test_nobody_waits_much_longer_than_its_own_work_takes(rewriting: Rewriting) -> None:
    rewriting.begin("a")
    assert rewriting.upsert() == 1, "the slow one is overtaken"
    patience = limits.PATIENT_TIMES * WORK_SECONDS
    assert patience - limits.ASIDE_LOOK_SECONDS <= sum(rewriting.clock.waits) < patience + 3 * limits.ASIDE_LOOK_SECONDS


def test_little_work_is_not_worth_waiting_for(monkeypatch: pytest.MonkeyPatch, rewriting: Rewriting) -> None:
    monkeypatch.setattr(limits, "REWRITTEN_BYTES_PER_SECOND", 1e9)
    rewriting.begin("a")
    assert rewriting.upsert() == 1
    assert sum(rewriting.clock.waits) <= 2 * limits.ASIDE_LOOK_SECONDS


def test_as_long_as_one_after_the_other_ends_it_goes_on_waiting(rewriting: Rewriting) -> None:
    queue = [rewriting.begin("a") for _ in range(4)]
    rewriting.clock.meanwhile = lambda waits: queue.pop(0).abort() if waits % 7 == 0 and queue else None
    assert rewriting.upsert() == 1
    assert len(rewriting.clock.waits) == 28
    assert sum(rewriting.clock.waits) > 1.5 * WORK_SECONDS


@pytest.mark.parametrize("how", ["without retries", "in steps"])
def test_who_is_not_done_again_does_not_wait(how: str, rewriting: Rewriting) -> None:
    rewriting.begin("a")
    if how == "without retries":
        rewriting.upsert(retries=0)
    else:
        ours = rewriting.begin("a", is_at_work=False)
        rewriting.clock.waits.clear()
        ours.commit()
    assert not rewriting.clock.waits


def test_where_writers_never_wait_nobody_stands_aside_for_a_stream() -> None:
    clock = Waiting()
    scene = Scene(clock=clock)
    scene.begin(row("a", "x"))
    clock.waits.clear()
    scene.table._destination.wait(WriteConflict("overwritten", groups=[]), 0)
    assert len(clock.waits) == 1
