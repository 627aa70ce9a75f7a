# SPDX-License-Identifier: Apache-2.0
"""A restore beside a living job of Apache Hudi: when the lock passes on, the job finds that it has lost its place."""

from __future__ import annotations

import re

import pytest

from lakebraid.errors import StorageError
from lakebraid.storage import MemoryStorage
from lakebraid.txn.actions.restore import decide_restore
from lakebraid.txn.actions.restore_files import finish_restore
from lakebraid.txn.actions.write import begin_write
from lakebraid.txn.hudi.file_lock import LOCK
from lakebraid.txn.hudi.lock_owner import MACHINE, parse_owner
from lakebraid.txn.ledger.rounds import Already
from lakebraid.txn.liveness.leases import register_consumer
from tests.kit.models import hudi_model
from tests.kit.models.hudi_model import Hudi, Killed, Mortal, killed, names, shared
from tests.kit.present import present
from tests.kit.tables.restoring import BEFORE, decided, ledger_of, scene
from tests.kit.tables.scene import Call, WatchedStorage, answer
from tests.unit.txn.test_ledger import publish

pytestmark = pytest.mark.unit
clock, storage, hudi = hudi_model.clock, hudi_model.storage, hudi_model.hudi  # fixtures


def two_writes(storage: MemoryStorage) -> str:
    on = shared(storage)
    first, second = (begin_write(on, txn) for txn in "ab")
    publish(on, "a", first)
    publish(on, "b", second)
    return first


def of(request_time: str, storage: MemoryStorage) -> list[str]:
    return [name for name in names(storage) if name.startswith(request_time)]


@pytest.mark.parametrize("state", ["requested", "inflight"])
def test_a_job_of_hudi_cannot_complete_once_a_restore_that_takes_it_back_is_decided(
    storage: MemoryStorage, hudi: Hudi, state: str
) -> None:
    first = two_writes(storage)
    job = hudi.begin()
    if state == "requested":
        storage.delete([f".hoodie/timeline/{job}.deltacommit.inflight"])
    restore, undo = decide_restore(shared(storage), "r", first)
    assert [i.request_time for i in undo.pending] == [job]
    assert of(job, storage) == [], "it asks for its inflight file, under the lock, before it completes"
    assert len(of(undo.completed[0].request_time, storage)) == 3, "what is published goes in its own order"
    finish_restore(shared(storage), "r", present(restore))
    assert [name for name in names(storage) if name.endswith(".restore")]


def test_whoever_finishes_the_decision_of_a_dead_restorer_stops_the_job_as_well(
    storage: MemoryStorage, hudi: Hudi
) -> None:
    first = two_writes(storage)
    job = hudi.begin()
    killed(storage, "delete", rf"{job}\.deltacommit", lambda dying: decide_restore(dying, "r", first))
    assert len(of(job, storage)) == 2
    shared(storage).decide("somebody else", lambda _: Already(None))
    assert of(job, storage) == []


def test_the_lock_of_a_dead_restorer_passes_on_only_after_his_decision_has_come_true(
    storage: MemoryStorage, hudi: Hudi
) -> None:
    """Else a job of Hudi, which waits for the lock as well, may be faster than whoever broke it."""
    first = two_writes(storage)
    job = hudi.begin()
    with pytest.raises(Killed):
        decide_restore(shared(Mortal.on(storage, "copy", r"restore\.inflight")), "r", first)
    lock = parse_owner(storage.read(LOCK, 1000))
    assert lock is not None
    MACHINE.abandoned.add(lock.token)
    seen: list[list[str]] = []

    def watch(call: Call) -> None:
        if call.name == "delete" and LOCK in call.args[0]:
            seen.append(of(job, storage))

    watched = WatchedStorage(storage, before=watch)
    shared(watched).decide("somebody else", lambda _: Already(None))
    assert seen == [[], []], "when the lock of the dead goes, and when our own is given back"


@pytest.mark.parametrize("refused", [("copy", r"restore\.inflight"), ("delete", r"requested"), ("delete", r"inflight")])
def test_a_store_that_says_no_once_does_not_let_a_job_go_on_that_a_restore_takes_back(
    storage: MemoryStorage, hudi: Hudi, refused: tuple[str, str]
) -> None:
    first = two_writes(storage)
    job = hudi.begin()
    said: list[Call] = []

    def refuse(call: Call) -> None:
        if not said and call.name == refused[0] and re.search(refused[1], str(call.args)):
            said.append(call)
            raise StorageError("429")

    decide_restore(shared(WatchedStorage(storage, before=refuse)), "r", first)
    assert said and of(job, storage) == []


def test_a_job_that_makes_its_inflight_file_while_a_restore_stops_it_cannot_complete(
    storage: MemoryStorage, hudi: Hudi
) -> None:
    first = two_writes(storage)
    job = hudi.begin()
    inflight = f".hoodie/timeline/{job}.deltacommit.inflight"
    storage.delete([inflight])

    def make(call: Call) -> None:
        if call.name == "delete" and f"{job}.deltacommit.requested" in str(call.args):
            storage.replace(inflight, b"")

    decide_restore(shared(WatchedStorage(storage, before=make)), "r", first)
    assert of(job, storage) == []


def test_a_new_consumer_begins_at_a_restore_that_is_under_way() -> None:
    """What a rollback has completed since the moment the restore goes back to is no moment that can be read."""
    made = scene()
    made.table.begin().abort()
    assert answer(made.table) == BEFORE
    restore = decided(made)
    assert register_consumer(ledger_of(made), "copy", None) == restore
