# SPDX-License-Identifier: Apache-2.0
"""Savepoints and restores of ours before Apache Hudi, and Hudi's own on our tables, with both writing on after each."""

from __future__ import annotations

from pathlib import Path

import pytest

import lakebraid as lb
from lakebraid.services.settings import open_table
from lakebraid.txn.actions.restore import decide_restore
from tests.interop.our_tables import plan, rows
from tests.interop.referee import HudiRefused, Referee
from tests.interop.shared_table import LOCK, SharedTable

pytestmark = pytest.mark.interop


@pytest.fixture
def shared(referee: Referee, tmp_path: Path) -> SharedTable:
    return SharedTable.create(referee, tmp_path / "shared")


def both_write_and_compact(shared: SharedTable, there: dict[int, str]) -> None:
    """Hudi and we write, compact and read on; `there` are the names by id that both must see first."""
    shared.check([*there.values()])
    shared.hudi_writes(rows("hudi", {1: 90, 50: 1}))
    shared.table.upsert(rows("ours", {2: 90, 51: 1}))
    there = there | {1: "hudi1", 50: "hudi50", 2: "ours2", 51: "ours51"}
    shared.check([*there.values()])
    shared.call("run_compaction", "op => 'schedule'", "options => 'hoodie.compact.inline.max.delta.commits=1'")
    shared.call("run_compaction", "op => 'run'")
    shared.hudi_writes(rows("hudi", {52: 1}))
    shared.table.upsert(rows("ours", {53: 1}))
    shared.table.compact()
    shared.check([*there.values(), "hudi52", "ours53"])


def hudi_restores(shared: SharedTable, instant: str) -> None:
    shared.call("rollback_to_savepoint", f"instant_time => '{instant}'")


@pytest.mark.parametrize("is_shared", [True, False])
def test_hudi_reads_writes_and_compacts_after_our_restore(referee: Referee, tmp_path: Path, *, is_shared: bool) -> None:
    shared = SharedTable.create(referee, tmp_path / "t", shared=is_shared)
    shared.table.upsert(rows("a", {1: 1, 2: 1}))
    shared.table.compact()
    shared.table.upsert(rows("b", {2: 2}))
    kept = shared.table.savepoint()
    shared.table.upsert(rows("lost", {1: 5, 9: 5}))
    shared.table.compact()
    shared.table.delete([{"id": 2}])
    assert plan(shared.table)
    begun = shared.table.begin()
    begun.write(rows("never", {7: 7}))
    shared.check(["lost1", "lost9"])
    done = shared.table.restore(kept.instant)
    assert begun.instant in done.refused and len(done.undone) == 3
    shared.check(["a1", "b2"])
    with pytest.raises(lb.RolledBack):
        begun.commit()
    if is_shared:
        both_write_and_compact(shared, {1: "a1", 2: "b2"})


def test_our_restore_takes_back_what_hudi_wrote_and_compacted(shared: SharedTable) -> None:
    shared.table.upsert(rows("a", {1: 1, 2: 1}))
    shared.hudi_writes(rows("h", {3: 1}))
    kept = shared.table.savepoint()
    shared.hudi_writes(rows("lost", {1: 5, 8: 5}))
    shared.call("run_compaction", "op => 'schedule'", "options => 'hoodie.compact.inline.max.delta.commits=1'")
    shared.call("run_compaction", "op => 'run'")
    shared.table.upsert(rows("lost", {9: 5}))
    assert len(shared.table.restore(kept.instant).undone) == 3
    both_write_and_compact(shared, {1: "a1", 2: "a2", 3: "h3"})


def test_hudis_clean_leaves_alone_what_our_savepoint_keeps_and_hudi_can_delete_and_set_it(shared: SharedTable) -> None:
    shared.table.upsert(rows("a", {1: 1}))
    kept = shared.table.savepoint(comment="ours")
    for version in range(2, 5):
        shared.table.upsert(rows("v", {1: version}))
        shared.table.compact()
    shared.call("run_clean", "retain_commits => 1")
    assert [r["name"] for r in shared.table.to_arrow(as_of=kept.completion_time).to_pylist()] == ["a1"]
    assert [r["savepoint_time"] for r in shared.call("show_savepoints")] == [kept.instant]
    shared.call("delete_savepoint", f"instant_time => '{kept.instant}'")
    assert shared.table.savepoints() == []
    shared.call("create_savepoint", f"commit_time => '{shared.writes()[-1][0]}'", "comments => 'hudis'")
    (hudis,) = shared.table.savepoints()
    assert (hudis.instant, hudis.comment) == (shared.writes()[-1][0], "hudis")
    assert shared.table.delete_savepoint(hudis.instant)
    assert shared.call("show_savepoints") == []
    assert not [name for name in shared.timeline() if name.endswith("savepoint.inflight")]
    shared.call("create_savepoint", f"commit_time => '{hudis.instant}'")
    assert [s.instant for s in shared.table.savepoints()] == [hudis.instant]
    both_write_and_compact(shared, {1: "v1"})


def test_hudi_restores_to_our_savepoint_and_the_ledger_agrees(shared: SharedTable) -> None:
    shared.table.upsert(rows("a", {1: 1, 2: 1}))
    kept = shared.table.savepoint()
    lost = shared.table.upsert(rows("lost", {1: 5, 9: 5}))
    shared.table.compact()
    begun = shared.table.begin()
    begun.write(rows("never", {7: 7}))
    hudi_restores(shared, kept.instant)
    assert shared.table.status(lost.instant) == "refused"
    with pytest.raises(lb.RolledBack):
        begun.commit()
    with pytest.raises(lb.SnapshotExpired, match="restore"):
        shared.table.to_arrow(as_of=lost.completion_time)
    assert shared.table.to_arrow(as_of=kept.completion_time).num_rows == 2
    both_write_and_compact(shared, {1: "a1", 2: "a2"})


def test_hudi_restores_a_table_of_ours_alone_and_we_write_on(referee: Referee, tmp_path: Path) -> None:
    alone = SharedTable.create(referee, tmp_path / "t", shared=False)
    alone.table.upsert(rows("a", {1: 1, 2: 1}))
    kept = alone.table.savepoint()
    alone.table.upsert([row | {"extra": 1} for row in rows("lost", {1: 5, 9: 5})])
    alone.table.compact()
    for key, value in LOCK.items():
        referee.ask("sql", text=f"set {key}={value}")  # in this mode Hudi asks for a lock, and the table names none
    try:
        hudi_restores(alone, kept.instant)
    finally:
        for key in LOCK:
            referee.ask("sql", text=f"reset {key}")
    assert alone.table.schema.names == ["id", "name", "ts"]
    alone.check(["a1", "a2"])
    alone.table.upsert(rows("b", {1: 7}))
    alone.table.compact()
    alone.check(["b1", "a2"])
    alone.table.restore(kept.instant)
    alone.check(["a1", "a2"])


def test_hudi_begins_nothing_while_a_restore_of_ours_is_unfinished(shared: SharedTable) -> None:
    shared.table.upsert(rows("a", {1: 1}))
    kept = shared.table.savepoint()
    shared.table.upsert(rows("lost", {1: 5}))
    request_time, _ = decide_restore(open_table(shared.table._writing).ledger, "dead", kept.instant)
    assert request_time is not None
    with pytest.raises(HudiRefused, match="restore"):
        shared.hudi_writes(rows("h", {2: 1}))
    shared.table.rollback()
    both_write_and_compact(shared, {1: "a1"})
