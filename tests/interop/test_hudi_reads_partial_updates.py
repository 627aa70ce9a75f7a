# SPDX-License-Identifier: Apache-2.0
"""Hudi reads what we read where partial updates open new rows: alone, a partial row crashes it or empties its answer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lakebraid as lb
from lakebraid.errors import WriteConflict
from tests.interop.referee import HudiRefused, Referee
from tests.interop.test_hudi_reads_our_writes import read_by_rs, rows_of
from tests.kit.reference import hudi_rows, our_rows

pytestmark = pytest.mark.interop

NAMES = ("id", "ts", "a", "b", "c")
Rows = dict[int, tuple[Any, ...]]


def create(path: Path, ordering: str | None, **options: Any) -> lb.Table:
    ddl = "id bigint, ts bigint, a string, b bigint, c string"
    return lb.Table.create(path, ddl, record_keys="id", ordering_fields=ordering, **{"buckets": 1} | options)


def whole(table: lb.Table, time: int, *keys: int) -> None:
    table.upsert([{"id": k, "ts": time, "a": f"a{k}", "b": k, "c": f"c{k}"} for k in keys])


def part(table: lb.Table, time: int, name: str, value: Any, *keys: int, block_format: str = "parquet") -> None:
    names = ["id", "ts", name]
    table.upsert([{"id": k, "ts": time, name: value} for k in keys], columns=names, block_format=block_format)


def alone(table: lb.Table) -> Rows:
    whole(table, 1, 1, 2)
    part(table, 2, "a", "x", 1, 9)
    part(table, 3, "b", 7, 9, 10, block_format="avro")
    return {1: (2, "x", 1, "c1"), 2: (1, "a2", 2, "c2"), 9: (3, "x", 7, None), 10: (3, None, 7, None)}


def first_of_all(table: lb.Table) -> Rows:
    part(table, 1, "c", "x", 1, 2)
    part(table, 2, "a", "y", 2, 3)
    return {1: (1, None, None, "x"), 2: (2, "y", None, "x"), 3: (2, "y", None, None)}


def over_the_deleted(table: lb.Table) -> Rows:
    table.bulk_insert([{"id": k, "ts": 1, "a": "old", "b": k, "c": "old"} for k in (1, 2, 3)])
    whole(table, 2, 4)
    table.delete([{"id": 1}, {"id": 4}])
    part(table, 3, "a", "x", 1, 2, 4)
    return {1: (3, "x", None, None), 2: (3, "x", 2, "old"), 3: (1, "old", 3, "old"), 4: (3, "x", None, None)}


def joined_by_three(table: lb.Table) -> Rows:
    """Each brings its own column of the same new keys, all at once; the later ones must do it again."""
    writers = [(table.begin(columns=("id", "ts", n)), n) for n in "abc"]
    for time, (writer, name) in enumerate(writers, start=1):
        writer.write([{"id": k, "ts": time, name: k if name == "b" else name} for k in (1, 2)])
    writers[1][0].commit()
    for time, (writer, name) in ((1, writers[0]), (3, writers[2])):
        with pytest.raises(WriteConflict):
            writer.commit()
        part(table, max(time, 2), name, name, 1, 2)
    return {k: (3, "a", k, "c") for k in (1, 2)}


def compacted_between(table: lb.Table) -> Rows:
    whole(table, 1, 1)
    part(table, 2, "a", "x", 1, 5)
    table.compact()
    part(table, 3, "b", 7, 5, 6)
    return {1: (2, "x", 1, "c1"), 5: (3, "x", 7, None), 6: (3, None, 7, None)}


def behind_a_row_that_began_later(table: lb.Table) -> Rows:
    """The partial update looks when the row is there, but ranks before it."""
    early = table.begin(columns=("id", "ts", "a"))
    whole(table, 1, 1)
    early.write([{"id": 1, "ts": 1, "a": "early"}, {"id": 2, "ts": 1, "a": "early"}])
    early.commit()
    return {1: (1, "a1", 1, "c1"), 2: (1, "early", None, None)}


def begun_before_a_row_was_opened(table: lb.Table) -> Rows:
    """It looks when the row is there, but its columns would rank below the skeleton."""
    early = table.begin(columns=("id", "ts", "a"))
    part(table, 1, "b", 7, 1, 2)
    early.write([{"id": 1, "ts": 1, "a": "early"}])
    with pytest.raises(WriteConflict):
        early.commit()
    part(table, 1, "a", "again", 1)
    return {1: (1, "again", 7, None), 2: (1, None, 7, None)}


def of_all_columns_over_the_deleted(table: lb.Table) -> Rows:
    """Nothing is left out, and yet it is a partial update: over a delete it opens a row like any other."""
    table.bulk_insert([{"id": k, "ts": 1, "a": "old", "b": k, "c": "old"} for k in (1, 2, 3)])
    whole(table, 2, 4, 5)
    table.delete([{"id": 1}, {"id": 4}])
    rows = [{"id": k, "ts": 3, "a": "new", "b": 3, "c": None} for k in (1, 2, 4, 9)]
    table.upsert(rows[::2], columns=list(NAMES))
    table.upsert(rows[1::2], columns=list(NAMES), block_format="avro")
    new = dict.fromkeys((1, 2, 4, 9), (3, "new", 3, None))
    return new | {3: (1, "old", 3, "old"), 5: (2, "a5", 5, "c5")}


STORIES: list[Callable[[lb.Table], Rows]] = [
    alone,
    first_of_all,
    over_the_deleted,
    joined_by_three,
    compacted_between,
    behind_a_row_that_began_later,
    begun_before_a_row_was_opened,
    of_all_columns_over_the_deleted,
]


@pytest.mark.parametrize("ordering", [None, "ts"], ids=["commit_time", "event_time"])
@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_hudi_reads_rows_that_partial_updates_opened(
    story: Callable[[lb.Table], Rows], ordering: str | None, referee: Referee, tmp_path: Path
) -> None:
    table = create(tmp_path / "t", ordering)
    expected = story(table)
    assert {r["id"]: tuple(r[n] for n in NAMES[1:]) for r in table.to_arrow().to_pylist()} == expected
    ours = our_rows(table.to_arrow(meta_columns=True))
    assert hudi_rows(rows_of(referee.ask("read", path=str(tmp_path / "t"))["rows"])) == ours
    assert read_by_rs(table) == ours


def test_hudi_misses_a_whole_row_that_is_older_than_a_skeleton_and_came_later_until_we_compact(
    referee: Referee, tmp_path: Path
) -> None:
    """What docs/decisions/0009 says remains; if Hudi ever reads it as we do, take it out there."""
    table = create(tmp_path / "t", None)
    slow = table.begin()
    slow.write([{"id": 1, "ts": 1, "a": "a", "b": 1, "c": "c"}])
    part(table, 2, "a", "x", 1)
    slow.commit()
    assert table.to_arrow().to_pylist() == [{"id": 1, "ts": 2, "a": "x", "b": 1, "c": "c"}]
    seen = [referee.ask("read", path=str(tmp_path / "t"))["rows"]]
    table.compact()
    seen.append(referee.ask("read", path=str(tmp_path / "t"))["rows"])
    assert [[(row["a"], row["b"], row["c"]) for row in rows_of(rows)] for rows in seen] == [
        [("x", None, None)],
        [("x", 1, "c")],
    ]


@pytest.mark.parametrize("ordering", [None, "ts"], ids=["commit_time", "event_time"])
def test_by_commit_time_hudi_reads_no_row_over_a_delete_behind_a_partial_update_until_it_is_compacted(
    ordering: str | None, referee: Referee, tmp_path: Path
) -> None:
    """Whatever wrote the row, and of whichever key the update was: Hudi folds the row with the delete as if that had columns."""
    table = create(tmp_path / "t", ordering)
    whole(table, 1, 1, 2)
    part(table, 2, "a", "x", 2)
    table.delete([{"id": 1}])
    whole(table, 3, 1)
    if ordering is None:
        with pytest.raises(HudiRefused, match="Exception when reading log file"):
            referee.ask("read", path=str(tmp_path / "t"))
        table.compact()
    ours = our_rows(table.to_arrow(meta_columns=True))
    assert hudi_rows(rows_of(referee.ask("read", path=str(tmp_path / "t"))["rows"])) == ours and len(ours) == 2
