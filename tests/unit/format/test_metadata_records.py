# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import json
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebraid.errors import CorruptFile, InvalidArgument, UnsupportedTable
from lakebraid.format.hfile.parts import Codec
from lakebraid.format.log.blocks import BlockType, HeaderKey, LogBlock, format_log, read_blocks
from lakebraid.format.metadata.index_definitions import format_index_definitions, parse_index_definitions
from lakebraid.format.metadata.log import (
    format_empty_log,
    format_metadata_base,
    format_metadata_log,
    parse_metadata_log,
)
from lakebraid.format.metadata.records import (
    BloomFilter,
    ColumnStats,
    Files,
    NotUnderstood,
    Record,
    RecordParser,
    RowPlace,
    format_record,
)
from lakebraid.format.metadata.schema import has_meta_fields, schema_text
from lakebraid.format.metadata.values import Kind, Wrapped
from tests.kit.effort import every
from tests.kit.metadata_tables.opened import all_metadata_files

pytestmark = pytest.mark.unit

TIME = "20261118002156123"
longs = st.integers(-(2**63), 2**63 - 1)
ints = st.integers(-(2**31), 2**31 - 1)
sizes = st.integers(1, 2**62)
wrapped = st.one_of(
    st.none(),
    *(st.builds(Wrapped, st.just(kind), longs) for kind in (Kind.LONG, Kind.TIME_MICROS, Kind.TIMESTAMP_MICROS)),
    *(st.builds(Wrapped, st.just(kind), ints) for kind in (Kind.INT, Kind.DATE, Kind.LOCAL_DATE)),
    *(st.builds(Wrapped, st.just(kind), st.binary(max_size=20)) for kind in (Kind.BYTES, Kind.DECIMAL)),
    st.builds(Wrapped, st.just(Kind.STRING), st.text(max_size=20)),
    st.builds(Wrapped, st.just(Kind.BOOLEAN), st.booleans()),
    st.builds(Wrapped, st.just(Kind.DOUBLE), st.floats(allow_nan=False)),
    st.builds(Wrapped, st.just(Kind.FLOAT), st.floats(allow_nan=False, width=32)),
)
files = st.dictionaries(st.text(max_size=20), sizes, max_size=5).flatmap(
    lambda live: st.builds(
        Files, st.just(live), st.frozensets(st.text(max_size=20).filter(lambda name: name not in live))
    )
)
partitions = st.dictionaries(st.text(max_size=20), st.just(0), max_size=5).map(
    lambda live: Files(live, is_partitions=True)
)
statistics = st.builds(
    ColumnStats, st.text(), st.text(), wrapped, wrapped, longs, longs, sizes, sizes, st.booleans(), st.booleans(),
    st.none() | st.tuples(ints, st.none() | st.text()), st.booleans(),
)  # fmt: skip
places = st.builds(
    RowPlace, st.text(), longs, longs, ints, st.text(), longs, st.sampled_from([0, 1]), st.none() | longs
)
blooms = st.builds(BloomFilter, st.text(), st.text(), st.binary(), st.booleans())
records = st.one_of(files, partitions, statistics, places, blooms)


@given(records)
def test_a_record_that_was_written_is_read_back(record: Record) -> None:
    assert RecordParser("file").parse(format_record(record)) == record


@given(st.lists(records, max_size=8))
def test_records_of_many_kinds_in_one_file_are_read_back(given_records: list[Record]) -> None:
    parser = RecordParser("file")
    assert [parser.parse(format_record(record)) for record in given_records] == given_records


def test_records_of_hudi_are_written_as_hudi_writes_them() -> None:
    kinds: Counter[str] = Counter()
    for file in all_metadata_files():
        parser = RecordParser(file.name)
        for hfile in file.hfiles():
            for _, value in hfile.entries():
                record = parser.parse(value)
                kinds[type(record).__name__] += 1
                written = format_record(record)
                assert parser.parse(written) == record
                # A compaction of Hudi's writes the name of its base file into each record.
                assert written == value or not file.is_log
    assert kinds.keys() == {"Files", "ColumnStats", "RowPlace", "BloomFilter"}
    assert kinds["ColumnStats"] > 700


def test_logs_of_hudi_are_written_as_hudi_writes_them() -> None:
    same = Counter[bool]()
    for file in (file for file in all_metadata_files() if file.is_log):
        parts = parse_metadata_log(file.data, file.name)
        entries = [entry for part in parts if part.entries for entry in part.entries.entries()]
        parser = RecordParser(file.name)
        found = {key.decode(): parser.parse(value) for key, value in entries}
        deleted = [key for part in parts for key in part.deleted]
        again = format_metadata_log(found, parts[0].instant_time, deleted=deleted, partition=file.partition)
        shown = [(block.type, block.header) for block in read_blocks(again, "again").blocks]
        assert shown == [(block.type, block.header) for block in read_blocks(file.data, file.name).blocks]
        assert [key for part in parse_metadata_log(again, "again") for key in part.deleted] == sorted(deleted)
        same[not entries and again == file.data] += 1
    assert same[True] > 20, "logs of deletes and empty logs are the same to the byte"


def test_a_record_of_an_unknown_kind_is_kept_as_it_is() -> None:
    data = bytes(6) + b"\x0e\x00\x00\x00\x00\x02\x02\x61\x00"
    assert RecordParser("file").parse(data) == NotUnderstood(7, data)


@given(records)
def test_a_record_cut_at_any_byte_or_followed_by_one_is_damage(record: Record) -> None:
    data = format_record(record)
    for end in range(0, len(data), every(1)):
        with pytest.raises(CorruptFile):
            RecordParser("file").parse(data[:end])
    with pytest.raises(CorruptFile):
        RecordParser("file").parse(data + b"\x00")


@given(records, st.data())
def test_a_flipped_bit_gives_another_record_or_a_clear_error(record: Record, data: st.DataObject) -> None:
    damaged = bytearray(format_record(record))
    at = data.draw(st.integers(0, len(damaged) * 8 - 1))
    damaged[at // 8] ^= 1 << at % 8
    with contextlib.suppress(CorruptFile):
        assert RecordParser("file").parse(bytes(damaged)) is not None


def test_a_record_that_announces_a_billion_files_is_refused_at_once() -> None:
    front = bytes(6) + b"\x04\x02"
    with pytest.raises(CorruptFile, match="files are announced"):
        RecordParser("file").parse(front + b"\xfe\xff\xff\xff\x0f" + bytes(20))


@pytest.mark.parametrize("size", [0, -1])
def test_a_file_without_bytes_is_neither_written_nor_read(size: int) -> None:
    with pytest.raises(InvalidArgument):
        format_record(Files({"a": size}))
    data = format_record(Files({"a": 1})).replace(b"\x02a\x02", b"\x02a\x01" if size else b"\x02a\x00")
    with pytest.raises(CorruptFile, match="size"):
        RecordParser("file").parse(data)


def test_a_number_that_its_wrapper_does_not_hold_is_not_written() -> None:
    stats = ColumnStats("f", "c", Wrapped(Kind.INT, 2**31), None, 1, 0)
    with pytest.raises(InvalidArgument, match="does not fit"):
        format_record(stats)


def test_the_schema_may_be_told_in_other_words_and_without_meta_fields_but_not_be_another() -> None:
    schema = json.loads(schema_text())
    assert has_meta_fields(schema_text(), "file")
    assert has_meta_fields(json.dumps({**schema, "doc": "other words"}), "file")
    assert not has_meta_fields(json.dumps({**schema, "fields": schema["fields"][5:]}), "file")
    others: tuple[object, ...] = (
        {**schema, "fields": schema["fields"][:-1]},
        {**schema, "fields": schema["fields"][1:]},
        {},
        [],
        "long",
    )
    for other in others:
        with pytest.raises(UnsupportedTable, match="another form"):
            has_meta_fields(json.dumps(other), "file")
    for text in ("", "[" * 100_000, "{}" * 1_000_000):
        with pytest.raises(UnsupportedTable):
            has_meta_fields(text, "file")


def test_records_without_meta_fields_are_read() -> None:
    record = Files({"a": 7})
    assert RecordParser("file", has_meta_fields=False).parse(format_record(record)[5:]) == record


@pytest.mark.parametrize("codec", Codec)
def test_a_log_holds_records_and_deletes_under_one_instant(codec: Codec) -> None:
    stats = ColumnStats("f", "c", Wrapped(Kind.LONG, 1), Wrapped(Kind.LONG, 9), 3, 1, value_type=(4, None))

    data = format_metadata_log(
        {"b": stats, "a": stats}, TIME, deleted=["z", "y", "z"], partition="column_stats", codec=codec
    )

    first, second = parse_metadata_log(data, "log")
    assert first.entries
    assert [key for key, _ in first.entries.entries()] == [b"a", b"b"]
    assert (first.instant_time, second.instant_time, second.deleted) == (TIME, TIME, ("y", "z"))
    assert data == format_metadata_log(
        {"a": stats, "b": stats}, TIME, deleted=["y", "z"], partition="column_stats", codec=codec
    )
    for block in read_blocks(data, "log").blocks:
        assert list(block.header) == [HeaderKey.SCHEMA, HeaderKey.INSTANT_TIME]


def test_an_empty_log_is_the_one_that_hudi_puts_into_each_new_group() -> None:
    (file,) = (
        f
        for f in all_metadata_files()
        if f.table == "mdt_nbcc_bucket" and f.partition == "files" and "_0000" in f.name and f.is_log
    )
    assert format_metadata_log({}, "0" * 17) == format_empty_log("0" * 17) == file.data
    assert parse_metadata_log(file.data, "log")[0].deleted == ()


def test_a_torn_log_and_one_with_other_blocks_are_not_passed_over() -> None:
    data = format_metadata_log({"a": Files({"f": 1})}, TIME)
    for end in (0, 5, 100, len(data) - 1):
        with pytest.raises(CorruptFile):
            parse_metadata_log(data[:end], "log")
    header = {HeaderKey.INSTANT_TIME: TIME}
    for block in (
        LogBlock(BlockType.AVRO, header, b""),
        LogBlock(BlockType.HFILE, {}, format_metadata_base({}, TIME)),
        LogBlock(BlockType.HFILE, {**header, HeaderKey.COMPACTED_BLOCK_TIMES: TIME}, format_metadata_base({}, TIME)),
    ):
        with pytest.raises(UnsupportedTable):
            parse_metadata_log(format_log([block]), "log")


def test_the_definitions_of_indexes_are_read_and_written() -> None:
    text = b'{"indexDefinitions":{"column_stats":{"indexName":"column_stats","indexType":"column_stats","indexFunction":"column_stats","sourceFields":["id","a.b"],"indexOptions":{},"version":"V2"}}}'
    found = parse_index_definitions(text, "file")
    assert (found["column_stats"].columns, found["column_stats"].version) == (("id", "a.b"), "V2")
    assert format_index_definitions(found.values()) == text
    for damaged in (
        b"",
        b"[]",
        b"{}",
        b'{"indexDefinitions":{"a":3}}',
        b'{"indexDefinitions":{"a":{"sourceFields":"id"}}}',
        b"[" * 99999,
    ):
        with pytest.raises(CorruptFile):
            parse_index_definitions(damaged, "file")
