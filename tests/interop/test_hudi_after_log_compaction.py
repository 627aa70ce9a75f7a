# SPDX-License-Identifier: Apache-2.0
"""Apache Hudi reads our log-compacted tables as before, goes on with them, and each executes the other's plans."""

from __future__ import annotations

from pathlib import Path

import pytest

import lakebraid as lb
from lakebraid.format.properties import parse_properties
from lakebraid.services.merging.log_compaction import LogCompactionResult
from tests.interop import our_tables_merging, our_tables_types, our_tables_writers
from tests.interop.expected import key_of, name_of
from tests.interop.our_tables import DEFINITIONS, ROW, create, keys, rows
from tests.interop.referee import Referee
from tests.interop.shared_table import SharedTable
from tests.kit.reference import hudi_rows, our_rows

pytestmark = pytest.mark.interop

REGISTERED = (our_tables_merging, our_tables_types, our_tables_writers)


@pytest.mark.parametrize("name", sorted(DEFINITIONS))
def test_hudi_and_we_read_after_a_log_compaction_what_we_read_before(
    name: str, referee: Referee, tmp_path: Path
) -> None:
    written = DEFINITIONS[name](tmp_path / name)
    table, hidden = written.table, written.hidden
    before = our_rows(table.to_arrow(meta_columns=True))
    table.log_compact(logs_min=2)
    assert our_rows(table.to_arrow(meta_columns=True)) == before
    found = hudi_rows(referee.ask("read", path=str(tmp_path / name))["rows"])
    assert found == [row for row in before if hidden.get(key_of(row)) != name_of(row)]


@pytest.fixture
def shared(referee: Referee, tmp_path: Path) -> SharedTable:
    return SharedTable.create(referee, tmp_path / "shared", buckets=1)


def ask(shared: SharedTable, step: str, instant: str = "") -> str:
    path = shared.path / ".hoodie" / "hoodie.properties"
    told = parse_properties(path.read_bytes(), str(path))
    options = {
        **told,
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    }
    found: str = shared.referee.ask("log_compact", path=str(shared.path), options=options, step=step, instant=instant)
    return found


def many_writes(table: lb.Table) -> list[str]:
    """Updates and deletes of every kind in many log files; the names that are left."""
    table.upsert(rows("a", dict.fromkeys(range(1, 8), 5)))
    table.delete(keys({2: 9, 3: 4}))
    table.delete([{"id": 4}])
    table.upsert(rows("b", {1: 6, 2: 8, 4: 1, 8: 1}))
    table.upsert(rows("c", {1: 6, 5: 4, 6: 5}))
    return ["c1", "a3", "a5", "c6", "a7", "b8"]


def log_compact(table: lb.Table) -> LogCompactionResult:
    (done,) = table.log_compact(logs_min=2)
    assert done.groups
    return done


def test_hudi_writes_and_compacts_on_our_log_compacted_files(shared: SharedTable) -> None:
    names = many_writes(shared.table)
    log_compact(shared.table)
    shared.check(names)
    shared.hudi_writes(rows("h", {1: 7, 9: 1}))
    names = ["h1", *names[1:], "h9"]
    shared.check(names)
    # Hudi may have compacted by itself, after so many writes.
    shared.table.upsert(rows("i", {3: 9, 7: 1}))
    shared.table.delete(keys({8: 1}))
    log_compact(shared.table)
    names = ["h1", "i3", *names[2:5], "h9"]
    shared.check(names)
    shared.call("run_compaction", "op => 'schedule'", "options => 'hoodie.compact.inline.max.delta.commits=1'")
    shared.call("run_compaction", "op => 'run'")
    shared.check(names)
    shared.table.upsert(rows("z", {9: 2}))
    shared.check([*names[:-1], "z9"])


def test_hudi_log_compacts_our_log_compacted_files(shared: SharedTable) -> None:
    names = many_writes(shared.table)
    log_compact(shared.table)
    for turn in (6, 7):  # Hudi counts the writes since the last log compaction
        shared.table.upsert(rows("d", {5: turn}))
    ask(shared, "run", ask(shared, "plan"))
    names[2] = "d5"
    assert sorted(str(row["name"]) for row in shared.table.to_arrow().to_pylist()) == sorted(names)
    shared.check(names)
    shared.table.upsert(rows("e", {5: 8}))
    log_compact(shared.table)
    names[2] = "e5"
    shared.check(names)
    shared.table.compact()
    shared.check(names)


def test_we_execute_a_log_compaction_that_hudi_planned(shared: SharedTable) -> None:
    names = many_writes(shared.table)
    request_time = ask(shared, "plan")
    shared.table.upsert(rows("d", {5: 6}))
    done = shared.table.run(request_time)
    assert (done.instant, done.groups) == (request_time, 1)
    names[2] = "d5"
    shared.check(names)


def test_hudi_executes_a_log_compaction_that_we_planned(shared: SharedTable) -> None:
    names = many_writes(shared.table)
    plan = shared.table.plan_log_compaction(logs_min=2)
    assert plan is not None and plan.instant is not None
    shared.table.upsert(rows("d", {5: 6}))
    ask(shared, "run", plan.instant)
    assert plan.instant in {request_time for request_time, _ in shared.writes()}
    names[2] = "d5"
    shared.check(names)


@pytest.mark.parametrize("ordering", [["ts"], None])
def test_a_late_writer_keeps_its_place_for_hudi_too(
    ordering: list[str] | None, referee: Referee, tmp_path: Path
) -> None:
    table = create(tmp_path / "t", ROW, ordering_fields=ordering, buckets=1)
    table.upsert(rows("one", {1: 5, 2: 5}))
    table.upsert(rows("two", {2: 5, 3: 5}))
    slow = table.begin()
    slow.write(rows("slow", {1: 5, 3: 5, 4: 5}))
    table.upsert(rows("three", {4: 5, 5: 5}))
    assert log_compact(table).logs == 2
    slow.commit()
    table.upsert(rows("four", {5: 5}))
    assert log_compact(table).logs == 4
    ours = our_rows(table.to_arrow(meta_columns=True))
    assert sorted(name_of(row) for row in ours) == ["four5", "slow1", "slow3", "three4", "two2"]
    assert hudi_rows(referee.ask("read", path=str(tmp_path / "t"))["rows"]) == ours


@pytest.mark.parametrize("ordering", [["ts"], None])
def test_hudi_reads_what_a_compaction_carried_on_past_an_open_write(
    ordering: list[str] | None, referee: Referee, tmp_path: Path
) -> None:
    table = create(tmp_path / "t", ROW, ordering_fields=ordering, buckets=1)
    table.upsert(rows("a", dict.fromkeys(range(1, 5), 5)))
    slow = table.begin()
    slow.write(rows("slow", {1: 5, 2: 5, 3: 5, 6: 5}))
    table.delete([{"id": 1}])
    # With equal ordering values Hudi would take the late row for the newer one (docs/differences.md).
    table.upsert([{"id": 2, "name": "part2", "ts": 6}], columns=["id", "name", "ts"])
    assert [done.groups for done in table.compact()] == [1]
    wanted = ["a3", "a4", "part2"]
    for step in range(3):
        ours = our_rows(table.to_arrow(meta_columns=True))
        assert sorted(name_of(row) for row in ours) == wanted
        assert hudi_rows(referee.ask("read", path=str(tmp_path / "t"))["rows"]) == ours
        if step == 0:
            slow.commit()
            wanted = ["a4", "part2", "slow3", "slow6"]
        elif step == 1:
            table.compact()
