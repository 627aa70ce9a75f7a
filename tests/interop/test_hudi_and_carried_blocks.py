# SPDX-License-Identifier: Apache-2.0
"""What our compactions carry on in their own log files beside writes that are still open: how Apache Hudi merges it.

Hudi takes log files in the order of the instants in their names, and in them the instants of the blocks as they come. The log file of a compaction lies
behind that of a write that began before the plan, whatever instants its blocks have: that shows where ordering values are equal (docs/differences.md).
"""

from __future__ import annotations

from pathlib import Path

import pytest

import lakebraid as lb
from tests.interop.our_tables import create, keys, rows
from tests.interop.referee import Referee
from tests.interop.test_hudi_reads_our_writes import rows_of

pytestmark = pytest.mark.interop
MENDED = "Hudi orders blocks by their instants now: see docs/differences.md"


def ours(table: lb.Table) -> set[str]:
    return {row["name"] for row in table.to_arrow().to_pylist()}


def hudis(referee: Referee, table: lb.Table) -> set[str]:
    return {row["name"] for row in rows_of(referee.ask("read", path=table.path)["rows"])}


def compact_again(table: lb.Table) -> None:
    table.upsert(rows("last", {9: 1}))
    assert table.compact()


@pytest.mark.parametrize("ts", [5, 6])
def test_hudi_shows_a_row_that_began_after_a_carried_delete_unless_it_has_the_same_ordering_value(
    ts: int, referee: Referee, tmp_path: Path
) -> None:
    table = create(tmp_path / "t", buckets=1)
    table.upsert(rows("a", {1: 1, 2: 1}))
    table.delete(keys({1: 5}))
    late = table.begin()
    late.write(rows("late", {1: ts}))
    assert table.compact()
    late.commit()
    assert ours(table) == {"late1", "a2"}
    assert hudis(referee, table) == ({"a2"} if ts == 5 else ours(table)), MENDED
    compact_again(table)
    assert hudis(referee, table) == ours(table) == {"late1", "a2", "last9"}


@pytest.mark.parametrize("ts", [1, 2])
def test_hudi_shows_a_row_that_began_after_a_carried_row_unless_it_has_the_same_ordering_value(
    ts: int, referee: Referee, tmp_path: Path
) -> None:
    """An event out of order, and a write that may be a delete without ordering value: all from its request time on is carried."""
    table = create(tmp_path / "t", buckets=1)
    slow = table.begin()
    table.upsert(rows("a", {1: 1, 2: 3}))
    late = table.begin()
    late.write(rows("late", {1: ts}))
    table.upsert(rows("older", {2: 1}))
    assert table.compact()
    late.commit()
    slow.abort()
    assert ours(table) == {"late1", "a2"}
    assert hudis(referee, table) == ({"a1", "a2"} if ts == 1 else ours(table)), MENDED
    compact_again(table)
    assert hudis(referee, table) == ours(table) == {"late1", "a2", "last9"}
