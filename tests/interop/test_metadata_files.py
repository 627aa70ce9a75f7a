# SPDX-License-Identifier: Apache-2.0
"""hudi-rs lists the files of a table through metadata files of which we wrote every byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakebraid.format.hfile.parts import Codec
from lakebraid.format.metadata.log import format_metadata_base, format_metadata_log, parse_metadata_log
from lakebraid.format.metadata.records import Record, RecordParser
from tests.interop.test_hudi_rs import read
from tests.kit.metadata_tables.opened import FOLDER, MetadataFile, metadata_files
from tests.kit.reference import Reference, unpack

pytestmark = pytest.mark.interop

TABLES = ("mdt_cow_default", "mdt_record_index_bloom", "mdt_v8_mor")


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("name", TABLES)
def test_hudi_rs_reads_metadata_files_that_we_wrote(name: str, codec: Codec, tmp_path: Path) -> None:
    reference = unpack(name, tmp_path)
    replaced = 0
    for file in metadata_files(name):
        path = reference.path / FOLDER / file.partition / file.name
        if (data := again(file, codec)) is not None:
            path.write_bytes(data)
            path.with_name(f".{file.name}.crc").unlink(missing_ok=True)
            replaced += 1
    assert replaced > 8
    assert sorted(read(reference)) == sorted(reference.hudi(reference.expected["snapshot"]))


@pytest.mark.parametrize("name", TABLES)
def test_hudi_rs_misses_files_that_our_metadata_files_do_not_name(name: str, tmp_path: Path) -> None:
    reference = unpack(name, tmp_path)
    for file in metadata_files(name):
        if file.partition == "files":
            path = reference.path / FOLDER / file.partition / file.name
            path.write_bytes(empty(file))
            path.with_name(f".{file.name}.crc").unlink(missing_ok=True)
    assert rows_or_nothing(reference) == [], "so the test above is about our bytes"


def again(file: MetadataFile, codec: Codec) -> bytes | None:
    """The same records in a file of our own; None for a log of deletes alone."""
    parser = RecordParser(file.name)
    records: dict[str, Record] = {
        key.decode(): parser.parse(value) for hfile in file.hfiles() for key, value in hfile.entries()
    }
    if not file.is_log:
        return format_metadata_base(records, "20261118002156123", codec=codec)
    parts = parse_metadata_log(file.data, file.name)
    deleted = [key for part in parts for key in part.deleted]
    return (
        format_metadata_log(records, parts[0].instant_time, deleted=deleted, partition=file.partition, codec=codec)
        if records
        else None
    )


def empty(file: MetadataFile) -> bytes:
    if not file.is_log:
        return format_metadata_base({}, "20261118002156123")
    return format_metadata_log({}, parse_metadata_log(file.data, file.name)[0].instant_time)


def rows_or_nothing(reference: Reference) -> list[object]:
    return list(read(reference))
