# SPDX-License-Identifier: Apache-2.0
"""Rows that change their partition, and where the values of partition columns come from: Apache Hudi's answers and ours."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest

import lakebraid as lb
from tests.interop.referee import Referee

pytestmark = pytest.mark.interop

COLUMNS = "id int, ts bigint, name string, p string"
HUDIS = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "p",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.operation": "upsert",
    "hoodie.metadata.enable": "false",
}
MOR = {
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.index.type": "BUCKET",
    "hoodie.bucket.index.num.buckets": "1",
}
STAYED = {"hoodie.index.type": "GLOBAL_SIMPLE", "hoodie.simple.index.update.partition.path": "false"}


def row(number: int, p: Any, ts: int = 1, name: str = "first") -> dict[str, Any]:
    return {"id": number, "ts": ts, "name": name, "p": p}


class Both:
    """A table, by whoever wrote it, as Hudi and we read it."""

    def __init__(self, referee: Referee, path: Path) -> None:
        self.referee, self.path = referee, str(path)

    def hudi_writes(self, rows: list[dict[str, Any]], options: dict[str, str], ddl: str = COLUMNS) -> None:
        self.referee.ask("write", path=self.path, rows={"schema": ddl, "json": rows}, options=HUDIS | options)

    def hudis(self, *columns: str) -> list[tuple[Any, ...]]:
        return _picked(self.referee.ask("read", path=self.path)["rows"], columns)

    def ours(self, *columns: str, where: str | None = None) -> list[tuple[Any, ...]]:
        rows = lb.Table.open(self.path).to_arrow(meta_columns=True, where=where).to_pylist()
        return _picked(rows, columns)


def _picked(rows: list[dict[str, Any]], columns: tuple[str, ...]) -> list[tuple[Any, ...]]:
    return sorted(tuple(row[column] for column in columns) for row in rows)


@pytest.fixture
def both(referee: Referee, tmp_path: Path) -> Both:
    return Both(referee, tmp_path / "t")


TWICE = [(1, "first", "a"), (1, "second", "b"), (2, "first", "a")]
MOVED = [(1, "second", "b"), (2, "first", "a")]
STAYS = [(1, "first", "a"), (2, "first", "a")]


@pytest.mark.parametrize(
    ("index", "ts", "expected"),
    [
        ("bucket", 2, TWICE),
        ("bucket", 0, TWICE),
        ("simple", 2, TWICE),
        ("global_simple", 2, MOVED),
        ("global_simple", 0, STAYS),
    ],
)
@pytest.mark.parametrize("writer", ["hudi", "ours"])
def test_a_key_that_comes_with_another_partition_is_there_twice_or_moves_by_the_kind_of_index(
    index: str, ts: int, expected: list[tuple[Any, ...]], writer: str, both: Both
) -> None:
    batches = [[row(1, "a"), row(2, "a")], [row(1, "b", ts, "second")]]
    if writer == "hudi":
        options = MOR if index == "bucket" else {"hoodie.index.type": index.upper()}
        for rows in batches:
            both.hudi_writes(rows, options)
    else:
        kind: dict[str, Any] = {"buckets": 1} if index == "bucket" else {"table_type": "cow", "index": index}
        columns = {"record_keys": "id", "ordering_fields": "ts", "partition_by": "p"}
        table = lb.Table.create(both.path, COLUMNS, **columns | kind)
        for rows in batches:
            table.upsert(rows)
    assert both.ours("id", "name", "p") == expected
    assert both.hudis("id", "name", "p") == expected


@pytest.mark.parametrize(
    ("value", "hive", "shown"),
    [("a=b", False, "b"), ("a=b", True, "a=b"), ("a%2Fb", False, "a/b"), ("a%2Fb", True, "a/b"), ("a/b", False, "a/b")],
)
def test_hudi_reads_partition_values_off_the_folder_and_we_give_what_was_written(
    value: str, hive: bool, shown: str, both: Both
) -> None:
    both.hudi_writes([row(1, value)], MOR | {"hoodie.datasource.write.hive_style_partitioning": str(hive).lower()})
    assert both.hudis("p") == [(shown,)]
    assert both.ours("p") == [(value,)]
    assert both.ours("id", where=f"p = '{value}'") == [(1,)]


@pytest.mark.parametrize("value", ["a=b", "a%2Fb", "a/b"])
def test_in_url_encoded_folders_both_give_what_was_written(value: str, both: Both) -> None:
    both.hudi_writes([row(1, value)], MOR | {"hoodie.datasource.write.partitionpath.urlencode": "true"})
    assert both.hudis("p") == both.ours("p") == [(value,)]


def test_hudi_reads_null_where_a_timestamp_is_the_partition_and_we_read_the_time(both: Both) -> None:
    ddl = COLUMNS.replace("p string", "p timestamp")
    both.hudi_writes([row(1, "2024-02-29T12:34:56.123456Z")], MOR, ddl)
    moment = dt.datetime(2024, 2, 29, 12, 34, 56, 123456, dt.UTC)
    assert both.hudis("p", "_hoodie_partition_path") == [(None, "1709210096123456")]
    assert both.ours("p", "_hoodie_partition_path") == [(moment, "1709210096123456")]


def test_where_an_index_keeps_rows_in_their_folder_hudi_shows_the_folder_and_we_the_row(both: Both) -> None:
    both.hudi_writes([row(1, "a")], STAYED)
    both.hudi_writes([row(1, "b", 2, "second")], STAYED)
    assert both.hudis("id", "name", "p") == [(1, "second", "a")]
    assert both.ours("id", "name", "p") == [(1, "second", "b")]
