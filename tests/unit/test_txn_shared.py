# SPDX-License-Identifier: Apache-2.0
"""Beside Apache Hudi: a small model of its writer, which decides on the timeline under its lock and knows no ledger."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lakebraid import limits
from lakebraid.clock import SystemClock
from lakebraid.errors import CommitRefused, RolledBack, StorageError, UnsupportedTable
from lakebraid.format.commit import CommitMetadata, format_commit
from lakebraid.format.history import ArchivedInstant, write_history
from lakebraid.format.names import State, TimelineFileName, history_file_name
from lakebraid.format.plans import CompactionOperation, CompactionPlan, format_compaction_plan
from lakebraid.format.properties import format_properties
from lakebraid.format.rollbacks import (
    InstantInfo,
    RollbackMetadata,
    RollbackPlan,
    RollbackRequest,
    format_rollback_metadata,
    format_rollback_plan,
    parse_rollback_metadata,
)
from lakebraid.format.times import format_instant_time, parse_instant_time
from lakebraid.model.config import parse_config
from lakebraid.storage import LocalStorage, MemoryStorage, Storage
from lakebraid.table.loading import load_timeline
from lakebraid.txn import operations, plans
from lakebraid.txn.file_lock import LOCK, FileLock
from lakebraid.txn.foreign import adopt_rollback
from lakebraid.txn.heartbeat import beat
from lakebraid.txn.ledger import Ledger
from lakebraid.txn.plans import ClaimLost
from lakebraid.txn.rescue import rescue
from lakebraid.txn.rollback import finish_rollback, roll_back, take_back
from tests.table_builder import put_history
from tests.unit import test_txn_ledger as alone
from tests.unit.test_txn_ledger import Clock, publish

pytestmark = pytest.mark.unit

PROPERTIES = alone.PROPERTIES | {
    "hoodie.index.type": "BUCKET",
    "hoodie.bucket.index.num.buckets": "2",
    "hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL",
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider",
}
CONFIG = parse_config(PROPERTIES, "t")
TIMELINE = ".hoodie/timeline"
LONG_AGO_MS = limits.HEARTBEAT_TIMEOUT_MS + 1000


class Hudi:
    """Takes the lock for a moment to begin and to complete; its times are its clock's, never two the same."""

    def __init__(self, storage: Storage, clock: Clock | SystemClock) -> None:
        self.storage, self.clock = storage, clock

    @contextmanager
    def locked(self) -> Iterator[str]:
        while True:
            try:
                self.storage.create(LOCK, b"")
                break
            except StorageError:
                self.clock.sleep(0.002)
        self.clock.sleep(0.002)
        yield format_instant_time(self.clock.now_ms(), CONFIG.zone)
        self.storage.delete([LOCK])

    def begin(self, action: str = "deltacommit") -> str:
        with self.locked() as start:
            beat(self.storage, start)
            self.put(start, action, State.REQUESTED)
        self.put(start, action, State.INFLIGHT)
        return start

    def complete(self, start: str, action: str = "deltacommit") -> str:
        with self.locked() as completion:
            self.put(start, action, State.COMPLETED, completion, format_commit(CommitMetadata()))
        self.storage.delete([f".hoodie/.heartbeat/{start}"])
        return completion

    def commit(self) -> str:
        return self.complete(self.begin())

    def plan_rollback(self, victim: str, *files: tuple[str, str], action: str = "deltacommit") -> str:
        with self.locked() as start:
            requests = tuple(RollbackRequest(partition, files=(name,)) for partition, name in files)
            plan = RollbackPlan(InstantInfo(victim, action), requests)
            self.put(start, "rollback", State.REQUESTED, data=format_rollback_plan(plan, self.storage.url))
        return start

    def roll_back(self, victim: str) -> str:
        start = self.plan_rollback(victim)
        self.finish(start, victim)
        return start

    def finish(self, rollback: str, victim: str) -> None:
        with self.locked() as completion:
            self.remove(victim, State.INFLIGHT, State.REQUESTED)
            done = format_rollback_metadata(RollbackMetadata(rollback, (InstantInfo(victim, "deltacommit"),)))
            self.put(rollback, "rollback", State.COMPLETED, completion, done)

    def archive(self, start: str) -> None:
        """Moves one completed write into the history."""
        with self.locked():
            done = load_timeline(self.storage, CONFIG).write(start)
            row = ArchivedInstant(start, done.completion_time, "deltacommit", format_commit(CommitMetadata()), None)
            put_history(self.storage, {history_file_name(start, start, 0): write_history([row])}, 1)
            self.storage.delete([f"{TIMELINE}/{name}" for name in names(self.storage) if name.startswith(start)])

    def put(self, start: str, action: str, state: State, completion: str | None = None, data: bytes = b"") -> None:
        self.storage.create(f"{TIMELINE}/{TimelineFileName(start, completion, action, state).format()}", data)

    def remove(self, start: str, *states: State, action: str = "deltacommit") -> None:
        self.storage.delete([f"{TIMELINE}/{TimelineFileName(start, None, action, s).format()}" for s in states])


class Killed(BaseException):
    pass


class Mortal(MemoryStorage):
    """A process's view of the store; it dies before the call that `doom` names, and does nothing any more."""

    doom: tuple[str, str] | None

    @staticmethod
    def on(storage: MemoryStorage, call: str, name: str) -> Mortal:
        made = Mortal(clock=storage.clock, _objects=storage._objects, _changes=storage._changes)
        object.__setattr__(made, "doom", (call, name))
        object.__setattr__(made, "dead", False)
        return made

    def _live(self, call: str, names: list[str]) -> None:
        if self.dead or (self.doom[0] == call and any(re.search(self.doom[1], name) for name in names)):
            object.__setattr__(self, "dead", True)
            raise Killed

    def create(self, name, data):
        self._live("create", [name])
        super().create(name, data)

    def copy(self, source, target):
        self._live("copy", [target])
        super().copy(source, target)

    def delete(self, names):
        names = list(names)
        self._live("delete", names)
        super().delete(names)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def storage(clock: Clock) -> MemoryStorage:
    made = MemoryStorage(clock=clock)
    made.create(".hoodie/hoodie.properties", format_properties(PROPERTIES))
    return made


@pytest.fixture
def hudi(storage: MemoryStorage, clock: Clock) -> Hudi:
    return Hudi(storage, clock)


def shared(storage: Storage, **changes: object) -> Ledger:
    lock = FileLock(storage, storage.clock)
    return Ledger(storage, storage.clock, CONFIG, **{"lock": lock, "is_shared": True} | changes)


def killed(storage: MemoryStorage, call: str, name: str, act) -> None:
    """Runs `act(ledger)` in a process that dies at that call, holding the lock, which is then found to be dead."""
    with pytest.raises(Killed):
        act(shared(Mortal.on(storage, call, name)))
    storage.delete([LOCK])


def decided_but_dead(storage: MemoryStorage, start: str) -> None:
    """A writer decides to publish and dies before anybody can see it on the timeline."""
    killed(storage, "copy", r"\.deltacommit$", lambda dying: publish(dying, "a", start))
    assert (newest := shared(storage).newest()).kind == "publish"
    assert newest.files[0][1] not in storage._objects


def names(storage: Storage) -> list[str]:
    return [info.name.rpartition("/")[2] for info in storage.list_folder(TIMELINE)[0]]


def completions(storage: Storage) -> list[str]:
    return [i.completion_time for i in load_timeline(storage, CONFIG).completed]


# Times


def test_our_times_exceed_everything_that_hudi_put_on_the_timeline(storage, hudi):
    hudi.clock = Clock(storage.clock.ms + 60_000)
    done, pending = hudi.commit(), hudi.begin()
    on = shared(storage)
    start = operations.begin(on, "a")
    assert start > max(done, pending)
    assert publish(on, "a", start) > start


def test_the_lock_is_held_whenever_we_decide(storage):
    class Watching(MemoryStorage):
        def create(self, name, data):
            assert "ledger/" not in name or LOCK in self._objects
            super().create(name, data)

        def copy(self, source, target):
            assert LOCK in self._objects
            super().copy(source, target)

    watched = Watching(clock=storage.clock, _objects=storage._objects, _changes=storage._changes)
    on = shared(watched)
    publish(on, "a", operations.begin(on, "a"))
    roll_back(on, "b", operations.begin(on, "b"))
    assert LOCK not in storage._objects


# Writes that Hudi takes back


def test_a_write_that_hudi_rolled_back_is_refused_and_no_longer_open(storage, hudi):
    on = shared(storage)
    start = operations.begin(on, "a")
    hudi.roll_back(start)
    with pytest.raises(RolledBack):
        publish(on, "a", start)
    operations.begin(shared(storage), "b")
    newest = shared(storage).newest()
    assert newest.voids is None
    assert start not in newest.state.open
    assert start in newest.state.gone
    assert not any(name.startswith(f"{start}_") for name in names(storage))


def test_a_write_that_hudi_is_about_to_roll_back_is_refused(storage, hudi):
    on = shared(storage)
    start = operations.begin(on, "a")
    hudi.plan_rollback(start)
    with pytest.raises(RolledBack):
        publish(on, "a", start)
    assert operations.status(shared(storage), start) == "refused"


def test_hudis_rollback_of_another_write_does_not_disturb_ours(storage, hudi):
    on = shared(storage)
    start = operations.begin(on, "a")
    hudi.plan_rollback(hudi.begin())
    assert publish(on, "a", start) in completions(storage)


def test_a_torn_rollback_plan_of_hudi_stops_nobody(storage, hudi):
    on = shared(storage)
    start = operations.begin(on, "a")
    hudi.put(hudi.begin()[:-1] + "9", "rollback", State.REQUESTED, data=b"Obj\x01torn")
    assert publish(on, "a", start) in completions(storage)


# Entries that came too late


def test_an_entry_whose_maker_died_is_void_if_hudi_went_on_and_its_writer_publishes_after_hudi(storage, hudi):
    on = shared(storage)
    start = operations.begin(on, "a")
    decided_but_dead(storage, start)
    between = hudi.commit()
    other = operations.begin(shared(storage), "b")
    assert not any(name.startswith(f"{start}_") for name in names(storage))
    assert start in shared(storage).newest().state.open
    completion = publish(on, "a", start)
    assert between < other < completion
    assert completions(storage) == [between, completion]


def test_an_entry_whose_maker_died_comes_true_if_hudi_did_nothing(storage):
    start = operations.begin(shared(storage), "a")
    decided_but_dead(storage, start)
    operations.begin(shared(storage), "b")
    assert operations.status(shared(storage), start) == "published"
    assert len(completions(storage)) == 1


def test_a_begin_whose_maker_died_before_hudi_went_on_leaves_nothing(storage, hudi):
    killed(storage, "copy", "requested$", lambda dying: operations.begin(dying, "a"))
    hudi.commit()
    start = operations.begin(shared(storage), "b")
    assert list(shared(storage).newest().state.open) == [start]
    assert [name for name in names(storage) if name.endswith("inflight")][-1:] == [f"{start}.deltacommit.inflight"]


def test_a_begin_that_was_half_on_the_timeline_is_finished(storage, hudi):
    killed(storage, "copy", "inflight$", lambda dying: operations.begin(dying, "a"))
    hudi.commit()
    operations.begin(shared(storage), "b")
    assert sum(name.endswith("deltacommit.inflight") for name in names(storage)) == 3
    assert len(shared(storage).newest().state.open) == 2


def test_several_void_entries_in_a_row_are_all_passed_over(storage, hudi):
    start = operations.begin(shared(storage), "a")
    for _ in range(3):
        decided_but_dead(storage, start)
        hudi.commit()
    assert publish(shared(storage), "a", start) == max(completions(storage))
    assert len(completions(storage)) == 4


def test_a_void_entry_cannot_come_true_any_more(storage, hudi):
    start = operations.begin(shared(storage), "a")
    decided_but_dead(storage, start)
    void = shared(storage).newest()
    hudi.commit()
    operations.begin(shared(storage), "b")
    assert not shared(storage)._make_true(void)
    assert not any(name.startswith(f"{start}_") for name in names(storage))


@pytest.mark.parametrize("tidy", [True, False])
def test_a_published_write_that_hudi_archived_is_not_taken_for_void(storage, hudi, tidy):
    start = operations.begin(shared(storage), "a")
    if tidy:
        publish(shared(storage), "a", start)
    else:
        killed(storage, "delete", "staged", lambda dying: publish(dying, "a", start))
    hudi.commit()
    hudi.archive(start)
    on = shared(storage)
    assert operations.status(on, start) == "published"
    operations.begin(on, "b")
    assert on.newest().voids is None
    assert start not in on.newest().state.open
    assert not any(name.startswith(start) for name in names(storage))


# Locks that get lost


class Fickle:
    """Hudi's `close()` deletes the lock when our check is asked for the n-th time; `then` is what Hudi does next."""

    def __init__(self, storage: Storage, clock: Clock, when: int, then: Callable[[], object]) -> None:
        self.storage, self.clock, self.when, self.then = storage, clock, when, then
        self.asked: list[int] = []

    def __call__(self):
        hold = FileLock(self.storage, self.clock)()
        check = hold.check

        def lost() -> bool:
            self.asked.append(1)
            if len(self.asked) == self.when:
                self.storage.delete([LOCK])
                self.then()
            return check()

        hold.check = lost
        return hold


def fickle(storage: Storage, when: int, then=lambda: None) -> Ledger:
    return shared(storage, lock=Fickle(storage, storage.clock, when, then))


@pytest.mark.parametrize("when", [1, 2])
def test_a_lock_that_is_lost_while_deciding_lets_hudi_go_first(storage, hudi, when):
    start = operations.begin(shared(storage), "a")
    completion = publish(fickle(storage, when, hudi.commit), "a", start)
    assert completions(storage)[1] == completion
    assert len(completions(storage)) == 2


@pytest.mark.parametrize("when", [1, 2])
def test_a_lock_that_is_lost_without_consequence_makes_no_second_decision(storage, when):
    start = operations.begin(shared(storage), "a")
    completion = publish(fickle(storage, when), "a", start)
    assert completions(storage) == [completion]
    assert LOCK not in storage._objects


# The table itself


def test_nothing_is_decided_while_hudi_restores(storage, hudi):
    on = shared(storage)
    start = operations.begin(on, "a")
    hudi.put("20260102030500000", "restore", State.REQUESTED)
    with pytest.raises(StorageError, match="is restoring"):
        publish(on, "a", start)
    assert completions(storage) == []


def test_a_metadata_table_that_hudi_made_meanwhile_stops_the_commit_but_not_the_rollback(storage):
    on = shared(storage)
    start = operations.begin(on, "a")
    storage.replace(
        ".hoodie/hoodie.properties", format_properties(PROPERTIES | {"hoodie.table.metadata.partitions": "files"})
    )
    with pytest.raises(UnsupportedTable, match="metadata table"):
        publish(on, "a", start)
    assert roll_back(on, "a", start)


def test_settings_that_were_changed_meanwhile_refuse_the_commit(storage):
    on = shared(storage)
    start = operations.begin(on, "a")
    storage.replace(
        ".hoodie/hoodie.properties", format_properties(PROPERTIES | {"hoodie.bucket.index.num.buckets": "4"})
    )
    with pytest.raises(CommitRefused, match="settings"):
        publish(on, "a", start)


# Plans


def planned(on: Ledger) -> str:
    plan = CompactionPlan((CompactionOperation("", "00000000-0000-0000-0000-000000000000-0", "20260102030405678"),))
    start = plans.decide_plan(on, "p", "compaction", lambda _now, _start: format_compaction_plan(plan))
    assert start is not None
    return start


def test_a_plan_of_ours_that_hudi_executed_is_not_published_twice(storage, hudi):
    on = shared(storage)
    start = planned(on)
    epoch = plans.claim(on, "c", start, seen=None)
    completion = hudi.complete(start, "commit")
    assert plans.publish_plan(on, "c", start, epoch, lambda _: CommitMetadata()) == completion
    assert completions(storage) == [completion]


@pytest.mark.parametrize("done", [True, False])
def test_a_claim_is_lost_when_hudi_rolls_the_attempt_back(storage, hudi, done):
    on = shared(storage)
    start = planned(on)
    epoch = plans.claim(on, "c", start, seen=None)
    rollback = hudi.plan_rollback(start, action="compaction")
    if done:
        hudi.remove(start, State.INFLIGHT, action="compaction")
        hudi.put(rollback, "rollback", State.COMPLETED, rollback[:-1] + "9")
    with pytest.raises(ClaimLost):
        plans.publish_plan(on, "c", start, epoch, lambda _: CommitMetadata())


def test_a_plan_of_hudi_can_be_claimed_and_published(storage, hudi):
    start = hudi.begin("compaction")
    hudi.remove(start, State.INFLIGHT, action="compaction")
    on = shared(storage)
    epoch = plans.claim(on, "c", start, seen=None)
    assert plans.publish_plan(on, "c", start, epoch, lambda _: CommitMetadata()) in completions(storage)


# Dead writers of Hudi

LOGS = ("p=1/.a-0_{}.log.1_0-1-2", ".b-0_{}.log.1_1-1-3")


def dead_write(hudi: Hudi, *, listed: bool) -> tuple[str, list[str]]:
    """A write of Hudi that died, with its files: markers of its own kind, and one that leads to another write's file."""
    other = hudi.begin()
    hudi.complete(other)
    start = hudi.begin()
    files = [name.format(start) for name in LOGS]
    strange = [LOGS[0].format(other), f"../x/.a-0_{start}.log.1_0-1-2"]
    for name in (*files, strange[0]):
        hudi.storage.create(name, b"rows")
    folder = f".hoodie/.temp/{start}"
    lines = [f"{name}.marker.CREATE" for name in (*files, *strange)]
    if listed:
        hudi.storage.create(f"{folder}/MARKERS.type", b"TIMELINE_SERVER_BASED")
        hudi.storage.create(f"{folder}/MARKERS0", f"{lines[0]}\n{lines[2]}\n{lines[3]}\n".encode())
        hudi.storage.create(f"{folder}/MARKERS12", f"{lines[1]}\np=1/.a-0_{start}.log.2_0-".encode())
    else:
        for line in lines[:3]:
            hudi.storage.create(f"{folder}/{line}", b"")
    return start, files


def data_files(storage: Storage) -> list[str]:
    return [info.name for info in storage.list() if ".log." in info.name and not info.name.startswith(".hoodie")]


@pytest.mark.parametrize("listed", [True, False])
def test_a_dead_write_of_hudi_is_rolled_back_with_exactly_its_own_files(storage, hudi, clock, listed):
    start, files = dead_write(hudi, listed=listed)
    others = [name for name in data_files(storage) if name not in files]
    clock.ms += LONG_AGO_MS
    found = rescue(shared(storage), "r")
    assert found.rolled_back == (start,)
    assert data_files(storage) == others != []
    assert not any(name.startswith(start) for name in names(storage))
    done = next(name for name in names(storage) if name.endswith(".rollback"))
    metadata = parse_rollback_metadata(storage.read(f"{TIMELINE}/{done}", 10_000), done)
    assert metadata.instants == (InstantInfo(start, "deltacommit"),)
    assert {f for part in metadata.partitions.values() for f in part.deleted} == {f.rpartition("/")[2] for f in files}
    assert storage.list(".hoodie/.temp") == storage.list(".hoodie/.heartbeat") == []
    assert rescue(shared(storage), "r").rolled_back == ()


def test_a_write_of_hudi_with_a_fresh_heartbeat_is_left_alone(storage, hudi, clock):
    start = hudi.begin()
    clock.ms += LONG_AGO_MS
    beat(storage, start)
    assert rescue(shared(storage), "r").rolled_back == ()
    assert not roll_back(shared(storage), "r", start)
    assert hudi.complete(start) in completions(storage)


def test_without_a_lock_nobody_elses_write_is_rolled_back(storage, hudi, clock):
    start = hudi.begin()
    clock.ms += LONG_AGO_MS
    assert not roll_back(Ledger(storage, clock, CONFIG), "r", start)
    assert f"{start}.deltacommit.inflight" in names(storage)


def test_a_write_that_hudi_completed_after_all_keeps_its_files(storage, hudi, clock):
    start, files = dead_write(hudi, listed=False)
    clock.ms += LONG_AGO_MS
    rollback = take_back(shared(storage), "r", start, limits.HEARTBEAT_TIMEOUT_MS)
    completion = hudi.complete(start)
    finish_rollback(shared(storage), "r", rollback)
    assert set(files) <= set(data_files(storage))
    assert completion in completions(storage)
    assert shared(storage).newest().state.rollbacks == {}


def test_a_rollback_of_ours_that_hudi_finished_is_not_finished_twice(storage, hudi):
    start = operations.begin(shared(storage), "a")
    rollback = take_back(shared(storage), "r", start, 0)
    hudi.finish(rollback, start)
    finish_rollback(shared(storage), "r", rollback)
    assert sum(name.endswith(".rollback") for name in names(storage)) == 1
    operations.begin(shared(storage), "b")
    assert shared(storage).newest().state.rollbacks == {}


def test_hudi_leaves_our_running_rollback_alone(storage, clock):
    start = operations.begin(shared(storage), "a")
    rollback = take_back(shared(storage), "r", start, 0)
    beaten_ms = storage.info(f".hoodie/.heartbeat/{rollback}").modified_ms
    assert clock.ms - beaten_ms <= 200, "the lock is kept for as long as Hudi's clocks may differ"


def test_an_unfinished_rollback_of_hudi_is_finished_by_its_plan(storage, hudi, clock):
    start, files = dead_write(hudi, listed=False)
    others = [name for name in data_files(storage) if name not in files]
    storage.delete([info.name for info in storage.list(".hoodie/.temp")])
    planned_files = [("p=1", files[0].partition("/")[2]), ("", files[1]), ("p=1", others[0].partition("/")[2])]
    rollback = hudi.plan_rollback(start, *planned_files)
    clock.ms += LONG_AGO_MS
    assert rescue(shared(storage), "r").finished == (rollback,)
    assert data_files(storage) == others
    assert [name for name in names(storage) if name.startswith(rollback) and "_" in name] != []
    assert not any(name.startswith(start) for name in names(storage))


def test_a_rollback_that_hudi_executes_now_is_left_to_it(storage, hudi, clock):
    start, _ = dead_write(hudi, listed=False)
    clock.ms += LONG_AGO_MS
    rollback = hudi.plan_rollback(start)
    assert not adopt_rollback(shared(storage), "r", rollback)
    assert not roll_back(shared(storage), "r", start)
    assert rescue(shared(storage), "r").rolled_back == ()


def test_a_rollback_of_a_published_write_is_left_to_hudi(storage, hudi, clock):
    start = hudi.begin()
    completion = hudi.complete(start)
    rollback = hudi.plan_rollback(start)
    clock.ms += LONG_AGO_MS
    assert not adopt_rollback(shared(storage), "r", rollback)
    assert completion in completions(storage)


def test_a_torn_rollback_of_hudi_is_left_as_it_is(storage, hudi, clock):
    hudi.put(hudi.begin()[:-1] + "9", "rollback", State.REQUESTED, data=b"")
    before = names(storage)
    clock.ms += LONG_AGO_MS
    beat(storage, before[0][:17])
    assert rescue(shared(storage), "r").finished == ()
    assert names(storage) == before


def test_an_unfinished_rollback_of_a_compaction_leaves_its_plan(storage, hudi, clock):
    with hudi.locked() as start:
        plan = format_compaction_plan(CompactionPlan((CompactionOperation("", "a-0", "20260102030405678"),)))
        hudi.put(start, "compaction", State.REQUESTED, data=plan)
        hudi.put(start, "compaction", State.INFLIGHT)
    base = f"a-0_0-1-2_{start}.parquet"
    storage.create(base, b"rows")
    rollback = hudi.plan_rollback(start, ("", base), action="compaction")
    clock.ms += LONG_AGO_MS
    assert rescue(shared(storage), "r").finished == (rollback,)
    assert [name for name in names(storage) if name.startswith(start)] == [f"{start}.compaction.requested"]
    assert base not in [info.name for info in storage.list_folder("")[0]]


# Everybody at once


@pytest.mark.slow
def test_with_real_locks_completions_appear_in_the_order_of_their_times(tmp_path: Path) -> None:
    storage = LocalStorage(str(tmp_path))
    storage.create(".hoodie/hoodie.properties", format_properties(PROPERTIES))
    order: list[list[str]] = []

    class Watched(FileLock):
        def __call__(self):
            hold = super().__call__()
            give_back = hold._give_back
            hold._give_back = lambda: (order.append(completions(storage)), give_back())  # while it is held
            return hold

    def ours(writer: int) -> None:
        for number in range(6):
            on = Ledger(storage, SystemClock(), CONFIG, lock=Watched(storage, SystemClock()), is_shared=True)
            txn = f"{writer}.{number}"
            publish(on, txn, operations.begin(on, txn))

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


def test_hudis_lock_is_kept_until_every_clock_that_hudi_allows_has_passed_the_time_given(storage, clock):
    """A Hudi writer takes its next time from its own clock alone, which may be late by the skew."""
    start = operations.begin(shared(storage), "a")
    assert clock.ms >= parse_instant_time(start, CONFIG.zone) + 200


def test_a_claim_that_hudi_rolled_back_is_lost_though_hudi_made_an_inflight_file_again(storage, hudi, clock):
    """Published all the same, it would name files that Hudi's rollback deleted."""
    on = shared(storage)
    plan = CompactionPlan((CompactionOperation("f", "", "1"),))
    start = plans.decide_plan(on, "p", "compaction", lambda _now, _start: format_compaction_plan(plan))
    assert start is not None
    epoch = plans.claim(on, "c", start, seen=None)
    rollback = hudi.plan_rollback(start, action="compaction")
    with hudi.locked() as completion:
        # A rollback of an attempt removes the inflight file only; the executor after it creates its own.
        done = format_rollback_metadata(RollbackMetadata(rollback, (InstantInfo(start, "compaction"),)))
        hudi.put(rollback, "rollback", State.COMPLETED, completion, done)
    with pytest.raises(ClaimLost):
        plans.publish_plan(on, "c", start, epoch, lambda _: CommitMetadata())
