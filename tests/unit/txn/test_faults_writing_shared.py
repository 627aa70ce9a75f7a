# SPDX-License-Identifier: Apache-2.0
"""The same faults on a table that Apache Hudi writes, too: every decision is made inside its lock."""

from __future__ import annotations

import pytest

from lakebraid.errors import ObjectNotFound
from lakebraid.storage.memory import MemoryStorage
from lakebraid.txn.hudi.file_lock import LOCK
from lakebraid.txn.hudi.lock_owner import MACHINE, parse_owner
from lakebraid.txn.liveness.heartbeat import Heartbeat
from tests.kit.races.faults import Killed, attempt, calls_of_a_write, check_aftermath, killing, losing, restored
from tests.kit.tables.scene import CHANGES, WatchedStorage

pytestmark = [pytest.mark.unit, pytest.mark.slow]

NUMBERS = range(68)


@pytest.fixture(autouse=True)
def _no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Heartbeat, "run", lambda self: None)


def test_the_numbers_reach_beyond_the_last_call_of_a_write() -> None:
    assert 60 < len(calls_of_a_write(shared=True)) <= len(NUMBERS)


@pytest.mark.parametrize("effect", ["done", "not done"])
def test_an_answer_that_is_lost_beside_hudi_leaves_no_lock_and_no_half_commit(effect: str) -> None:
    for call in calls_of_a_write(shared=True):
        if call.name in CHANGES:
            storage = restored(shared=True)
            made = attempt(WatchedStorage(storage, **losing(call.number, effect)), storage.clock)
            assert made.error is None, f"{call.name} {call.target} can be asked again"
            assert LOCK not in [info.name for info in storage.list(".hoodie")]
            check_aftermath(storage, storage.clock, made)


@pytest.mark.parametrize("effect", ["done", "not done"])
@pytest.mark.parametrize("number", NUMBERS)
def test_a_writer_that_is_killed_beside_hudi_leaves_nothing_or_a_whole_commit(number: int, effect: str) -> None:
    storage = restored(shared=True)
    hooks, dead = killing(number, effect)
    made = attempt(WatchedStorage(storage, **hooks), storage.clock)
    assert isinstance(made.error, Killed) == bool(dead)
    _bury(storage)
    check_aftermath(storage, storage.clock, made)


def _bury(storage: MemoryStorage) -> None:
    """Whoever was killed lives on in this process, where its lock would be waited for."""
    try:
        owner = parse_owner(storage.read(LOCK, 1000))
    except ObjectNotFound:
        return
    assert owner is not None
    MACHINE.abandoned.add(owner.token)
