# SPDX-License-Identifier: Apache-2.0
"""How far back a table can be read: neither a short answer nor an error where every needed file is there."""

from __future__ import annotations

import pytest

import lakebraid as lb
from tests.kit.models.oracle import Instant
from tests.kit.tables.builder import build_table, open_table
from tests.kit.tables.built_files import t
from tests.kit.tables.small_histories import COLUMNS, G, base, compaction, history, log, put, row, shown, write

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("archived", range(5))
@pytest.mark.parametrize("cleaned", [None, 18], ids=["clean under way", "clean finished"])
def test_nobody_misses_the_cleaned_files_of_a_group_that_was_dropped_before_also_if_the_drop_is_archived(
    cleaned: int | None, archived: int
) -> None:
    old, newer = base(4, (4, row("a", "dropped"))), log(9, put("b", "later"))
    made = history(
        write(1, 2),
        write(4, 5),
        Instant(7, "replacecommit", 8, COLUMNS, replaces=(G,)),
        write(9, 10),
        compaction(13, 15, newer),
        Instant(17, "clean", cleaned, removed=(old, newer)),
        write(19, 20),
        *(old, newer, base(13, (9, row("b", "later")))),
    )
    table = open_table(build_table(made, archived=archived))
    assert shown(table, as_of=8) == {}
    assert shown(table, as_of=15) == shown(table) == {"b": "later"}
    for gone in (5, 10):
        with pytest.raises(lb.SnapshotExpired):
            table.to_arrow(as_of=t(gone))
