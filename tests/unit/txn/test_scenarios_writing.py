# SPDX-License-Identifier: Apache-2.0
"""Failure scenarios of slicing, visibility and compaction, step by step through the real write path."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from lakebraid import limits
from lakebraid.errors import InvalidArgument
from lakebraid.format.names import history_file_name
from lakebraid.format.timeline.history import ArchivedInstant, write_history
from lakebraid.model.timeline.timeline import Timeline
from lakebraid.services.merging.compaction import COMPACTION, plan_compaction
from lakebraid.services.settings import Opened
from lakebraid.storage import Storage
from lakebraid.table.at import TableAt
from lakebraid.table.loading import load_timeline
from lakebraid.tasks.writing.rows import write_rows
from tests.kit.tables.builder import TIMELINE, put_history
from tests.kit.tables.scene import Call, Scene, Write, answer, files, once, row

pytestmark = [pytest.mark.unit, pytest.mark.slow]

MODES = pytest.mark.parametrize("by_event", [True, False], ids=["event time", "commit time"])


def makes_base(call: Call) -> bool:
    return call.name == "create" and call.target.endswith(".parquet")


# --- F1, F7: what is pending hides nothing ---------------------------------------------------------------------------


@MODES
@pytest.mark.parametrize("first", ["dies", "lives", "commits later", "is rolled back", "loads base files and dies"])
def test_f1_a_first_writer_that_did_not_commit_hides_nothing_of_the_second(first: str, by_event: bool) -> None:
    scene = Scene(by_event, {"seed_base": False})
    kind = "bulk_insert" if first.startswith("loads") else "upsert"
    w1 = scene.begin(row("a", "of W1"), row("b", "of W1"), kind=kind)
    assert any(name.endswith(".parquet") for name in files(scene.storage)) == (kind == "bulk_insert")
    scene.write(row("a", "of W2"))
    assert scene.check() == [{"a": "of W2"}]
    if first == "commits later":
        scene.commit(w1)
        assert scene.check() == [{"a": "of W2"}, {"a": "of W2", "b": "of W1"}]
        return
    if first == "is rolled back":
        w1.transaction.abort()
    scene.kill(w1)
    scene.write(row("c", "of W3"))
    assert scene.check() == [{"a": "of W2"}, {"a": "of W2", "c": "of W3"}]


def test_f1_a_bulk_load_that_commits_after_a_first_log_of_the_same_bucket_hides_nothing_of_it() -> None:
    scene = Scene(arguments={"seed_base": False})
    load = scene.begin(row("a", "loaded"), row("b", "loaded"), kind="bulk_insert")
    late = scene.begin(row("c", "begun before the load was done"))
    scene.write(row("a", "of W2", ts=2))
    scene.compact()  # whatever it does: base files of the load must not come to lie behind its own
    scene.commit(load)
    scene.commit(late)
    assert scene.check()[-2:] == [
        {"a": "of W2", "b": "loaded"},
        {"a": "of W2", "b": "loaded", "c": "begun before the load was done"},
    ]
    assert scene.compact()
    scene.check()


@MODES
def test_f7_files_of_pending_writers_before_and_between_the_committed_ones_are_passed_over(by_event: bool) -> None:
    scene = Scene(by_event, {"seed_base": False})
    before = scene.begin(row("a", "pending"), row("p", "pending"))
    scene.write(row("a", "1"))
    between = scene.begin(row("a", "pending"), row("q", "pending"))
    scene.write(row("a", "2"), row("b", "2"))
    last = scene.begin(row("b", "pending"))
    assert scene.check() == [{"a": "1"}, {"a": "2", "b": "2"}]
    for write in (last, between, before):
        scene.commit(write)
    assert scene.check()[2:] == [
        {"a": "2", "b": "pending"},
        {"a": "2", "b": "pending", "q": "pending"},
        {"a": "2", "b": "pending", "q": "pending", "p": "pending"},
    ]


# --- F2, F3, F6: late completion and compaction ----------------------------------------------------------------------


@MODES
def test_f2_a_write_that_was_open_when_the_compaction_was_planned_lies_over_the_compacted_base(by_event: bool) -> None:
    scene = Scene(by_event)
    scene.write(row("a", "base"), row("z", "base"))
    scene.compact()
    l1, l2 = scene.begin(row("a", "l1")), scene.begin(row("b", "l2"))
    l3 = scene.begin(row("a", "l3", ts=2), row("c", "l3"))
    scene.commit(l1)
    scene.commit(l2)
    ledger = scene.table._writing.ledger(scene.table._config)
    planned = plan_compaction(ledger)
    assert planned is not None
    assert len(COMPACTION.load(ledger, planned).operations[0].delta_file_names) == 2
    before = scene.check()
    scene.services.append(COMPACTION.run(Opened(scene.table._writing, ledger), planned).completion_time)
    assert scene.check() == [*before, before[-1]]
    scene.commit(l3)
    assert scene.check() == [
        {"a": "base", "z": "base"},
        {"a": "base", "z": "base"},
        {"a": "l1", "z": "base"},
        {"a": "l1", "b": "l2", "z": "base"},
        {"a": "l1", "b": "l2", "z": "base"},
        {"a": "l3", "b": "l2", "c": "l3", "z": "base"},
    ]
    (newest,) = scene.table.snapshot().slices
    assert newest.base is not None
    assert (newest.base.request_time, [log.request_time for log in newest.logs]) == (planned, [l3.request_time])
    scene.compact()
    scene.check()


def test_f3_no_completion_ever_equals_a_start_though_the_clock_stands_still() -> None:
    scene = Scene()
    scene.clock.step_ms = 0
    late = scene.begin(row("q", "late"))
    scene.write(row("a", "1"))
    finisher = once(makes_base, lambda: scene.commit(late))
    scene.compact(scene.other(before=finisher))
    scene.write(row("a", "2"))
    times = [
        t
        for i in load_timeline(TableAt(scene.storage, scene.table._config, scene.clock))
        for t in (i.request_time, i.completion_time)
    ]
    assert None not in times
    assert len(set(times)) == len(times) == 10
    assert scene.check()[-1] == {"a": "2", "q": "late"}


@MODES
def test_f6_the_triangle_of_two_writers_and_a_compaction_gives_the_same_rows_whoever_is_done_first(
    by_event: bool,
) -> None:
    scene = Scene(by_event)
    scene.write(row("a", "t0"), row("b", "t0"))
    t1 = scene.begin(row("a", "t1"), row("b", "t1"))

    def t3_commits() -> None:
        scene.write(row("a", "t3"))
        assert scene.check() == [{"a": "t0", "b": "t0"}, {"a": "t3", "b": "t0"}]

    between = once(makes_base, t3_commits)
    (done,) = scene.compact(scene.other(before=between))
    assert t1.request_time < done.instant < scene.writes[-1].request_time < done.completion_time
    scene.commit(t1)
    expected = [{"a": "t0", "b": "t0"}, {"a": "t3", "b": "t0"}, {"a": "t3", "b": "t0"}, {"a": "t3", "b": "t1"}]
    assert scene.check() == expected
    scene.compact()
    assert scene.check() == [*expected, expected[-1]]


# --- F4: archival beside the planner ---------------------------------------------------------------------------------


def archive(storage: Storage, timeline: Timeline) -> None:
    """The two oldest completed writes leave the active timeline, as an archiver beside us does it."""
    rows, names = [], []
    for instant in timeline.completed[:2]:
        own = [i.name for i in storage.list(TIMELINE) if f"/{instant.request_time}" in i.name]
        (completed,) = (name for name in own if "_" in name.rpartition("/")[2])
        data = storage.read(completed, limits.TIMELINE_FILE_BYTES_MAX)
        rows.append(ArchivedInstant(instant.request_time, instant.completion_time or "", instant.action, data, None))
        names += own
    put_history(storage, {history_file_name(rows[0].request_time, rows[-1].request_time, 0): write_history(rows)}, 1)
    storage.delete(names)


def planned_beside_an_archiver(at: int) -> int:
    """How many calls it takes to plan a compaction, if two writes are archived before its call number `at`."""
    scene = Scene()
    scene.write(row("a", "archived"))
    scene.write(row("b", "kept"))
    timeline = load_timeline(TableAt(scene.storage, scene.table._config, scene.clock))
    beside = scene.other(before=once(lambda call: call.number == at, lambda: archive(scene.storage, timeline)))
    (done,) = scene.compact(beside)
    assert done.rows == 2, f"a log file was left out: archived before call {at}"
    assert answer(scene.table) == {"a": "archived", "b": "kept"}
    watched: Any = beside._storage
    entry: Call = next(call for call in watched.calls if call.is_entry())
    return entry.number + 1


@pytest.mark.slow
def test_f4_a_write_that_is_archived_between_any_two_looks_of_the_planner_is_compacted_all_the_same() -> None:
    at, calls = 0, 1
    while at < calls:
        calls = planned_beside_an_archiver(at)
        at += 1
    assert at > 10


# --- F9: attempts of one task ----------------------------------------------------------------------------------------


def attempt(write: Write, rows: list[dict[str, Any]], storage: Storage, task: int = 1000) -> Any:
    table = pa.Table.from_pylist(rows)
    return write_rows(storage, write.transaction.staging.plan(table.schema, "upsert"), table, task)


def test_f9_a_second_attempt_of_a_task_leaves_no_second_file() -> None:
    scene = Scene()
    write = scene.begin(row("a", "1"), row("b", "1"))
    before = files(scene.storage)
    again = attempt(write, write.rows, scene.storage)
    reordered = attempt(write, write.rows[::-1], scene.storage)
    assert again == reordered == write.transaction.staging.files
    assert files(scene.storage) == before
    scene.commit(write)
    assert scene.check() == [{"a": "1", "b": "1"}]


@pytest.mark.parametrize("when", ["before its marker", "before its file"])
def test_f9_a_speculative_attempt_that_overtakes_the_first_leaves_one_file(when: str) -> None:
    scene = Scene()
    place = ".hoodie/.temp/" if when == "before its marker" else ".0000"

    def overtake() -> None:
        attempt(scene.writes[-1], scene.writes[-1].rows, scene.storage)

    hook = once(lambda call: call.name == "create" and call.target.startswith(place), overtake)
    write = scene.begin(row("a", "1"), table=scene.other(before=hook))
    assert hook.done
    scene.commit(write)
    assert scene.check() == [{"a": "1"}]
    assert len([name for name in files(scene.storage) if write.request_time in name]) == 1


def test_f9_an_attempt_with_other_rows_is_told_so_and_changes_nothing() -> None:
    scene = Scene()
    write = scene.begin(row("a", "1"))
    with pytest.raises(InvalidArgument, match=r"other rows.*Nothing was overwritten.*repeatable"):
        attempt(write, [row("a", "random")], scene.storage)
    scene.commit(write)
    with pytest.raises(InvalidArgument, match="other rows"):
        attempt(write, [row("a", "a zombie's")], scene.storage)
    assert scene.check() == [{"a": "1"}]


# --- F11: compaction changes no answer -------------------------------------------------------------------------------


def overlapping(scene: Scene, after: Any) -> None:
    """Updates of the same keys that overlap, with ties, deletes and partial updates; `after` runs after each step."""
    steps: list[Any] = []

    def do(step: Any) -> Any:
        result = step()
        steps.append(step)
        after(len(steps))
        return result

    do(lambda: scene.write(*(row(key, f"{key}0", 5) for key in "abcdfgh")))
    late = [row("a", "slow", 5), row("b", "slow", 7), row("e", "slow", 1)]
    slow = do(lambda: scene.begin(*late, row("f", "slow", 7), row("g", "slow", 5), row("h", "slow", 5, w=7)))
    do(lambda: scene.write(row("a", "tie", 5), row("b", "older event", 4)))
    doomed = [{"id": "c", "ts": 6}, {"id": "d", "ts": 4}, {"id": "f", "ts": 6}, {"id": "g", "ts": 6}]
    gone = do(lambda: scene.begin(*doomed, kind="delete"))
    do(lambda: scene.write(row("c", "beside the delete", 6), row("d", "beside the delete", 3)))
    do(lambda: scene.commit(gone))
    part = [{"id": "a", "ts": 5, "v": "part"}, {"id": "h", "ts": 5, "v": "part"}]
    do(lambda: scene.write(*part, columns=("id", "ts", "v")))
    do(lambda: scene.write(row("c", "later, older event", 5)))
    do(lambda: scene.commit(slow))
    do(lambda: scene.write({"id": "a", "ts": 9}, kind="delete"))
    do(lambda: scene.write(row("a", "back", 9), row("e", "e", 1)))


@MODES
@pytest.mark.parametrize("when", [2, 3, 5, 7, 9, 10, "always"])
def test_f11_a_compaction_after_any_step_of_overlapping_writers_changes_no_answer(
    by_event: bool, when: int | str
) -> None:
    scene = Scene(by_event)

    def after(step: int) -> None:
        if when in (step, "always"):
            before = answer(scene.table)
            scene.compact()
            assert answer(scene.table) == before

    overlapping(scene, after)
    scene.check()
    scene.compact()
    expected = {"a": "back", "b": "slow", "c": "beside the delete", "d": "d0", "e": "e", "f": "slow", "h": "part"}
    if not by_event:
        later = {"c": "later, older event", "d": "beside the delete"}
        expected = {"a": "back", "b": "older event", **later, "e": "e", "h": "part"}
    assert scene.check()[-1] == expected
