# SPDX-License-Identifier: Apache-2.0
"""Deciding beside Apache Hudi: its times, its lock, what it takes back, and what it did while one of ours was dead."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from lakebraid.clock import Clock as AnyClock
from lakebraid.clock import SystemClock
from lakebraid.errors import ClaimLost, CommitRefused, RolledBack, StorageError, UnsupportedTable
from lakebraid.format.names import State
from lakebraid.format.properties import format_properties
from lakebraid.format.timeline.commit import CommitMetadata
from lakebraid.format.timeline.plans import CompactionOperation, CompactionPlan, format_compaction_plan
from lakebraid.format.timeline.rollbacks import (
    InstantInfo,
    RollbackMetadata,
    format_rollback_metadata,
)
from lakebraid.format.times import parse_instant_time
from lakebraid.storage import LocalStorage, MemoryStorage, Storage
from lakebraid.table.at import TableAt
from lakebraid.txn.actions import plans
from lakebraid.txn.actions.rollback import roll_back
from lakebraid.txn.actions.write import begin_write, write_status
from lakebraid.txn.hudi.file_lock import LOCK, FileHold, FileLock
from lakebraid.txn.ledger.ledger import Ledger
from tests.kit.models import hudi_model
from tests.kit.models.hudi_model import (
    CONFIG,
    PROPERTIES,
    Hudi,
    completions,
    decided_but_dead,
    killed,
    names,
    shared,
)
from tests.unit.txn.test_ledger import Clock, publish

pytestmark = pytest.mark.unit


clock, storage, hudi = hudi_model.clock, hudi_model.storage, hudi_model.hudi  # fixtures


# Times


def test_our_times_exceed_everything_that_hudi_put_on_the_timeline(storage: MemoryStorage, hudi: Hudi) -> None:
    hudi.clock = Clock(storage.clock.now_ms() + 60_000)
    done, pending = hudi.commit(), hudi.begin()
    on = shared(storage)
    request_time = begin_write(on, "a")
    assert request_time > max(done, pending)
    assert publish(on, "a", request_time) > request_time


def test_the_lock_is_held_whenever_we_decide(storage: MemoryStorage) -> None:
    class Watching(MemoryStorage):
        def create(self, name: str, data: bytes) -> None:
            assert "ledger/" not in name or LOCK in self._objects
            super().create(name, data)

        def copy(self, source: str, target: str) -> None:
            assert LOCK in self._objects
            super().copy(source, target)

    watched = Watching(clock=storage.clock, _objects=storage._objects, _changes=storage._changes)
    on = shared(watched)
    publish(on, "a", begin_write(on, "a"))
    roll_back(on, "b", begin_write(on, "b"))
    assert LOCK not in storage._objects


# Writes that Hudi takes back


def test_a_write_that_hudi_rolled_back_is_refused_and_no_longer_open(storage: MemoryStorage, hudi: Hudi) -> None:
    on = shared(storage)
    request_time = begin_write(on, "a")
    hudi.roll_back(request_time)
    with pytest.raises(RolledBack):
        publish(on, "a", request_time)
    begin_write(shared(storage), "b")
    newest = shared(storage).newest()
    assert newest.voids is None
    assert request_time not in newest.state.open
    assert request_time in newest.state.gone
    assert not any(name.startswith(f"{request_time}_") for name in names(storage))


def test_a_write_that_hudi_is_about_to_roll_back_is_refused(storage: MemoryStorage, hudi: Hudi) -> None:
    on = shared(storage)
    request_time = begin_write(on, "a")
    hudi.plan_rollback(request_time)
    with pytest.raises(RolledBack):
        publish(on, "a", request_time)
    assert write_status(shared(storage), request_time) == "refused"


def test_hudis_rollback_of_another_write_does_not_disturb_ours(storage: MemoryStorage, hudi: Hudi) -> None:
    on = shared(storage)
    request_time = begin_write(on, "a")
    hudi.plan_rollback(hudi.begin())
    assert publish(on, "a", request_time) in completions(storage)


def test_a_torn_rollback_plan_of_hudi_stops_nobody(storage: MemoryStorage, hudi: Hudi) -> None:
    on = shared(storage)
    request_time = begin_write(on, "a")
    hudi.put(hudi.begin()[:-1] + "9", "rollback", State.REQUESTED, data=b"Obj\x01torn")
    assert publish(on, "a", request_time) in completions(storage)


# Entries that came too late


def test_an_entry_whose_maker_died_is_void_if_hudi_went_on_and_its_writer_publishes_after_hudi(
    storage: MemoryStorage, hudi: Hudi
) -> None:
    on = shared(storage)
    request_time = begin_write(on, "a")
    decided_but_dead(storage, request_time)
    between = hudi.commit()
    other = begin_write(shared(storage), "b")
    assert not any(name.startswith(f"{request_time}_") for name in names(storage))
    assert request_time in shared(storage).newest().state.open
    completion = publish(on, "a", request_time)
    assert between < other < completion
    assert completions(storage) == [between, completion]


def test_an_entry_whose_maker_died_comes_true_if_hudi_did_nothing(storage: MemoryStorage) -> None:
    request_time = begin_write(shared(storage), "a")
    decided_but_dead(storage, request_time)
    begin_write(shared(storage), "b")
    assert write_status(shared(storage), request_time) == "published"
    assert len(completions(storage)) == 1


def test_a_begin_whose_maker_died_before_hudi_went_on_leaves_nothing(storage: MemoryStorage, hudi: Hudi) -> None:
    killed(storage, "copy", "requested$", lambda dying: begin_write(dying, "a"))
    hudi.commit()
    request_time = begin_write(shared(storage), "b")
    assert list(shared(storage).newest().state.open) == [request_time]
    assert [name for name in names(storage) if name.endswith("inflight")][-1:] == [
        f"{request_time}.deltacommit.inflight"
    ]


def test_a_begin_that_was_half_on_the_timeline_is_finished(storage: MemoryStorage, hudi: Hudi) -> None:
    killed(storage, "copy", "inflight$", lambda dying: begin_write(dying, "a"))
    hudi.commit()
    begin_write(shared(storage), "b")
    assert sum(name.endswith("deltacommit.inflight") for name in names(storage)) == 3
    assert len(shared(storage).newest().state.open) == 2


def test_several_void_entries_in_a_row_are_all_passed_over(storage: MemoryStorage, hudi: Hudi) -> None:
    request_time = begin_write(shared(storage), "a")
    for _ in range(3):
        decided_but_dead(storage, request_time)
        hudi.commit()
    assert publish(shared(storage), "a", request_time) == max(completions(storage))
    assert len(completions(storage)) == 4


def test_a_void_entry_cannot_come_true_any_more(storage: MemoryStorage, hudi: Hudi) -> None:
    request_time = begin_write(shared(storage), "a")
    decided_but_dead(storage, request_time)
    void = shared(storage).newest()
    hudi.commit()
    begin_write(shared(storage), "b")
    assert not shared(storage)._apply(void)
    assert not any(name.startswith(f"{request_time}_") for name in names(storage))


@pytest.mark.parametrize("tidy", [True, False])
def test_a_published_write_that_hudi_archived_is_not_taken_for_void(
    storage: MemoryStorage, hudi: Hudi, tidy: bool
) -> None:
    request_time = begin_write(shared(storage), "a")
    if tidy:
        publish(shared(storage), "a", request_time)
    else:
        killed(storage, "delete", "staged", lambda dying: publish(dying, "a", request_time))
    hudi.commit()
    hudi.archive(request_time)
    on = shared(storage)
    assert write_status(on, request_time) == "published"
    begin_write(on, "b")
    assert on.newest().voids is None
    assert request_time not in on.newest().state.open
    assert not any(name.startswith(request_time) for name in names(storage))


# Locks that get lost


class Fickle:
    """Hudi's `close()` deletes the lock when our check is asked for the n-th time; `then` is what Hudi does next."""

    def __init__(self, storage: Storage, clock: AnyClock, when: int, then: Callable[[], object]) -> None:
        self.storage, self.clock, self.when, self.then = storage, clock, when, then
        self.asked: list[int] = []

    def __call__(self, stand_in: Callable[[], None] = lambda: None) -> FileHold:
        hold = FileLock(self.storage, self.clock)(stand_in)
        check = hold.check

        def lost() -> bool:
            self.asked.append(1)
            if len(self.asked) == self.when:
                self.storage.delete([LOCK])
                self.then()
            return check()

        hold.check = lost  # type: ignore[method-assign]
        return hold


def fickle(storage: MemoryStorage, when: int, then: Callable[[], object] = lambda: None) -> Ledger:
    return shared(storage, lock=Fickle(storage, storage.clock, when, then))


@pytest.mark.parametrize("when", [1, 2])
def test_a_lock_that_is_lost_while_deciding_lets_hudi_go_first(storage: MemoryStorage, hudi: Hudi, when: int) -> None:
    request_time = begin_write(shared(storage), "a")
    completion = publish(fickle(storage, when, hudi.commit), "a", request_time)
    assert completions(storage)[1] == completion
    assert len(completions(storage)) == 2


@pytest.mark.parametrize("when", [1, 2])
def test_a_lock_that_is_lost_without_consequence_makes_no_second_decision(storage: MemoryStorage, when: int) -> None:
    request_time = begin_write(shared(storage), "a")
    completion = publish(fickle(storage, when), "a", request_time)
    assert completions(storage) == [completion]
    assert LOCK not in storage._objects


# The table itself


def test_nothing_is_decided_while_hudi_restores(storage: MemoryStorage, hudi: Hudi) -> None:
    on = shared(storage)
    request_time = begin_write(on, "a")
    hudi.put("20260102030500000", "restore", State.REQUESTED)
    with pytest.raises(StorageError, match="is restoring"):
        publish(on, "a", request_time)
    assert completions(storage) == []


def test_a_metadata_table_that_hudi_made_meanwhile_stops_the_commit_but_not_the_rollback(
    storage: MemoryStorage,
) -> None:
    on = shared(storage)
    request_time = begin_write(on, "a")
    storage.replace(
        ".hoodie/hoodie.properties", format_properties(PROPERTIES | {"hoodie.table.metadata.partitions": "files"})
    )
    with pytest.raises(UnsupportedTable, match="metadata table"):
        publish(on, "a", request_time)
    assert roll_back(on, "a", request_time)


def test_settings_that_were_changed_meanwhile_refuse_the_commit(storage: MemoryStorage) -> None:
    on = shared(storage)
    request_time = begin_write(on, "a")
    storage.replace(
        ".hoodie/hoodie.properties", format_properties(PROPERTIES | {"hoodie.bucket.index.num.buckets": "4"})
    )
    with pytest.raises(CommitRefused, match="settings"):
        publish(on, "a", request_time)


# Plans


def planned(on: Ledger) -> str:
    plan = CompactionPlan((CompactionOperation("", "00000000-0000-0000-0000-000000000000-0", "20260102030405678"),))
    request_time = plans.decide_plan(on, "p", "compaction", lambda _now, _request_time: format_compaction_plan(plan))
    assert request_time is not None
    return request_time


def test_a_plan_of_ours_that_hudi_executed_is_not_published_twice(storage: MemoryStorage, hudi: Hudi) -> None:
    on = shared(storage)
    request_time = planned(on)
    epoch = plans.claim(on, "c", request_time, seen=None)
    completion = hudi.complete(request_time, "commit")
    assert plans.publish_plan(on, "c", request_time, epoch, lambda _: CommitMetadata()) == completion
    assert completions(storage) == [completion]


@pytest.mark.parametrize("done", [True, False])
def test_a_claim_is_lost_when_hudi_rolls_the_attempt_back(storage: MemoryStorage, hudi: Hudi, done: bool) -> None:
    on = shared(storage)
    request_time = planned(on)
    epoch = plans.claim(on, "c", request_time, seen=None)
    rollback = hudi.plan_rollback(request_time, action="compaction")
    if done:
        hudi.remove(request_time, State.INFLIGHT, action="compaction")
        hudi.put(rollback, "rollback", State.COMPLETED, rollback[:-1] + "9")
    with pytest.raises(ClaimLost):
        plans.publish_plan(on, "c", request_time, epoch, lambda _: CommitMetadata())


def test_a_plan_of_hudi_can_be_claimed_and_published(storage: MemoryStorage, hudi: Hudi) -> None:
    request_time = hudi.begin("compaction")
    hudi.remove(request_time, State.INFLIGHT, action="compaction")
    on = shared(storage)
    epoch = plans.claim(on, "c", request_time, seen=None)
    assert plans.publish_plan(on, "c", request_time, epoch, lambda _: CommitMetadata()) in completions(storage)


# Everybody at once


@pytest.mark.slow
def test_with_real_locks_completions_appear_in_the_order_of_their_times(tmp_path: Path) -> None:
    storage = LocalStorage(str(tmp_path))
    storage.create(".hoodie/hoodie.properties", format_properties(PROPERTIES))
    order: list[list[str]] = []

    class Watched(FileLock):
        def __call__(self, stand_in: Callable[[], None] = lambda: None) -> FileHold:
            hold = super().__call__(stand_in)
            give_back = hold._give_back

            def noted() -> None:
                order.append(completions(storage))  # while it is held
                give_back()

            hold._give_back = noted  # type: ignore[method-assign]
            return hold

    def ours(writer: int) -> None:
        for number in range(6):
            on = Ledger(TableAt(storage, CONFIG, SystemClock()), lock=Watched(storage, SystemClock()), is_shared=True)
            txn = f"{writer}.{number}"
            publish(on, txn, begin_write(on, txn))

    def theirs() -> None:
        for _ in range(6):
            Hudi(storage, SystemClock()).commit()

    threads = [threading.Thread(target=ours, args=(n,)) for n in range(3)] + [threading.Thread(target=theirs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(completions(storage)) == 24
    assert all(after[: len(before)] == before for before, after in zip(order, order[1:], strict=False))


def test_hudis_lock_is_kept_until_every_clock_that_hudi_allows_has_passed_the_time_given(
    storage: MemoryStorage, clock: Clock
) -> None:
    """A Hudi writer takes its next time from its own clock alone, which may be late by the skew."""
    request_time = begin_write(shared(storage), "a")
    assert clock.ms >= parse_instant_time(request_time, CONFIG.zone) + 200


def test_a_claim_that_hudi_rolled_back_is_lost_though_hudi_made_an_inflight_file_again(
    storage: MemoryStorage, hudi: Hudi, clock: Clock
) -> None:
    """Published all the same, it would name files that Hudi's rollback deleted."""
    on = shared(storage)
    plan = CompactionPlan((CompactionOperation("f", "", "1"),))
    request_time = plans.decide_plan(on, "p", "compaction", lambda _now, _request_time: format_compaction_plan(plan))
    assert request_time is not None
    epoch = plans.claim(on, "c", request_time, seen=None)
    rollback = hudi.plan_rollback(request_time, action="compaction")
    with hudi.locked() as completion:
        # A rollback of an attempt removes the inflight file only; the executor after it creates its own.
        done = format_rollback_metadata(RollbackMetadata(rollback, (InstantInfo(request_time, "compaction"),)))
        hudi.put(rollback, "rollback", State.COMPLETED, completion, done)
    with pytest.raises(ClaimLost):
        plans.publish_plan(on, "c", request_time, epoch, lambda _: CommitMetadata())
