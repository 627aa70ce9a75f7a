# SPDX-License-Identifier: Apache-2.0
"""Apache Hudi as the judge of adopted tables: it made them, says nothing of its index in them, and goes on after us."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import lakebraid as lb
from tests.interop.our_tables import ROW, rows
from tests.interop.referee import Referee
from tests.kit.reference import hudi_rows, our_rows

pytestmark = pytest.mark.interop

BUCKETS = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "4"}
LOOKED_UP = {"hoodie.index.type": "SIMPLE"}


@pytest.mark.parametrize("index", [BUCKETS, LOOKED_UP], ids=["buckets", "looked up"])
def test_hudi_reads_and_goes_on_in_a_table_of_its_own_that_was_adopted(
    index: dict[str, str], referee: Referee, tmp_path: Path
) -> None:
    path = tmp_path / "t"
    options = {
        "hoodie.table.name": "theirs",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.table.type": "MERGE_ON_READ",
        "hoodie.table.timeline.timezone": "UTC",
        "hoodie.metadata.enable": "false",
        **index,
    }
    keys: set[int] = set()

    def hudi_writes(name: str, numbers: range, ts: int) -> None:
        given = rows(name, dict.fromkeys(numbers, ts))
        referee.ask("write", path=str(path), rows={"schema": ROW, "json": given}, options=options)
        keys.update(numbers)

    def we_write(name: str, numbers: range, ts: int) -> None:
        table.upsert(rows(name, dict.fromkeys(numbers, ts)))
        keys.update(numbers)

    def check() -> None:
        ours: list[Any] = our_rows(lb.Table.open(path).to_arrow(meta_columns=True))
        assert ours == hudi_rows(referee.ask("read", path=str(path))["rows"])
        assert Counter(dict(row)["id"] for row in ours) == Counter(keys)

    hudi_writes("h", range(40), 1)
    table = lb.Table.open(path)
    assert table.adopt().lines == index
    check()
    we_write("a", range(20, 60), 2)
    check()
    hudi_writes("g", range(30, 70), 3)
    we_write("b", range(10, 80), 4)
    check()
    assert set(table.adopt(undo=True).undone) == set(index)
    check()
