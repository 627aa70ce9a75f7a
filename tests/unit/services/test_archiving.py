# SPDX-License-Identifier: Apache-2.0
"""Which instants leave the timeline, and that whoever asks for them later still finds them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from benchmarks import archiving as benchmark
from benchmarks.meter import Meter

import lakebraid as lb
from lakebraid import limits
from lakebraid.errors import CommitRefused
from lakebraid.format.names import State
from lakebraid.format.timeline.commit import CommitMetadata
from lakebraid.model.timeline.instant import Instant
from lakebraid.model.timeline.timeline import Timeline
from lakebraid.services.archiving import Keep, choose_instants, keep_of
from lakebraid.services.settings import ServiceSettings, parse_settings
from lakebraid.storage.memory import MemoryStorage
from lakebraid.table.at import TableAt
from lakebraid.table.loading import load_timeline
from lakebraid.txn.actions.rescue import sweep
from lakebraid.txn.actions.rollback import roll_back
from lakebraid.txn.actions.write import begin_write, publish_write, write_completion
from lakebraid.txn.ledger.entries import LedgerState, OpenWrite, PendingPlan, Restoring, Undoing
from tests.kit.models.oracle import Instant as Described
from tests.kit.tables.archiving import DAY_MS
from tests.kit.tables.builder import build_table, open_table
from tests.kit.tables.built_files import t
from tests.kit.tables.scene import Scene, TickingClock, WatchedStorage, answer, files, make_table, row, table_on
from tests.kit.tables.small_histories import base, history, log, put, write
from tests.kit.tables.small_histories import row as described

pytestmark = pytest.mark.unit

KEEP = Keep(2, 4)


def done(request_time: int, action: str = "deltacommit") -> Instant:
    return Instant(t(request_time), action, State.COMPLETED, t(request_time + 1), action)


def pending(request_time: int, action: str = "deltacommit") -> Instant:
    return Instant(t(request_time), action, State.INFLIGHT, None, action)


def timeline(*more: Instant, without: tuple[int, ...] = ()) -> Timeline:
    writes = [done(request_time) for request_time in range(10, 100, 10) if request_time not in without]
    return Timeline(tuple(sorted([*writes, *more])))


def chosen(found: Timeline, state: LedgerState | None = None, keep: Keep = KEEP) -> list[int]:
    instants = choose_instants(found, state or LedgerState(), keep, t(1)).instants
    return [int(i.request_time) - int(t(1)) + 1 for i in instants]


# --- the rule --------------------------------------------------------------------------------------------------------


def test_the_newest_writes_stay_and_nothing_goes_before_there_are_more_than_the_greatest_number() -> None:
    assert chosen(timeline()) == [10, 20, 30, 40, 50, 60, 70]
    assert chosen(timeline(), keep=Keep(2, 8)) == [10, 20, 30, 40, 50, 60, 70]
    assert chosen(timeline(), keep=Keep(2, 9)) == []


def test_other_actions_go_with_the_writes_around_them_but_the_newest_clean_stays() -> None:
    found = timeline(done(15, "clean"), done(25, "rollback"), done(35, "clean"), done(85, "rollback"))
    assert chosen(found) == [10, 15, 20, 25, 30, 40, 50, 60, 70]


@pytest.mark.parametrize("action", ["deltacommit", "compaction", "clean", "rollback", "restore", "indexing"])
def test_nothing_behind_anything_unfinished_goes_and_a_write_before_it_stays(action: str) -> None:
    assert chosen(timeline(pending(45, action))) == [10, 20, 30]


OPEN = {t(45): OpenWrite("w", "deltacommit")}
STATES: dict[str, LedgerState] = {
    "an open write": LedgerState(open=OPEN),
    "a plan": LedgerState(plans={t(45): PendingPlan("compaction", "p")}),
    "a clean": LedgerState(cleans={t(45): "c"}),
    "the victim of a rollback": LedgerState(rollbacks={t(85): Undoing(t(45), "deltacommit", "r")}),
    "a write that was rolled back lately": LedgerState(gone={t(45): t(48)}),
}


@pytest.mark.parametrize("what", STATES)
def test_what_only_the_ledger_knows_holds_back_as_well(what: str) -> None:
    assert chosen(timeline(), STATES[what]) == [10, 20, 30]
    held = choose_instants(timeline(), STATES[what], KEEP, t(1)).held_back_by
    assert t(45) in held


def test_a_write_that_was_rolled_back_long_ago_holds_nothing_back() -> None:
    state = LedgerState(gone={t(45): t(48)})
    assert len(choose_instants(timeline(), state, KEEP, t(48)).instants) == 7


def test_too_many_rollbacks_to_remember_hold_everything_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "GONE_REQUEST_TIMES_MAX", 2)
    assert chosen(timeline(), LedgerState(gone={t(95): t(96), t(97): t(98)})) == []
    assert len(choose_instants(timeline(), LedgerState(gone={t(95): t(96), t(97): t(98)}), KEEP, t(97)).instants) == 7


def test_an_unfinished_restore_holds_everything_back() -> None:
    assert chosen(timeline(), LedgerState(restores={t(99): Restoring(t(50), "r")})) == []


def test_nothing_from_the_first_savepoint_on_goes() -> None:
    assert chosen(timeline(done(40, "savepoint"), done(60, "savepoint"))) == [10, 20]


def test_without_a_completed_write_before_the_first_open_one_nothing_goes() -> None:
    assert chosen(timeline(pending(5))) == []


def test_one_archiving_is_bounded_and_takes_the_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "ARCHIVE_INSTANTS_MAX", 3)
    assert chosen(timeline()) == [10, 20, 30]


def test_numbers_come_from_the_arguments_then_the_properties_then_hudis_defaults() -> None:
    properties = {"hoodie.keep.min.commits": "5", "hoodie.keep.max.commits": "7"}
    assert keep_of(ServiceSettings()) == Keep(20, 30)
    assert keep_of(parse_settings(properties)) == Keep(5, 7)
    assert keep_of(parse_settings(properties), 1, 2) == Keep(1, 2)
    assert keep_of(parse_settings(properties | {"hoodie.clean.commits.retained": "40"})) == Keep(41, 41)


@pytest.mark.parametrize(("least", "most"), [(0, 5), (5, 4), (-1, -1)])
def test_numbers_that_make_no_sense_are_refused(least: int, most: int) -> None:
    with pytest.raises(lb.InvalidArgument, match="Nothing was changed"):
        keep_of(ServiceSettings(), least, most)


# --- what stays visible, and what never becomes so -------------------------------------------------------------------


def _first_active(scene: Scene) -> str:
    first = load_timeline(TableAt(scene.storage, scene.table._config, scene.clock)).first_active_write
    assert first is not None
    return first


def _with_a_zombie() -> tuple[Scene, str, Callable[[], None]]:
    """A write was rolled back; its task is still running somewhere, and puts its file down when it is told to."""
    scene = Scene()
    scene.write(row("a", "old"))
    scene.write(row("b", "old"))
    dead = scene.begin(row("a", "dead", ts=99))
    (late,) = [name for name in files(scene.storage) if f"_{dead.request_time}." in name]
    data = scene.storage.read(late, 10**6)
    scene.kill(dead)
    roll_back(scene.table._writing.ledger(scene.table._config), "other", dead.request_time)
    for n in range(8):
        scene.write(row("c", str(n), ts=n))
    return scene, dead.request_time, lambda: scene.storage.create(late, data)


def test_h8_a_late_file_of_a_write_that_was_rolled_back_does_not_become_visible_by_archiving() -> None:
    """Hudi, and we, take every file that is older than the first write of the timeline for committed."""
    scene, dead, put_late_file = _with_a_zombie()
    archived = scene.table.archive(keep_min=1, keep_max=1)
    assert dead in archived.held_back_by
    assert archived.instants == 2, "the table's creation and the first write may leave"
    assert _first_active(scene) < dead
    put_late_file()
    scene.check()
    sweep(scene.table._writing.ledger(scene.table._config))
    assert not [name for name in files(scene.storage) if f"_{dead}." in name]


def test_h8_the_planted_bug_to_forget_what_was_rolled_back_shows_the_dead_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "GONE_MS", -DAY_MS)
    scene, dead, put_late_file = _with_a_zombie()
    scene.table.archive(keep_min=1, keep_max=1)
    assert _first_active(scene) > dead
    put_late_file()
    with pytest.raises(AssertionError):
        scene.check()


def test_a_day_after_a_rollback_the_timeline_is_archived_past_it() -> None:
    scene, dead, _ = _with_a_zombie()
    scene.clock.ms += DAY_MS
    assert dead in scene.table.archive(keep_min=1, keep_max=1).held_back_by, "nobody else has seen this day go by"
    scene.write(row("d", "new"))
    assert scene.table.archive(keep_min=1, keep_max=1).held_back_by == ""
    assert _first_active(scene) > dead
    scene.check()


def test_an_open_write_holds_archiving_back_until_it_is_published() -> None:
    scene = Scene()
    for n in range(4):
        scene.write(row("a", str(n), ts=n))
    slow = scene.begin(row("a", "slow", ts=2))
    for n in range(4, 8):
        scene.write(row("a", str(n), ts=n))
    held = scene.table.archive(keep_min=1, keep_max=1)
    assert slow.request_time in held.held_back_by and held.instants == 4
    scene.commit(slow)
    scene.table.archive(keep_min=1, keep_max=1)
    assert len(scene.table.timeline()) == 1
    scene.check()


def test_archived_instants_are_found_by_status_timeline_changes_and_older_versions() -> None:
    scene = Scene()
    writes = [scene.write(row("a", str(n), ts=n), row(f"k{n}", "x")) for n in range(6)]
    scene.compact()
    writes += [scene.write(row("a", str(n), ts=n)) for n in range(6, 9)]
    told = scene.table.changes(after=writes[2].completion or "").to_arrow().to_pylist()
    assert scene.table.archive(keep_min=1, keep_max=1).instants == 10
    assert scene.table.changes(after=writes[2].completion or "").to_arrow().to_pylist() == told
    assert [scene.table.status(w.request_time) for w in writes] == ["published"] * 9
    listed = [entry.instant for entry in scene.table.timeline(archived=True)]
    assert {w.request_time: w.completion for w in writes}.items() <= {
        i.request_time: i.completion_time for i in listed
    }.items()
    assert [len(scene.table.timeline()), len(listed)] == [1, 11]
    scene.check()


def test_a_writer_whose_answer_was_lost_learns_of_its_commit_from_the_history() -> None:
    scene = Scene()
    slow = scene.begin(row("a", "slow"))
    scene.commit(slow)
    for n in range(3):
        scene.write(row("b", str(n), ts=n))
    scene.table.archive(keep_min=1, keep_max=1)
    assert slow.request_time not in [request_time for request_time, _, _ in scene.instants()]
    assert write_completion(scene.table._writing.ledger(scene.table._config), slow.request_time) == slow.completion


def test_a_plan_is_decided_by_one_process_and_executed_by_another() -> None:
    scene = Scene()
    for n in range(5):
        scene.write(row("a", str(n), ts=n))
    planned = scene.table.plan_archive(keep_min=1, keep_max=1)
    assert planned is not None and planned.instants == 5
    assert len(scene.table.timeline()) == 6
    assert scene.other().archive().instants == 5
    assert scene.table.plan_archive(keep_min=1, keep_max=1) is None
    scene.check()


# --- the schema ------------------------------------------------------------------------------------------------------


def _schema_file(scene: Scene) -> str | None:
    return scene.table._writing.ledger(scene.table._config).newest().state.schema_file


def test_the_reference_to_the_schema_moves_to_a_commit_that_stays_so_that_commits_stay_cheap() -> None:
    scene = Scene()
    for n in range(4):
        scene.write(row("a", str(n), ts=n))
    calls: list[list[str]] = []
    for archives in (False, True):
        if archives:
            scene.table.archive(keep_min=2, keep_max=2)
        calls.append([])
        table = scene.other(before=lambda call: calls[-1].append(call.name))
        table.upsert([row("b", "x")])
    stated = _schema_file(scene)
    assert stated in [i.name.rpartition("/")[2] for i in scene.storage.list(".hoodie/timeline")]
    assert len(calls[1]) <= len(calls[0]), "a commit costs more after archiving"


def test_the_last_commit_that_states_the_schema_stays() -> None:
    scene = Scene()
    stating = scene.write(row("a", "1"))
    ledger = scene.table._writing.ledger(scene.table._config)
    for _ in range(4):
        txn = scene.clock.token()
        request_time = begin_write(ledger, txn)
        publish_write(ledger, txn, request_time, lambda _: CommitMetadata(operation="UPSERT"))
    held = scene.table.archive(keep_min=1, keep_max=1)
    assert stating.request_time in held.held_back_by or "states the schema" in held.held_back_by
    assert _first_active(scene) <= stating.request_time
    assert scene.other().schema.names == ["id", "ts", "v", "w"]
    assert answer(scene.other()) == {"a": "1"}


def test_what_replaced_files_that_still_lie_there_stays() -> None:
    """Hudi knows of replaced file groups by its active timeline alone."""
    new = ("", "00000000-0050-0000-0000-000000000000-0")
    group = ("", "00000000-0000-0000-0000-000000000000-0")
    made = history(
        write(1, 2), write(10, 20), Described(50, "clustering", 55, replaces=(group,)), write(60, 70), write(80, 90),
        base(10, (10, described("a", "v"))), base(50, (10, described("a", "v")), group=new), log(60, put("a", "w"), group=new),
    )  # fmt: skip
    storage = build_table(made)
    table = open_table(storage)
    held = table.archive(keep_min=1, keep_max=1)
    assert t(50) in held.held_back_by and held.until == t(10)
    storage.delete([i.name for i in storage.list() if f"_{t(10)}.parquet" in i.name])
    assert table.archive(keep_min=1, keep_max=1).until == t(60)


# --- size and time ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_long_timeline_is_archived_in_little_time_and_bounded_steps(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "ARCHIVE_INSTANTS_MAX", 600)
    monkeypatch.setattr(limits, "ARCHIVE_BATCH_INSTANTS", 50)
    table = benchmark.make(tmp_path / "t", 1000)
    with Meter() as used:
        moved = [table.archive().instants for _ in range(3)]
    assert moved == [600, 382, 0]
    assert used.cpu < 5
    layers = sorted(n.name.rpartition("_")[2] for n in (tmp_path / "t/.hoodie/timeline/history").glob("*.parquet"))
    assert layers.count("1.parquet") == 2 and layers.count("0.parquet") < 20
    assert len(table.timeline(archived=True)) == 1002
    assert table.status(str(benchmark.FIRST)) == "published"


def test_an_archiving_with_nothing_to_do_makes_few_calls() -> None:
    storage = MemoryStorage("memory://idle", TickingClock())
    make_table(storage, storage.clock).upsert([row("a", "1")])
    watched = WatchedStorage(storage)
    table_on(watched, storage.clock).archive()
    assert len(watched.calls) < 20


def test_files_of_a_writer_that_was_rolled_back_are_not_archived_into_sight() -> None:
    scene = Scene(arguments={"index": "simple"})
    scene.table.upsert([row("a", "1")])
    dead = scene.table.begin()
    dead.write([row("b", "never")])
    scene.other().rollback(timeout_seconds=0)
    with pytest.raises(CommitRefused):
        dead.commit()  # and only now are there files: rows are placed at the commit
    scene.clock.sleep(2 * limits.GONE_MS / 1000)
    for n in range(3):
        scene.table.upsert([row("a", f"{n}", 2 + n)])
    assert scene.table.archive(keep_min=1, keep_max=1).instants > 0
    assert answer(scene.table) == {"a": "2"}
