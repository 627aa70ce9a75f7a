# SPDX-License-Identifier: Apache-2.0
"""Hudi's lock on object stores: a lock that expires."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from lakebraid import limits
from lakebraid.clock import SystemClock
from lakebraid.errors import CorruptFile, StorageError
from lakebraid.storage import MemoryStorage, Storage
from lakebraid.txn.hudi import lease_lock
from lakebraid.txn.hudi.lease_lock import LeaseLock
from tests.kit.races.failing_locks import Failing
from tests.kit.waiting import until
from tests.unit.txn.test_ledger import Clock

pytestmark = [pytest.mark.unit, pytest.mark.slow]


LEASE = lease_lock.LOCK


def names(storage: Storage) -> list[str]:
    return [info.name for info in storage.list()]


def lease(storage: Storage) -> dict[str, Any]:
    held: dict[str, Any] = json.loads(storage.read(LEASE, 1000))
    return held


def put(storage: Storage, *, expired: bool = False, until: int, owner: str = "hudi") -> None:
    storage.replace(LEASE, json.dumps({"expired": expired, "validUntil": until, "owner": owner}).encode())


def test_a_lease_says_owner_and_validity_and_is_marked_expired_when_given_back() -> None:
    storage, clock = MemoryStorage(), Clock()
    with LeaseLock(storage, clock)() as hold:
        assert hold.check()
        held = lease(storage)
        assert held["validUntil"] == clock.ms + 300_000
        assert held["expired"] is False
        assert len(held["owner"]) == 36
    assert lease(storage) == held | {"expired": True}


@pytest.mark.parametrize(
    ("expired", "until", "free"),
    [(False, 60_000, False), (False, -499, False), (False, -501, True), (True, 60_000, True)],
)
def test_a_lease_of_others_is_taken_only_when_it_has_certainly_expired(
    expired: bool, until: int, free: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "LOCK_WAIT_SECONDS_MAX", -1)
    storage, clock = MemoryStorage(), Clock()
    put(storage, expired=expired, until=clock.ms + until)
    if free:
        with LeaseLock(storage, clock)() as hold:
            assert hold.check()
        return
    with pytest.raises(StorageError, match="held by the writer hudi, until 20"), LeaseLock(storage, clock)():
        pass
    assert lease(storage)["owner"] == "hudi"


def test_a_lease_is_waited_for() -> None:
    storage, clock = MemoryStorage(), Clock()
    put(storage, until=clock.ms + 5_000)
    with LeaseLock(storage, clock)() as hold:
        assert hold.check()


def test_of_two_who_take_an_expired_lease_one_gets_it() -> None:
    storage = MemoryStorage()
    one, two = LeaseLock(storage, Clock())(), LeaseLock(storage, SystemClock())()
    put(storage, expired=True, until=0)
    seen = two._load()
    assert one._take(one._load())
    assert not two._take(seen)


def test_a_holder_that_slept_until_another_took_its_lease_is_told() -> None:
    storage, clock = MemoryStorage(), Clock()
    with LeaseLock(storage, clock)() as hold:
        clock.ms += 300_501
        assert not hold.check()
        put(storage, until=clock.ms + 1000)
        assert not hold.check()
    assert lease(storage)["owner"] == "hudi"


def test_a_lease_that_runs_out_soon_is_renewed_before_anything_is_decided() -> None:
    storage, clock = MemoryStorage(), Clock()
    with LeaseLock(storage, clock)() as hold:
        clock.ms += 299_000
        assert hold.check()
        assert lease(storage)["validUntil"] == clock.ms + 300_000
    assert lease(storage)["expired"] is True


def test_a_lease_is_renewed_in_the_background(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LOCK_RENEW_SECONDS", 0.01)
    storage = MemoryStorage()
    with LeaseLock(storage, SystemClock())() as hold:
        first = lease(storage)["validUntil"]
        until(lambda: lease(storage)["validUntil"] > first, "a renewal")
        assert hold.check()
    assert lease(storage)["expired"] is True
    threading.Event().wait(0.05)
    assert lease(storage)["expired"] is True


@pytest.mark.parametrize("failures", [{"create": 1}, {"replace": 1}, {"refuse": 4}])
def test_answers_of_a_lease_that_got_lost_do_not_leave_it_behind(failures: dict[str, int]) -> None:
    storage = Failing(**failures)
    with LeaseLock(storage, Clock())() as hold:
        assert hold.check()
    assert lease(storage)["expired"] is True


def test_a_lease_that_cannot_be_given_back_is_told() -> None:
    storage = Failing(refuse=limits.UNLOCK_ATTEMPTS_MAX)
    with pytest.warns(RuntimeWarning, match="until the lock expires"), LeaseLock(storage, Clock())():
        pass
    assert lease(storage)["expired"] is False


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b'{"owner": 1, "validUntil": "x", "expired": false}'])
def test_a_lock_object_that_is_none_is_an_error_and_is_left_as_it_is(content: bytes) -> None:
    storage = MemoryStorage()
    storage.create(LEASE, content)
    with pytest.raises(CorruptFile, match="StorageBasedLockProvider"), LeaseLock(storage, Clock())():
        pass
    assert storage.read(LEASE, 100) == content
