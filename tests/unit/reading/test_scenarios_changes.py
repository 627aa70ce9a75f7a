# SPDX-License-Identifier: Apache-2.0
"""Failure scenarios of plans, properties and change feeds: a right answer or a named error, never a short one."""

from __future__ import annotations

from typing import Any

import pytest

import lakebraid as lb
from lakebraid.format.names import State
from lakebraid.storage import open_storage
from tests.kit.models.oracle import Block, History, Instant, Log, Put, Settings
from tests.kit.tables.builder import build_table, open_table, timeline_path
from tests.kit.tables.built_files import t
from tests.kit.tables.small_histories import (
    B10,
    DEMO,
    DEMO_ANSWERS,
    L1,
    L2,
    G,
    base,
    compacted,
    compaction,
    history,
    log,
    put,
    row,
    shown,
    told,
    write,
)

pytestmark = pytest.mark.unit


# --- F20, F25 --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("torn", [0, 1, 30, 200])
def test_f20_a_torn_compaction_plan_hides_nothing(torn: int) -> None:
    storage = build_table(DEMO, now=70)
    path = timeline_path(DEMO.instant(60), State.REQUESTED)
    storage.replace(path, storage.read(path, 1 << 20)[:torn])
    assert shown(open_table(storage)) == DEMO_ANSWERS[55]


@pytest.mark.parametrize("main", ["missing", "empty", "cut off", "whole"])
def test_f25_a_table_opens_from_the_backup_of_its_properties(main: str) -> None:
    storage = build_table(DEMO)
    name = ".hoodie/hoodie.properties"
    data = storage.read(name, 1 << 20)
    storage.create(f"{name}.backup", data)
    match main:
        case "missing":
            storage.delete([name])
        case "empty":
            storage.replace(name, b"")
        case "cut off":
            storage.replace(name, data[: len(data) // 2])
    assert shown(open_table(storage)) == DEMO_ANSWERS[95]


def test_a_table_in_memory_reads_as_the_same_table_on_disk(tmp_path: Any) -> None:
    memory, disk = open_storage("memory://scenarios/demo"), open_storage(tmp_path / "demo")
    build_table(DEMO, memory, archived=3)
    build_table(DEMO, disk, archived=3)
    tables = [lb.Table.open("memory://scenarios/demo"), lb.Table.open(tmp_path / "demo")]
    for moment in (*DEMO_ANSWERS, None):
        assert shown(tables[0], moment) == shown(tables[1], moment)
    assert told(tables[0], 40) == told(tables[1], 40) != []
    assert shown(tables[1]) == DEMO_ANSWERS[95]


# --- F28, F29: changes -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("between", ["nothing", "compaction", "clean", "archival"])
def test_f28_a_late_finisher_is_delivered_exactly_once_by_consecutive_changes(between: str) -> None:
    early, late = log(30, put("a", "fast")), log(20, put("b", "slow"), put("a", "stale", ts=0))
    made = history(write(1, 2), write(10, 12), write(20, 80), write(30, 40), log(10, put("z", "old")), early, late)
    if between in ("compaction", "clean"):
        made = compacted(made, 50, 60)
    if between == "clean":
        gone = tuple(log for log in made.logs if log.request_time in (10, 30))
        made.instants.append(Instant(85, "clean", 86, removed=gone))
    first = open_table(build_table(made, now=45)).changes()
    assert first.next_position == t(40)
    assert sorted(r["v"] for r in first.to_arrow().to_pylist()) == ["fast", "old"]
    later = open_table(build_table(made, archived=4 if between == "archival" else 0))
    if between == "clean":
        with pytest.raises(lb.SnapshotExpired):
            told(later, 40)
        assert told(later, 60) == [("insert", "b", "slow")]
        return
    assert told(later, 40) == [("insert", "b", "slow")]
    assert told(later, 80) == []
    assert told(later, None) == [("insert", "a", "fast"), ("insert", "b", "slow"), ("insert", "z", "old")]


def test_f29_changes_with_a_pending_compaction_are_whole() -> None:
    table = open_table(build_table(DEMO, now=70))
    assert told(table, 20) == [("insert", "b", "l2"), ("update", "a", "l1")]
    late = History(
        DEMO.settings,
        [i for i in DEMO.instants if i.request_time != 60] + [compaction(60, None, B10, L1, L2)],
        DEMO.logs,
        DEMO.bases,
    )
    assert told(open_table(build_table(late)), 50) == [("insert", "c", "l3"), ("update", "a", "l3")]


def test_f29_changes_show_a_new_partition_and_a_dropped_one() -> None:
    settings = Settings(partitioned=True, buckets=1)
    columns = ("id", "part", "ts", "v", "w")
    p0, p1 = ("p0", G[1]), ("p1", G[1])
    files = [
        Log(group, request_time, (Block("parquet", (Put("a", row("a", v) | {"part": group[0]}),), columns),))
        for group, request_time, v in ((p0, 10, "old"), (p1, 20, "new"))
    ]
    writes = [Instant(s, "deltacommit", c, columns) for s, c in ((1, 2), (10, 12), (20, 22))]
    drop = Instant(30, "replacecommit", 32, columns, replaces=(p0,))
    table = open_table(build_table(History(settings, [*writes, drop], files)))
    assert told(table, 12, 22) == [("insert", "a", "new")]
    assert told(table, 22) == [("delete", "a", "old")]
    assert told(table, 12) == [("delete", "a", "old"), ("insert", "a", "new")]


@pytest.mark.parametrize("state", ["completed", "died half-way", "archived"])
def test_f29_changes_and_time_travel_over_cleaned_files_are_refused_never_short(state: str) -> None:
    clean = Instant(95, "clean", None if state == "died half-way" else 96, removed=(B10, L1, L2))
    made = History(DEMO.settings, [*DEMO.instants, clean, write(97, 98)], DEMO.logs, DEMO.bases)
    table = open_table(build_table(made, archived=7 if state == "archived" else 0))
    assert shown(table) == DEMO_ANSWERS[95]
    for moment in (20, 40, 50, 55):
        with pytest.raises(lb.SnapshotExpired):
            shown(table, as_of=moment)
        with pytest.raises(lb.SnapshotExpired):
            told(table, moment)
    assert told(table, 80) == [("insert", "c", "l3"), ("update", "a", "l3")]
    assert shown(table, as_of=85) == DEMO_ANSWERS[85]


def test_a_clean_of_replaced_groups_does_not_refuse_the_time_after_the_replacement() -> None:
    new = ("", "00000000-0050-0000-0000-000000000000-0")
    b10, b50 = base(10, (10, row("a", "v"))), base(50, (10, row("a", "v")), group=new)
    cluster = Instant(50, "clustering", 55, replaces=(G,))
    made = history(
        write(1, 2), write(10, 20), cluster, Instant(60, "clean", 65, removed=(b10,)), write(70, 71), b10, b50
    )
    table = open_table(build_table(made))
    assert shown(table, as_of=55) == {"a": "v"}
    assert told(table, 55) == []
    with pytest.raises(lb.SnapshotExpired):
        shown(table, as_of=20)


def test_clustering_is_no_change_and_moves_no_row_out_of_the_table() -> None:
    new = ("", "00000000-0050-0000-0000-000000000000-0")
    b10, b50 = base(10, (10, row("a", "v"))), base(50, (10, row("a", "v")), group=new)
    made = history(write(1, 2), write(10, 20), Instant(50, "clustering", 55, replaces=(G,)), b10, b50)
    table = open_table(build_table(made))
    assert shown(table) == shown(table, as_of=20) == {"a": "v"}
    assert told(table, 20) == []
