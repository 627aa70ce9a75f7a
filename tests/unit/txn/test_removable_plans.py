# SPDX-License-Identifier: Apache-2.0
"""Plans that are executed once at most (RFC-79), and the rollback of many in two steps: decide all, then execute all."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from lakebraid.errors import ClaimLost, CommitRefused, RolledBack, StorageError
from lakebraid.format.names import LogFileName, claim_token, parse_data_file
from lakebraid.format.timeline.commit import CommitMetadata
from lakebraid.format.timeline.plans import CompactionOperation, CompactionPlan, format_compaction_plan
from lakebraid.format.timeline.rollbacks import parse_rollback_metadata, parse_rollback_plan
from lakebraid.model.writable import FILE_LOCK
from lakebraid.services.merging.run import abandoned_plans, claimed
from lakebraid.services.settings import ServiceSettings
from lakebraid.storage.memory import MemoryStorage
from lakebraid.table.at import TableAt
from lakebraid.table.loading import load_timeline
from lakebraid.tasks.new_files import place_file
from lakebraid.txn.actions.plans import claim, decide_plan, publish_plan
from lakebraid.txn.actions.rescue import rescue
from lakebraid.txn.actions.rollback import decide_withdrawal, finish_rollback
from lakebraid.txn.ledger.entries import Entry, LedgerState, Undoing, format_entry, parse_entry
from lakebraid.txn.ledger.ledger import Ledger
from lakebraid.txn.liveness.heartbeat import beat, heartbeat_name
from tests.kit.present import present
from tests.kit.tables.scene import Call, TickingClock, WatchedStorage, files, make_table, row, table_on

PLAN_DELAY = ServiceSettings().plan_rollback_minutes.name
pytestmark = pytest.mark.unit

HOUR_MS = 3_600_000


class World:
    """A table with a row, and somebody who plans for it."""

    def __init__(self, **properties: str) -> None:
        self.clock = TickingClock()
        self.storage = MemoryStorage("memory://removable", self.clock)
        self.table = make_table(self.storage, self.clock, properties=properties)
        self.table.upsert([row("a", "1")])
        self.log = next(name for name in files(self.storage) if ".log." in name)
        self.group = present(parse_data_file(self.log)).file_id

    @property
    def ledger(self) -> Ledger:
        """Each time that of another process."""
        return table_on(self.storage, self.clock)._writing.ledger(self.table._config)

    def plan(self, *, is_removable: bool = True, action: str = "logcompaction") -> str:
        operation = CompactionOperation(self.group, "", None, (self.log,))
        content = format_compaction_plan(CompactionPlan((operation,)))
        request_time = decide_plan(
            self.ledger, self.clock.token(), action, lambda *_: content, is_removable=is_removable
        )
        assert request_time is not None
        return request_time

    def begin_executing(self, request_time: str) -> str:
        """An executor that writes a file and is heard of no more."""
        ledger = self.ledger
        beat(self.storage, request_time)
        epoch = claim(ledger, "the dead one", request_time, seen=None)
        name = LogFileName(self.group, request_time, 1, claim_token(epoch), "").format()
        place_file(self.storage, request_time, "", name, b"merged")
        return name

    def rescue(self, **how: Any) -> Any:
        return rescue(self.ledger, self.clock.token(), **how)

    def wait(self, milliseconds: int) -> None:
        self.clock.ms += milliseconds

    def timeline_files(self, request_time: str) -> list[str]:
        return [i.name for i in self.storage.list(".hoodie/timeline") if i.name.split("/")[-1].startswith(request_time)]


@pytest.fixture
def world() -> World:
    return World()


# --- claiming ---------------------------------------------------------------------------------------------------------


def test_a_removable_plan_is_claimed_once_however_dead_its_executor_is(world: World) -> None:
    request_time = world.plan()
    world.begin_executing(request_time)
    world.wait(10 * HOUR_MS)
    epoch = world.ledger.newest().state.plans[request_time].epoch
    for seen in (None, epoch):
        with pytest.raises(ClaimLost, match="removable"):
            claim(world.ledger, "another", request_time, seen=seen)
    assert abandoned_plans(world.ledger, "logcompaction", lambda *_: None) == []


def test_an_executor_whose_answer_got_lost_finds_its_claim_on_a_removable_plan(world: World) -> None:
    request_time = world.plan()
    assert claim(world.ledger, "x", request_time, seen=None) == claim(world.ledger, "x", request_time, seen=None)


def test_whoever_tries_a_failed_removable_plan_in_vain_does_not_make_it_look_alive(world: World) -> None:
    request_time = world.plan()
    world.begin_executing(request_time)
    before = world.storage.info(heartbeat_name(request_time)).modified_ms
    world.wait(2 * HOUR_MS)
    with pytest.raises(ClaimLost), claimed(world.ledger, request_time):
        pass
    assert world.storage.info(heartbeat_name(request_time)).modified_ms == before
    assert world.rescue().plans == (request_time,)


@pytest.mark.parametrize("refusals", [1, 1000])
def test_nobody_executes_a_plan_without_having_shown_that_he_lives(world: World, refusals: int) -> None:
    """An old plan looks dead without a beat of its new executor: the next one, ours or Hudi's, would take it from him."""
    request_time = world.plan(is_removable=False)
    refused: list[Call] = []

    def refuse(call: Call) -> None:
        if call.target == heartbeat_name(request_time) and call.name == "replace" and len(refused) < refusals:
            refused.append(call)
            raise StorageError("429")

    ledger = table_on(WatchedStorage(world.storage, before=refuse), world.clock)._writing.ledger(world.table._config)
    if refusals == 1:
        with claimed(ledger, request_time):
            assert heartbeat_name(request_time) in [info.name for info in world.storage.list()]
    else:
        with pytest.raises(StorageError, match=r"Nothing was changed\. Try again"), claimed(ledger, request_time):
            pass
        assert world.ledger.newest().state.plans[request_time].epoch == 0


def test_a_removable_plan_whose_execution_fails_is_rolled_back_at_once_with_its_files(world: World) -> None:
    request_time = world.plan()

    def execute() -> None:
        with claimed(world.ledger, request_time) as held:
            name = LogFileName(world.group, request_time, 1, claim_token(held.epoch), "").format()
            place_file(world.storage, request_time, "", name, b"half")
            raise StorageError("the disk is full")

    with pytest.raises(StorageError, match="full"):
        execute()
    assert world.timeline_files(request_time) == []
    assert world.log in files(world.storage)
    assert not [name for name in files(world.storage) if request_time in name]
    assert world.ledger.newest().state.rollbacks == {}


def test_a_plan_that_stays_is_free_again_when_its_execution_fails(world: World) -> None:
    request_time = world.plan(is_removable=False)
    with pytest.raises(StorageError), claimed(world.ledger, request_time):
        raise StorageError("the disk is full")
    assert abandoned_plans(world.ledger, "logcompaction", lambda *_: None) == [request_time]


# --- rolling back -----------------------------------------------------------------------------------------------------


def test_a_removable_plan_that_nobody_executes_is_rolled_back_after_an_hour_and_not_before(world: World) -> None:
    request_time = world.plan()
    world.wait(HOUR_MS - 60_000)
    assert world.rescue().plans == ()
    world.wait(60_000)
    assert world.rescue().plans == (request_time,)
    assert world.timeline_files(request_time) == []


def test_the_table_says_how_long_a_removable_plan_may_wait() -> None:
    world = World(**{PLAN_DELAY: "5"})
    request_time = world.plan()
    world.wait(4 * 60_000)
    assert world.table.rollback().plans == ()
    world.wait(60_000)
    assert world.table.rollback().plans == (request_time,)


def test_a_removable_plan_that_is_being_executed_is_not_rolled_back_however_old_it_is(world: World) -> None:
    request_time = world.plan()
    world.wait(5 * HOUR_MS)
    world.begin_executing(request_time)
    world.wait(60_000)
    assert world.rescue().plans == ()
    assert request_time in world.ledger.newest().state.plans


def test_other_plans_are_never_rolled_back(world: World) -> None:
    request_times = [
        world.plan(is_removable=False, action=action) for action in ("compaction", "clustering", "logcompaction")
    ]
    world.begin_executing(request_times[-1])
    world.wait(1000 * HOUR_MS)
    assert world.rescue(timeout_ms=0, plan_delay_ms=0).plans == ()
    assert sorted(world.ledger.newest().state.plans) == sorted(request_times)


def test_an_executor_that_comes_while_its_plan_is_judged_has_it_or_is_refused_and_never_loses_it() -> None:
    seen = set()
    for at in count():
        world = World()
        request_time = world.plan()
        world.wait(2 * HOUR_MS)
        came: list[Any] = []

        def come(
            call: Call, *, world: World = world, request_time: str = request_time, came: list[Any] = came, at: int = at
        ) -> None:
            if call.number == at:
                try:
                    came.append(world.begin_executing(request_time))
                except ClaimLost as lost:
                    came.append(lost)

        watched = WatchedStorage(world.storage, before=come)
        ledger = Ledger(TableAt(watched, world.table._config, world.clock))
        done = rescue(ledger, "cleaner", timeout_ms=120_000)
        has_it = bool(came) and isinstance(came[0], str)
        assert done.plans == (() if has_it else (request_time,))
        assert (request_time in world.ledger.newest().state.plans) == has_it
        if not came:
            break  # it makes no more calls
        seen.add(has_it)
    assert seen == {True, False}


def test_the_rollback_of_a_plan_is_on_the_timeline_with_what_it_removed(world: World) -> None:
    request_time = world.plan()
    name = world.begin_executing(request_time)
    world.wait(2 * HOUR_MS)
    assert world.rescue().plans == (request_time,)
    (instant,) = [
        i for i in load_timeline(TableAt(world.storage, world.table._config, world.clock)) if i.action == "rollback"
    ]
    requested = f".hoodie/timeline/{instant.request_time}.rollback.requested"
    plan = parse_rollback_plan(world.storage.read(requested, 10**6), requested)
    undone = present(plan.instant)
    assert (undone.request_time, undone.action) == (request_time, "logcompaction")
    completed = f".hoodie/timeline/{instant.file_name()}"
    metadata = parse_rollback_metadata(world.storage.read(completed, 10**6), completed)
    assert metadata.partitions[""].deleted == (name,)
    assert name not in files(world.storage)


def test_an_executor_whose_plan_was_rolled_back_is_refused_and_its_late_file_is_swept(world: World) -> None:
    request_time = world.plan()
    world.begin_executing(request_time)
    epoch = world.ledger.newest().state.plans[request_time].epoch
    world.wait(2 * HOUR_MS)
    world.table.rollback()
    late = LogFileName(world.group, request_time, 1, claim_token(epoch), "").format()
    place_file(world.storage, request_time, "", late, b"late")
    with pytest.raises(RolledBack):
        publish_plan(world.ledger, "the dead one", request_time, epoch, lambda _: CommitMetadata())
    assert world.table.rollback().removed == (late,)
    assert world.table.to_arrow().num_rows == 1


def test_a_plan_that_is_taken_back_cannot_be_claimed_while_its_files_are_still_there(world: World) -> None:
    request_time = world.plan()
    world.wait(2 * HOUR_MS)
    rollback = decide_withdrawal(world.ledger, "x", request_time, lambda _: True)
    assert world.timeline_files(request_time), "decided, not executed"
    with pytest.raises(ClaimLost, match="withdrawn"):
        claim(world.ledger, "y", request_time, seen=None)
    with pytest.raises(CommitRefused):
        world.table.run(request_time)
    finish_rollback(world.ledger, "z", present(rollback))
    assert world.timeline_files(request_time) == []


def test_taking_a_plan_back_twice_is_one_rollback(world: World) -> None:
    request_time = world.plan()
    first = decide_withdrawal(world.ledger, "x", request_time, lambda _: True)
    assert decide_withdrawal(world.ledger, "y", request_time, lambda _: True) == first
    finish_rollback(world.ledger, "x", present(first))
    assert decide_withdrawal(world.ledger, "y", request_time, lambda _: True) is None


# --- in two steps -----------------------------------------------------------------------------------------------------


def test_all_rollbacks_are_decided_before_the_first_is_executed(world: World) -> None:
    for key in "bcd":
        world.table.begin().write([row(key, "dead")])
    request_time = world.plan()
    world.begin_executing(request_time)
    world.wait(2 * HOUR_MS)
    watched = WatchedStorage(world.storage)
    done = table_on(watched, world.clock).rollback()
    assert (len(done.rolled_back), done.plans) == (3, (request_time,))
    decided = [c.number for c in watched.calls if c.name == "copy" and c.target.endswith(".rollback.inflight")]
    removed = [c.number for c in watched.calls if c.name == "delete" and any(".log." in n for n in c.args[0])]
    assert len(decided) == 4
    assert max(decided) < min(removed)


def test_whoever_comes_next_executes_the_rollbacks_that_a_dead_one_has_decided(world: World) -> None:
    for key in "bcd":
        world.table.begin().write([row(key, "dead")])
    world.wait(2 * HOUR_MS)

    class Killed(BaseException):
        pass

    def kill(call: Call) -> None:
        if call.name == "delete" and any(".log." in name for name in call.args[0]):
            raise Killed

    with pytest.raises(Killed):
        table_on(WatchedStorage(world.storage, before=kill), world.clock).rollback()
    assert len(world.ledger.newest().state.rollbacks) == 3
    done = world.table.rollback()
    assert (done.rolled_back, len(done.finished)) == ((), 3)
    assert [n for n in files(world.storage) if n != world.log and ".log." in n] == []


# --- beside Apache Hudi -----------------------------------------------------------------------------------------------


def test_beside_hudi_a_removable_plan_goes_as_a_whole() -> None:
    world = World(**{"hoodie.write.lock.provider": FILE_LOCK})
    request_time = world.plan()
    name = world.begin_executing(request_time)
    world.wait(2 * HOUR_MS)
    assert world.rescue().plans == (request_time,)
    assert world.timeline_files(request_time) == []
    assert name not in files(world.storage)


def test_beside_hudi_a_removable_plan_that_hudi_rolled_back_is_nobodys_to_execute() -> None:
    world = World(**{"hoodie.write.lock.provider": FILE_LOCK})
    request_time = world.plan()
    world.begin_executing(request_time)
    epoch = world.ledger.newest().state.plans[request_time].epoch
    world.storage.delete([f".hoodie/timeline/{request_time}.logcompaction.inflight"])  # the end of an attempt, to Hudi
    world.table.upsert([row("b", "1")])  # a decision that minds it
    with pytest.raises(ClaimLost, match="removable"):
        claim(world.ledger, "another", request_time, seen=world.ledger.newest().state.plans[request_time].epoch)
    with pytest.raises(CommitRefused):
        publish_plan(world.ledger, "the dead one", request_time, epoch, lambda _: CommitMetadata())
    world.wait(2 * HOUR_MS)
    assert world.rescue().plans == (request_time,)


def test_an_entry_of_the_ledger_says_whether_a_rollback_removes_the_plan() -> None:
    time = "20260101000000000"
    for removes in (True, False):
        undoing = Undoing(time, "logcompaction", "x", removes_plan=removes)
        entry = Entry(1, "x", "roll back", time, 0, state=LedgerState(last=time, rollbacks={time: undoing}))
        assert parse_entry(format_entry(entry), "entry") == entry
