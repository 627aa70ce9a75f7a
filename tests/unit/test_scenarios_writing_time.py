# SPDX-License-Identifier: Apache-2.0
"""Failure scenarios of times, living and dead writers, lost locks and lost races, through the real write path."""

from __future__ import annotations

import time
from typing import Any

import pyarrow as pa
import pytest

from lakebraid import limits
from lakebraid.errors import EnvironmentProblem, NotATable, OutcomeUnknown, RolledBack, StorageError
from lakebraid.format.properties import parse_properties
from lakebraid.model.writable import FILE_LOCK
from lakebraid.table.loading import PROPERTIES, load_timeline
from lakebraid.tasks.write_task import write_rows
from lakebraid.txn.entries import LEDGER
from lakebraid.txn.file_lock import LOCK
from tests.scene import Call, Scene, TickingClock, answer, files, once, row, table_on

pytestmark = pytest.mark.unit


def instants(scene: Scene) -> list[tuple[str, str, str | None]]:
    return [(i.request_time, i.action, i.completion_time) for i in load_timeline(scene.storage, scene.table._config)]


def check_times(scene: Scene) -> None:
    """No time was given twice, and every completion exceeds its own start."""
    times = [t for start, _, completion in instants(scene) for t in (start, completion) if t]
    assert len(set(times)) == len(times)
    assert all(completion is None or completion > start for start, _, completion in instants(scene))


def publishes(start: str) -> Any:
    """Whether a call is the decision that publishes a write."""

    def picks(call: Call) -> bool:
        return call.is_entry() and b'"kind":"publish"' in call.args[1] and f"/{start}_".encode() in call.args[1]

    return picks


# --- F12 to F15: times -----------------------------------------------------------------------------------------------


def test_f12_two_writers_that_begin_at_the_same_moment_get_two_instants() -> None:
    scene = Scene()
    scene.clock.step_ms = 0
    begun: list[Any] = []
    hook = once(Call.is_entry, lambda: begun.append(scene.begin(row("a", "second"), row("b", "second"))))
    first = scene.begin(row("a", "first"), table=scene.other(before=hook))
    (second,) = begun
    assert second.start < first.start, "the one who was overtaken draws again"
    scene.commit(first)
    scene.commit(second)
    check_times(scene)
    assert scene.check() == [{"a": "first"}, {"a": "first", "b": "second"}]


def test_f13_a_completion_that_was_drawn_early_is_drawn_again_if_another_writer_published_meanwhile() -> None:
    scene = Scene()
    paused: list[Any] = []
    hook = once(lambda call: paused and publishes(paused[0].start)(call), lambda: scene.write(row("a", "quick")))
    slow = scene.begin(row("a", "slow"), row("b", "slow"), table=scene.other(before=hook))
    paused.append(slow)
    scene.commit(slow)
    quick = scene.writes[-1]
    assert slow.start < quick.start < str(quick.completion) < str(slow.completion)
    check_times(scene)
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
    times = [t for w in scene.writes for t in (w.start, w.completion)]
    assert times == sorted(set(times))
    assert [found["a"] for found in scene.check()] == [str(n) for n in range(8)]


def test_f14_a_clock_minutes_ahead_of_the_store_is_refused_and_drags_nobody_along() -> None:
    scene = Scene()
    before = scene.write(row("a", "1"))
    fast = scene.other(TickingClock(scene.clock.ms + limits.CLOCK_AHEAD_MS_MAX + 60_000))
    with pytest.raises(EnvironmentProblem, match=r"seconds ahead.*Nothing was decided.*NTP"):
        fast.upsert([row("a", "from the future")])
    after = scene.write(row("a", "2"))
    assert int(after.start) - int(before.start) < 60_000
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
        times = [t for w in scene.writes for t in (w.start, w.completion)]
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
    assert sorted(action for _, action, _ in instants(scene)) == ["commit", *["deltacommit"] * 3, "rollback"]
    check_times(scene)
    assert scene.check() == [{"a": "1"}, {"a": "1"}, {"a": "2"}]


# --- F16 to F18: who is dead -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("at", ["info", "entry"])
def test_f16_a_writer_that_commits_while_it_is_being_judged_dead_stays_published(at: str) -> None:
    scene = Scene()
    write = scene.begin(row("a", "1"))
    picks = (lambda call: call.name == "info" and "heartbeat" in call.target) if at == "info" else Call.is_entry
    hook = once(picks, lambda: scene.commit(write))
    done = scene.other(before=hook).rollback(timeout_seconds=0)
    assert hook.done and done.rolled_back == ()  # type: ignore[attr-defined]
    assert scene.table.status(write.start) == "published"
    assert not any(action == "rollback" for _, action, _ in instants(scene))
    assert scene.check() == [{"a": "1"}]


def test_f17_a_writer_that_stalls_is_rolled_back_and_its_commit_is_refused_for_good() -> None:
    scene = Scene()
    scene.write(row("a", "0"))
    stalled = scene.begin(row("a", "stalled"), row("b", "stalled"))
    scene.clock.sleep(limits.HEARTBEAT_TIMEOUT_MS / 1000 - 1)
    assert scene.other().rollback().rolled_back == (), "its last beat is not old enough"
    scene.clock.sleep(2)
    assert scene.other().rollback().rolled_back == (stalled.start,)
    assert not [name for name in files(scene.storage) if stalled.start in name]
    for _ in range(2):
        stalled.transaction._end = None  # whoever insists
        with pytest.raises(RolledBack, match=rf"{stalled.start}.*Nothing of it is visible.*Write again"):
            stalled.transaction.commit()
    assert scene.table.status(stalled.start) == "refused"
    scene.kill(stalled)
    scene.write(row("a", "2"))
    assert scene.check() == [{"a": "0"}, {"a": "2"}]


def test_f17_a_commit_that_was_paused_at_its_decision_is_refused_if_it_was_rolled_back_meanwhile() -> None:
    scene = Scene()
    paused: list[Any] = []

    def expire() -> None:
        scene.clock.sleep(3600)
        assert scene.other().rollback().rolled_back == (paused[0].start,)

    hook = once(lambda call: paused and publishes(paused[0].start)(call), expire)
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
    plan = dead.transaction._plan(table.schema)
    assert scene.other().rollback(timeout_seconds=0).rolled_back == (dead.start,)
    scene.kill(dead)
    zombie = write_rows(scene.storage, plan, table, 1000)
    scene.write(row("a", "1"))
    (done,) = scene.compact()
    assert done.rows == 1
    assert scene.check() == [{"a": "1"}, {"a": "1"}]
    late = [file.path for file in write_rows(scene.storage, plan, table, 1001)]
    removed = scene.table.rollback().removed
    assert removed == tuple(sorted([*late, *(file.path for file in zombie)]))
    assert scene.table.status(dead.start) == "refused"
    assert scene.check() == [{"a": "1"}, {"a": "1"}]
    assert not [info.name for info in scene.storage.list() if dead.start in info.name]


# --- F24: lost locks, lost answers -----------------------------------------------------------------------------------


def shared() -> Scene:
    # As `shared=True` says it for a folder.
    return Scene(arguments={"properties": {"hoodie.write.lock.provider": FILE_LOCK}})


@pytest.mark.parametrize("shown", ["before the decision", "before it is true"])
def test_f24_a_lock_that_is_lost_during_a_commit_lets_nobody_publish_behind_another(shown: str) -> None:
    """Somebody deletes our lock (Hudi's close() does) and another writer commits in the pause."""
    scene = shared()
    slow: list[Any] = []

    def lose_lock() -> None:
        scene.storage.delete([LOCK])
        scene.write(row("a", "quick"))

    def picks(call: Call) -> bool:
        if shown == "before the decision":
            staged = call.name == "create" and "/staged/" in call.target
            return bool(slow) and staged
        return bool(slow) and call.name == "copy" and f"/{slow[0].start}_" in call.target

    hook = once(picks, lose_lock)
    write = scene.begin(row("a", "slow"), row("b", "slow"), table=scene.other(before=hook))
    slow.append(write)
    scene.commit(write)
    quick = scene.writes[-1]
    assert hook.done and quick is not write  # type: ignore[attr-defined]
    check_times(scene)
    order = sorted([write, quick], key=lambda w: str(w.completion))
    assert order == ([quick, write] if shown == "before the decision" else [write, quick])
    scene.check()
    assert not [info.name for info in scene.storage.list() if info.name == LOCK]


def test_f24_an_unlock_that_is_refused_for_a_while_leaves_no_lock_behind() -> None:
    scene = shared()
    refusals = iter(range(3))

    def refuse(call: Call) -> None:
        if call.name == "delete" and LOCK in list(call.args[0]) and next(refusals, None) is not None:
            raise StorageError("429: slow down")

    scene.write(row("a", "1"), table=scene.other(before=refuse))
    assert next(refusals, None) is None
    assert LOCK not in [info.name for info in scene.storage.list()]
    scene.write(row("a", "2"))
    assert scene.check() == [{"a": "1"}, {"a": "2"}]


@pytest.mark.parametrize("kind", ["begin", "publish"])
@pytest.mark.parametrize("is_shared", [False, True])
def test_f24_a_decision_that_failed_but_landed_is_recognised_as_ones_own(kind: str, is_shared: bool) -> None:
    scene = shared() if is_shared else Scene()

    def lose() -> None:
        raise OutcomeUnknown("no answer")

    hook = once(lambda call: call.is_entry() and f'"kind":"{kind}"'.encode() in call.args[1], lose)
    scene.write(row("a", "1"), table=scene.other(after=hook))
    assert hook.done  # type: ignore[attr-defined]
    assert [action for _, action, _ in instants(scene)] == ["deltacommit"] * 2
    assert scene.check() == [{"a": "1"}]


# --- F25: a killed update of hoodie.properties -----------------------------------------------------------------------


@pytest.mark.parametrize("main", ["missing", "empty", "cut", "without its checksum"])
def test_f25_a_table_whose_properties_were_being_updated_opens_from_the_backup_and_takes_writes(main: str) -> None:
    scene = Scene()
    scene.write(row("a", "1"))
    good = scene.storage.read(PROPERTIES, 10**6)
    scene.storage.create(f"{PROPERTIES}.backup", good)
    scene.storage.delete([PROPERTIES])
    unchecked = b"".join(x for x in good.splitlines(keepends=True) if b"checksum" not in x)
    torn = {"empty": b"", "cut": good[: len(good) // 2], "without its checksum": unchecked}
    if main in torn:
        scene.storage.create(PROPERTIES, torn[main])
    reopened = table_on(scene.storage, scene.clock)
    assert reopened.properties == parse_properties(good, "good")
    for table in (scene.table, reopened):
        scene.write(row("a", "2"), row("b", "2"), table=table)
    scene.compact(reopened)
    assert scene.check()[-1] == {"a": "2", "b": "2"}
    scene.storage.replace(PROPERTIES, good)
    scene.storage.delete([f"{PROPERTIES}.backup"])
    scene.write(row("a", "3"))
    assert scene.check()[-1] == {"a": "3", "b": "2"}


def test_f25_without_properties_and_backup_nothing_is_written() -> None:
    scene = Scene()
    scene.storage.delete([PROPERTIES])
    before = [info.name for info in scene.storage.list()]
    with pytest.raises(NotATable, match=r"hoodie\.properties is missing"):
        scene.table.upsert([row("a", "1")])
    assert [info.name for info in scene.storage.list()] == before


# --- F26, F32: two at once -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["insert", "bulk_insert", "upsert"])
@pytest.mark.parametrize("seed_base", [True, False])
def test_f26_two_concurrent_inserts_of_the_same_keys_leave_each_key_once(kind: str, seed_base: bool) -> None:
    scene = Scene(arguments={"buckets": 4, "seed_base": seed_base})
    rows = [row(f"k{n}", "first") for n in range(40)]
    first = scene.begin(*rows, kind=kind)
    second = scene.begin(*(r | {"v": "second"} for r in rows), table=scene.other(), kind=kind)
    scene.commit(second)
    scene.commit(first)
    assert len(scene.check()[-1]) == 40
    assert set(scene.check()[-1].values()) == {"second"}
    scene.compact()
    assert scene.check()[-1] == {f"k{n}": "second" for n in range(40)}


@pytest.mark.parametrize("kind", ["begin", "publish", "plan", "claim", "roll back"])
def test_f32_of_two_who_create_the_same_next_entry_one_wins_and_the_other_looks_again(kind: str) -> None:
    scene = Scene()
    scene.write(row("a", "1"))
    doomed = scene.begin(row("a", "never")) if kind == "roll back" else None
    lost: list[Call] = []

    def win(call: Call) -> None:
        if call.is_entry() and f'"kind":"{kind}"'.encode() in call.args[1] and len(lost) < 3:
            lost.append(call)
            scene.write(row("b", str(len(lost))))

    loser = scene.other(before=win)
    if doomed is not None:
        assert loser.rollback(timeout_seconds=0).rolled_back == (doomed.start,)
        scene.kill(doomed)
    elif kind in ("begin", "publish"):
        scene.write(row("c", "loser"), table=loser)
    else:
        assert len(scene.compact(loser)) == 1
    assert len({call.target for call in lost}) == 3, "each time for another number"
    entries = [info.name for info in scene.storage.list(LEDGER)]
    assert entries == [f"{LEDGER}/{n:020d}" for n in range(1, len(entries) + 1)]
    check_times(scene)
    scene.check()


def test_a_scene_notices_a_wrong_answer() -> None:
    scene = Scene()
    scene.write(row("a", "1"))
    scene.writes[0].rows = [row("a", "2")]
    with pytest.raises(AssertionError):
        scene.check()
    assert answer(scene.table) == {"a": "1"}
