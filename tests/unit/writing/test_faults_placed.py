# SPDX-License-Identifier: Apache-2.0
"""Lost answers and killed writers at every single call of a write that rewrites base files, looks keys up, or captures
changes: tables with buckets do the last here.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from lakebraid.storage.memory import MemoryStorage
from lakebraid.txn.liveness.heartbeat import Heartbeat
from tests.kit.races.faults import AFTER, SCHEMA, Killed, attempt, check_aftermath, killing, losing, parted
from tests.kit.tables.scene import CHANGES, Call, TickingClock, WatchedStorage, answer, make_table, table_on

pytestmark = [pytest.mark.unit, pytest.mark.slow]

KINDS = [("cow", "bucket"), ("mor", "bucket"), ("cow", "simple"), ("mor", "simple")]
every_kind = pytest.mark.parametrize(("table_type", "index"), KINDS, ids=[" ".join(kind) for kind in KINDS])


@pytest.fixture(autouse=True)
def _no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dead processes do not beat, and the living ones here are quick."""
    monkeypatch.setattr(Heartbeat, "run", lambda self: None)


@cache
def prepared(table_type: str, index: str) -> tuple[tuple[str, bytes], ...]:
    storage = MemoryStorage("memory://faults", TickingClock())
    how: dict[str, Any] = {"partition_by": "part", "table_type": table_type, "index": index}
    how["properties"] = {"hoodie.table.cdc.enabled": index == "bucket"}
    table = make_table(storage, storage.clock, SCHEMA, **how)
    table.upsert([parted("a", "0", "p"), parted("b", "0", "p")])
    return tuple((info.name, storage.read(info.name, info.size)) for info in storage.list())


def restored(table_type: str, index: str) -> MemoryStorage:
    storage = MemoryStorage("memory://faults", TickingClock(1_767_225_700_000))
    for name, data in prepared(table_type, index):
        storage.create(name, data)
    return storage


def calls_of_a_write(table_type: str, index: str) -> list[Call]:
    storage = restored(table_type, index)
    watched = WatchedStorage(storage)
    assert attempt(watched, storage.clock).error is None
    assert answer(table_on(storage, storage.clock)) == AFTER
    return watched.calls


@every_kind
def test_a_writer_that_is_killed_at_any_call_leaves_nothing_or_a_whole_commit(table_type: str, index: str) -> None:
    for call in calls_of_a_write(table_type, index):
        for effect in ("done", "not done") if call.name in CHANGES else ("done",):
            storage = restored(table_type, index)
            hooks, dead = killing(call.number, effect)
            made = attempt(WatchedStorage(storage, **hooks), storage.clock)
            assert isinstance(made.error, Killed) == bool(dead)
            check_aftermath(storage, storage.clock, made)


@every_kind
def test_an_answer_that_is_lost_at_any_call_makes_no_writer_fail_or_write_twice(table_type: str, index: str) -> None:
    for call in calls_of_a_write(table_type, index):
        for effect in ("done", "not done") if call.name in CHANGES else ("done",):
            storage = restored(table_type, index)
            made = attempt(WatchedStorage(storage, **losing(call.number, effect)), storage.clock)
            if call.name in CHANGES:
                assert made.error is None, f"{call.name} {call.target} can be asked again"
            check_aftermath(storage, storage.clock, made)
