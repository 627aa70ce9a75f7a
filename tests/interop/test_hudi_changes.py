# SPDX-License-Identifier: Apache-2.0
"""Apache Hudi's incremental and CDC queries on a table of ours, beside our own changes (docs/differences.md)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import lakebraid as lb
from lakebraid.format.properties import format_properties
from tests.interop.referee import HudiRefused, Referee

pytestmark = pytest.mark.interop


def test_hudi_reads_the_changes_of_our_tables_without_deletes_and_with_losers(referee: Referee, tmp_path: Path) -> None:
    t = lb.Table.create(
        tmp_path / "t", "id string, ts bigint, n int", record_keys="id", ordering_fields="ts", buckets=2
    )

    def upsert(*rows: tuple[str, int, int]) -> str:
        return t.upsert([dict(zip(("id", "ts", "n"), row, strict=True)) for row in rows]).completion_time

    def hudis(after: str, mode: str = "incremental") -> set[tuple[Any, ...]]:
        options = {"hoodie.datasource.read.begin.instanttime": after}
        found = referee.ask("read", path=t.path, mode=mode, options=options)["rows"]
        return {(row["id"], row["ts"], row["n"]) for row in found}

    def ours(after: str | None, *, deleted: bool = False) -> set[tuple[Any, ...]]:
        found = t.changes(after).to_arrow().to_pylist()
        return {(r["id"], r["ts"], r["n"]) for r in found if (r["_change_type"] == "delete") is deleted}

    first = upsert(("a", 10, 1), ("b", 10, 2), ("c", 10, 3))
    second = upsert(("a", 20, 100), ("new", 1, 7))
    third = upsert(("b", 5, -1))  # older than what is there: it changes nothing
    t.delete([{"id": "c"}])
    assert hudis("000") == ours(None) == {("a", 20, 100), ("b", 10, 2), ("new", 1, 7)}
    assert hudis(first) - ours(first) == {("b", 5, -1)}, "the loser, which nobody sees in the table"
    assert hudis(second) == {("b", 5, -1)} and ours(second) == set()
    assert ours(third, deleted=True) == {("c", 10, 3)} and hudis(third) == set()
    t.compact()
    last = upsert(("a", 30, 300))
    assert hudis(third) == ours(third) == {("a", 30, 300)}
    assert hudis(last) == ours(last) == set()
    with pytest.raises(HudiRefused, match="It isn't a CDC hudi table"):
        hudis(first, "cdc")


@pytest.mark.parametrize(
    ("table_type", "refusal"),
    [("MERGE_ON_READ", "No value present in Option"), ("COPY_ON_WRITE", "There should be a cdc log file")],
)
def test_hudis_cdc_query_tells_new_base_files_of_ours_and_refuses_whatever_changed_rows(
    table_type: str, refusal: str, referee: Referee, tmp_path: Path
) -> None:
    """Why there is no switch for it (docs/differences.md): of other commits it wants what only a writer with a lock knows."""
    t = lb.Table.create(
        tmp_path / "t",
        "id string, ts bigint, n int",
        record_keys="id",
        ordering_fields="ts",
        buckets=1,
        table_type=table_type,
    )
    first = t.bulk_insert([{"id": "a", "ts": 1, "n": 1}, {"id": "b", "ts": 1, "n": 2}]).completion_time
    t.upsert([{"id": "a", "ts": 2, "n": 3}])
    entries = t.properties | {"hoodie.table.cdc.enabled": "true"}
    (tmp_path / "t/.hoodie/hoodie.properties").write_bytes(format_properties(entries))

    def told(**times: str) -> list[tuple[Any, ...]]:
        options = {f"hoodie.datasource.read.{name}.instanttime": time for name, time in times.items()}
        found = referee.ask("read", path=t.path, mode="cdc", options=options)["rows"]
        return sorted((row["op"], row["before"], json.loads(row["after"])["n"]) for row in found)

    assert told(begin="000", end=first) == [("i", None, 1), ("i", None, 2)]
    with pytest.raises(HudiRefused, match=refusal):
        told(begin=first)
    again = lb.Table.open(t.path)
    with pytest.raises(lb.UnsupportedTable, match="change data capture"):
        again.upsert([{"id": "a", "ts": 3, "n": 4}])
    assert [row["n"] for row in again.changes(first).to_arrow().to_pylist()] == [3]
