# SPDX-License-Identifier: Apache-2.0
"""Rows that were deleted in one file group and came back in another: one change, or none, never a delete and an insert."""

from __future__ import annotations

from typing import Any

import pytest

from lakebraid.api.table import Table
from lakebraid.storage.memory import MemoryStorage
from tests.kit.tables.scene import TickingClock, make_table, row

pytestmark = pytest.mark.unit

FULL = {"hoodie.parquet.small.file.limit": "0"}
"""Every write of new keys begins file groups."""


def moved(rows: list[dict[str, Any]], *, is_global: bool) -> tuple[Table, str]:
    """A table, and the moment before its row "a" went away and came back as given."""
    clock = TickingClock()
    how: dict[str, Any] = {"table_type": "cow", "index": "simple", "properties": FULL}
    if is_global:
        how = {"table_type": "mor", "index": "global_simple", "partition_by": "w"}
    table = make_table(MemoryStorage("memory://moved", clock), clock, concurrency="occ", **how)
    moment = table.upsert([row("a", "1"), row("b", "1"), row("c", "1")]).completion_time
    if is_global:
        table.upsert([row("a", "away", ts=2, w=1)])
    else:
        table.delete([{"id": "a"}])
    table.upsert([*rows, row("new", "1")])
    table.delete([{"id": "c", "w": 0}] if is_global else [{"id": "c"}])
    assert len({held.group for held in table.snapshot().slices if held.group.partition in ("", "0")}) > 1
    return table, moment


def told(table: Table, after: str, **how: Any) -> list[tuple[str, str, str]]:
    found = table.changes(after, **how).to_arrow().to_pylist()
    return sorted((r["_change_type"], r["id"], r["v"]) for r in found)


@pytest.mark.parametrize("is_global", [False, True])
def test_a_row_that_went_away_and_came_back_in_another_file_group_has_changed_once(is_global: bool) -> None:
    table, moment = moved([row("a", "2", ts=3)], is_global=is_global)
    others = [("delete", "c", "1"), ("insert", "new", "1")]
    assert told(table, moment) == [*others, ("update", "a", "2")]
    images = [("update_postimage", "a", "2"), ("update_preimage", "a", "1")]
    assert told(table, moment, images=True) == [*others, *images]
    assert told(table, moment, kinds=False) == [others[0], ("upsert", "a", "2"), ("upsert", "new", "1")]
    assert told(table, moment, columns=["v", "id"]) == [*others, ("update", "a", "2")]


def test_a_row_that_came_back_as_it_was_has_not_changed() -> None:
    table, moment = moved([row("a", "1")], is_global=False)
    assert told(table, moment) == [("delete", "c", "1"), ("insert", "new", "1")]


def test_a_change_tells_when_the_write_completed_that_brought_the_row_back() -> None:
    table, moment = moved([row("a", "2", ts=3)], is_global=False)
    times = {r["id"]: r["_commit_completion_time"] for r in table.changes(moment).to_arrow().to_pylist()}
    assert times["a"] == times["new"] < times["c"]
