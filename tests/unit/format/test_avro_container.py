# SPDX-License-Identifier: Apache-2.0
import contextlib
import io
import json
import tracemalloc
import zlib
from pathlib import Path
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebraid import limits
from lakebraid.errors import CorruptFile, InvalidArgument
from lakebraid.format.avro.container import read_record, write_record
from tests.kit.reference import unpack

pytestmark = pytest.mark.unit

STAT = {"fileId": "f", "path": "p0/f", "numWrites": 3, "logFiles": ["a", "b"], "cdcStats": {"c": 1}}
COMMIT = {"partitionToWriteStats": {"p0": [STAT]}, "compacted": False, "extraMetadata": {"schema": "…"}}


def long(value: int) -> bytes:
    value = (value << 1) ^ (value >> 63)
    encoded = b""
    while value > 0x7F:
        encoded += bytes([value & 0x7F | 0x80])
        value >>= 7
    return encoded + bytes([value])


def container(schema: object, body: bytes, *, count: int = 1, size: int | None = None, codec: bytes = b"null") -> bytes:
    text = schema if isinstance(schema, bytes) else json.dumps(schema).encode()
    entries = [b"avro.schema", text, b"avro.codec", codec]
    header = long(2) + b"".join(long(len(entry)) + entry for entry in entries) + long(0)
    block = long(count) + long(len(body) if size is None else size) + body
    return b"Obj\x01" + header + b"s" * 16 + block + b"s" * 16


def record_schema(kind: object, name: str = "R") -> dict[str, object]:
    return {"type": "record", "name": name, "fields": [{"name": "a", "type": kind}]}


def a_real_commit(folder: Path) -> bytes:
    table = unpack("v9_mor_bucket_nbcc_avro", folder)
    return min((table.path / ".hoodie/timeline").glob("*_*.deltacommit")).read_bytes()


def test_a_record_is_read_back_as_it_was_written_and_always_gives_the_same_bytes() -> None:
    data = write_record("HoodieCommitMetadata", COMMIT)
    record = read_record(data, "here", "HoodieCommitMetadata")
    assert record["partitionToWriteStats"]["p0"][0].items() >= STAT.items()
    assert record["extraMetadata"] == {"schema": "…"}
    assert data == write_record("HoodieCommitMetadata", COMMIT)
    assert data != write_record("HoodieCommitMetadata", {**COMMIT, "compacted": True})


def test_another_avro_library_reads_what_is_written() -> None:
    data = write_record("HoodieCommitMetadata", COMMIT)
    (record,) = fastavro.reader(io.BytesIO(data))
    assert record == read_record(data, "here")


@pytest.mark.parametrize("codec", ["null", "deflate"])
def test_what_another_avro_library_writes_is_read(codec: str) -> None:
    sink = io.BytesIO()
    schema = {**record_schema({"type": "map", "values": ["null", "long", {"type": "array", "items": "string"}]})}
    record = {"a": {"x": None, "y": -(2**62), "z": ["", "ü" * 1000]}}
    fastavro.writer(sink, schema, [record], codec=codec)
    assert read_record(sink.getvalue(), "here") == record


def test_a_commit_cut_at_any_byte_is_a_clear_error(tmp_path: Path) -> None:
    data = a_real_commit(tmp_path)
    for end in range(len(data)):
        with pytest.raises(CorruptFile):
            read_record(data[:end], "here", "HoodieReplaceCommitMetadata")


@pytest.mark.slow
def test_a_commit_with_any_byte_changed_is_read_or_a_clear_error(tmp_path: Path) -> None:
    data = a_real_commit(tmp_path)
    for place in range(len(data)):
        for flip in (0x01, 0x80, 0xFF):
            changed = bytearray(data)
            changed[place] ^= flip
            with contextlib.suppress(CorruptFile):
                assert isinstance(read_record(bytes(changed), "here", "HoodieReplaceCommitMetadata"), dict)


@given(st.binary(max_size=300))
def test_any_bytes_after_the_magic_are_a_clear_error(data: bytes) -> None:
    with pytest.raises(CorruptFile):
        read_record(b"Obj\x01" + data, "here")


HUGE = 2**60
RECURSIVE = {
    "type": "record",
    "name": "R",
    "fields": [{"name": "a", "type": ["null", "R"]}],
}


def deep(levels: int) -> object:
    kind: object = "int"
    for _ in range(levels):
        kind = {"type": "array", "items": kind}
    return record_schema(kind)


def deep_by_reference(levels: int) -> object:
    fields: list[object] = [{"name": "f0", "type": record_schema("int", "R0")}]
    fields += [{"name": f"f{i}", "type": record_schema(f"R{i - 1}", f"R{i}")} for i in range(1, levels)]
    return {"type": "record", "name": "Top", "fields": fields}


@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    "data",
    [
        container(record_schema("string"), long(HUGE) + b"x"),
        container(record_schema("bytes"), long(-HUGE) + b"x"),
        container(record_schema({"type": "array", "items": "string"}), long(HUGE) + long(0)),
        container(record_schema({"type": "array", "items": "string"}), long(-HUGE) + long(HUGE) + long(0)),
        container(record_schema({"type": "map", "values": "long"}), long(HUGE) + long(0)),
        container(record_schema({"type": "array", "items": "null"}), long(HUGE) + long(0)),
        container(record_schema({"type": "array", "items": record_schema("null", "N")}), long(HUGE) + long(0)),
        container(record_schema({"type": "array", "items": {"type": "record", "name": "E", "fields": []}}), long(HUGE)),
        container(
            record_schema({"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}}), long(HUGE) + long(0)
        ),
        container(record_schema({"type": "fixed", "name": "F", "size": HUGE}), b"x"),
        container(record_schema("string"), b"", size=HUGE),
        container(record_schema("string"), b"\x02x", count=HUGE),
        container(record_schema("string"), b"\x02x", count=2),
        container(record_schema("string"), b"\x02x", count=-1),
        container(record_schema("string"), b"\x02xy"),
        container(record_schema("string"), b"\x02\xff"),
        container(record_schema(["null", "string"]), b"\x0a"),
        container("string", b"\x02x"),
        container(RECURSIVE, b"\x02" * 1_000_000),
        container(deep(100), b"\x02" * 200),
        container(deep_by_reference(100), b"\x02" * 5050),
        container(b"[" * 100_000, b""),
        container(b'{"type":' * 10_000 + b'"int"' + b"}" * 10_000, b"\x02"),
        container(b"\xff", b""),
        container(record_schema("unknown"), b"\x02"),
        container(record_schema({"type": "array"}), b"\x02"),
        container(record_schema([]), b"\x02"),
        container(record_schema(7), b"\x02"),
        container({"type": "record", "name": "R", "fields": [7]}, b"\x02"),
        container(record_schema({"type": "enum", "name": "E", "symbols": ["A"]}), b"\x0a"),
        container(b" " * (limits.TIMELINE_SCHEMA_BYTES_MAX + 1), b""),
        container(record_schema("string"), b"\x02x", codec=b"snappy"),
        container(record_schema("string"), b"\x02x", codec=b"deflate"),
        b"Obj\x01" + long(HUGE) + b"\0" * 100,
        b"Obj\x01" + long(-HUGE) + long(HUGE) + b"\0" * 100,
        b"Obj\x01" + long(1) + long(HUGE) + b"\0" * 100,
        b"Obj\x01" + b"\xff" * 100,
        b"PAR1",
        b"",
    ],
)
def test_a_hostile_container_costs_neither_time_nor_memory(data: bytes) -> None:
    tracemalloc.start()
    with pytest.raises(CorruptFile, match="there/x"):
        read_record(data, "there/x")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 32 * limits.MIB


@pytest.mark.slow
def test_a_compressed_record_does_not_inflate_beyond_its_limit() -> None:
    bomb = zlib.compress(b"\0" * (limits.AVRO_INFLATED_BYTES_MAX + 1), 9)[2:-4]
    with pytest.raises(CorruptFile, match="inflates beyond"):
        read_record(container(record_schema("string"), bomb, codec=b"deflate"), "here")


def test_a_schema_may_be_nested_as_deep_as_the_limit_allows() -> None:
    arrays = limits.SCHEMA_DEPTH_MAX - 2
    data = container(deep(arrays), b"\x02" * arrays + b"\x02" + b"\0" * arrays)
    assert "a" in read_record(data, "here")


def test_a_named_type_may_be_used_again_and_logical_types_stay_plain() -> None:
    fixed = {"type": "fixed", "name": "F", "namespace": "n", "size": 1, "logicalType": "decimal", "precision": 2}
    schema = {
        "type": "record",
        "name": "n.R",
        "fields": [{"name": "a", "type": fixed}, {"name": "b", "type": "F"}, {"name": "c", "type": "n.F"}],
    }
    assert read_record(container(schema, b"xyz"), "here") == {"a": b"x", "b": b"y", "c": b"z"}


@pytest.mark.parametrize(
    ("field", "kind"),
    [("compacted", "int"), ("operationType", ["null", "bytes"]), ("extraMetadata", {"type": "map", "values": "int"})],
)
def test_a_schema_that_gives_something_else_under_a_known_name_is_refused(
    field: str, kind: dict[str, str] | list[str] | str
) -> None:
    schema = {"type": "record", "name": "HoodieCommitMetadata", "fields": [{"name": field, "type": kind}]}
    with pytest.raises(CorruptFile, match=field):
        read_record(container(schema, b"\0"), "here", "HoodieCommitMetadata")


def test_fields_that_are_unknown_or_left_out_do_no_harm() -> None:
    data = container(record_schema("int", "some.space.HoodieCommitMetadata"), b"\0")
    assert read_record(data, "here", "HoodieCommitMetadata") == {"a": 0}


def test_a_required_field_that_is_missing_is_refused() -> None:
    data = container(record_schema("int", "HoodieCleanMetadata"), b"\0")
    with pytest.raises(CorruptFile, match="startCleanTime"):
        read_record(data, "here", "HoodieCleanMetadata")


@pytest.mark.parametrize(
    "record",
    [
        {"compacted": "yes"},
        {"no such field": 1},
        {"extraMetadata": {"a": 1}},
        {"partitionToWriteStats": {"p0": [{"numWrites": 2**70}]}},
        {"partitionToWriteStats": {"p0": [{"cdcStats": {"a": 1.5}}]}},
    ],
)
def test_a_record_that_is_none_is_not_written(record: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument, match="Nothing was written"):
        write_record("HoodieCommitMetadata", record)
