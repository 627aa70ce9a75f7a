# SPDX-License-Identifier: Apache-2.0
import contextlib
import doctest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebraid import limits
from lakebraid.errors import CorruptFile, InvalidArgument, NotATable
from lakebraid.format import properties
from lakebraid.format.properties import (
    PartitionMetadata,
    check_properties,
    checksum,
    choose_properties,
    format_partition_metadata,
    format_properties,
    parse_partition_metadata,
    parse_properties,
)

pytestmark = pytest.mark.unit

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
MAIN = b"hoodie.table.name=trips\nhoodie.table.version=9\n"
BACKUP = b"hoodie.table.name=trips\nhoodie.table.version=8\n"


def test_the_examples_in_the_module_are_true() -> None:
    assert doctest.testmod(properties).failed == 0


@given(st.dictionaries(TEXT, TEXT, max_size=8), st.none() | TEXT)
def test_properties_are_read_back_as_they_were_written(mapping: dict[str, str], comment: str | None) -> None:
    data = format_properties(mapping, comment)
    assert data.isascii()
    assert parse_properties(data, "here") == mapping


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (rb"a=b", {"a": "b"}),
        (b"a = b ", {"a": "b "}),
        (b"a:b\r\nc d\re\tf", {"a": "b", "c": "d", "e": "f"}),
        (b"  \t# x\n!y\n\n a = 1", {"a": "1"}),
        (b"a=b\\\n   c\\\r\n d", {"a": "bcd"}),
        (b"a=b\\\n\nc=d", {"a": "b", "c": "d"}),
        (b"a=b\\\n#c", {"a": "b#c"}),
        (b"# x\\\na=b", {"a": "b"}),
        (b"a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
        (rb"a\ b\=\:c=d\#\!", {"a b=:c": "d#!"}),
        (rb"a=\t\n\r\f\q\u00e9\uD83D\uDE00", {"a": "\t\n\r\fqé😀"}),
        (b"a=\xe9", {"a": "é"}),
        (b"a==b", {"a": "=b"}),
        (b"a", {"a": ""}),
        (b"a=1\na=2", {"a": "2"}),
        (b"a=x\x0by\x85z\x1c", {"a": "x\x0by\x85z\x1c"}),
        (b"a=b\\", {"a": "b"}),
        (b"", {}),
    ],
)
def test_the_whole_syntax_of_java_is_understood(text: bytes, expected: dict[str, str]) -> None:
    assert parse_properties(text, "here") == expected


@pytest.mark.parametrize(
    "data",
    [
        rb"a=\u00g0",
        rb"a=\u12",
        rb"a=\ud800",
        b"a=1\n" * (limits.PROPERTIES_ENTRIES_MAX + 1),
        b"#" * (limits.PROPERTIES_BYTES_MAX + 1),
    ],
)
def test_broken_or_boundless_properties_are_a_clear_error(data: bytes) -> None:
    with pytest.raises(CorruptFile, match="somewhere/x"):
        parse_properties(data, "somewhere/x")


@given(st.binary(max_size=200))
def test_any_bytes_are_properties_or_a_clear_error(data: bytes) -> None:
    with contextlib.suppress(CorruptFile):
        parse_properties(data, "here")


@pytest.mark.slow
@pytest.mark.timeout(20)
@pytest.mark.parametrize("unit", [b"\\", b"a\\\n", b"\\u", b"= ", b" ", b"a=\\\\"])
def test_four_megabytes_of_anything_take_no_time(unit: bytes) -> None:
    data = unit * (limits.PROPERTIES_BYTES_MAX // len(unit))
    with contextlib.suppress(CorruptFile):
        parse_properties(data, "here")


def test_text_that_no_file_can_hold_is_not_written() -> None:
    with pytest.raises(InvalidArgument):
        format_properties({"a": "\ud800"})


def test_the_checksum_comes_last_and_the_rest_in_the_given_order() -> None:
    data = format_properties({"z": "1", "hoodie.table.checksum": "7", "a": "2"}, "note")
    assert data == b"#note\nz=1\na=2\nhoodie.table.checksum=7\n"


def test_the_checksum_covers_database_and_table() -> None:
    mapping = {"hoodie.table.name": "m_v9_mor_partial_merge_into", "hoodie.database.name": "default"}
    assert checksum(mapping) == 2677267156
    check_properties({**mapping, "hoodie.table.checksum": "2677267156"}, "here")
    check_properties(mapping, "here")
    with pytest.raises(CorruptFile, match="2677267156"):
        check_properties({**mapping, "hoodie.table.checksum": "2677267157"}, "here")
    with pytest.raises(CorruptFile, match=r"hoodie\.table\.name"):
        check_properties({"hoodie.table.checksum": "1"}, "here")


def test_the_main_file_counts_while_it_is_whole() -> None:
    assert choose_properties(MAIN, BACKUP, "here")["hoodie.table.version"] == "9"
    assert choose_properties(MAIN, None, "here")["hoodie.table.version"] == "9"


@pytest.mark.parametrize("main", [None, b"", b"hoodie.table.na", MAIN + b"hoodie.table.checksum=1\n", b"a=\\u12"])
def test_a_half_written_main_file_gives_way_to_the_backup(main: bytes | None) -> None:
    assert choose_properties(main, BACKUP, "here")["hoodie.table.version"] == "8"


@pytest.mark.parametrize("main", [MAIN[:-1], MAIN + b"hoodie.table.recor", MAIN])
def test_a_main_file_that_was_cut_gives_way_to_a_backup_with_checksum(main: bytes) -> None:
    whole = format_properties({"hoodie.table.name": "trips", "hoodie.table.version": "8", "hoodie.table.checksum": "0"})
    whole = whole.replace(b"checksum=0", f"checksum={checksum({'hoodie.table.name': 'trips'})}".encode())
    assert choose_properties(main, whole, "here")["hoodie.table.version"] == "8"
    assert choose_properties(main, b"", "here")["hoodie.table.version"] == "9"


def test_two_damaged_files_are_reported_as_the_main_one() -> None:
    with pytest.raises(CorruptFile) as caught:
        choose_properties(b"", b"", "there/hoodie.properties")
    assert caught.value.path == "there/hoodie.properties"


def test_a_place_without_properties_is_no_table() -> None:
    with pytest.raises(NotATable, match="there"):
        choose_properties(None, None, "there/hoodie.properties")


@given(st.integers(0, limits.PARTITION_DEPTH_MAX))
def test_partition_metadata_is_read_back_as_it_was_written(depth: int) -> None:
    metadata = PartitionMetadata("20260102030405678", depth)
    assert parse_partition_metadata(format_partition_metadata(metadata), "here") == metadata


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"commitTime=20260102030405678",
        b"commitTime=x\npartitionDepth=1",
        b"commitTime=20260102030405678\npartitionDepth=-1",
        b"commitTime=20260102030405678\npartitionDepth=65",
        b"commitTime=20260102030405678\npartitionDepth=" + b"9" * 5000,
    ],
)
def test_damaged_partition_metadata_is_a_clear_error(data: bytes) -> None:
    with pytest.raises(CorruptFile, match="there"):
        parse_partition_metadata(data, "there")
