# SPDX-License-Identifier: Apache-2.0
"""Base files: their key range, row groups and names, and what a commit says of files."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakebraid.errors import InvalidArgument
from lakebraid.format.avro.types import parse_avro_schema
from lakebraid.model.schema.avro_text import row_schema_text, table_schema_text
from lakebraid.tasks.staged_file import StagedFile, write_stats
from lakebraid.tasks.writing.base_file import format_base_file, key_range
from lakebraid.tasks.writing.rows import write_rows
from tests.kit.tables.builder import open_table
from tests.kit.tables.built_files import t
from tests.kit.tables.lake import PLAIN, Lake, row

pytestmark = pytest.mark.unit


EVERYTHING = pa.schema(
    [
        ("id", pa.string()),
        ("ts", pa.int64()),
        ("c_bool", pa.bool_()),
        ("c_int", pa.int32()),
        ("c_float", pa.float32()),
        ("c_double", pa.float64()),
        ("c_bytes", pa.binary()),
        ("c_decimal", pa.decimal128(20, 4)),
        ("c_date", pa.date32()),
        ("c_time", pa.time64("us")),
        ("c_instant", pa.timestamp("us", tz="UTC")),
        ("c_local", pa.timestamp("us")),
        ("c_list", pa.list_(pa.field("element", pa.int64()))),
        ("c_map", pa.map_(pa.string(), pa.field("value", pa.float64()))),
        ("c_struct", pa.struct([("a", pa.int32()), ("b", pa.list_(pa.field("element", pa.string())))])),
        ("c_deep", pa.list_(pa.field("element", pa.struct([("d", pa.decimal128(9, 2)), ("w", pa.date32())])))),
    ]
)


def test_stats_say_what_hudi_wants_to_know() -> None:
    log = StagedFile("p", "f", ".f_1.log.1_0-0-0", 10, 3, 1, is_base=False)
    base = StagedFile("", "g", "g_0-0-0_1.parquet", 20, 4, 0, is_base=True)
    stats = write_stats([log, base, replace(log, name="other")], t(1))
    assert [s.path for s in stats["p"]] == ["p/.f_1.log.1_0-0-0", "p/other"]
    first, (second,) = stats["p"][0], stats[""]
    assert (first.prev_commit, first.base_file, first.log_files) == (t(1), "", (".f_1.log.1_0-0-0",))
    assert (first.num_writes, first.num_deletes, first.file_size_in_bytes) == (3, 1, 10)
    assert (second.prev_commit, second.log_files, second.num_inserts) == ("null", None, 4)


def test_a_commit_never_names_two_base_files_of_one_group() -> None:
    lake = Lake(buckets=1)
    plan = lake.plan(into_base=True)
    files = [
        f for task, key in enumerate("ab") for f in write_rows(lake.storage, plan, lake.table([row(key, 1)]), task)
    ]
    with pytest.raises(InvalidArgument, match="two base files"):
        write_stats(files, plan.request_time)


def test_schema_texts_carry_the_sanitised_name_and_round_trip() -> None:
    text = table_schema_text(EVERYTHING, "2-lake")
    assert text.startswith('{"type":"record","name":"____lake_record","namespace":"hoodie.____lake"')
    assert parse_avro_schema(text, "x") == EVERYTHING
    assert parse_avro_schema(row_schema_text(PLAIN, "x"), "x").names[5:] == PLAIN.names


def test_a_bulk_load_notes_its_least_and_greatest_key() -> None:
    lake = Lake(buckets=1)
    (file,) = lake.write([row(k, 1) for k in ("m", "b", "z")], into_base=True)
    footer = pq.ParquetFile(pa.BufferReader(lake.storage.read(file.path, 1 << 20))).metadata.metadata
    assert (file.min_key, file.max_key) == ("b", "z")
    assert (footer[b"hoodie_min_record_key"], footer[b"hoodie_max_record_key"]) == (b"b", b"z")
    assert b"ARROW:schema" not in footer


def test_keys_are_compared_as_java_does() -> None:
    assert key_range(pa.array(["\uffee", "😀", "a"])) == ("a", "\uffee")
    assert key_range(pa.chunked_array([["b"], ["\uffee", "a"]])) == ("a", "\uffee")


def test_an_empty_base_file_is_a_valid_one() -> None:
    content = format_base_file([], PLAIN, "x_0-0-0_1.parquet")
    file = pq.ParquetFile(pa.BufferReader(content.data))
    assert (file.metadata.num_rows, file.schema_arrow.names[5:]) == (0, PLAIN.names)
    assert (content.rows, content.min_key, content.max_key) == (0, None, None)


def test_a_base_file_out_of_batches_has_their_rows_and_its_own_name() -> None:
    lake = Lake(buckets=1)
    lake.write([row(f"k{i:03}", i) for i in range(100)])
    rows = open_table(lake.storage).to_arrow(meta_columns=True)
    batches = [rows.slice(0, 30), rows.slice(0, 0), rows.slice(30, 70)]
    content = format_base_file(batches, PLAIN, "mine.parquet")
    found = pq.read_table(pa.BufferReader(content.data))
    assert set(found.column("_hoodie_file_name").to_pylist()) == {"mine.parquet"}
    assert found.drop_columns(["_hoodie_file_name"]).to_pylist() == rows.drop_columns(["_hoodie_file_name"]).to_pylist()
    assert (content.rows, content.min_key, content.max_key) == (100, "k000", "k099")


def test_row_groups_of_base_files_are_cut_by_rows_and_by_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = pa.table({n: pa.array([f"k{i}" for i in range(100)]) for n in (*pa.schema(PLAIN).names,)})
    meta = ["_hoodie_commit_time", "_hoodie_commit_seqno", "_hoodie_record_key", "_hoodie_partition_path", "_hoodie_file_name"]  # fmt: skip
    table = pa.table([rows.column("id")] * 5 + [rows.column("id")], [*meta, "id"])
    schema = pa.schema([("id", pa.string())])
    for limit, value in (("BASE_ROW_GROUP_ROWS", 30), ("BASE_ROW_GROUP_BYTES", 1000)):
        with monkeypatch.context() as patched:
            patched.setattr(f"lakebraid.limits.{limit}", value)
            content = format_base_file([table.slice(0, 10), table.slice(10)], schema, "x")
        file = pq.ParquetFile(pa.BufferReader(content.data))
        assert file.metadata.num_row_groups > 2 and content.rows == 100
        assert file.read().column("id").to_pylist() == rows.column("id").to_pylist()
