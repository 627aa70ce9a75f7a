# SPDX-License-Identifier: Apache-2.0
"""Failure scenarios of times and of living and dead writers, through the real write path."""

from __future__ import annotations

import time
from typing import Any

import pyarrow as pa
import pytest

from lakebraid import limits
from lakebraid.errors import EnvironmentProblem, RolledBack
from lakebraid.tasks.writing.rows import write_rows
from tests.kit.present import present
from tests.kit.tables.scene import Call, Scene, TickingClock, files, once, row

pytestmark = pytest.mark.unit


def publishes(request_time: str) -> Any:
    """Whether a call is the decision that publishes a write."""

    def picks(call: Call) -> bool:
        return call.is_entry() and b'"kind":"publish"' in call.args[1] and f"/{request_time}_".encode() in call.args[1]

    return picks


# --- F12 to F15: times -----------------------------------------------------------------------------------------------


def test_f12_two_writers_that_begin_at_the_same_moment_get_two_instants() -> None:
    scene = Scene()
    scene.clock.step_ms = 0
    begun: list[Any] = []
    hook = once(Call.is_entry, lambda: begun.append(scene.begin(row("a", "second"), row("b", "second"))))
    first = scene.begin(row("a", "first"), table=scene.other(before=hook))
    (second,) = begun
    assert second.request_time < first.request_time, "the one who was overtaken draws again"
    scene.commit(first)
    scene.commit(second)
    scene.check_times()
    assert scene.check() == [{"a": "first"}, {"a": "first", "b": "second"}]


def test_f13_a_completion_that_was_drawn_early_is_drawn_again_if_another_writer_published_meanwhile() -> None:
    scene = Scene()
    paused: list[Any] = []
    hook = once(lambda call: paused and publishes(paused[0].request_time)(call), lambda: scene.write(row("a", "quick")))
    slow = scene.begin(row("a", "slow"), row("b", "slow"), table=scene.other(before=hook))
    paused.append(slow)
    scene.commit(slow)
    quick = scene.writes[-1]
    assert slow.request_time < quick.request_time < str(quick.completion) < str(slow.completion)
    scene.check_times()
    assert scene.check() == [{"a": "quick"}, {"a": "quick", "b": "slow"}]
    changed = scene.table.changes(after=quick.completion).to_arrow().to_pylist()
    assert [(r["_change_type"], r["id"]) for r in changed] == [("insert", "b")]


def test_f14_clocks_that_are_ahead_behind_or_set_back_give_rising_times() -> None:
    scene = Scene()
    now = scene.clock.ms
    clocks = [
        TickingClock(now + limits.CLOCK_AHEAD_MS_MAX // 2),
        TickingClock(now - 3_600_000),
        TickingClock(now, step_ms=-1000),
        TickingClock(0),
    ]
    tables = [scene.other(clock) for clock in clocks]
    for number in range(8):
        scene.write(row("a", str(number)), row(f"k{number}", "x"), table=tables[number % 4])
    times = [t for w in scene.writes for t in (w.request_time, present(w.completion))]
    assert times == sorted(set(times))
    assert [found["a"] for found in scene.check()] == [str(n) for n in range(8)]


def test_f14_a_clock_minutes_ahead_of_the_store_is_refused_and_drags_nobody_along() -> None:
    scene = Scene()
    before = scene.write(row("a", "1"))
    fast = scene.other(TickingClock(scene.clock.ms + limits.CLOCK_AHEAD_MS_MAX + 60_000))
    with pytest.raises(EnvironmentProblem, match=r"seconds ahead.*Nothing was decided.*NTP"):
        fast.upsert([row("a", "from the future")])
    after = scene.write(row("a", "2"))
    assert int(after.request_time) - int(before.request_time) < 60_000
    assert scene.check() == [{"a": "1"}, {"a": "2"}]


@pytest.mark.parametrize("zone", ["Europe/Berlin", "Asia/Kathmandu", "America/St_Johns"])
def test_f14_neither_time_zones_nor_the_end_of_daylight_saving_show_in_the_times(
    monkeypatch: pytest.MonkeyPatch, zone: str
) -> None:
    scene = Scene(clock=TickingClock(1_792_889_997_000, step_ms=100))  # 2026-10-25, three seconds before 01:00 UTC
    try:
        for number in range(6):
            monkeypatch.setenv("TZ", zone if number % 2 else "UTC")
            time.tzset()
            scene.write(row("a", str(number)))
        times = [t for w in scene.writes for t in (w.request_time, present(w.completion))]
        assert times == sorted(set(times))
        assert str(times[0]).startswith("202610250059")
        assert str(times[-1]).startswith("2026102501")
        assert [found["a"] for found in scene.check()] == [str(n) for n in range(6)]
    finally:
        monkeypatch.undo()
        time.tzset()


def test_f15_writes_compactions_and_rollbacks_at_one_moment_never_share_a_time() -> None:
    scene = Scene()
    scene.clock.step_ms = 0
    scene.write(row("a", "1"))
    given_up = scene.begin(row("a", "never"))
    hook = once(lambda call: call.target.endswith(".parquet"), given_up.transaction.abort)
    scene.compact(scene.other(before=hook))
    scene.kill(given_up)
    scene.write(row("a", "2"))
    assert sorted(action for _, action, _ in scene.instants()) == ["commit", *["deltacommit"] * 3, "rollback"]
    scene.check_times()
    assert scene.check() == [{"a": "1"}, {"a": "1"}, {"a": "2"}]


# --- F16 to F18: who is dead -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("at", ["info", "entry"])
def test_f16_a_writer_that_commits_while_it_is_being_judged_dead_stays_published(at: str) -> None:
    scene = Scene()
    write = scene.begin(row("a", "1"))
    picks = (lambda call: call.name == "info" and "heartbeat" in call.target) if at == "info" else Call.is_entry
    hook = once(picks, lambda: scene.commit(write))
    done = scene.other(before=hook).rollback(timeout_seconds=0)
    assert hook.done and done.rolled_back == ()
    assert scene.table.status(write.request_time) == "published"
    assert not any(action == "rollback" for _, action, _ in scene.instants())
    assert scene.check() == [{"a": "1"}]


def test_f17_a_writer_that_stalls_is_rolled_back_and_its_commit_is_refused_for_good() -> None:
    scene = Scene()
    scene.write(row("a", "0"))
    stalled = scene.begin(row("a", "stalled"), row("b", "stalled"))
    scene.clock.sleep(limits.HEARTBEAT_TIMEOUT_MS / 1000 - 1)
    assert scene.other().rollback().rolled_back == (), "its last beat is not old enough"
    scene.clock.sleep(2)
    assert scene.other().rollback().rolled_back == (stalled.request_time,)
    assert not [name for name in files(scene.storage) if stalled.request_time in name]
    for _ in range(2):
        stalled.transaction._end = None  # whoever insists
        with pytest.raises(RolledBack, match=rf"{stalled.request_time}.*Nothing of it is visible.*Write again"):
            stalled.transaction.commit()
    assert scene.table.status(stalled.request_time) == "refused"
    scene.kill(stalled)
    scene.write(row("a", "2"))
    assert scene.check() == [{"a": "0"}, {"a": "2"}]


def test_f17_a_commit_that_was_paused_at_its_decision_is_refused_if_it_was_rolled_back_meanwhile() -> None:
    scene = Scene()
    paused: list[Any] = []

    def expire() -> None:
        scene.clock.sleep(3600)
        assert scene.other().rollback().rolled_back == (paused[0].request_time,)

    hook = once(lambda call: paused and publishes(paused[0].request_time)(call), expire)
    write = scene.begin(row("a", "paused"), table=scene.other(before=hook))
    paused.append(write)
    with pytest.raises(RolledBack):
        scene.commit(write)
    scene.kill(write)
    scene.write(row("b", "1"))
    assert scene.check() == [{"b": "1"}]


def test_f18_files_of_zombie_tasks_that_come_after_the_rollback_are_never_read_and_removed_later() -> None:
    scene = Scene()
    dead = scene.begin(row("a", "dead"))
    table = pa.Table.from_pylist([row("a", "a zombie's"), row("z", "a zombie's")])
    plan = dead.transaction.staging.plan(table.schema, "upsert")
    assert scene.other().rollback(timeout_seconds=0).rolled_back == (dead.request_time,)
    scene.kill(dead)
    zombie = write_rows(scene.storage, plan, table, 1000)
    scene.write(row("a", "1"))
    (done,) = scene.compact()
    assert done.rows == 1
    assert scene.check() == [{"a": "1"}, {"a": "1"}]
    late = [file.path for file in write_rows(scene.storage, plan, table, 1001)]
    removed = scene.table.rollback().removed
    assert removed == tuple(sorted([*late, *(file.path for file in zombie)]))
    assert scene.table.status(dead.request_time) == "refused"
    assert scene.check() == [{"a": "1"}, {"a": "1"}]
    assert not [info.name for info in scene.storage.list() if dead.request_time in info.name]
