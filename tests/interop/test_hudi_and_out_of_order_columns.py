# SPDX-License-Identifier: Apache-2.0
"""Partial updates by event time beside Apache Hudi: what it reads before our compaction, that it agrees after it, and that it
reads, writes and compacts base files that keep the ranks of columns (docs/differences.md).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import lakebraid as lb
from tests.interop.referee import Referee
from tests.interop.test_hudi_reads_our_writes import read_by_rs, rows_of
from tests.interop.test_hudi_reads_partial_updates import create, part, whole
from tests.kit.reference import hudi_rows, our_rows

pytestmark = pytest.mark.interop

Seen = dict[int, tuple[Any, ...]]


def ours(table: lb.Table) -> Seen:
    return {row["id"]: (row["ts"], row["a"], row["b"], row["c"]) for row in table.to_arrow().to_pylist()}


def hudis(referee: Referee, table: lb.Table) -> Seen:
    rows = rows_of(referee.ask("read", path=table.path)["rows"])
    return {row["id"]: (row["ts"], row["a"], row["b"], row["c"]) for row in rows}


def agree(referee: Referee, table: lb.Table) -> None:
    found = our_rows(table.to_arrow(meta_columns=True))
    assert hudi_rows(rows_of(referee.ask("read", path=table.path)["rows"])) == found
    assert read_by_rs(table) == found


def test_hudi_drops_a_late_update_of_another_column_until_we_compact(referee: Referee, tmp_path: Path) -> None:
    table = create(tmp_path / "t", "ts")
    whole(table, 1, 1, 2)
    part(table, 10, "a", "A", 1)
    part(table, 5, "b", 7, 1)
    assert ours(table)[1] == (10, "A", 7, "c1")
    assert hudis(referee, table)[1] == (10, "A", 1, "c1"), "Hudi has mended its ways: see docs/differences.md"
    table.compact()
    agree(referee, table)
    part(table, 7, "b", 8, 1)
    assert ours(table)[1] == (10, "A", 8, "c1")
    assert hudis(referee, table)[1] == (10, "A", 7, "c1")
    table.compact()
    agree(referee, table)


def test_hudi_takes_a_row_that_an_update_opened_for_whole_until_we_compact(referee: Referee, tmp_path: Path) -> None:
    table = create(tmp_path / "t", "ts")
    part(table, 10, "a", "A", 1)
    whole(table, 5, 1)
    assert ours(table)[1] == (10, "A", 1, "c1")
    assert hudis(referee, table)[1] == (10, "A", None, None), "Hudi has mended its ways: see docs/differences.md"
    table.compact()
    agree(referee, table)


def test_hudi_brings_a_deleted_row_back_until_we_compact(referee: Referee, tmp_path: Path) -> None:
    table = create(tmp_path / "t", "ts")
    whole(table, 10, 1)
    table.compact()
    delete = table.begin("delete")
    delete.write([{"id": 1}])
    delete.commit()
    table.upsert([{"id": 1, "ts": 5, "a": "new", "b": 5, "c": "new"}])
    assert ours(table)[1] == (5, "new", 5, "new")
    assert hudis(referee, table)[1] == (10, "a1", 1, "c1"), "Hudi has mended its ways: see docs/differences.md"
    table.compact()
    agree(referee, table)


def test_hudi_writes_and_compacts_tables_whose_base_files_keep_ranks(referee: Referee, tmp_path: Path) -> None:
    """After a compaction of Hudi's a row has one ordering value for all its columns, as everywhere in Hudi."""
    table = create(tmp_path / "t", "ts", shared=True)
    whole(table, 1, 1, 2, 3)
    part(table, 10, "a", "A", 1)
    part(table, 5, "b", 7, 1)
    table.compact()
    rows = {
        "schema": "id bigint, ts bigint, a string, b bigint, c string",
        "json": [{"id": 2, "ts": 3, "a": "h", "b": 9, "c": "h"}],
    }
    referee.ask("write", path=table.path, rows=rows, options={"hoodie.datasource.write.operation": "upsert"})
    expected = {1: (10, "A", 7, "c1"), 2: (3, "h", 9, "h"), 3: (1, "a3", 3, "c3")}
    assert ours(table) == hudis(referee, table) == expected
    for more in ("op => 'schedule', options => 'hoodie.compact.inline.max.delta.commits=1'", "op => 'run'"):
        referee.ask("sql", text=f"call run_compaction(path => '{table.path}', {more})")
    assert ours(table) == hudis(referee, table) == expected
    part(table, 7, "b", 8, 1)
    assert ours(table)[1] == (10, "A", 7, "c1")


def test_hudi_reads_groups_of_columns_as_we_do_after_our_compaction(referee: Referee, tmp_path: Path) -> None:
    columns = "id bigint, ts bigint, a string, b bigint, c string, tb bigint"
    table = lb.Table.create(
        tmp_path / "t", columns, record_keys="id", ordering_fields={"ts": ["a"], "tb": ["b"]}, buckets=1
    )
    table.upsert([{"id": 1, "ts": 5, "a": "a5", "b": 5, "c": "first", "tb": 5}])
    table.upsert([{"id": 1, "ts": 3, "a": "late"}], columns=["id", "ts", "a"])
    table.upsert([{"id": 1, "tb": 9, "b": 9}, {"id": 2, "tb": 1, "b": 1}], columns=["id", "tb", "b"])
    assert ours(table) == {1: (5, "a5", 9, "first"), 2: (None, None, 1, None)}
    assert hudis(referee, table)[1] == (3, "late", 9, "first"), "by commit time, as the table says to Hudi"
    table.compact()
    agree(referee, table)
