# SPDX-License-Identifier: Apache-2.0
"""Deletes whose ordering value is an int 0: in a list of deletes that says "no ordering value"."""

from __future__ import annotations

import pytest

from lakebraid.storage.memory import MemoryStorage
from tests.kit.tables.scene import TickingClock, make_table

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("kind", ["int", "bigint"])
@pytest.mark.parametrize("table_type", ["mor", "cow"])
def test_a_delete_of_an_int_zero_does_not_delete_newer_rows(kind: str, table_type: str) -> None:
    clock = TickingClock()
    how = {"concurrency": "occ", "table_type": table_type, "partition_by": "p"}
    columns = f"id string, p string, ts {kind}, v string"
    table = make_table(MemoryStorage("memory://zero", clock), clock, columns, **how)
    table.upsert([{"id": k, "p": None, "ts": ts, "v": "x"} for k, ts in (("a", 1), ("b", 0), ("c", -1), ("d", 1))])
    zeros = [{"id": k, "p": None, "ts": 0} for k in "abc"]
    assert table.delete([*zeros, {"id": "d", "p": None, "ts": 2}, {"id": "a", "p": "elsewhere", "ts": 0}]).rows_deleted
    assert [row["id"] for row in table.to_arrow().to_pylist()] == ["a"]
    table.delete([{"id": "a", "p": None}])
    assert table.count() == 0
