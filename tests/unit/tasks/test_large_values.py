# SPDX-License-Identifier: Apache-2.0
"""Acknowledged means readable: long, repeated and well compressible values, written and then read in every way there is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lakebraid as lb
from lakebraid import limits
from tests.interop.large_values import STORED, unpack
from tests.interop.large_values import rows as rows_of_hudi

pytestmark = pytest.mark.unit

SCHEMA = pa.schema(
    [("id", pa.int64()), ("ts", pa.int64()), ("v", pa.string()), ("b", pa.binary()), ("n", pa.list_(pa.int64()))]
)
KIB, MB = 1024, 1_000_000


def _rows(
    texts: list[str | None] | pa.Array, blobs: list[bytes | None] | None = None, lists: pa.Array | None = None
) -> pa.Table:
    count = len(texts)
    columns = [range(count), [1] * count, texts, blobs or [None] * count, lists or [None] * count]
    return pa.Table.from_arrays(
        [pa.array(c, f.type) if not isinstance(c, pa.Array) else c for c, f in zip(columns, SCHEMA, strict=True)],
        schema=SCHEMA,
    )


def _shared(text: str, count: int) -> pa.Array:
    return pa.DictionaryArray.from_arrays(np.zeros(count, np.int32), pa.array([text])).dictionary_decode()


def _zeros(count: int) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array([0, 0, count], pa.int32()), pa.array(np.zeros(count, np.int64)))


VALUES: dict[str, Callable[[], pa.Table]] = {
    "5 MB of blanks": lambda: _rows([" " * 5 * MB, "a"]),
    "20 MB of one letter": lambda: _rows(["x" * 20 * MB, None, "a"]),
    "8 MB of zeros": lambda: _rows(["a", "b"], [bytes(8 * MB), b"1"]),
    "2,000 rows that share a text of 100 KB": lambda: _rows(_shared("y" * 100_000, 2000)),
    "8,000 rows that share a text of 20 KB": lambda: _rows(_shared("y" * 20_000, 8000)),
    "texts at the limit of dictionaries": lambda: _rows(
        pa.concat_arrays([_shared("z" * (limits.DICTIONARY_TEXT_BYTES_MAX + by), 700) for by in (-1, 0, 1)] * 2)
    ),
    "a list of 3,000,000 equal numbers": lambda: _rows(["a", "b"], lists=_zeros(3 * MB)),
    "200,000 rows of nulls": lambda: _rows(pa.nulls(200_000, pa.string())),
}
HEAVY = {name for name in VALUES if "rows that share" in name or "limit" in name or "list" in name}


def _each(*kinds: str) -> Iterator[Any]:
    """Values and kinds of tables; some hundred MB of rows are in the inner loop for one kind only."""
    for values in VALUES:
        for kind in kinds:
            is_slow = (values in HEAVY and (kind != "mor parquet" or "20 KB" not in values)) or (
                "nulls" in values and kind == "mor avro"
            )
            yield pytest.param(values, kind, marks=[pytest.mark.slow] if is_slow else [])


KINDS: dict[str, dict[str, Any]] = {
    "mor parquet": {"buckets": 1},
    "mor avro": {"buckets": 1},
    "mor simple": {"index": "simple"},
    "cow": {"table_type": "cow", "index": "simple"},
}


def _table(path: Path, kind: str, **more: Any) -> lb.Table:
    return lb.Table.create(path / "t", SCHEMA, record_keys="id", ordering_fields="ts", **(KINDS[kind] | more))


def _upsert(table: lb.Table, kind: str, rows: pa.Table) -> None:
    if kind == "mor avro":
        table.upsert(rows, block_format="avro")
    else:
        table.upsert(rows)


def _assert_readable(table: lb.Table, rows: pa.Table) -> None:
    """Every way to read gives the rows."""
    count = rows.num_rows
    snapshot = table.snapshot()
    assert _same(snapshot.to_arrow(), rows)
    assert _same(pa.Table.from_batches(snapshot.to_batches(), SCHEMA), rows)
    assert _same(table.to_arrow(as_of=snapshot.completion_time), rows)
    assert table.count() == count
    assert table.count(where="v is null") == rows.column("v").null_count
    assert _same(table.to_arrow(where="id = 0"), rows.slice(0, 1))
    assert _same(table.changes().to_arrow().select(SCHEMA.names), rows)


def _same(found: pa.Table, rows: pa.Table) -> bool:
    return bool(found.sort_by("id").equals(rows))


@pytest.mark.parametrize(("values", "kind"), _each(*KINDS))
def test_what_was_written_is_read_in_every_way_before_and_after_a_compaction(
    values: str, kind: str, tmp_path: Path
) -> None:
    rows, table = VALUES[values](), _table(tmp_path, kind)
    _upsert(table, kind, rows)
    _assert_readable(table, rows)
    _upsert(table, kind, rows.slice(0, 1))
    _assert_readable(table, rows)
    if kind != "cow":
        table.compact()
        _assert_readable(table, rows)
        assert _same(table.snapshot().to_arrow(mode="read_optimized"), rows)
        _upsert(table, kind, rows.slice(1, 1))
        _assert_readable(table, rows)


@pytest.mark.parametrize(("values", "kind"), _each("mor parquet", "mor avro"))
def test_log_compaction_keeps_such_values(values: str, kind: str, tmp_path: Path) -> None:
    rows, table = VALUES[values](), _table(tmp_path, kind)
    _upsert(table, kind, rows)
    for _ in range(3):
        _upsert(table, kind, rows.slice(0, 1))
    assert table.log_compact(logs_min=2)
    _assert_readable(table, rows)


@pytest.mark.parametrize("sort_by", [None, ["ts", "id"]])
@pytest.mark.parametrize(("values", "kind"), _each("mor simple", "cow"))
def test_clustering_keeps_such_values(values: str, kind: str, sort_by: list[str] | None, tmp_path: Path) -> None:
    rows = VALUES[values]()
    table = _table(tmp_path, kind, properties={"hoodie.parquet.small.file.limit": "0"})
    half = rows.num_rows // 2
    table.insert(rows.slice(0, half))
    table.insert(rows.slice(half))
    table.cluster(sort_by=sort_by) if sort_by else table.cluster()
    assert len(table.snapshot().slices) == 1
    _assert_readable(table, rows)


@pytest.mark.parametrize("kind", STORED)
def test_such_values_in_tables_that_hudi_wrote_are_read(kind: str, tmp_path: Path) -> None:
    table = lb.Table.open(unpack(kind, tmp_path))
    expected = rows_of_hudi(1 if kind == "cow" else 2)
    assert table.to_arrow().sort_by("id").select(expected.column_names).equals(expected)
    assert table.count() == expected.num_rows
    assert table.to_arrow(["v"], where="id = 1").column("v").to_pylist() == [" " * 5 * MB]
    assert pa.Table.from_batches(table.snapshot().to_batches(["id"])).num_rows == expected.num_rows
