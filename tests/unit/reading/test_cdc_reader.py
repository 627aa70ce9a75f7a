# SPDX-License-Identifier: Apache-2.0
"""The reader of captured changes that stands in for Hudi's CDC query where Hudi is not asked (tests/kit/models/cdc_reader.py)."""

from __future__ import annotations

from typing import Any

import pytest

from lakebraid.model.config import CDC_MODES
from tests.lives.checking import check
from tests.lives.kinds import Kind
from tests.lives.life import Life

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("mode", CDC_MODES)
@pytest.mark.parametrize("table_type", ["mor", "cow"])
def test_rows_that_a_clustering_moved_are_told_as_deleted_by_the_overwrite_after_it(table_type: str, mode: str) -> None:
    """The reader looked for them in the table as of the last write, which has other file groups (seed 3001349)."""
    small = (("hoodie.parquet.small.file.limit", "0"),)
    life = Life(Kind(table_type, "simple", "occ", captures=mode, properties=small))
    for key in "ab":
        life.write("upsert", [_row(key)])
    life.cluster()
    assert len(life.table.snapshot().slices) == 1
    life.write("insert_overwrite_table", [_row("c")])
    check(life)


def _row(key: str) -> dict[str, Any]:
    return {"id": key, "ts": 1, "v": "v"}
