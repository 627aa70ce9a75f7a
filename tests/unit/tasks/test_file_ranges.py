# SPDX-License-Identifier: Apache-2.0
"""Ranges that tasks find where they write rows: no reader that goes by them passes over a row."""

from __future__ import annotations

import math
from collections.abc import Iterator
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import lakebraid as lb
from lakebraid.model.metadata.file_ranges import FileRanges, RangeRules, RangeTally
from lakebraid.model.metadata.ranges import ColumnRange, absent_range
from lakebraid.model.metadata.value_types import ValueType
from lakebraid.tasks.staged_file import StagedFile, staged_from_arrow, staged_to_arrow
from tests.kit.effort import playing, seeds
from tests.kit.metadata_tables.statistics import KeptStatistics
from tests.lives.choosing import choose
from tests.lives.kinds import random_kind
from tests.lives.life import Life
from tests.lives.walking import apply, end

pytestmark = pytest.mark.unit

LONG = ValueType(4)


@pytest.mark.parametrize("seed", seeds(12, 100))
def test_no_row_of_a_table_of_any_kind_is_passed_over_at_any_moment_of_its_life(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    playing(seed)
    dice = Random(seed)
    kept = KeptStatistics(monkeypatch)
    life = Life(random_kind(dice))
    kept.index(life.other.snapshot().schema)
    try:
        for _ in range(20):
            apply(life, choose(dice, life))
            kept.check(life.other)
    finally:
        end(life)


ROWS = [{"id": n, "ts": 10, "a": n, "b": n, "c": n} for n in range(4)]
DDL = "id bigint, ts bigint, a bigint, b bigint, c bigint"


def make(monkeypatch: pytest.MonkeyPatch, name: str, **settings: Any) -> tuple[lb.Table, KeptStatistics]:
    kept = KeptStatistics(monkeypatch)
    given = {"record_keys": "id", "ordering_fields": "ts", "buckets": 1, **settings}
    table = lb.Table.create(f"memory://file-ranges-{name}", DDL, **given)
    kept.index(table.snapshot().schema)
    return table, kept


def steps(table: lb.Table, *columns: str) -> Iterator[None]:
    """Rows come whole, then some of their columns, out of order; they are compacted in between."""
    table.upsert(ROWS)
    yield
    table.upsert([{"id": n, "ts": 30, "a": 100 + n} for n in range(6)], columns=["id", "ts", "a"])
    yield
    table.compact()
    yield
    table.upsert([{"id": n, "ts": 20, "a": 200 + n, "b": 200 + n} for n in range(4)], columns=["id", "ts", "a", "b"])
    yield
    table.upsert([{"id": n, "ts": 15, "a": 300, "b": 300, "c": 300 + n} for n in range(2)])
    yield
    table.log_compact(logs_min=2)
    yield
    table.compact()
    yield
    table.delete([{"id": 1, "ts": 40}])
    yield


@pytest.mark.parametrize("ordering", ["ts", None])
def test_a_row_whose_values_come_from_several_files_is_not_passed_over(
    ordering: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, kept = make(monkeypatch, f"joined-{ordering}", ordering_fields=ordering)
    counts = [kept.check(table) for _ in steps(table)]
    assert counts[0] == 4 and max(counts) == 6


def test_a_row_whose_groups_of_columns_are_ordered_apart_is_not_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    table, kept = make(monkeypatch, "groups", ordering_fields={"a": ["b"], "ts": ["c"]})
    for a, ts in ((5, 5), (9, 1), (1, 9), (7, 7), (10, 2)):
        table.upsert([{"id": n, "ts": ts, "a": a, "b": 10 * a + n, "c": 10 * ts + n} for n in range(3)])
        assert kept.check(table) == 3
    table.compact()
    assert kept.check(table) == 3
    table.upsert([{"id": n, "ts": 20, "a": 2, "b": 2, "c": 2} for n in range(3)])
    assert kept.check(table) == 3


def test_the_file_of_a_log_compaction_has_the_ranges_of_all_that_it_stands_for(monkeypatch: pytest.MonkeyPatch) -> None:
    table, kept = make(monkeypatch, "folded")
    for rows in (ROWS, [{"id": 9, "ts": 10, "a": 90, "b": 9, "c": 9}], [{"id": 0, "ts": 5, "a": -7, "b": 9, "c": 9}]):
        table.upsert(rows)
    table.upsert([{"id": 3, "ts": 20, "b": 33}], columns=["id", "ts", "b"])
    (done,) = table.log_compact(logs_min=2)
    assert kept.check(table) == 5
    (file,) = [file for name, file in kept.files.items() if done.instant in name]
    found = {known.column: known for known in file.ranges or ()}
    assert (found["a"].min, found["a"].max, {*file.inherited}) == (-7, 90, {"a", "c"})


def test_what_a_compaction_carries_past_an_open_write_has_its_ranges_still(monkeypatch: pytest.MonkeyPatch) -> None:
    table, kept = make(monkeypatch, "carried", ordering_fields=None)
    table.upsert(ROWS)
    with table.begin("upsert") as slow:
        slow.write([{"id": 2, "ts": 50, "a": 2, "b": 2, "c": 2}])
        table.delete([{"id": 2}])  # the open write is older, so it must meet the delete
        table.upsert([{"id": 7, "ts": 10, "a": 70, "b": 7, "c": 7}])
        (done,) = table.compact()
        assert kept.check(table) == 4
        log = next(file for name, file in kept.files.items() if done.instant in name and name.startswith("."))
        assert [(known.min, known.max) for known in log.ranges or () if known.column == "a"] == [(70, 70)]
    kept.check(table)


def test_files_of_tables_that_mix_no_values_have_ranges_as_narrow_as_their_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table, kept = make(monkeypatch, "narrow")
    table.upsert(ROWS)
    table.upsert([{"id": 1, "ts": 20, "a": 7, "b": 7, "c": None}])
    table.delete([{"id": 2, "ts": 30}])
    table.compact()
    by_kind = [*kept.files.values()]
    assert not any(file.inherited for file in by_kind)
    found = [{r.column: (r.min, r.max, r.null_count, r.value_count) for r in file.ranges or ()} for file in by_kind]
    assert [one["a"] for one in found] == [
        (0, 3, 0, 4),
        (7, 7, 0, 1),
        (None, None, 0, 0),
        (0, 7, 0, 3),
        (None, None, 0, 0),
    ]
    assert found[1]["c"] == (None, None, 1, 1)
    assert found[0]["_hoodie_record_key"] == ("0", "3", 0, 4)


def test_a_table_without_statistics_has_tasks_that_look_at_no_column(monkeypatch: pytest.MonkeyPatch) -> None:
    table, kept = make(monkeypatch, "without")
    kept.columns = ()
    table.upsert(ROWS)
    table.compact()
    assert {(file.ranges, file.inherited) for file in kept.files.values()} == {((), frozenset())}


def test_the_log_of_changes_beside_a_base_file_has_no_statistics(monkeypatch: pytest.MonkeyPatch) -> None:
    properties = {"hoodie.table.cdc.enabled": "true"}
    table, kept = make(monkeypatch, "captures", table_type="cow", concurrency="occ", properties=properties)
    table.upsert(ROWS)
    table.upsert(ROWS[:1])
    assert [file.ranges is None for file in kept.files.values()] == [False, False, True]
    assert [name.endswith(".cdc") for name in kept.files] == [False, False, True]
    kept.check(table)


def test_what_a_spark_task_hands_back_says_the_same() -> None:
    rows = pa.table({"id": [1, 2], "v": [math.inf, -1.5], "name": ["\U0001f600", None], "raw": [b"\xff", b""]})
    tally = RangeTally(RangeRules(("id", "v", "name", "raw", "later")))
    tally.add(rows)
    known = FileRanges(tally.found().columns, frozenset({"id", "name"}))
    file = StagedFile("p", "f", "f_1.parquet", 10, 2, 0, is_base=True, min_key="a", inserts=2, ranges=known)
    plain = StagedFile("", "g", ".g_1.log", 10, 2, 1, is_base=False)
    assert staged_from_arrow(staged_to_arrow([file, plain])) == [file, plain]
    assert staged_from_arrow(staged_to_arrow([])) == []


def test_a_column_whose_type_changes_within_a_file_has_no_range_rather_than_a_wrong_one() -> None:
    tally = RangeTally(RangeRules(("id", "v")))
    for rows in (pa.table({"id": [1], "v": [1]}), pa.table({"id": [2], "v": ["1"]}), pa.table({"id": [3], "v": [0]})):
        tally.add(rows)
    assert tally.found().columns == (ColumnRange("id", 1, 3, 0, 3, LONG),)


def test_partial_rows_leave_what_they_lack_to_other_files_and_whole_ones_are_null_there() -> None:
    tally = RangeTally(RangeRules(("id", "v")))
    tally.add(pa.table({"id": [1]}), is_partial=True)
    tally.add(pa.table({"id": [2]}))
    found = tally.found()
    assert ({*found.inherited}, found.columns[1]) == ({"v"}, absent_range("v", 1))
