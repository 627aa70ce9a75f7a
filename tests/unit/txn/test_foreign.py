# SPDX-License-Identifier: Apache-2.0
"""Dead writers of Apache Hudi: rolled back with exactly their own files, under its lock, and never while they live."""

from __future__ import annotations

import pytest

from lakebraid import limits
from lakebraid.format.names import State
from lakebraid.format.timeline.plans import CompactionOperation, CompactionPlan, format_compaction_plan
from lakebraid.format.timeline.rollbacks import (
    InstantInfo,
    parse_rollback_metadata,
)
from lakebraid.services.archiving import Keep, choose
from lakebraid.storage import Storage
from lakebraid.storage.memory import MemoryStorage
from lakebraid.table.at import TableAt
from lakebraid.txn.actions.rescue import rescue
from lakebraid.txn.actions.rollback import decide_rollback, finish_rollback, roll_back
from lakebraid.txn.actions.write import begin_write
from lakebraid.txn.hudi.dead_jobs import adopt_rollback
from lakebraid.txn.ledger.ledger import Ledger
from lakebraid.txn.ledger.rounds import Round
from lakebraid.txn.liveness.heartbeat import beat
from tests.kit.models import hudi_model
from tests.kit.models.hudi_model import (
    CONFIG,
    LONG_AGO_MS,
    TIMELINE,
    Hudi,
    completions,
    names,
    shared,
)
from tests.kit.present import present
from tests.unit.txn.test_ledger import Clock

pytestmark = pytest.mark.unit


clock, storage, hudi = hudi_model.clock, hudi_model.storage, hudi_model.hudi  # fixtures


LOGS = ("p=1/.a-0_{}.log.1_0-1-2", ".b-0_{}.log.1_1-1-3")


def dead_write(hudi: Hudi, *, listed: bool) -> tuple[str, list[str]]:
    """A write of Hudi that died, with its files: markers of its own kind, and one that leads to another write's file."""
    other = hudi.begin()
    hudi.complete(other)
    request_time = hudi.begin()
    files = [name.format(request_time) for name in LOGS]
    strange = [LOGS[0].format(other), f"../x/.a-0_{request_time}.log.1_0-1-2"]
    for name in (*files, strange[0]):
        hudi.storage.create(name, b"rows")
    folder = f".hoodie/.temp/{request_time}"
    lines = [f"{name}.marker.CREATE" for name in (*files, *strange)]
    if listed:
        hudi.storage.create(f"{folder}/MARKERS.type", b"TIMELINE_SERVER_BASED")
        hudi.storage.create(f"{folder}/MARKERS0", f"{lines[0]}\n{lines[2]}\n{lines[3]}\n".encode())
        hudi.storage.create(f"{folder}/MARKERS12", f"{lines[1]}\np=1/.a-0_{request_time}.log.2_0-".encode())
    else:
        for line in lines[:3]:
            hudi.storage.create(f"{folder}/{line}", b"")
    return request_time, files


def data_files(storage: Storage) -> list[str]:
    return [info.name for info in storage.list() if ".log." in info.name and not info.name.startswith(".hoodie")]


@pytest.mark.parametrize("listed", [True, False])
def test_a_dead_write_of_hudi_is_rolled_back_with_exactly_its_own_files(
    storage: MemoryStorage, hudi: Hudi, clock: Clock, listed: bool
) -> None:
    request_time, files = dead_write(hudi, listed=listed)
    others = [name for name in data_files(storage) if name not in files]
    clock.ms += LONG_AGO_MS
    found = rescue(shared(storage), "r")
    assert found.rolled_back == (request_time,)
    assert data_files(storage) == others != []
    assert not any(name.startswith(request_time) for name in names(storage))
    done = next(name for name in names(storage) if name.endswith(".rollback"))
    metadata = parse_rollback_metadata(storage.read(f"{TIMELINE}/{done}", 10_000), done)
    assert metadata.instants == (InstantInfo(request_time, "deltacommit"),)
    assert {f for part in metadata.partitions.values() for f in part.deleted} == {f.rpartition("/")[2] for f in files}
    assert storage.list(".hoodie/.temp") == storage.list(".hoodie/.heartbeat") == []
    assert rescue(shared(storage), "r").rolled_back == ()


def test_a_write_of_hudi_with_a_fresh_heartbeat_is_left_alone(storage: MemoryStorage, hudi: Hudi, clock: Clock) -> None:
    request_time = hudi.begin()
    clock.ms += LONG_AGO_MS
    beat(storage, request_time)
    assert rescue(shared(storage), "r").rolled_back == ()
    assert not roll_back(shared(storage), "r", request_time)
    assert hudi.complete(request_time) in completions(storage)


def test_without_a_lock_nobody_elses_write_is_rolled_back(storage: MemoryStorage, hudi: Hudi, clock: Clock) -> None:
    request_time = hudi.begin()
    clock.ms += LONG_AGO_MS
    assert not roll_back(Ledger(TableAt(storage, CONFIG, clock)), "r", request_time)
    assert f"{request_time}.deltacommit.inflight" in names(storage)


def test_a_write_that_hudi_completed_after_all_keeps_its_files(
    storage: MemoryStorage, hudi: Hudi, clock: Clock
) -> None:
    request_time, files = dead_write(hudi, listed=False)
    clock.ms += LONG_AGO_MS
    rollback = present(decide_rollback(shared(storage), "r", request_time, limits.HEARTBEAT_TIMEOUT_MS))
    completion = hudi.complete(request_time)
    finish_rollback(shared(storage), "r", rollback)
    assert set(files) <= set(data_files(storage))
    assert completion in completions(storage)
    assert shared(storage).newest().state.rollbacks == {}


def test_a_rollback_of_ours_that_hudi_finished_is_not_finished_twice(storage: MemoryStorage, hudi: Hudi) -> None:
    request_time = begin_write(shared(storage), "a")
    rollback = present(decide_rollback(shared(storage), "r", request_time, 0))
    hudi.finish(rollback, request_time)
    finish_rollback(shared(storage), "r", rollback)
    assert sum(name.endswith(".rollback") for name in names(storage)) == 1
    begin_write(shared(storage), "b")
    assert shared(storage).newest().state.rollbacks == {}


def test_hudi_leaves_our_running_rollback_alone(storage: MemoryStorage, clock: Clock) -> None:
    request_time = begin_write(shared(storage), "a")
    rollback = decide_rollback(shared(storage), "r", request_time, 0)
    beaten_ms = storage.info(f".hoodie/.heartbeat/{rollback}").modified_ms
    assert clock.ms - beaten_ms <= 200, "the lock is kept for as long as Hudi's clocks may differ"


def test_an_unfinished_rollback_of_hudi_is_finished_by_its_plan(
    storage: MemoryStorage, hudi: Hudi, clock: Clock
) -> None:
    request_time, files = dead_write(hudi, listed=False)
    others = [name for name in data_files(storage) if name not in files]
    storage.delete([info.name for info in storage.list(".hoodie/.temp")])
    planned_files = [("p=1", files[0].partition("/")[2]), ("", files[1]), ("p=1", others[0].partition("/")[2])]
    rollback = hudi.plan_rollback(request_time, *planned_files)
    clock.ms += LONG_AGO_MS
    assert rescue(shared(storage), "r").finished == (rollback,)
    assert data_files(storage) == others
    assert [name for name in names(storage) if name.startswith(rollback) and "_" in name] != []
    assert not any(name.startswith(request_time) for name in names(storage))


def test_a_rollback_that_hudi_executes_now_is_left_to_it(storage: MemoryStorage, hudi: Hudi, clock: Clock) -> None:
    request_time, _ = dead_write(hudi, listed=False)
    clock.ms += LONG_AGO_MS
    rollback = hudi.plan_rollback(request_time)
    assert not adopt_rollback(shared(storage), "r", rollback)
    assert not roll_back(shared(storage), "r", request_time)
    assert rescue(shared(storage), "r").rolled_back == ()


def test_a_rollback_of_a_published_write_is_left_to_hudi(storage: MemoryStorage, hudi: Hudi, clock: Clock) -> None:
    request_time = hudi.begin()
    completion = hudi.complete(request_time)
    rollback = hudi.plan_rollback(request_time)
    clock.ms += LONG_AGO_MS
    assert not adopt_rollback(shared(storage), "r", rollback)
    assert completion in completions(storage)


def test_a_torn_rollback_of_hudi_is_left_as_it_is(storage: MemoryStorage, hudi: Hudi, clock: Clock) -> None:
    hudi.put(hudi.begin()[:-1] + "9", "rollback", State.REQUESTED, data=b"")
    before = names(storage)
    clock.ms += LONG_AGO_MS
    beat(storage, before[0][:17])
    assert rescue(shared(storage), "r").finished == ()
    assert names(storage) == before


def test_an_unfinished_rollback_of_a_compaction_leaves_its_plan(
    storage: MemoryStorage, hudi: Hudi, clock: Clock
) -> None:
    with hudi.locked() as request_time:
        plan = format_compaction_plan(CompactionPlan((CompactionOperation("", "a-0", "20260102030405678"),)))
        hudi.put(request_time, "compaction", State.REQUESTED, data=plan)
        hudi.put(request_time, "compaction", State.INFLIGHT)
    base = f"a-0_0-1-2_{request_time}.parquet"
    storage.create(base, b"rows")
    rollback = hudi.plan_rollback(request_time, ("", base), action="compaction")
    clock.ms += LONG_AGO_MS
    assert rescue(shared(storage), "r").finished == (rollback,)
    assert [name for name in names(storage) if name.startswith(request_time)] == [
        f"{request_time}.compaction.requested"
    ]
    assert base not in [info.name for info in storage.list_folder("")[0]]


@pytest.mark.parametrize("is_ours", [True, False], ids=["rolled back by us", "by Hudi"])
def test_the_timeline_is_not_archived_past_what_was_rolled_back_lately(
    storage: MemoryStorage, hudi: Hudi, clock: Clock, is_ours: bool
) -> None:
    """A late file of its tasks would count as committed for Apache Hudi, and for us."""
    for _ in range(3):
        hudi.commit()
    dead = hudi.begin()
    clock.ms += LONG_AGO_MS
    if is_ours:
        assert rescue(shared(storage), "r").rolled_back == (dead,)
    else:
        hudi.roll_back(dead)
    for _ in range(5):
        hudi.commit()
    on = shared(storage)
    chosen = choose(Round(on, on.newest().state, 0), Keep(1, 1))
    assert dead in chosen.held_back_by
    assert len(chosen.instants) == 2, "one write that is older stays"
