# SPDX-License-Identifier: Apache-2.0
"""Failure scenarios of slicing and visibility, step by step: what a reader must see."""

from __future__ import annotations

from typing import Any

import pytest

import lakebraid as lb
from lakebraid.format.names import State
from lakebraid.format.timeline.services import SavepointMetadata, format_savepoint_metadata
from tests.kit.models.oracle import Base, Block, Gone, History, Instant, Log, Put, Settings
from tests.kit.tables.builder import TIMELINE, build_table, open_table, timeline_path
from tests.kit.tables.built_files import t
from tests.kit.tables.small_histories import (
    B10,
    BY_COMMIT,
    BY_EVENT,
    COLUMNS,
    DEMO,
    DEMO_ANSWERS,
    G,
    base,
    compacted,
    compaction,
    history,
    log,
    put,
    row,
    shown,
    write,
)

pytestmark = pytest.mark.unit


# --- F1: a failed first write hides nothing --------------------------------------------------------------------------


@pytest.mark.parametrize("first", ["dead", "alive", "rolled back, files left", "a base file", "commits later"])
def test_f1_a_first_writer_that_did_not_commit_hides_nothing_of_the_second(first: str) -> None:
    w1, w2 = write(11), write(12, 13)
    file: Log | Base = log(11, put("a", "of W1"), put("b", "of W1"))
    if first == "a base file":
        file = base(11, (11, row("a", "of W1")), (11, row("b", "of W1")))
    elif first == "rolled back, files left":
        w1.rolled_back_at = 14
    elif first == "commits later":
        w1.completion = 20
    made = history(write(1, 2), w1, w2, file, log(12, put("a", "of W2")))
    assert shown(open_table(build_table(made, now=14))) == {"a": "of W2"}
    later = open_table(build_table(made, now=30))
    assert shown(later) == ({"a": "of W2", "b": "of W1"} if first == "commits later" else {"a": "of W2"})
    assert shown(later, as_of=13) == {"a": "of W2"}


def test_f1_a_pending_first_write_is_the_first_instant_of_the_table_and_still_hides_nothing() -> None:
    made = history(write(11), write(12, 13), log(11, put("a", "of W1")), log(12, put("a", "of W2")))
    assert shown(open_table(build_table(made))) == {"a": "of W2"}


# --- F2: late completion after a compaction was planned --------------------------------------------------------------


@pytest.mark.parametrize("moment", DEMO_ANSWERS)
def test_f2_the_demo_of_rfc_66_read_now_and_later_as_of_then(moment: int) -> None:
    assert shown(open_table(build_table(DEMO, now=moment))) == DEMO_ANSWERS[moment]
    assert shown(open_table(build_table(DEMO)), as_of=moment) == DEMO_ANSWERS[moment]
    assert shown(open_table(build_table(DEMO, archived=4)), as_of=moment) == DEMO_ANSWERS[moment]


def test_f2_the_late_log_is_the_only_one_over_the_compacted_base() -> None:
    (newest,) = open_table(build_table(DEMO)).snapshot().slices
    assert newest.base is not None
    assert (newest.base.request_time, [x.request_time for x in newest.logs]) == (t(60), [t(35)])
    (older,) = open_table(build_table(DEMO)).snapshot(t(85)).slices
    assert older.base is not None
    assert (older.base.request_time, older.logs) == (t(60), ())
    (planned,) = open_table(build_table(DEMO, now=70)).snapshot().slices
    assert planned.base is not None
    assert (planned.base.request_time, [x.request_time for x in planned.logs]) == (t(10), [t(21), t(30)])


@pytest.mark.parametrize("late", [30, 59])
def test_f3_a_log_that_completes_at_the_very_start_of_a_compaction_is_not_lost(late: int) -> None:
    b60 = base(60, (10, row("a", "base")))
    made = history(
        write(1, 2), write(10, 20), write(late, 60), compaction(60, 80, B10), B10, b60, log(late, put("q", "late"))
    )
    assert shown(open_table(build_table(made))) == {"a": "base", "q": "late"}


def test_f4_a_file_older_than_the_timeline_whose_instant_nobody_remembers_is_committed() -> None:
    storage = build_table(DEMO, archived=3)
    storage.delete([f.name for f in storage.list(f"{TIMELINE}/history")])
    assert shown(open_table(storage)) == DEMO_ANSWERS[95]
    assert shown(open_table(storage), as_of=55) == DEMO_ANSWERS[55]


# --- F6, F7 ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [BY_EVENT, BY_COMMIT], ids=["event time", "commit time"])
def test_f6_the_compaction_triangle_gives_the_same_rows_whatever_completes_when(settings: Settings) -> None:
    b10 = base(10, (10, row("a", "t0")), (10, row("b", "t0")))
    b30 = base(30, (10, row("a", "t0")), (10, row("b", "t0")))
    l21, l40 = log(21, put("a", "t1"), put("b", "t1")), log(40, put("a", "t3"))
    made = history(
        write(1, 2),
        write(10, 20),
        write(21, 60),
        compaction(30, 50, b10),
        write(40, 45),
        b10,
        b30,
        l21,
        l40,
        settings=settings,
    )
    answers = {20: ("t0", "t0"), 35: ("t0", "t0"), 45: ("t3", "t0"), 50: ("t3", "t0"), 60: ("t3", "t1")}
    for moment, (a, b) in answers.items():
        assert shown(open_table(build_table(made, now=moment))) == {"a": a, "b": b}, moment
        assert shown(open_table(build_table(made)), as_of=moment) == {"a": a, "b": b}, moment


@pytest.mark.parametrize("content", ["whole", "cut off", "empty"])
def test_f7_the_block_of_a_pending_writer_is_passed_and_the_committed_ones_behind_it_are_read(content: str) -> None:
    pending, committed = log(21, put("a", "pending", ts=9)), log(30, put("a", "committed"))
    made = history(write(1, 2), write(10, 20), write(21), write(30, 50), B10, pending, committed)
    storage = build_table(made)
    path = f".{G[1]}_{t(21)}.log.1_1-0-1"
    data = storage.read(path, 1 << 20)
    storage.replace(path, {"whole": data, "cut off": data[:40], "empty": b""}[content])
    assert shown(open_table(storage)) == {"a": "committed", "z": "base"}


# --- F9: spare files -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spare", ["0-0-0", "9-9-9"])
@pytest.mark.parametrize("archived", [0, 3])
def test_f9_of_two_base_files_of_one_instant_only_the_one_the_commit_names_counts(spare: str, archived: int) -> None:
    twin = base(10, (10, row("a", "spare")), (10, row("y", "spare")), token=spare, named=False)
    named = base(10, (10, row("a", "named")), token="1-0-1")
    made = history(write(1, 2), write(10, 20), write(30, 40), write(50, 60), twin, named, log(30, put("b", "later")))
    assert shown(open_table(build_table(made, archived=archived))) == {"a": "named", "b": "later"}


def test_f9_a_spare_base_file_of_a_compaction_does_not_count() -> None:
    spare = base(60, (21, row("a", "zombie")), token="9-0-0", named=False)
    made = History(DEMO.settings, DEMO.instants, DEMO.logs, [*DEMO.bases, spare])
    assert shown(open_table(build_table(made))) == DEMO_ANSWERS[95]


def test_f9_a_spare_is_not_shown_when_the_named_file_was_cleaned_away() -> None:
    b10, spare = base(10, (10, row("a", "named"))), base(10, (10, row("a", "spare")), token="9-9-9", named=False)
    b30 = base(30, (10, row("a", "named")))
    clean = Instant(40, "clean", 45, removed=(b10,))
    made = history(write(1, 2), write(10, 20), compaction(30, 35, b10), clean, b10, spare, b30)
    table = open_table(build_table(made))
    assert shown(table) == {"a": "named"}
    with pytest.raises(lb.SnapshotExpired):
        shown(table, as_of=25)


# --- F11: compaction changes no answer -------------------------------------------------------------------------------


LATE = {
    "a tie with a late finisher": (log(30, put("k", "early")), log(20, put("k", "late finisher"))),
    "a late finisher that is newer in event time": (log(30, put("k", "old")), log(20, put("k", "new", ts=5))),
    "a late finisher that is older in event time": (log(30, put("k", "new", ts=5)), log(20, put("k", "old"))),
    "a late unconditional delete that began before the row": (log(30, put("k", "row")), log(20, Gone("k"))),
    "a late delete with the row's own ordering value": (log(30, put("k", "row")), log(20, Gone("k", (1,)))),
    "a late delete with a greater ordering value": (log(30, put("k", "row")), log(20, Gone("k", (2,)))),
    "a late stale delete": (log(30, put("k", "row", ts=5)), log(20, Gone("k", (2,)))),
}


@pytest.mark.parametrize("settings", [BY_EVENT, BY_COMMIT], ids=["event time", "commit time"])
@pytest.mark.parametrize("case", LATE)
def test_f11_the_answer_is_the_same_before_and_after_a_compaction(case: str, settings: Settings) -> None:
    early, late = LATE[case]
    plain = history(
        write(1, 2),
        write(10, 12),
        write(20, 80),
        write(30, 40),
        log(10, put("k", "first", ts=0)),
        early,
        late,
        settings=settings,
    )
    with_service = compacted(plain, 50, 60)
    for moment in (40, 60, 80):
        before, after = open_table(build_table(plain)), open_table(build_table(with_service))
        assert shown(before, as_of=moment) == shown(after, as_of=moment), moment
        assert shown(open_table(build_table(with_service, now=moment))) == shown(before, as_of=moment), moment


def test_f11_ties_between_overlapping_writers_go_to_the_later_start_not_to_the_later_completion() -> None:
    made = history(write(1, 2), write(20, 80), write(30, 40), log(20, put("k", "slow")), log(30, put("k", "fast")))
    assert shown(open_table(build_table(made))) == {"k": "fast"}
    assert shown(open_table(build_table(compacted(made, 50, 60)))) == {"k": "fast"}


def partial(request_time: int, key: str, **values: Any) -> Log:
    block = Block("parquet", (Put(key, {"id": key} | values),), ("id", *values), partial=True)
    return Log(G, request_time, (block,))


def test_f11_a_late_unconditional_delete_spares_the_newer_base_row_also_where_another_key_is_partial() -> None:
    b10 = base(10, (10, row("k", "newer than the delete")), (10, row("z", "old")))
    late, other = log(5, Gone("k")), partial(30, "z", ts=2, v="new")
    made = history(write(1, 2), write(5, 25), write(10, 20), write(30, 40), b10, late, other)
    assert shown(open_table(build_table(made))) == {"k": "newer than the delete", "z": "new"}


def test_a_stale_partial_update_does_not_come_in_with_a_newer_one_of_other_columns() -> None:
    """Real Hudi folds the logs among themselves first: there the stale update brings its column in with the newer one."""
    b10 = base(10, (10, row("k", "base", ts=10)))
    stale, fresh = partial(20, "k", ts=5, v="stale"), partial(30, "k", ts=20, w=7)
    writes = [write(1, 2), write(10, 12), write(20, 22), write(30, 32)]
    alone = open_table(build_table(history(*writes, b10, stale)))
    assert alone.to_arrow().to_pylist() == [row("k", "base", ts=10)]
    both = open_table(build_table(history(*writes, b10, stale, fresh)))
    assert both.to_arrow().to_pylist() == [{"id": "k", "ts": 20, "v": "base", "w": 7}]


def test_a_partial_row_of_a_new_key_has_the_partition_of_its_folder() -> None:
    settings, columns = Settings(partitioned=True, buckets=1), ("id", "part", "ts", "v", "w")
    block = Block("avro", (Put("k", {"id": "k", "ts": 1, "v": "x"}),), ("id", "ts", "v"), partial=True)
    first, second = Instant(1, "deltacommit", 2, columns), Instant(10, "deltacommit", 12, columns)
    table = open_table(build_table(History(settings, [first, second], [Log(("p0", G[1]), 10, (block,))])))
    assert table.to_arrow(columns=["id", "part", "v"]).to_pylist() == [{"id": "k", "part": "p0", "v": "x"}]
    assert table.count(where="part = 'p0'") == 1


# --- log compaction --------------------------------------------------------------------------------------------------


def test_a_log_compacted_block_stands_at_the_newest_instant_it_names_and_only_once_it_is_committed() -> None:
    """Writer 25 is not named; it began after 20 and before the log compaction, so it wins the tie over both."""
    l10, l20, l25 = log(10, put("k", "ten")), log(20, put("k", "twenty"), put("q", "q")), log(25, put("k", "between"))
    merged = Block("parquet", (put("k", "twenty"), put("q", "q")), COLUMNS, compacted=(10, 20))
    service = Instant(40, "logcompaction", 45, inputs=(l10, l20))
    made = history(
        write(1, 2), write(10, 12), write(20, 22), write(25, 50), service, l10, l20, l25, Log(G, 40, (merged,))
    )
    answers = {
        12: {"k": "ten"},
        22: {"k": "twenty", "q": "q"},
        45: {"k": "twenty", "q": "q"},
        50: {"k": "between", "q": "q"},
    }
    for moment, answer in answers.items():
        assert shown(open_table(build_table(made)), as_of=moment) == answer, moment
        assert shown(open_table(build_table(made, now=moment))) == answer, moment
    service.completion = None
    assert shown(open_table(build_table(made))) == {"k": "between", "q": "q"}


def test_a_row_that_a_log_compaction_dropped_does_not_come_back_from_the_blocks_it_replaced() -> None:
    l10, l20 = log(10, put("k", "row")), log(20, Gone("k", (1,)))
    gone = Block("delete", (Gone("k", (1,)),), compacted=(10, 20))
    service = Instant(40, "logcompaction", 45, inputs=(l10, l20))
    made = history(write(1, 2), write(10, 12), write(20, 22), service, l10, l20, Log(G, 40, (gone,)))
    again = log(50, put("k", "again", ts=1))
    assert shown(open_table(build_table(made))) == {}
    later = History(made.settings, [*made.instants, write(50, 55)], [*made.logs, again])
    assert shown(open_table(build_table(later))) == {"k": "again"}


# --- timelines as they are met ---------------------------------------------------------------------------------------


def test_a_savepoint_shares_the_start_of_its_commit_and_does_not_take_its_place() -> None:
    storage = build_table(DEMO)
    data = format_savepoint_metadata(SavepointMetadata({}, "someone", "", 0))
    storage.create(f"{TIMELINE}/{t(30)}.savepoint.inflight", b"")
    storage.create(f"{TIMELINE}/{t(30)}_{t(97)}.savepoint", data)
    assert shown(open_table(storage)) == DEMO_ANSWERS[95]
    assert shown(open_table(storage), as_of=55) == DEMO_ANSWERS[55]


def test_a_completed_file_that_stays_empty_is_a_commit_without_metadata_and_its_rows_count() -> None:
    storage = build_table(DEMO)
    storage.replace(timeline_path(DEMO.instant(35), State.COMPLETED), b"")
    assert shown(open_table(storage)) == DEMO_ANSWERS[95]


def test_the_schema_is_that_of_the_completed_write_with_the_greatest_start() -> None:
    wide = Instant(10, "deltacommit", 50, (*COLUMNS, "extra"))
    file = Log(G, 10, (Block("avro", (Put("a", row("a", "v") | {"extra": "x"}),), (*COLUMNS, "extra")),))
    made = history(write(1, 2), wide, write(20, 30), file, log(20, put("b", "v")))
    table = open_table(build_table(made))
    assert table.schema.names == [*COLUMNS]
    made.instants.append(Instant(60, "deltacommit", 61, (*COLUMNS, "extra")))
    again = open_table(build_table(made))
    assert again.schema.names == [*COLUMNS, "extra"]
    assert sorted(again.to_arrow().column("extra").to_pylist(), key=str) == [None, "x"]


def test_a_log_that_a_savepoint_did_not_keep_is_missed_although_it_is_archived_and_began_before_its_base() -> None:
    """The savepoint kept the base file, the clean took the late log, the archiver its completion time."""
    b10, late = base(10, (10, row("a", "base"))), log(5, put("a", "late", ts=2))
    b30 = base(30, (5, row("a", "late", ts=2)))
    clean = Instant(40, "clean", 45, removed=(late,))
    made = history(
        write(1, 2),
        write(5, 25),
        write(10, 20),
        compaction(30, 35, b10, late),
        clean,
        write(50, 55),
        write(60, 65),
        b10,
        b30,
        late,
    )
    for archived in (0, 3, 5):
        table = open_table(build_table(made, archived=archived))
        assert shown(table) == {"a": "late"}, archived
        assert shown(table, as_of=20) == {"a": "base"}, archived
        with pytest.raises(lb.SnapshotExpired):
            shown(table, as_of=25)
