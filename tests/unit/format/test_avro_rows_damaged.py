# SPDX-License-Identifier: Apache-2.0
"""Blocks of Avro rows that lie, or are damaged: refused by name, in time and in bounded memory."""

from __future__ import annotations

import json
import struct
from typing import Any

import pytest

from lakebraid import limits, memory
from lakebraid.errors import CorruptFile, EnvironmentProblem
from lakebraid.format.avro.rows import parse_avro_block
from lakebraid.format.avro.varint import format_long

pytestmark = pytest.mark.unit


def block_of(*records: bytes, count: int | None = None) -> bytes:
    body = b"".join(struct.pack(">i", len(record)) + record for record in records)
    return struct.pack(">ii", 3, len(records) if count is None else count) + body


def record_of(kind: object) -> str:
    return json.dumps({"type": "record", "name": "r", "fields": [{"name": "c", "type": kind}]})


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"", "int"),
        (struct.pack(">ii", 4, 0), "int"),
        (block_of(b"\x02", count=2), "int"),
        (block_of(b"\x02", count=-1), "int"),
        (block_of(b"\x02", count=2**31 - 1), "int"),
        (block_of(b"\x02") + b"x", "int"),
        (block_of(b""), "int"),
        (struct.pack(">iii", 3, 1, 2**31 - 1) + b"\x02", "int"),
        (struct.pack(">iii", 3, 1, -1) + b"\x02", "int"),
    ],
)
def test_a_block_whose_lengths_lie_is_refused(content: bytes, kind: str) -> None:
    with pytest.raises(CorruptFile):
        parse_avro_block(content, record_of(kind), "log")


@pytest.mark.hostile
@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("records", "kind"),
    [
        ((b"\x02\x04",), "int"),  # a byte too many, with which datafusion alone would never end
        ((b"\x02", b"\x02\x04\x06", b"\x02"), "int"),
        ((b"\x04a", b"b"), "string"),  # the first takes from the second, and the sum fits
        ((format_long(2**62),), "string"),
        ((format_long(-5),), "string"),
        ((format_long(2**62),), {"type": "array", "items": "int"}),
        ((format_long(-(2**62)) + format_long(1),), {"type": "array", "items": "int"}),
        ((format_long(-(2**63)) + format_long(1),), {"type": "array", "items": "int"}),
        ((format_long(2**62),), {"type": "map", "values": "null"}),
        ((b"\x02\xff",), "string"),
        ((b"\xff" * 12,), "long"),
        ((format_long(2**40),), "int"),
        ((b"\x0a",), {"type": "enum", "name": "e", "symbols": ["A"]}),
        ((b"\x0a" + b"\x7f" * 5,), {"type": "bytes", "logicalType": "decimal", "precision": 3, "scale": 2}),
        ((format_long(2**62),), {"type": "long", "logicalType": "timestamp-millis"}),
    ],
)
def test_a_record_that_does_not_follow_its_schema_is_refused_in_time(
    records: tuple[bytes, ...], kind: dict[str, Any] | str
) -> None:
    with pytest.raises(CorruptFile):
        parse_avro_block(block_of(*records), record_of(kind), "log")


def test_the_damaged_record_is_named() -> None:
    with pytest.raises(CorruptFile, match="record 2 of an Avro block"):
        parse_avro_block(block_of(b"\x02", b"\x02\x04", b"\x02"), record_of("int"), "log")


@pytest.mark.slow
@pytest.mark.hostile
def test_null_structs_of_many_columns_cannot_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    wide = {"type": "record", "name": "w", "fields": [{"name": f"c{n}", "type": "double"} for n in range(1000)]}
    monkeypatch.setattr(limits, "AVRO_BLOCK_ARROW_BYTES_MAX", 1_000_000)
    monkeypatch.setattr(limits, "AVRO_CHUNK_BYTES", 100_000)
    listed = block_of(format_long(999) + b"\x00" * 1000), record_of({"type": "array", "items": ["null", wide]})

    assert parse_avro_block(*listed, "log").column("c").to_pylist() == [[None] * 999]
    monkeypatch.setattr(limits, "HELD_BYTES_FREE", 1_000_000)
    monkeypatch.setattr(memory, "memory_left", lambda: 2_000_000)
    with pytest.raises(EnvironmentProblem, match="2,000,000 are free"):
        parse_avro_block(block_of(*[b"\x00"] * 1000), record_of(["null", wide]), "log")
    with pytest.raises(EnvironmentProblem, match="Record 1 of an Avro block of log takes"):
        parse_avro_block(*listed, "log")


def test_a_long_text_beside_a_list_of_wide_records_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """By its length alone the record could be a list of very many null structs."""
    wide = {"type": "record", "name": "w", "fields": [{"name": f"c{n}", "type": "double"} for n in range(100)]}
    fields = [{"name": "v", "type": "string"}, {"name": "w", "type": {"type": "array", "items": ["null", wide]}}]
    text = json.dumps({"type": "record", "name": "r", "fields": fields})
    monkeypatch.setattr(limits, "AVRO_BLOCK_ARROW_BYTES_MAX", 1_000_000)
    monkeypatch.setattr(limits, "HELD_BYTES_FREE", 100_000)
    monkeypatch.setattr(memory, "memory_left", lambda: 200_000)
    rows = parse_avro_block(block_of(format_long(20_000) + b"x" * 20_000 + b"\x00"), text, "log")
    assert rows.to_pylist() == [{"v": "x" * 20_000, "w": []}]
