# SPDX-License-Identifier: Apache-2.0
"""What readers would not take is refused when it is written: nothing is published, and the table is read as before."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebraid as lb
from lakebraid import limits, memory

pytestmark = pytest.mark.unit

SCHEMA = pa.schema([("id", pa.string()), ("v", pa.string())])
KINDS: dict[str, dict[str, Any]] = {
    "mor": {"buckets": 1},
    "cow": {"table_type": "cow", "index": "simple"},
    "cdc": {"table_type": "cow", "index": "simple", "properties": {"hoodie.table.cdc.enabled": "true"}},
}


def _table(path: Path, kind: str = "mor", schema: pa.Schema | None = SCHEMA, **more: Any) -> lb.Table:
    return lb.Table.create(path / "t", schema, record_keys="id", **(KINDS[kind] | more))


@contextmanager
def _bounded(memory_left: int | None = None, **bounds: int) -> Iterator[None]:
    """With these limits, and so much memory."""
    with pytest.MonkeyPatch.context() as patched:
        for name, value in bounds.items():
            patched.setattr(limits, name, value)
        if memory_left is not None:
            patched.setattr(memory, "memory_left", lambda: memory_left)
        yield


def _rows(**columns: list[Any]) -> pa.Table:
    return pa.table(columns, schema=SCHEMA)


def _assert_as_before(table: lb.Table, expected: dict[str, str]) -> None:
    fresh = lb.Table.open(table.path)
    assert {row["id"]: row["v"] for row in fresh.to_arrow().to_pylist()} == expected
    assert fresh.count() == len(expected)
    assert fresh.changes().to_arrow().num_rows == len(expected)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("block_format", ["parquet", "avro"])
def test_a_row_that_is_too_large_is_refused_and_one_at_the_limit_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, block_format: str
) -> None:
    table = _table(tmp_path, kind)
    fixed = _rows(id=["a"], v=[""]).nbytes
    monkeypatch.setattr(limits, "ROW_BYTES_MAX", 100_000)
    fitting = "x" * (100_000 - fixed)
    how: dict[str, Any] = {"block_format": block_format} if kind == "mor" else {}
    for text in (fitting[:-1], fitting):
        table.upsert(_rows(id=["a", "b"], v=[text, "y"]), **how)
        _assert_as_before(table, {"a": text, "b": "y"})
    with pytest.raises(lb.InvalidArgument, match="A row takes 100,001 bytes"):
        table.upsert(_rows(id=["a", "b"], v=[f"{fitting}x", "z"]), **how)
    _assert_as_before(table, {"a": fitting, "b": "y"})


@pytest.mark.parametrize("kind", KINDS)
def test_a_key_that_is_too_long_is_refused_and_one_at_the_limit_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    table = _table(tmp_path, kind)
    monkeypatch.setattr(limits, "KEY_BYTES_MAX", 1000)
    table.upsert(_rows(id=["k" * 1000], v=["x" * 2000]))
    _assert_as_before(table, {"k" * 1000: "x" * 2000})
    with pytest.raises(lb.InvalidArgument, match="takes 1,001 bytes"):
        table.upsert(_rows(id=["k" * 1001], v=["y"]))
    _assert_as_before(table, {"k" * 1000: "x" * 2000})


def test_keys_as_long_as_they_may_be_are_read_from_base_files(tmp_path: Path) -> None:
    long = "k" * limits.KEY_BYTES_MAX
    table = _table(tmp_path, "cow")
    table.upsert(_rows(id=[long, "a"], v=["x", "y"]))
    table.upsert(_rows(id=[long], v=["z"]))
    _assert_as_before(table, {long: "z", "a": "y"})


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("block_format", ["parquet", "avro"])
def test_a_table_with_as_many_columns_as_there_may_be_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, block_format: str
) -> None:
    """Log blocks add Hudi's columns, and captured changes have every row twice."""
    written = limits.SCHEMA_FIELDS_WRITTEN_MAX // 1000
    monkeypatch.setattr("lakebraid.model.schema.user_schema.SCHEMA_FIELDS_WRITTEN_MAX", written)
    monkeypatch.setattr(limits, "SCHEMA_FIELDS_MAX", limits.SCHEMA_FIELDS_MAX // 1000)
    names = ["id", *(f"c{n}" for n in range(written - 1))]
    table = _table(tmp_path, kind, pa.schema([(name, pa.string()) for name in names]))
    how: dict[str, Any] = {"block_format": block_format} if kind == "mor" else {}
    for value in ("a", "b"):
        table.upsert([{"id": "1", **dict.fromkeys(names[1:], value)}], **how)
    assert lb.Table.open(table.path).to_arrow().to_pylist()[0]["c7"] == "b"
    assert lb.Table.open(table.path).changes(images=True).to_arrow().num_rows > 0
    with pytest.raises(lb.InvalidArgument, match="fields"):
        table.upsert([{"id": "1", **dict.fromkeys([*names[1:], "more"], "c")}], evolve=True, **how)


@pytest.mark.parametrize("kind", KINDS)
def test_a_column_nested_as_deeply_as_it_may_be_is_read(tmp_path: Path, kind: str) -> None:
    nested: pa.DataType = pa.int64()
    value: Any = 5
    for _ in range(limits.SCHEMA_DEPTH_WRITTEN_MAX - 1):
        nested, value = pa.struct([("a", nested)]), {"a": value}
    schema = pa.schema([("id", pa.string()), ("v", nested)])
    table = _table(tmp_path, kind, schema)
    for given in (None, value):
        table.upsert(pa.Table.from_pylist([{"id": "1", "v": given}], schema))
    assert lb.Table.open(table.path).to_arrow().column("v").to_pylist() == [value]
    assert lb.Table.open(table.path).changes(images=True).to_arrow().num_rows > 0
    with pytest.raises(lb.InvalidArgument, match="nested deeper"):
        _table(tmp_path / "deeper", kind, pa.schema([("id", pa.string()), ("v", pa.struct([("a", nested)]))]))


@pytest.mark.parametrize("kind", ["mor", "cow"])
def test_a_footer_that_no_reader_takes_is_not_written(tmp_path: Path, kind: str) -> None:
    table = _table(tmp_path, kind)
    with _bounded(PARQUET_FOOTER_BYTES_MAX=100), pytest.raises(lb.InvalidArgument, match="footer of"):
        table.upsert(_rows(id=["b"], v=["y"]))
    _assert_as_before(table, {})
    table.upsert(_rows(id=["b"], v=["y"]))
    _assert_as_before(table, {"b": "y"})


@pytest.mark.parametrize(("limit", "most"), [("LOG_BLOCKS_MAX", 3), ("LOG_FILE_BYTES_MAX", 5000)])
def test_a_log_file_that_no_reader_takes_is_not_written(tmp_path: Path, limit: str, most: int) -> None:
    table = _table(tmp_path)
    table.upsert(_rows(id=["a"], v=["x"]))
    rows = _rows(id=[f"{n}" for n in range(40)], v=[f"{n}" * 100 for n in range(40)])
    with (
        _bounded(LOG_BLOCK_SMALL_BYTES=0, LOG_BLOCK_ARROW_BYTES=1000, **{limit: most}),
        pytest.raises(lb.InvalidArgument, match="One log file would have"),
    ):
        table.upsert(rows)
    _assert_as_before(table, {"a": "x"})


def test_a_block_header_that_no_reader_takes_is_not_written(tmp_path: Path) -> None:
    table = _table(tmp_path)
    table.upsert(_rows(id=["a"], v=["x"]))
    with _bounded(BLOCK_HEADER_VALUE_BYTES_MAX=100), pytest.raises(lb.InvalidArgument, match="of them its header"):
        table.upsert(_rows(id=["b"], v=["y"]))
    _assert_as_before(table, {"a": "x"})


def test_an_entry_that_no_reader_takes_is_not_written_to_the_ledger(tmp_path: Path) -> None:
    table = _table(tmp_path)
    table.upsert(_rows(id=["a"], v=["x"]))
    newest = max((tmp_path / "t/.hoodie/.lakebraid/ledger").iterdir(), key=lambda path: path.name)
    size = newest.stat().st_size
    with _bounded(LEDGER_ENTRY_BYTES_MAX=size), pytest.raises(lb.CommitRefused, match="next entry of the ledger"):
        table.upsert(_rows(id=["b"], v=["y"]))
    _assert_as_before(table, {"a": "x"})
    table.upsert(_rows(id=["b"], v=["y"]))
    _assert_as_before(table, {"a": "x", "b": "y"})


def test_a_map_of_overwrites_that_no_reader_takes_is_not_written(tmp_path: Path) -> None:
    table = _table(tmp_path, partition_by="v")
    table.upsert(_rows(id=["a", "b"], v=["x", "y"]))
    with _bounded(REPLACED_MAP_BYTES_MAX=60), pytest.raises(lb.InvalidArgument, match="map of them"):
        table.insert_overwrite(_rows(id=["c"], v=["x"]))
    _assert_as_before(table, {"a": "x", "b": "y"})


def test_a_result_that_does_not_fit_into_memory_is_a_clear_error_and_can_be_read_in_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = _table(tmp_path, "cow", properties={"hoodie.parquet.small.file.limit": "0"})
    for part in "ab":
        table.insert(_rows(id=[f"{part}{n}" for n in range(100)], v=["x" * 1000] * 100))
    monkeypatch.setattr(limits, "HELD_BYTES_FREE", 150_000)
    monkeypatch.setattr(memory, "memory_left", lambda: 100_000)
    assert table.to_arrow(["id"]).num_rows == 200
    with pytest.raises(lb.EnvironmentProblem, match="The result takes"):
        table.to_arrow()
    assert sum(batch.num_rows for batch in table.snapshot().to_batches()) == 200


@pytest.mark.parametrize("block_format", ["parquet", "avro"])
def test_logs_that_do_not_fit_into_memory_are_a_clear_error(tmp_path: Path, block_format: str) -> None:
    table = _table(tmp_path)
    for part in "ab":
        table.upsert(_rows(id=[f"{part}{n}" for n in range(100)], v=["x" * 1000] * 100), block_format=block_format)
    with (
        _bounded(memory_left=100_000, HELD_BYTES_FREE=150_000),
        pytest.raises(lb.EnvironmentProblem, match="Merging the logs from"),
    ):
        table.to_arrow()
    assert table.to_arrow().num_rows == 200


def test_a_page_that_does_not_fit_into_memory_is_a_clear_error(tmp_path: Path) -> None:
    table = _table(tmp_path, "cow")
    table.upsert(_rows(id=["a"], v=["x" * 200_000]))
    with (
        _bounded(memory_left=100_000, HELD_BYTES_FREE=150_000),
        pytest.raises(lb.EnvironmentProblem, match="Decoding row group 0 of"),
    ):
        list(table.snapshot().to_batches())
    assert table.to_arrow().num_rows == 1
