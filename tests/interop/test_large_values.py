# SPDX-License-Identifier: Apache-2.0
"""Long, repeated and well compressible values: we read what Apache Hudi wrote of them, and Hudi reads what we wrote."""

from __future__ import annotations

import hashlib
from operator import itemgetter
from pathlib import Path

import pytest

import lakebraid as lb
from tests.interop.large_values import KINDS, hudi_writes, rows
from tests.interop.referee import Referee
from tests.interop.shared_table import SharedTable

pytestmark = [pytest.mark.interop, pytest.mark.slow]


@pytest.mark.parametrize("kind", KINDS)
def test_we_read_what_hudi_wrote(referee: Referee, tmp_path: Path, kind: str) -> None:
    hudi_writes(referee, tmp_path / "t", kind)
    table = lb.Table.open(tmp_path / "t")
    expected = rows(1 if kind == "cow" else 2)
    assert table.to_arrow().sort_by("id").select(expected.column_names).equals(expected)
    assert table.count() == expected.num_rows


@pytest.mark.parametrize("kind", ["cow", "mor parquet", "mor avro"])
def test_hudi_reads_what_we_wrote(referee: Referee, tmp_path: Path, kind: str) -> None:
    given = rows(1)
    how = {"table_type": "cow", "index": "simple"} if kind == "cow" else {"buckets": 1}
    table = lb.Table.create(tmp_path / "t", given.schema, record_keys="id", ordering_fields="ts", **how)
    shared = SharedTable(referee, tmp_path / "t", table)
    if kind == "cow":
        table.upsert(given)
    else:
        table.upsert(given, block_format=kind.split()[1])
        _check(shared)
        table.compact()
    _check(shared)


def _check(shared: SharedTable) -> None:
    found = shared.sql("select id, md5(v) v, md5(b) b, length(v) n from it")
    expected = [
        {
            "id": row["id"],
            "v": _digest(row["v"] and row["v"].encode()),
            "b": _digest(row["b"]),
            "n": row["v"] and len(row["v"]),
        }
        for row in rows(1).to_pylist()
    ]
    assert sorted(found, key=itemgetter("id")) == expected


def _digest(data: bytes | None) -> str | None:
    return None if data is None else hashlib.md5(data, usedforsecurity=False).hexdigest()
