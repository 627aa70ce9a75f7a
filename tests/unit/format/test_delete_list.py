# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import io
import random
import struct
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakebraid.errors import CorruptFile, InvalidArgument, LakebraidError, UnsupportedTable
from lakebraid.format.avro.varint import format_long, parse_long
from lakebraid.format.log.delete_list import format_delete_block, parse_delete_block
from tests.kit.effort import times

pytestmark = pytest.mark.unit


def _wrapper(name: str, value: object) -> dict[str, Any]:
    return {"type": "record", "name": f"{name}Wrapper", "fields": [{"name": "value", "type": value}]}


_DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 15}
_WRAPPERS = [
    _wrapper("Boolean", "boolean"),
    _wrapper("Int", "int"),
    _wrapper("Long", "long"),
    _wrapper("Float", "float"),
    _wrapper("Double", "double"),
    _wrapper("Bytes", "bytes"),
    _wrapper("String", "string"),
    _wrapper("Date", "int"),
    _wrapper("Decimal", _DECIMAL),
    _wrapper("TimeMicros", "long"),
    _wrapper("TimestampMicros", "long"),
]
_NAMES = [wrapper["name"] for wrapper in _WRAPPERS]
_VALUES = {"type": "array", "items": ["null", *_NAMES, _wrapper("LocalDate", "int")]}
_ARRAY = {"type": "record", "name": "ArrayWrapper", "fields": [{"name": "wrappedValues", "type": ["null", _VALUES]}]}
_ENTRY = {
    "type": "record",
    "name": "HoodieDeleteRecord",
    "fields": [
        {"name": "recordKey", "type": ["null", "string"]},
        {"name": "partitionPath", "type": ["null", "string"]},
        {"name": "orderingVal", "type": ["null", *_WRAPPERS, _ARRAY]},
    ],
}
_LIST_FIELD = {"name": "deleteRecordList", "type": {"type": "array", "items": _ENTRY}}
AVRO = fastavro.parse_schema({"type": "record", "name": "HoodieDeleteRecordList", "fields": [_LIST_FIELD]})


def _by_avro(entries: list[tuple[Any, ...]]) -> bytes:
    """What Apache Hudi writes for these (key, partition, ordering) entries, by an Avro encoder of its own."""
    stream = io.BytesIO()
    records = [{"recordKey": k, "partitionPath": p, "orderingVal": o} for k, p, o in entries]
    fastavro.schemaless_writer(stream, AVRO, {"deleteRecordList": records})
    return struct.pack(">ii", 3, len(stream.getvalue())) + stream.getvalue()


def _value(name: str, value: object) -> tuple[Any, ...]:
    return (f"{name}Wrapper", {"value": value})


MOMENT_US = 1_700_000_000_123_456
CASES = {
    "Boolean": (True, pa.bool_(), True),
    "Int": (-7, pa.int32(), -7),
    "Long": (2**62, pa.int64(), 2**62),
    "Float": (1.5, pa.float32(), 1.5),
    "Double": (-0.1, pa.float64(), -0.1),
    "Bytes": (b"\x00\xff", pa.binary(), b"\x00\xff"),
    "String": ("ä", pa.string(), "ä"),
    "Date": (-1, pa.date32(), -1),
    "Decimal": (Decimal("-123456789012345.000000000000001"), pa.decimal128(30, 15), None),
    "TimeMicros": (86_399_999_999, pa.time64("us"), 86_399_999_999),
    "TimestampMicros": (MOMENT_US, pa.timestamp("us", tz="UTC"), MOMENT_US),
}


@pytest.mark.parametrize("name", CASES)
def test_every_wrapper_becomes_its_arrow_type_and_is_written_as_hudi_compares_it(name: str) -> None:
    value, kind, plain = CASES[name]
    content = _by_avro([("a", "p", _value(name, value)), ("b", None, _value("Int", 0))])

    deleted = parse_delete_block(content, "log")

    expected = pa.array([value if plain is None else plain, None], kind)
    assert deleted.ordering == (expected,)
    assert deleted.record_keys.to_pylist() == ["a", "b"]
    assert deleted.partition_paths.to_pylist() == ["p", None]
    assert deleted.unconditional.to_pylist() == [False, True]
    # Hudi's readers compare dates and moments as plain numbers and fail on the wrappers made for them.
    as_written = {"Date": "Int", "TimestampMicros": "Long"}.get(name, name)
    expected_bytes = _by_avro([("a", "p", _value(as_written, value)), ("b", None, _value("Int", 0))])
    assert format_delete_block(deleted.record_keys, deleted.partition_paths, deleted.ordering) == expected_bytes


def test_int_zero_and_null_mean_an_unconditional_delete_but_long_zero_does_not() -> None:
    deleted = parse_delete_block(
        _by_avro([("a", "p", _value("Int", 0)), ("b", "p", None), ("c", "p", _value("Long", 0))]), "log"
    )

    assert deleted.unconditional.to_pylist() == [True, True, False]
    assert deleted.ordering == (pa.array([None, None, 0], pa.int64()),)


def test_deletes_without_ordering_values_have_none() -> None:
    content = format_delete_block(pa.array(["a"]), pa.array(["p"]))

    assert content == _by_avro([("a", "p", _value("Int", 0))])
    assert parse_delete_block(content, "log").ordering is None


def test_several_ordering_fields_become_several_arrays() -> None:
    values = [_value("Long", 5), _value("String", "x"), ("LocalDateWrapper", {"value": 3})]
    content = _by_avro([("a", "p", ("ArrayWrapper", {"wrappedValues": values})), ("b", "p", _value("Int", 0))])

    deleted = parse_delete_block(content, "log")

    expected = [pa.array([5, None]), pa.array(["x", None]), pa.array([3, None], pa.date32())]
    assert list(deleted.ordering or ()) == expected
    assert deleted.unconditional.to_pylist() == [False, True]
    written = format_delete_block(deleted.record_keys, deleted.partition_paths, expected[:2])
    assert list(parse_delete_block(written, "log").ordering or ()) == expected[:2]


def test_a_list_of_one_value_is_that_value() -> None:
    content = _by_avro([("a", "p", ("ArrayWrapper", {"wrappedValues": [_value("Int", 0)]}))])

    assert parse_delete_block(content, "log").unconditional.to_pylist() == [True]


def test_ints_and_longs_in_one_block_become_longs() -> None:
    deleted = parse_delete_block(_by_avro([("a", "p", _value("Int", 1)), ("b", "p", _value("Long", 2))]), "log")

    assert deleted.ordering == (pa.array([1, 2], pa.int64()),)


@pytest.mark.parametrize(
    "values",
    [
        [_value("Int", 1), _value("String", "1")],
        [_value("Long", 1), ("ArrayWrapper", {"wrappedValues": [_value("Long", 1), _value("Long", 2)]})],
        [("ArrayWrapper", {"wrappedValues": []})],
        [("ArrayWrapper", {"wrappedValues": None})],
    ],
)
def test_ordering_values_that_cannot_be_compared_are_refused(values: list[tuple[str, dict[str, Any]]]) -> None:
    with pytest.raises(CorruptFile):
        parse_delete_block(_by_avro([("a", "p", value) for value in values]), "log")


def test_a_list_in_several_avro_blocks_is_read_whole() -> None:
    one = b"\x02\x02a\x02\x02p\x04\x00"
    body = format_long(1) + one + format_long(-2) + format_long(2 * len(one)) + one + one + b"\x00"

    deleted = parse_delete_block(struct.pack(">ii", 3, len(body)) + body, "log")

    assert deleted.record_keys.to_pylist() == ["a", "a", "a"]


@pytest.mark.parametrize("version", [1, 2])
def test_deletes_as_java_objects_are_refused_by_name(version: int) -> None:
    with pytest.raises(UnsupportedTable, match="serialised Java objects"):
        parse_delete_block(struct.pack(">ii", version, 3) + b"abc", "log")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        struct.pack(">ii", 4, 1) + b"\x00",
        struct.pack(">ii", 3, 100) + b"\x00",
        struct.pack(">ii", 3, -1) + b"\x00",
        struct.pack(">ii", 3, 2) + b"\x00\x00",
        struct.pack(">ii", 3, 10) + format_long(2**62) + b"\x00",
        struct.pack(">ii", 3, 6) + b"\x02\x00\x00\x00\x00\x00",
        struct.pack(">ii", 3, 8) + b"\x02\x02\x02\xff\x02\x00\x00\x00",
        struct.pack(">ii", 3, 8) + b"\x02\x02\x02a\x00\x1a\x00\x00",
        struct.pack(">ii", 3, 13) + b"\x02\x02\x02a\x00\x0e\x80\x80\x80\x80\x80\x80\x80",
    ],
)
def test_a_damaged_list_is_refused(content: bytes) -> None:
    with pytest.raises(CorruptFile):
        parse_delete_block(content, "log")


def test_a_decimal_of_more_digits_than_hudi_has_is_refused() -> None:
    body = b"\x02\x02\x02a\x00\x12\x22" + b"\x7f" * 17 + b"\x00"

    with pytest.raises(CorruptFile):
        parse_delete_block(struct.pack(">ii", 3, len(body)) + body, "log")


def test_what_hudi_could_not_compare_is_not_written() -> None:
    keys, partitions = pa.array(["a"]), pa.array(["p"])
    with pytest.raises(InvalidArgument, match="null"):
        format_delete_block(keys, partitions, [pa.array([1]), pa.array([None], pa.int64())])
    with pytest.raises(InvalidArgument, match="key"):
        format_delete_block(pa.array([None], pa.string()), partitions)
    with pytest.raises(InvalidArgument, match="list"):
        format_delete_block(keys, partitions, [pa.array([[1]])])
    with pytest.raises(InvalidArgument, match="fit"):
        format_delete_block(keys, partitions, [pa.array([Decimal(10) ** 20], pa.decimal128(38, 0))])


entries = st.lists(
    st.tuples(st.text(max_size=20), st.none() | st.text(max_size=10), st.none() | st.integers(-(2**63), 2**63 - 1)),
    max_size=20,
)


@given(entries)
def test_written_deletes_are_read_back_and_are_what_avro_writes(rows: list[tuple[str, str | None, int | None]]) -> None:
    keys, partitions, values = ([row[i] for row in rows] for i in range(3))
    content = format_delete_block(
        pa.array(keys, pa.string()), pa.array(partitions, pa.string()), [pa.array(values, pa.int64())]
    )

    deleted = parse_delete_block(content, "log")

    assert deleted.record_keys.to_pylist() == keys
    assert deleted.partition_paths.to_pylist() == partitions
    assert deleted.unconditional.to_pylist() == [value is None for value in values]
    given_values = deleted.ordering[0].to_pylist() if deleted.ordering else [None] * len(rows)
    assert given_values == values
    wrapped = [_value("Int", 0) if value is None else _value("Long", value) for value in values]
    assert content == _by_avro(list(zip(keys, partitions, wrapped, strict=True)))


@given(st.integers(-(2**63), 2**63 - 1), st.binary(max_size=3))
def test_numbers_are_read_back(number: int, before: bytes) -> None:
    data = before + format_long(number)

    assert parse_long(data, len(before)) == (number, len(data))


@pytest.mark.slow
@pytest.mark.hostile
@settings(max_examples=times(300), deadline=None)
@given(st.randoms(use_true_random=True))
def test_flipped_bytes_in_a_delete_list_end_in_deletes_or_a_clear_error(rng: random.Random) -> None:
    name = rng.choice(list(CASES))
    lists = ("ArrayWrapper", {"wrappedValues": [_value(n, CASES[n][0]) for n in rng.choices(list(CASES), k=3)]})
    value = rng.choice((_value(name, CASES[name][0]), lists))
    data = bytearray(_by_avro([(f"key{i}", "part", value) for i in range(5)]))
    for _ in range(rng.choice((1, 2, 5))):
        data[rng.randrange(len(data))] = rng.randrange(256)
    try:
        deleted = parse_delete_block(bytes(data), "log")
    except LakebraidError:
        return
    assert len(deleted.record_keys) == len(deleted.unconditional)
    for column in (deleted.record_keys, deleted.partition_paths, *(deleted.ordering or ())):
        column.validate(full=True)
