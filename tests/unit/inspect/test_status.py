# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json

import pytest

from lakebraid.api.table import Table
from lakebraid.inspect.status import HolderStatus, Status
from lakebraid.inspect.status_text import text_age
from lakebraid.model.writable import FILE_LOCK
from lakebraid.storage.memory import MemoryStorage
from lakebraid.txn.actions.plans import claim
from lakebraid.txn.actions.rollback import decide_rollback
from lakebraid.txn.hudi.file_lock import LOCK
from lakebraid.txn.hudi.lock_owner import format_owner, this_process
from lakebraid.txn.liveness.heartbeat import beat
from tests.kit.present import present
from tests.kit.tables.scene import TickingClock, WatchedStorage, make_table, row, table_on

pytestmark = pytest.mark.unit
MINUTE_MS = 60_000


@pytest.fixture
def clock() -> TickingClock:
    return TickingClock()


@pytest.fixture
def storage(clock: TickingClock) -> MemoryStorage:
    return MemoryStorage("memory://status", clock)


@pytest.fixture
def table(storage: MemoryStorage, clock: TickingClock) -> Table:
    return make_table(storage, clock)


def commands(status: Status) -> list[str]:
    return [advice.command.split()[1] for advice in status.advice]


def test_a_table_at_rest_has_nothing_to_do(table: Table) -> None:
    table.upsert([row("a", "1")])
    table.compact()
    status = table.status()
    assert status.is_well
    assert "Nothing to do." in repr(status)


def test_looking_changes_nothing(table: Table, storage: MemoryStorage, clock: TickingClock) -> None:
    table.begin()
    table.plan_compaction()
    watched = WatchedStorage(storage)
    repr(table_on(watched, clock).status())
    assert {call.name for call in watched.calls} <= {"read", "read_range", "info", "list", "list_folder", "list_names"}


def test_living_and_silent_writers_are_told_apart(table: Table, storage: MemoryStorage, clock: TickingClock) -> None:
    silent = table.begin()
    clock.ms += 3 * MINUTE_MS
    living = table.begin()
    status = table.status()
    assert [(w.instant, w.is_silent) for w in status.writers] == [(silent.instant, True), (living.instant, False)]
    assert present(status.writers[0].beat_age_ms) >= 3 * MINUTE_MS
    assert commands(status) == ["rollback"]
    assert "1 silent writer" in repr(status)
    beat(storage, silent.instant)
    assert not any(w.is_silent for w in table.status().writers)


def test_a_pending_plan_says_whether_somebody_is_at_it_and_what_it_blocks(
    table: Table, storage: MemoryStorage, clock: TickingClock
) -> None:
    table.upsert([row("a", "1")])
    plan = present(table.plan_compaction())
    (waiting,) = table.status().plans
    assert (waiting.instant, waiting.kind, waiting.is_claimed, waiting.groups) == (plan.instant, "compaction", False, 1)
    assert "waits for an executor" in repr(table.status())
    beat(storage, present(plan.instant))
    claim(table._writing.ledger(table._config), "x", present(plan.instant), seen=None)
    assert "being executed" in repr(table.status())
    clock.ms += 5 * MINUTE_MS
    status = table.status()
    assert status.plans[0].is_silent and "its executor is silent" in repr(status)
    assert commands(status) == ["compact"]


def test_what_waits_for_compaction_is_counted_and_what_is_planned_is_not_due_any_more(table: Table) -> None:
    for n in range(5):
        table.upsert([row("a", str(n), ts=n)])
    lag = table.status().compaction
    assert (lag.groups, lag.logs, lag.due_groups) == (1, 5, 1)
    assert lag.bytes > 0
    assert commands(table.status()) == ["compact"]
    table.plan_compaction()
    assert table.status().compaction.due_groups == 0


def test_an_unfinished_rollback_and_a_dead_removable_plan_are_work_for_rollback(
    table: Table, clock: TickingClock
) -> None:
    dead = table.begin()
    decide_rollback(table._writing.ledger(table._config), "x", dead.instant)
    status = table.status()
    assert list(status.rollbacks.values()) == [dead.instant]
    assert commands(status) == ["rollback"]
    table.rollback()
    for n in range(6):
        table.upsert([row("a", str(n), ts=n)])
    table.plan_log_compaction(removable=True)
    assert "removable" in repr(table.status())
    assert commands(table.status()) == []
    clock.ms += 61 * MINUTE_MS
    assert "rollback" in commands(table.status())


def test_readers_and_consumers_that_hold_versions_back_are_named(table: Table) -> None:
    table.upsert([row("a", "1")])
    table.consumer("audit")
    with table.snapshot():
        status = table.status()
        assert len(status.leases) == 1
    assert [holder.name for holder in status.consumers] == ["audit"]
    assert "audit" in repr(status)
    assert table.status().leases == ()


def test_a_long_timeline_is_work_for_archiving_if_instants_may_leave(table: Table) -> None:
    first = table.begin()
    for n in range(35):
        table.upsert([row("a", str(n), ts=n)])
    status = table.status()
    assert status.archival.writes > status.archival.writes_max
    assert "archive" not in commands(status) and first.instant in status.archival.held_back_by
    first.commit()
    status = table.status()
    assert commands(status)[-1] == "archive" and status.archival.instants > 0


def test_the_owner_of_hudis_lock_is_named(storage: MemoryStorage, clock: TickingClock) -> None:
    table = make_table(storage, clock, properties={"hoodie.write.lock.provider": FILE_LOCK})
    assert table.status().lock is None
    storage.create(LOCK, format_owner(this_process("abc", clock.now_ms())))
    assert "of lakebraid on" in present(table.status().lock)
    storage.replace(LOCK, b"")
    assert "Apache Hudi" in repr(table.status())


def test_a_status_is_plain_values_for_json(table: Table, clock: TickingClock) -> None:
    table.begin()
    table.consumer("audit")
    told = json.loads(json.dumps(table.status().to_dict()))
    assert told["writers"][0]["is_silent"] is False
    assert told["consumers"][0]["name"] == "audit"


def test_names_out_of_files_do_not_steer_a_terminal() -> None:
    held = (HolderStatus("audit\x1b[31m", "20260101000000000", 1),)
    status = Status("t\x1b[31m", "memory://\x1b[31m", None, consumers=held, lock="\x1b[31m")
    assert "\x1b" not in repr(status)


def test_with_an_instant_the_status_is_that_of_the_write(table: Table) -> None:
    done = table.upsert([row("a", "1")])
    assert table.status(done.instant) == "published"


def test_ages_are_for_people() -> None:
    assert [text_age(ms) for ms in (0, 9_900, 119_000, 7_000_000, 100_000_000, 10**9)] == [
        "0.0 s", "9.9 s", "119 s", "117 min", "27.8 h", "11.6 d",
    ]  # fmt: skip
