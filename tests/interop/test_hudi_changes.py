# SPDX-License-Identifier: Apache-2.0
"""Apache Hudi's incremental query on a table of ours, beside our own changes (docs/differences.md)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import lakebraid as lb
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
