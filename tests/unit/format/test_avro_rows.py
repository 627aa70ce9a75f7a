# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import datetime as dt
import io
import json
import multiprocessing
import os
import struct
import threading
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakebraid import limits
from lakebraid.errors import CorruptFile, InvalidArgument, LakebraidError
from lakebraid.format.avro import rows as avro_rows
from lakebraid.format.avro import scan
from lakebraid.format.avro.rows import format_avro_block, parse_avro_block, parse_avro_blocks
from lakebraid.format.avro.scan import ScanRefused, scan_records
from lakebraid.format.avro.types import parse_avro_schema, read_avro_schema
from lakebraid.format.python_rows import python_rows
from tests.kit.effort import times
from tests.kit.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.unit

UTC = dt.UTC
INT = st.integers(-(2**31), 2**31 - 1)
LONG = st.integers(-(2**63), 2**63 - 1)


def _moments(zone: dt.tzinfo | None, *, millis: bool = False) -> st.SearchStrategy[dt.datetime]:
    zones: st.SearchStrategy[Any] = st.just(zone)
    moments = st.datetimes(dt.datetime(1, 1, 2), dt.datetime(9999, 12, 30), timezones=zones)
    return moments.map(lambda m: m.replace(microsecond=m.microsecond // 1000 * 1000)) if millis else moments


def _times(*, millis: bool = False) -> st.SearchStrategy[dt.time]:
    step = 1000 if millis else 1
    day = 86_400_000_000
    return st.integers(0, day // step - 1).map(
        lambda n: (dt.datetime(2000, 1, 1) + dt.timedelta(microseconds=n * step)).time()
    )


def _logical(base: str, name: str) -> dict[str, Any]:
    return {"type": base, "logicalType": name}


LEAVES: list[tuple[object, st.SearchStrategy[Any]]] = [
    ("boolean", st.booleans()),
    ("int", INT),
    ("long", LONG),
    ("float", st.floats(width=32, allow_nan=False)),
    ("double", st.floats(allow_nan=False)),
    ("string", st.text(max_size=8)),
    ({"type": "string", "avro.java.string": "String"}, st.text(max_size=8)),
    ({"type": "string", "logicalType": "uuid"}, st.uuids().map(str)),
    ("bytes", st.binary(max_size=8)),
    (_logical("int", "date"), st.dates()),
    (_logical("int", "time-millis"), _times(millis=True)),
    (_logical("long", "time-micros"), _times()),
    (_logical("long", "timestamp-millis"), _moments(UTC, millis=True)),
    (_logical("long", "timestamp-micros"), _moments(UTC)),
    (_logical("long", "local-timestamp-millis"), _moments(None, millis=True)),
    (_logical("long", "local-timestamp-micros"), _moments(None)),
    (_logical("string", "no-such-type"), st.text(max_size=8)),
]


class Names:
    """Names that are used once, and names that are used again in another namespace."""

    def __init__(self, data: st.DataObject) -> None:
        self.data = data
        self.used = 0

    def named(self, kind: str, **rest: Any) -> dict[str, Any]:
        self.used += 1
        if self.data.draw(st.booleans()):
            return {"type": kind, "name": "same", "namespace": f"space{self.used}", **rest}
        return {"type": kind, "name": f"name{self.used}", **rest}


def draw_type(names: Names, depth: int) -> tuple[object, st.SearchStrategy[Any]]:
    """A type, as Hudi's writers use them, and its values."""
    draw = names.data.draw
    kind = draw(st.sampled_from(("leaf", "decimal", "fixed", "enum", "array", "map", "record")))
    if kind == "leaf" or (depth == 0 and kind in ("array", "map", "record")):
        chosen = draw(st.sampled_from(LEAVES))
    elif kind == "decimal":
        chosen = draw_decimal(names)
    elif kind == "fixed":
        size = draw(st.integers(1, 9))
        chosen = names.named("fixed", size=size), st.binary(min_size=size, max_size=size)
    elif kind == "enum":
        chosen = names.named("enum", symbols=["A", "B", "C"]), st.sampled_from("ABC")
    elif kind == "record":
        chosen = draw_record(names, depth - 1)
    else:
        inner, values = draw_type(names, depth - 1)
        if kind == "array":
            chosen = {"type": "array", "items": inner}, st.lists(values, max_size=3)
        else:
            chosen = {"type": "map", "values": inner}, st.dictionaries(st.text(max_size=3), values, max_size=3)
    avro, values = chosen
    optional = st.none() | values
    drawn: tuple[object, st.SearchStrategy[Any]] = draw(
        st.sampled_from(((avro, values), (["null", avro], optional), ([avro, "null"], optional)))
    )
    return drawn


def draw_decimal(names: Names) -> tuple[object, st.SearchStrategy[Any]]:
    precision = names.data.draw(st.integers(1, 38))
    scale = names.data.draw(st.integers(0, precision))
    meaning = {"logicalType": "decimal", "precision": precision, "scale": scale}
    limit = 10**precision - 1
    values = st.integers(-limit, limit).map(lambda n: Decimal((n < 0, tuple(map(int, str(abs(n)))), -scale)))
    size = next(s for s in range(1, 17) if 10**precision <= 1 << (8 * s - 1))
    if names.data.draw(st.booleans()):
        return {"type": "bytes", **meaning}, values
    return names.named("fixed", size=size, **meaning), values


def draw_record(names: Names, depth: int) -> tuple[dict[str, Any], st.SearchStrategy[Any]]:
    record = names.named("record")
    fields, values = [], {}
    for index in range(names.data.draw(st.integers(1, 4))):
        name = names.data.draw(st.sampled_from((f"f{index}", f"_F{index}x", f"größe{index}")))
        kind, values[name] = draw_type(names, depth)
        fields.append({"name": name, "type": kind, "doc": 'said "so" \\ {[', "order": "ignore"})
    return record | {"fields": fields}, st.fixed_dictionaries(values)


def encode(schema: object, rows: list[dict[str, Any]]) -> bytes:
    """A block content by fastavro and the original schema."""
    parsed = fastavro.parse_schema(json.loads(json.dumps(schema)))
    parts = []
    for row in rows:
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, parsed, row)
        parts.append(struct.pack(">i", len(stream.getvalue())) + stream.getvalue())
    return struct.pack(">ii", 3, len(rows)) + b"".join(parts)


def plain(value: Any) -> Any:
    """Values as Arrow gives them."""
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, list):
        return [plain(part) for part in value]
    return value


def scanned(content: bytes, text: str) -> pa.Table:
    """What the fast reader alone makes of a block."""
    view = memoryview(content)
    schema = read_avro_schema(text, "log")
    ends = avro_rows._record_ends(view, schema.type.bytes_min, "log")
    return scan_records(view, 8, ends, schema)


def read_slowly(content: bytes, text: str) -> pa.Table:
    view = memoryview(content)
    schema = read_avro_schema(text, "log")
    ends = avro_rows._record_ends(view, schema.type.bytes_min, "log")
    return avro_rows._read_slowly(view, 8, ends, schema, "log")


@pytest.mark.slow
@settings(max_examples=times(200), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_both_readers_give_what_avro_wrote_for_every_schema(data: st.DataObject) -> None:
    schema, values = draw_record(Names(data), 3)
    rows = data.draw(st.lists(values, min_size=1, max_size=4))
    text = json.dumps(schema)
    content = encode(schema, rows)

    expected = pa.Table.from_pylist(plain(rows), parse_avro_schema(text, "log"))

    assert scanned(content, text).equals(expected)
    assert read_slowly(content, text).equals(expected)
    assert parse_avro_block(content, text, "log").equals(expected)
    assert parse_avro_block(format_avro_block(expected, text), text, "log").equals(expected)


NESTED = {
    "type": "record",
    "name": "t_record",
    "namespace": "hoodie.t",
    "fields": [
        {"name": "id", "type": ["null", "long"], "default": None},
        {"name": "name", "type": ["string", "null"]},
        {"name": "amount", "type": {"type": "fixed", "name": "fixed", "namespace": "hoodie.t.amount", "size": 5,
                                    "logicalType": "decimal", "precision": 10, "scale": 2}},
        {"name": "tags", "type": ["null", {"type": "map", "values": ["null", {"type": "array", "items": "string"}]}]},
    ],
}  # fmt: skip
NESTED_TEXT = json.dumps(NESTED)


def _nested_rows(count: int) -> list[dict[str, Any]]:
    return [
        {"id": n if n % 3 else None, "name": "x" * (n % 7), "amount": Decimal(n) / 100, "tags": {"a": ["b"] * (n % 3)}}
        for n in range(count)
    ]


@pytest.mark.parametrize("count", [1, 2, 3, 10, 11, 21, 100])
def test_blocks_of_any_length_take_the_fast_road_in_batches(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "AVRO_BATCH_ROWS", 10)
    rows = _nested_rows(count)

    table = scanned(encode(NESTED, rows), NESTED_TEXT)

    assert python_rows(table) == rows


def test_a_block_without_records_has_the_columns_of_its_schema() -> None:
    table = parse_avro_block(struct.pack(">ii", 3, 0), NESTED_TEXT, "log")

    assert table.schema == parse_avro_schema(NESTED_TEXT, "log")
    assert table.num_rows == 0


def test_large_blocks_are_decoded_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = _nested_rows(50)
    monkeypatch.setattr(limits, "AVRO_CHUNK_BYTES", 2000)
    steps = _counting(monkeypatch)

    table = parse_avro_block(encode(NESTED, rows), NESTED_TEXT, "log")

    assert python_rows(table) == rows
    assert len(steps) > 5


def _counting(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    calls = []

    def counted(view: Any, schema: Any, ends: Any, expanded: Any) -> Any:
        calls.append(len(ends))
        return scan_records(view, schema, ends, expanded)

    monkeypatch.setattr(avro_rows, "scan_records", counted)
    return calls


def test_many_small_blocks_are_decoded_by_one_call_and_hold_no_memory_of_each_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = _counting(monkeypatch)
    parts = [_nested_rows(count) for count in (3, 0, 1, 200)]

    tables = parse_avro_blocks([encode(NESTED, rows) for rows in parts], NESTED_TEXT, ["a", "b", "c", "d"])

    assert [python_rows(table) for table in tables] == parts
    assert calls == [204]
    assert tables[0].get_total_buffer_size() < tables[3].get_total_buffer_size() / 10


def test_a_damaged_block_among_others_is_named_and_the_others_are_not() -> None:
    good = encode(NESTED, _nested_rows(2))
    torn = bytearray(good)
    torn[12:16] = b"\xff\xff\xff\x7f"
    with pytest.raises(CorruptFile, match="second"):
        parse_avro_blocks([good, bytes(torn), good], NESTED_TEXT, ["first", "second", "third"])


def test_blocks_that_might_take_too_much_memory_together_are_decoded_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = _counting(monkeypatch)
    monkeypatch.setattr(limits, "AVRO_CHUNK_BYTES", 20_000)
    blocks = [encode(NESTED, _nested_rows(50))] * 5
    assert sum(table.num_rows for table in parse_avro_blocks(blocks, NESTED_TEXT, list("abcde"))) == 250
    assert len(calls) >= 5


def test_rows_are_read_slowly_where_the_fast_reader_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise ScanRefused

    monkeypatch.setattr(avro_rows, "scan_records", refuse)
    rows = _nested_rows(3000)

    assert python_rows(parse_avro_block(encode(NESTED, rows), NESTED_TEXT, "log")) == rows


def test_a_panic_in_the_fast_reader_is_not_the_end_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    class PanicException(BaseException):
        pass

    class Session:
        def read_avro(self, *_: object, **__: object) -> None:
            raise PanicException

    monkeypatch.setattr(scan, "_session", lambda _: Session())

    assert parse_avro_block(encode(NESTED, _nested_rows(2)), NESTED_TEXT, "log").num_rows == 2


def test_an_interrupt_is_not_taken_for_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(scan, "_session", interrupted)

    with pytest.raises(KeyboardInterrupt):
        parse_avro_block(encode(NESTED, _nested_rows(2)), NESTED_TEXT, "log")


def test_rows_can_be_read_where_there_are_no_memory_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "memfd_create")

    assert scanned(encode(NESTED, _nested_rows(5)), NESTED_TEXT).num_rows == 5


def _read_in_child(queue: multiprocessing.Queue[int]) -> None:
    queue.put(parse_avro_block(encode(NESTED, _nested_rows(5)), NESTED_TEXT, "log").num_rows)


def test_a_forked_process_reads_rows_though_the_threads_of_its_parent_are_gone() -> None:
    scanned(encode(NESTED, _nested_rows(5)), NESTED_TEXT)
    fork = multiprocessing.get_context("fork")
    queue = fork.Queue()
    child = fork.Process(target=_read_in_child, args=(queue,))
    child.start()
    try:
        assert queue.get(timeout=PATIENCE_SECONDS) == 5
    finally:
        child.kill()
        child.join()


def test_threads_read_side_by_side() -> None:
    wrong: list[object] = []

    def read(seed: int) -> None:
        for count in range(seed, 60, 7):
            rows = _nested_rows(count)
            if python_rows(scanned(encode(NESTED, rows), NESTED_TEXT)) != rows:
                wrong.append(count)

    threads = [threading.Thread(target=read, args=(seed,)) for seed in (1, 2, 3, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert wrong == []


def record_of(kind: object) -> str:
    return json.dumps({"type": "record", "name": "r", "fields": [{"name": "c", "type": kind}]})


def test_rows_that_do_not_fit_the_schema_are_not_written() -> None:
    text = record_of("int")
    with pytest.raises(InvalidArgument):
        format_avro_block(pa.table({"c": [None]}), text)
    with pytest.raises(InvalidArgument):
        format_avro_block(pa.table({"c": [2**40]}), text)
    with pytest.raises(InvalidArgument):
        format_avro_block(pa.table({"d": [1]}), text)


def test_times_beyond_pythons_calendar_are_read_and_written() -> None:
    text = record_of(["null", {"type": "long", "logicalType": "timestamp-micros"}])
    table = pa.table({"c": pa.array([2**62, -(2**62), None], pa.timestamp("us", tz="UTC"))})

    assert parse_avro_block(format_avro_block(table, text), text, "log").equals(table)
    assert read_slowly(format_avro_block(table, text), text).equals(table)


@pytest.mark.slow
@pytest.mark.hostile
@settings(max_examples=times(300), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_flipped_bytes_end_in_rows_or_a_clear_error(data: st.DataObject) -> None:
    schema, values = draw_record(Names(data), 2)
    content = bytearray(encode(schema, data.draw(st.lists(values, min_size=1, max_size=4))))
    rng = data.draw(st.randoms(use_true_random=True))
    for _ in range(rng.choice((1, 2, 5))):
        content[rng.randrange(8, len(content))] = rng.choice((rng.randrange(256), 0, 0xFF, 0x7F))
    try:
        table = parse_avro_block(bytes(content), json.dumps(schema), "log")
    except LakebraidError:
        return
    table.validate(full=True)
