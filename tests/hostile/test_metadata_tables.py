# SPDX-License-Identifier: Apache-2.0
"""Metadata tables: files that are cut, damaged or forged. What Hudi would read, or a clear error; never fewer files in silence."""

from __future__ import annotations

from random import Random

import pytest

from lakebraid import limits
from lakebraid.clock import SystemClock
from lakebraid.errors import CorruptFile, EnvironmentProblem, LakebraidError, StorageError, UnsupportedTable
from lakebraid.format.hfile.parts import Codec
from lakebraid.format.hfile.write import format_hfile
from lakebraid.format.metadata.log import format_metadata_base
from lakebraid.format.metadata.records import Files, format_record
from lakebraid.format.metadata.schema import schema_text
from lakebraid.table.at import TableAt
from lakebraid.table.loading import load_config, load_timeline
from lakebraid.table.metadata.lookups import load_column_stats, load_files, load_partition_stats, load_row_places
from lakebraid.table.metadata.opening import open_metadata_table
from tests.hostile.attack import Target, refusal, refused, target
from tests.hostile.mutations import mutate
from tests.kit.effort import every, first_seed, times
from tests.kit.metadata_tables.opened import data_files
from tests.kit.present import present

pytestmark = pytest.mark.hostile

TABLE = "mdt_nbcc_bucket"
BASE = r"metadata/files/files-.*215939\.hfile$"
LOG = r"metadata/files/\.files-0000-0_20261118002215492\.log"


@pytest.fixture
def made() -> Target:
    return target(TABLE)


def listed(made: Target) -> dict[str, dict[str, int]]:
    storage = made.storage
    at = TableAt(storage, load_config(storage)[0], SystemClock())
    opened = present(open_metadata_table(at, load_timeline(at)))
    files = present(load_files(opened))
    load_column_stats(opened, ["id"])
    load_partition_stats(opened, ["id", "name"])
    load_row_places(opened, ["1"])
    return files


def named(made: Target, pattern: str) -> str:
    (name,) = made.named(pattern)
    return name


@pytest.mark.parametrize("pattern", [BASE, LOG])
def test_a_file_cut_at_any_byte_is_refused(made: Target, pattern: str) -> None:
    name = named(made, pattern)
    whole = made.files[name]
    for end in range(0, len(whole), every(13)):
        made.put(name, whole[:end])
        refused("cut metadata", (CorruptFile, StorageError), lambda: listed(made), what=f"{name} at {end}")


@pytest.mark.parametrize(
    "pattern", [BASE, LOG, r"metadata/column_stats/col-stats-0000.*215939", r"metadata/\.hoodie/hoodie\.properties"]
)
def test_damaged_files_end_in_an_answer_or_a_refusal(made: Target, pattern: str) -> None:
    name = named(made, pattern)
    random = Random(first_seed(20261118))
    for number in range(times(150)):
        made.put(name, mutate(made.files[name], random))
        refusal("damaged metadata", lambda: listed(made), what=f"{name} variant {number}")


def test_a_flipped_bit_never_loses_a_file_in_silence(made: Target) -> None:
    honest = {name for files in data_files(TABLE).values() for name in files}
    lost = []
    for pattern in (BASE, LOG):
        name = named(made, pattern)
        whole = made.files[name]
        for at in range(0, len(whole), every(13)):
            changed = bytearray(whole)
            changed[at] ^= 1 << at % 8
            made.put(name, bytes(changed))
            try:
                found = {file for files in listed(made).values() for file in files}
            except LakebraidError:
                continue
            lost += [(name, at)] if not honest <= found else []
        made.restore(name)
    # gzip's checksum covers the records; the headers of logs are covered by nothing but their meaning.
    assert lost == []


def forged(entries: dict[bytes, bytes], codec: Codec = Codec.GZIP) -> bytes:
    return format_hfile(sorted(entries.items()), {"schema": schema_text().encode()}, codec=codec)


def test_records_that_inflate_without_end_stop_at_the_memory_that_is_free(
    made: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "HELD_BYTES_FREE", 1 << 20)
    monkeypatch.setattr("lakebraid.memory.memory_left", lambda: 1 << 20)
    record = format_record(Files({f"{number:050}": 1 for number in range(100)}))
    made.put(named(made, BASE), forged({f"p{number:09}".encode(): record for number in range(300)}))
    refused("metadata that inflates", EnvironmentProblem, lambda: listed(made))


def test_a_base_file_of_another_schema_or_without_one_is_not_understood(made: Target) -> None:
    for schema in (
        {},
        {"schema": b""},
        {"schema": b'{"type":"record","name":"a","fields":[]}'},
        {"schema": b"[" * 10_000},
    ):
        made.put(named(made, BASE), format_hfile([(b"a", b"")], schema))
        refused("metadata of another schema", UnsupportedTable, lambda: listed(made))


def test_a_base_file_that_is_something_else_is_refused(made: Target) -> None:
    for data in (b"", b"x", bytes(4095), bytes(5000), b"PAR1" * 5000, format_metadata_base({}, "0" * 17)[:-4096] * 2):
        made.put(named(made, BASE), data)
        refused("no base file", (CorruptFile, StorageError), lambda: listed(made))
