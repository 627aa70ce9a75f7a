# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakebraid import limits
from lakebraid.errors import CorruptFile, InvalidArgument, LakebraidError, UnsupportedTable
from lakebraid.format.hfile.parts import TRAILER_BYTES, Codec, Trailer, parse_trailer
from lakebraid.format.hfile.read import (
    EVERYTHING,
    Selection,
    format_vint,
    parse_hfile,
    parse_index,
    read_entries,
)
from lakebraid.format.hfile.write import format_hfile
from tests.kit.effort import every, times
from tests.kit.metadata_tables.opened import all_metadata_files

pytestmark = pytest.mark.unit

INFO = {"schema": b"{}"}
keys = st.binary(max_size=40)
contents = st.dictionaries(keys, st.binary(max_size=200), max_size=60)


def hfile(entries: dict[bytes, bytes], codec: Codec = Codec.GZIP, block_bytes: int = 300) -> bytes:
    return format_hfile(sorted(entries.items()), INFO, codec=codec, block_bytes=block_bytes)


@given(contents, st.sampled_from(Codec), st.sampled_from([1, 300, 65536]))
def test_what_was_written_is_read_back(entries: dict[bytes, bytes], codec: Codec, block_bytes: int) -> None:
    read = parse_hfile(hfile(entries, codec, block_bytes), "file")

    assert dict(read.entries()) == entries
    assert [key for key, _ in read.entries()] == sorted(entries)
    assert read.index.trailer.entries == len(entries)
    assert read.index.schema_text == "{}"


@given(contents, st.lists(keys, max_size=10))
def test_a_lookup_finds_exactly_what_a_dictionary_has(entries: dict[bytes, bytes], others: list[bytes]) -> None:
    read = parse_hfile(hfile(entries), "file")
    wanted = [*list(entries)[::3], *others]

    found = dict(read.entries(Selection.of_keys(wanted)))

    assert found == {key: entries[key] for key in wanted if key in entries}
    assert all(read.get(key) == entries.get(key) for key in wanted[:5])


@given(
    st.dictionaries(st.text("abc", max_size=6).map(str.encode), st.binary(max_size=50), max_size=60),
    st.lists(st.text("abc", max_size=3).map(str.encode), max_size=4),
)
def test_a_lookup_by_prefixes_finds_exactly_what_a_scan_finds(
    entries: dict[bytes, bytes], prefixes: list[bytes]
) -> None:
    read = parse_hfile(hfile(entries, block_bytes=100), "file")

    found = dict(read.entries(Selection.of_prefixes(prefixes)))

    assert found == {key: value for key, value in entries.items() if any(key.startswith(p) for p in prefixes)}


def test_a_point_lookup_reads_one_block_of_many() -> None:
    entries = {f"{number:06}".encode(): bytes(100) for number in range(1000)}
    index = parse_hfile(hfile(entries, block_bytes=1000), "file").index

    assert len(index.offsets) > 90
    assert len(Selection.of_keys([b"000500"]).blocks(index)) == 1
    assert len(Selection.of_prefixes([b"0005"]).blocks(index)) < 15
    assert len(EVERYTHING.blocks(index)) == len(index.offsets)


def test_blocks_are_read_by_ranges_without_the_rest_of_the_file() -> None:
    entries = {f"{number:06}".encode(): b"value" * 10 for number in range(3000)}
    data = hfile(entries, block_bytes=5000)
    trailer = parse_trailer(data[-TRAILER_BYTES:], len(data), "file")
    index = parse_index(data[trailer.load_on_open_offset :], trailer, "file")
    (number,) = Selection.of_keys([b"001234"]).blocks(index)

    at = index.offsets[number]
    block = dict(read_entries(memoryview(data[at : at + index.sizes[number]]), number, index, "file"))

    assert block[b"001234"] == entries[b"001234"]
    assert len(block) < 100


def test_files_of_hudi_are_read_and_written_as_hudi_writes_them() -> None:
    compared = 0
    for file in all_metadata_files():
        for read in file.hfiles():
            entries = list(read.entries())
            assert len(entries) == read.index.trailer.entries
            info = read.index.info
            made = int.from_bytes(info[b"hfile.CREATE_TIME_TS"], "big")
            again = format_hfile(entries, {"schema": info[b"schema"]}, created_ms=made)
            assert list(parse_hfile(again, "again").entries()) == entries
            if file.is_log:  # base files have a bloom filter besides
                assert parse_hfile(again, "again").index == read.index
                assert again == bytes(read.data)
                compared += 1
    assert compared > 80


def test_keys_that_are_not_sorted_are_not_written() -> None:
    with pytest.raises(InvalidArgument, match="must be sorted"):
        format_hfile([(b"b", b""), (b"a", b"")], INFO)
    with pytest.raises(InvalidArgument, match="must be sorted"):
        format_hfile([(b"a", b""), (b"a", b"")], INFO)


def test_keys_and_values_that_no_reader_takes_are_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidArgument, match="does not fit"):
        format_hfile([(bytes(40_000), b"")], INFO)
    monkeypatch.setattr(limits, "HFILE_BLOCK_BYTES_MAX", 1000)
    with pytest.raises(InvalidArgument, match="readers take 1,000"):
        format_hfile([(b"a", bytes(2000))], INFO)


def test_keys_that_are_not_sorted_are_damage() -> None:
    data = bytearray(hfile({b"aaaa": b"1", b"bbbb": b"2"}, Codec.NONE))
    data[data.index(b"bbbb") : data.index(b"bbbb") + 4] = b"aaaa"

    with pytest.raises(CorruptFile, match="not sorted"):
        list(parse_hfile(bytes(data), "file").entries())


def test_a_block_that_reaches_into_the_next_one_is_damage() -> None:
    data = bytearray(hfile({b"aaaa": bytes(400), b"bbbb": b"2", b"cccc": bytes(400)}, Codec.NONE))
    data[data.index(b"aaaa") : data.index(b"aaaa") + 4] = b"zzzz"

    with pytest.raises(CorruptFile):
        dict(parse_hfile(bytes(data), "file").entries())


def trailer_with(**changes: int) -> bytes:
    """A file of which only the trailer is different."""
    data = hfile({b"a": b"1"}, Codec.NONE)
    read = parse_trailer(data, len(data), "file")
    facts = {name: getattr(read, name) for name in Trailer.__slots__}
    return data[:-TRAILER_BYTES] + Trailer(**{**facts, **changes}).format()


@pytest.mark.parametrize("field", ["file_info_offset", "load_on_open_offset", "blocks"])
@pytest.mark.parametrize("value", [0, 1, 50, 2**31, 2**62])
def test_a_trailer_that_says_something_else_is_damage(field: str, value: int) -> None:
    data = trailer_with(**{field: value})
    honest = getattr(parse_trailer(hfile({b"a": b"1"}, Codec.NONE)[-TRAILER_BYTES:], len(data), "file"), field)
    if value != honest:
        with pytest.raises(CorruptFile):
            list(parse_hfile(data, "file").entries())


def test_versions_levels_and_codecs_that_are_unknown_are_refused_by_name() -> None:
    data = hfile({b"a": b"1"})
    for old, new, name in ((b"\x40\x01", b"\x40\x02", "2 levels"), (b"\x60\x01", b"\x60\x05", "codec 5")):
        at = data.rindex(old, 0, len(data) - 3000)
        with pytest.raises(UnsupportedTable, match=name):
            parse_hfile(data[:at] + new + data[at + 2 :], "file")
    with pytest.raises(UnsupportedTable, match="version 4"):
        parse_hfile(data[:-1] + b"\x04", "file")


def test_a_block_that_inflates_to_more_than_it_claims_is_damage_and_takes_no_more_memory_than_that() -> None:
    data = bytearray(hfile({b"a": bytes(50_000_000)}))
    struct.pack_into(">i", data, 12, 1000)

    with pytest.raises(CorruptFile, match="does not inflate to the 1,000 bytes"):
        list(parse_hfile(bytes(data), "file").entries())


def test_a_block_that_claims_more_than_readers_take_is_refused_before_it_is_inflated() -> None:
    data = bytearray(hfile({b"a": b"1"}))
    struct.pack_into(">i", data, 12, 2**31 - 1)

    with pytest.raises(CorruptFile, match="claims 2,147,483,647 bytes"):
        list(parse_hfile(bytes(data), "file").entries())


def test_a_file_cut_at_any_byte_is_damage() -> None:
    data = hfile({b"a": b"1", b"b": b"2", b"c": bytes(500)})
    for end in range(0, len(data), every(1)):
        with pytest.raises(CorruptFile):
            list(parse_hfile(data[:end], "file").entries())


@pytest.mark.parametrize("codec", Codec)
def test_a_flipped_bit_at_any_place_ends_in_entries_or_a_clear_error(codec: Codec) -> None:
    entries = {b"a": b"1", b"b": b"2", b"c": bytes(500)}
    data = hfile(entries, codec)
    outcomes = {"entries": 0, "error": 0}
    for at in range(0, len(data) - 3000, every(1)):
        damaged = bytearray(data)
        damaged[at] ^= 1 << at % 8
        try:
            list(parse_hfile(bytes(damaged), "file").entries())
            outcomes["entries"] += 1
        except LakebraidError:
            outcomes["error"] += 1
    assert outcomes["error"] > 100


@settings(max_examples=times(300))
@given(st.binary(max_size=300), st.sampled_from(Codec))
def test_noise_in_place_of_the_index_is_an_error(noise: bytes, codec: Codec) -> None:
    data = hfile({b"a": b"1"}, codec)
    at = parse_trailer(data, len(data), "file").load_on_open_offset
    with pytest.raises(CorruptFile):
        list(
            parse_hfile(
                data[:at] + noise.ljust(len(data) - TRAILER_BYTES - at, b"\x07") + data[-TRAILER_BYTES:], "file"
            ).entries()
        )


@pytest.mark.parametrize("length", [0, 127, 128, 255, 256, 32767])
def test_lengths_of_keys_in_the_index_are_those_of_hadoop(length: int) -> None:
    key = bytes(length)
    assert dict(parse_hfile(hfile({key: b"x"}), "file").entries()) == {key: b"x"}
    assert len(format_vint(length)) == (1 if length < 128 else 2 if length < 256 else 3)
