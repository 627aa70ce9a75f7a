# SPDX-License-Identifier: Apache-2.0
"""The log file of a compaction: which blocks it holds, and in which order.

Hudi's reader takes the instants of a slice's logs in the order in which it meets them, all blocks of one at the place of its
first (FORMAT, section 10); ours ranks by instants, wherever they lie. Both give the same rows if the blocks lie in the order of their instants.
"""

from __future__ import annotations

import pytest

from tests.kit.models.oracle import Gone, Instant, Put
from tests.kit.tables.built_files import t
from tests.kit.tables.compacting import Bench
from tests.kit.tables.small_histories import BY_EVENT, COLUMNS, G, log, put

pytestmark = pytest.mark.unit


def begin(table: Bench, *entries: Put | Gone) -> Instant:
    return table.begin({G: log(1, *entries).blocks})


def write(table: Bench, *entries: Put | Gone) -> Instant:
    instant = begin(table, *entries)
    table.publish(instant)
    return instant


def test_a_delete_lies_behind_the_row_that_it_deleted_when_a_compaction_carries_both_on() -> None:
    """Before it, Hudi shows the row again: it has the ordering value of the delete, and of equals the later one counts."""
    table = Bench(BY_EVENT, COLUMNS)
    begin(table, put("c", "slow"))
    row = write(table, put("a", "row", ts=1), put("b", "newer", ts=3))
    delete = write(table, Gone("a", (1,)))
    outrun = write(table, put("b", "older", ts=1))
    assert table.compact() is not None
    assert table.instants_of_own_logs() == [[t(i.request_time) for i in (row, row, delete, outrun)]]


def test_a_delete_that_began_before_the_open_write_is_told_first_and_once() -> None:
    table = Bench(BY_EVENT, COLUMNS)
    early = write(table, put("a", "row", ts=1), put("d", "row", ts=1), Gone("d", (2,)))
    begin(table, put("c", "slow"))
    row = write(table, put("b", "newer", ts=3))
    delete = write(table, Gone("a", (1,)))
    outrun = write(table, put("b", "older", ts=1))
    done = table.compact()
    assert done is not None and done.tombstones == 1
    assert table.instants_of_own_logs() == [[t(i.request_time) for i in (early, row, delete, outrun)]]
