# SPDX-License-Identifier: Apache-2.0
"""Apache Hudi writes, compacts, cleans, archives and rolls back on our tables, and we go on after each."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import lakebraid as lb
from lakebraid import limits
from lakebraid.storage.local import LocalStorage
from tests.interop.our_tables import ROW, keys, plan, rows, run_plan
from tests.interop.our_tables_types import COMPOSITE, composite
from tests.interop.referee import Referee
from tests.interop.shared_table import LOCK, SharedTable

pytestmark = pytest.mark.interop


@pytest.fixture
def shared(referee: Referee, tmp_path: Path) -> SharedTable:
    return SharedTable.create(referee, tmp_path / "shared")


def test_a_plain_hudi_upsert_meets_our_rows_in_our_buckets(referee: Referee, tmp_path: Path) -> None:
    shared = SharedTable.create(referee, tmp_path / "t", COMPOSITE, record_keys=["a", "b", "c", "d", "e"], buckets=8)
    shared.table.upsert([composite(n, f"ours{n}", 2) for n in range(8)])
    shared.hudi_writes([composite(n, f"hudis{n}", 3 if n % 2 else 1) for n in range(9)])
    shared.check([f"hudis{n}" if n % 2 or n == 8 else f"ours{n}" for n in range(9)])
    shared.table.upsert([composite(n, f"again{n}", 4) for n in range(9)])
    shared.check([f"again{n}" for n in range(9)])


@pytest.mark.parametrize("partitions", [["p"], ["p", "q"]])
def test_a_plain_hudi_upsert_finds_our_partitions(partitions: list[str], referee: Referee, tmp_path: Path) -> None:
    ddl = f"{ROW}, p string, q int"
    options = {"hoodie.datasource.write.partitionpath.urlencode": True}
    shared = SharedTable.create(
        referee, tmp_path / "t", ddl, partition_by=partitions, hive_style_partitioning=True, properties=options
    )
    shared.table.upsert([*rows("a", {1: 1, 2: 1}, p="x/y=z", q=1), *rows("a", {3: 1}, p="é:", q=2)])
    shared.hudi_writes(
        [*rows("b", {1: 2}, p="x/y=z", q=1), *rows("b", {3: 2}, p="é:", q=2), *rows("b", {4: 1}, p="new", q=3)]
    )
    shared.table.upsert([*rows("c", {2: 2}, p="x/y=z", q=1), *rows("c", {4: 2}, p="new", q=3)])
    shared.check(["b1", "c2", "b3", "c4"])


def test_sql_inserts_updates_and_deletes_between_our_writes(shared: SharedTable) -> None:
    shared.table.upsert(rows("a", {1: 1, 2: 1, 3: 1}))
    shared.sql("insert into it values (4, 'sql4', 1), (2, 'sql2', 2)")
    shared.table.upsert(rows("b", {4: 2}))
    shared.sql("update it set name = 'sql3', ts = 5 where id = 3")
    shared.table.delete([{"id": 4}])
    shared.sql("delete from it where id = 1")
    shared.table.upsert(rows("c", {5: 1, 3: 4}))
    shared.check(["sql2", "sql3", "c5"])


def test_times_rise_and_the_ledger_goes_on_through_writes_of_hudi(shared: SharedTable) -> None:
    first = shared.table.upsert(rows("a", {1: 1}))
    shared.hudi_writes(rows("h", {1: 2}))
    second = shared.table.upsert(rows("b", {1: 3}))
    ((_, hudis),) = [pair for pair in shared.writes() if first.instant < pair[0] < second.instant]
    assert first.completion_time < hudis < second.instant < second.completion_time
    entries = sorted(os.listdir(shared.path / ".hoodie" / ".lakebraid" / "ledger"))
    assert [int(entry) for entry in entries] == list(range(int(entries[0]), int(entries[0]) + len(entries)))
    assert shared.table.status(first.instant) == shared.table.status(second.instant) == "published"


def test_a_default_table_takes_a_hudi_write_while_none_of_ours_is_under_way(referee: Referee, tmp_path: Path) -> None:
    alone = SharedTable.create(referee, tmp_path / "t", shared=False)
    alone.table.upsert(rows("a", {1: 1, 2: 1}))
    alone.hudi_writes(rows("h", {2: 2, 3: 1}), **LOCK)
    alone.table.upsert(rows("b", {1: 2}))
    alone.table.compact()
    alone.table.upsert(rows("c", {3: 2}))
    alone.check(["b1", "h2", "c3"])


def test_a_pending_write_of_ours_outlives_hudis_write_and_clean(shared: SharedTable) -> None:
    pending = shared.table.begin()
    pending.write(rows("slow", {1: 1, 2: 3}))
    shared.hudi_writes(rows("h", {1: 2, 2: 2, 3: 1}))
    shared.check(["h1", "h2", "h3"])
    pending.commit()
    shared.check(["h1", "slow2", "h3"])


@pytest.mark.parametrize("at_once", [1, limits.STORE_CALLS_AT_ONCE_MAX], ids=["single markers", "a list of markers"])
def test_hudi_rolls_back_a_dead_writer_of_ours_which_then_cannot_commit(
    shared: SharedTable, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(LocalStorage, "calls_at_once", at_once, raising=False)
    dead = shared.table.begin()
    dead.write(rows("dead", {1: 9, 7: 9, 8: 9}))
    assert len([name for name in shared.data_files() if dead.instant in name]) == 2
    announced = {path.name for path in (shared.path / ".hoodie" / ".temp" / dead.instant).iterdir()}
    assert ("MARKERS.type" in announced) == (at_once > 1)
    assert len(announced) == 2
    die(shared, dead)
    shared.table.upsert(rows("a", {1: 1}))
    assert [name for name in shared.data_files() if dead.instant in name], "Hudi has nothing to do"
    shared.call("run_clean")
    assert not [name for name in shared.data_files() if dead.instant in name]
    with pytest.raises(lb.RolledBack):
        dead.commit()
    assert shared.table.status(dead.instant) == "refused"
    shared.table.upsert(rows("b", {2: 1}))
    shared.check(["a1", "b2"])


def die(shared: SharedTable, transaction: lb.Transaction) -> None:
    """As if the process were gone for an hour: no more beats, and the last one is old."""
    transaction._heartbeat.stop()
    beat = shared.path / ".hoodie" / ".heartbeat" / transaction.instant
    old = beat.stat().st_mtime - 3600
    os.utime(beat, (old, old))


def test_we_go_on_where_hudi_compacted(shared: SharedTable) -> None:
    shared.table.upsert(rows("a", dict.fromkeys(range(1, 6), 1)))
    shared.table.upsert([{"id": 1, "name": "part1", "ts": 2}], columns=["id", "name", "ts"])
    shared.table.delete(keys({2: 1}))
    hudi_plans(shared)
    shared.call("run_compaction", "op => 'run'")
    shared.check(["part1", "a3", "a4", "a5"])
    shared.table.upsert(rows("b", {3: 2, 6: 1}))
    shared.table.delete([{"id": 4}])
    shared.check(["part1", "b3", "a5", "b6"])


def hudi_plans(shared: SharedTable) -> str:
    before = shared.timeline()
    shared.call("run_compaction", "op => 'schedule'", "options => 'hoodie.compact.inline.max.delta.commits=1'")
    (made,) = (name for name in shared.timeline() - before if name.endswith(".compaction.requested"))
    return made[:17]


def test_hudi_executes_the_plan_that_we_made(shared: SharedTable) -> None:
    shared.table.upsert(rows("a", {1: 1, 2: 1}))
    shared.table.delete(keys({2: 2}))
    request_time = plan(shared.table)
    shared.table.upsert(rows("b", {1: 2, 3: 1}))
    shared.call("run_compaction", "op => 'run'", f"timestamp => {request_time}")
    assert request_time in {pair[0] for pair in shared.writes()}
    shared.check(["b1", "b3"])
    shared.table.upsert(rows("c", {3: 2}))
    shared.table.compact()
    shared.check(["b1", "c3"])


def test_we_execute_the_plan_that_hudi_made(shared: SharedTable) -> None:
    shared.table.upsert(rows("a", {1: 1, 2: 1}))
    shared.hudi_writes(rows("h", {2: 2, 3: 1}))
    request_time = hudi_plans(shared)
    shared.table.upsert(rows("b", {1: 2}))
    run_plan(shared.table, request_time)
    assert request_time in {pair[0] for pair in shared.writes()}
    shared.check(["b1", "h2", "h3"])
    shared.hudi_writes(rows("i", {3: 2, 4: 1}))
    shared.check(["b1", "h2", "i3", "i4"])


def test_we_go_on_where_hudi_cleaned_and_archived(shared: SharedTable) -> None:
    for turn in range(1, 5):
        shared.table.upsert(rows(f"t{turn}_", {1: turn, turn + 1: 1}))
        shared.table.compact()
    shared.call("run_clean", "retain_commits => 1")
    files = shared.data_files()
    assert not [name for name in files if shared.writes()[1][0] in name], "Hudi cleaned nothing"
    names = ["t4_1", "t1_2", "t2_3", "t3_4", "t4_5"]
    shared.check(names)
    shared.table.upsert(rows("after", {2: 9}))
    active = len(shared.writes())
    shared.call(
        "archive_commits", "min_commits => 2", "max_commits => 3", "retain_commits => 1", "enable_metadata => false"
    )
    assert len(shared.writes()) < active, "Hudi archived nothing"
    shared.check([*names[:1], "after2", *names[2:]])
    result = shared.table.upsert(rows("last", {3: 9}))
    shared.table.compact()
    shared.hudi_writes(rows("h", {4: 9}))
    assert shared.table.status(result.instant) == "published"
    shared.check(["t4_1", "after2", "last3", "h4", "t4_5"])
