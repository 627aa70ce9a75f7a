# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import random
import re
import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakebraid import limits
from lakebraid.errors import CorruptFile, LakebraidError
from lakebraid.format.avro.rows import parse_avro_block
from lakebraid.format.log.blocks import (
    MAGIC,
    BlockType,
    DamagedRange,
    HeaderKey,
    LogBlock,
    format_block,
    format_log,
    read_blocks,
)
from lakebraid.format.log.delete_list import parse_delete_block
from lakebraid.format.parquet.rows import read_parquet_block
from tests.kit.effort import times

pytestmark = pytest.mark.unit

DATA = Path(__file__).parents[2] / "data"
LOG_NAME = re.compile(r"/\.[^/]+\.log\.\d+_[\d-]+(\.cdc)?$")

blocks = st.builds(
    LogBlock,
    st.sampled_from(BlockType),
    st.dictionaries(st.sampled_from(HeaderKey), st.text(max_size=20)),
    st.binary(max_size=50),
)
magic_free_blocks = blocks.filter(lambda b: MAGIC not in format_block(b.type, b.header, b.content)[1:])


def _facts(block: LogBlock) -> tuple[BlockType, Mapping[HeaderKey, str], bytes]:
    return block.type, block.header, bytes(block.content)


def _block(content: bytes = b"rows", **header: str) -> bytes:
    entries = {HeaderKey[name]: value for name, value in header.items()}
    return format_block(BlockType.AVRO, entries or {HeaderKey.INSTANT_TIME: "20260101000000000"}, content)


@given(st.lists(blocks, max_size=4))
def test_written_blocks_are_read_back(written: list[LogBlock]) -> None:
    data = format_log(written)

    read = read_blocks(data, "log")

    assert [_facts(b) for b in read.blocks] == [_facts(b) for b in written]
    assert read.damaged == ()
    assert b"".join(data[b.offset : b.offset + b.size] for b in read.blocks) == data


@given(st.lists(magic_free_blocks, min_size=1, max_size=3), st.data())
def test_a_log_cut_at_any_byte_yields_whole_blocks(written: list[LogBlock], data: st.DataObject) -> None:
    whole = format_log(written)
    cut = data.draw(st.integers(0, len(whole)))

    read = read_blocks(whole[:cut], "log")

    complete = [b for b in read_blocks(whole, "log").blocks if b.offset + b.size <= cut]
    assert [_facts(b) for b in read.blocks] == [_facts(b) for b in complete]
    end = complete[-1].offset + complete[-1].size if complete else 0
    assert [(d.offset, d.size) for d in read.damaged] == ([(end, cut - end)] if cut > end else [])


@given(st.lists(magic_free_blocks, min_size=3, max_size=3), st.data())
def test_a_block_cut_in_the_middle_costs_no_other_block(written: list[LogBlock], data: st.DataObject) -> None:
    first, middle, last = (format_log([b]) for b in written)
    cut = data.draw(st.integers(len(MAGIC), len(middle) - 1))

    read = read_blocks(first + middle[:cut] + last, "log")

    assert [_facts(b) for b in read.blocks] == [_facts(written[0]), _facts(written[2])]
    assert [(d.offset, d.size) for d in read.damaged] == [(len(first), cut)]


def test_an_empty_log_has_no_blocks() -> None:
    assert read_blocks(b"", "log").blocks == ()
    assert read_blocks(b"", "log").damaged == ()


def test_a_stump_of_ten_bytes_is_skipped() -> None:
    read = read_blocks(MAGIC + bytes(4), "log")

    assert read.blocks == ()
    assert read.damaged == (DamagedRange(0, 10, "the file ends before the size of the block"),)


def test_garbage_after_a_block_makes_it_a_damaged_one_as_for_hudi() -> None:
    first, second = _block(b"one"), _block(b"two")

    read = read_blocks(first + b"garbage" + second, "log")

    assert [bytes(b.content) for b in read.blocks] == [b"two"]
    assert read.damaged[0].reason == "neither a block nor the end of the file follows"
    assert (read.damaged[0].offset, read.damaged[0].size) == (0, len(first) + 7)


def test_fewer_bytes_than_a_magic_at_the_end_do_not_spoil_the_last_block_as_for_hudi() -> None:
    read = read_blocks(_block() + b"#HUDI", "log")

    assert len(read.blocks) == 1
    assert [d.size for d in read.damaged] == [5]


def test_a_file_that_does_not_begin_like_a_log_is_refused() -> None:
    with pytest.raises(CorruptFile, match="does not begin like a log file"):
        read_blocks(b"PAR1 not a log at all", "some.log")


def test_a_block_that_claims_exabytes_is_skipped_and_told() -> None:
    bomb = MAGIC + struct.pack(">qii", 7 << 60, 1, 3) + bytes(100)

    read = read_blocks(bomb + _block(b"kept"), "log")

    assert [bytes(b.content) for b in read.blocks] == [b"kept"]
    assert f"claims {7 << 60:,} bytes" in read.damaged[0].reason


@pytest.mark.parametrize("size", [-1, -(2**63), 0, 31])
def test_a_block_with_an_impossible_size_is_skipped(size: int) -> None:
    read = read_blocks(MAGIC + struct.pack(">q", size) + bytes(60), "log")

    assert read.blocks == ()
    assert len(read.damaged) == 1


def _whole(body: bytes) -> bytes:
    """A block whose outer lengths are right around any body."""
    size = len(body) + 8
    return MAGIC + struct.pack(">q", size) + body + struct.pack(">q", size + 6)


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (struct.pack(">iii", 2, 3, 0) + bytes(12), "log format version 2"),
        (struct.pack(">iii", 1, 7, 0) + bytes(12), "type 7"),
        (struct.pack(">iii", 1, -1, 0) + bytes(12), "type -1"),
        (struct.pack(">iii", 1, 3, 2**31 - 1) + bytes(12), "claims 2,147,483,647 entries"),
        (struct.pack(">iii", 1, 3, -5) + bytes(12), "claims -5 entries"),
        (struct.pack(">iiiii", 1, 3, 1, 0, 2**31 - 1) + bytes(12), "a header entry claims 2,147,483,647 bytes"),
        (struct.pack(">iiiii", 1, 3, 1, 0, 2) + b"\xff\xfe" + bytes(12), "not UTF-8"),
        (struct.pack(">iiiqi", 1, 3, 0, 1 << 40, 0), "a content claims"),
        (struct.pack(">iiiqi", 1, 3, 0, -1, 0), "a content claims"),
        (struct.pack(">iiiqi", 1, 3, 0, 0, 0) + b"spare", "belong to none of its parts"),
        (struct.pack(">iiiii", 1, 3, 1, 0, 4) + b"time" + bytes(4), "length lies outside"),
    ],
)
def test_a_whole_block_that_makes_no_sense_inside_is_refused(body: bytes, problem: str) -> None:
    with pytest.raises(CorruptFile, match=problem):
        read_blocks(_whole(body), "log")


def test_header_entries_with_unknown_keys_are_ignored() -> None:
    body = struct.pack(">iii", 1, 3, 2) + struct.pack(">ii", 99, 1) + b"\xff" + struct.pack(">ii", 0, 2) + b"17"
    body += struct.pack(">qi", 0, 0)

    (block,) = read_blocks(_whole(body), "log").blocks

    assert block.header == {HeaderKey.INSTANT_TIME: "17"}


def test_a_file_of_nothing_but_magics_is_one_damaged_range() -> None:
    read = read_blocks(MAGIC * 10_000, "log")

    assert [(d.offset, d.size) for d in read.damaged] == [(0, 60_000)]


def test_a_file_of_more_fragments_than_anyone_writes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LOG_BLOCKS_MAX", 100)

    with pytest.raises(CorruptFile, match="more than 100 blocks"):
        read_blocks(MAGIC * 101, "log")


def test_contents_are_views_on_the_file_and_not_copies() -> None:
    data = bytearray(_block(b"rows"))

    (block,) = read_blocks(memoryview(data), "log").blocks
    data[data.index(b"rows")] = ord("R")

    assert bytes(block.content) == b"Rows"


def test_a_block_tells_what_its_header_says() -> None:
    header = {
        HeaderKey.INSTANT_TIME: "3",
        HeaderKey.SCHEMA: "{}",
        HeaderKey.IS_PARTIAL: "True",
        HeaderKey.COMPACTED_BLOCK_TIMES: "1, 2,",
    }
    block = LogBlock(BlockType.AVRO, header, b"")
    rollback = {HeaderKey.COMMAND_BLOCK_TYPE: "0", HeaderKey.TARGET_INSTANT_TIME: "1"}
    command = LogBlock(BlockType.COMMAND, rollback, b"")

    assert (block.instant_time, block.schema_text, block.is_partial) == ("3", "{}", True)
    assert block.compacted_times == ("1", "2")
    assert (block.is_rollback_command, block.target_instant_time) == (False, None)
    assert (command.is_rollback_command, command.target_instant_time) == (True, "1")
    assert (command.compacted_times, command.is_partial) == ((), False)


def _real_logs() -> list[tuple[str, str, bytes]]:
    found = []
    for path in sorted(DATA.glob("*.zip")):
        with zipfile.ZipFile(path) as archive:
            found += [
                (path.stem, name, archive.read(name))
                for name in archive.namelist()
                if LOG_NAME.search(name) and ".hoodie/" not in name
            ]
    return found


REAL_LOGS = _real_logs()


def _keys(block: LogBlock, where: str) -> pa.Array:
    if block.type is BlockType.DELETE:
        return parse_delete_block(block.content, where).record_keys
    if block.type is BlockType.PARQUET:
        return read_parquet_block(block.content, None, where)["_hoodie_record_key"]
    rows = parse_avro_block(block.content, block.schema_text or "", where)
    if block.type is BlockType.CDC and "record_key" in rows.column_names:
        return rows["record_key"]
    if block.type is BlockType.CDC:
        images = zip(rows["before"].to_pylist(), rows["after"].to_pylist(), strict=True)
        return pa.array([str((after or before)["id"]) for before, after in images])
    return rows["_hoodie_record_key"]


def _known_keys(answer: object) -> set[str]:
    """The record keys in all of Hudi's answers."""
    if isinstance(answer, list):
        return {key for part in answer for key in _known_keys(part)}
    if isinstance(answer, dict):
        own = {answer["_hoodie_record_key"]} if isinstance(answer.get("_hoodie_record_key"), str) else set()
        return own | {key for part in answer.values() for key in _known_keys(part)}
    return set()


def test_the_reference_tables_have_logs_of_every_kind() -> None:
    kinds = {block.type for _, name, data in REAL_LOGS for block in read_blocks(data, name).blocks}

    assert len(REAL_LOGS) > 60
    assert kinds >= {BlockType.AVRO, BlockType.PARQUET, BlockType.DELETE, BlockType.CDC}


@pytest.mark.parametrize("table", sorted({table for table, _, _ in REAL_LOGS}))
def test_every_log_that_hudi_wrote_is_read_whole_with_the_keys_that_hudi_knows(table: str) -> None:
    known = _known_keys(json.loads((DATA / f"{table}.json").read_text()))
    found = set()
    for name, data in ((n, d) for t, n, d in REAL_LOGS if t == table):
        read = read_blocks(data, name)
        assert read.blocks
        assert read.damaged == ()
        for block in read.blocks:
            assert re.fullmatch(r"\d{17}", block.instant_time or "")
            if block.type is BlockType.COMMAND:
                assert block.is_rollback_command and block.target_instant_time
                continue
            keys = _keys(block, name).to_pylist()
            assert keys
            found.update(keys)
    # Deleted and pending keys are in no answer, and tables without meta fields have no keys in theirs.
    assert found & known or not known
    # Here every row was first written to a log.
    assert known <= found or not table.startswith("v9_mor_bucket_nbcc")


@pytest.mark.hostile
@settings(max_examples=times(150), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.randoms(use_true_random=True))
def test_flipped_bytes_in_real_logs_end_in_rows_or_a_clear_error(rng: random.Random) -> None:
    _, name, data = rng.choice(REAL_LOGS)
    damaged = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8))):
        damaged[rng.randrange(len(damaged))] = rng.choice((rng.randrange(256), 0, 0xFF, 0x80, 0x7F))
    try:
        for block in read_blocks(bytes(damaged), name).blocks:
            if block.type in (BlockType.AVRO, BlockType.CDC):
                parse_avro_block(block.content, block.schema_text or "", name).validate(full=True)
            elif block.type is BlockType.PARQUET:
                read_parquet_block(block.content, None, name).validate()
            elif block.type is BlockType.DELETE:
                parse_delete_block(block.content, name).record_keys.validate(full=True)
    except LakebraidError:
        pass
