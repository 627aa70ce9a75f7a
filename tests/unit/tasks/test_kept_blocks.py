# SPDX-License-Identifier: Apache-2.0
"""Log blocks that were decoded before: a read gives the same rows with them as without, and memory stays bounded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

import pyarrow as pa
import pytest

from lakebraid import limits
from lakebraid.errors import CorruptFile
from lakebraid.format.log.blocks import BlockType, HeaderKey, LogBlock
from lakebraid.tasks.reading import blocks as log_blocks
from lakebraid.tasks.reading.cache import KeptBlocks
from tests.kit.tables.builder import open_table
from tests.kit.tables.lake import Lake, commit_time, row

pytestmark = pytest.mark.unit

ROWS = pa.table({"id": pa.array(["a"] * 1000)})
TAKEN = ROWS.get_total_buffer_size()


def block(content: bytes, kind: BlockType = BlockType.PARQUET, schema: str = "") -> LogBlock:
    return LogBlock(kind, {HeaderKey.SCHEMA: schema}, content)


class Decoder:
    """Gives other rows each time, and counts."""

    def __init__(self) -> None:
        self._numbers: Iterator[int] = count(1)
        self.calls = 0

    def __call__(self) -> pa.Table:
        self.calls = next(self._numbers)
        return pa.table({"id": pa.array([str(self.calls)] * 1000)})


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> KeptBlocks:
    """What the process keeps, empty at first."""
    fresh = KeptBlocks(limits.KEPT_BLOCKS_BYTES)
    monkeypatch.setattr(log_blocks, "KEPT", fresh)
    return fresh


def test_a_block_is_decoded_once_for_the_same_columns() -> None:
    decode, kept = Decoder(), KeptBlocks(10 * TAKEN)
    first = kept.rows(block(b"one"), ["id"], decode)
    assert kept.rows(block(b"one"), ["id"], decode) is first
    assert decode.calls == 1


@pytest.mark.parametrize(
    ("other", "columns"),
    [
        (block(b"two"), ["id"]),
        (block(b"one"), ["id", "v"]),
        (block(b"one", BlockType.AVRO, "id"), ["id"]),
        (LogBlock(BlockType.PARQUET, {HeaderKey.IS_PARTIAL: "true"}, b"one"), ["id"]),
    ],
)
def test_other_bytes_other_columns_and_other_kinds_of_blocks_are_not_mistaken(
    other: LogBlock, columns: list[str]
) -> None:
    decode, kept = Decoder(), KeptBlocks(10 * TAKEN)
    first = kept.rows(block(b"one"), ["id"], decode)
    assert kept.rows(other, columns, decode) != first


def test_of_several_avro_blocks_only_those_are_decoded_that_were_not_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "KEPT_BLOCK_BYTES_MAX", 3)
    kept, asked = KeptBlocks(10 * TAKEN), list[list[int]]()
    blocks = [block(name, BlockType.AVRO, "s") for name in (b"one", b"large", b"two", b"six")]

    def decode(numbers: Sequence[int]) -> list[pa.Table]:
        asked.append(list(numbers))
        return [pa.table({"id": [str(number)]}) for number in numbers]

    first = kept.all_rows(blocks[:1], (), decode)[0]
    found = kept.all_rows([blocks[2], blocks[0], blocks[1], blocks[3]], (), decode)
    assert [rows["id"][0].as_py() for rows in found] == ["0", "0", "2", "3"]
    assert found[1] is first
    assert kept.all_rows([*blocks[2:], blocks[0]], (), decode) == [found[0], found[3], first]
    assert asked == [[0], [0, 2, 3]]


@pytest.mark.parametrize(("together", "calls"), [(100, [3, 1]), (8, [2, 1, 1]), (1, [1, 1, 1, 1])])
def test_avro_blocks_are_decoded_together_if_they_have_one_schema_and_few_bytes(
    monkeypatch: pytest.MonkeyPatch, kept: KeptBlocks, together: int, calls: list[int]
) -> None:
    asked: list[int] = []

    def parse(contents: Sequence[bytes], _: str, places: Sequence[str]) -> list[pa.Table]:
        asked.append(len(contents))
        return [pa.table({"place": [place]}) for place in places]

    monkeypatch.setattr(limits, "AVRO_TOGETHER_BYTES", together)
    monkeypatch.setattr(log_blocks, "parse_avro_blocks", parse)
    blocks = [block(f"{n:04}".encode(), BlockType.AVRO, "t" if n == 3 else "s") for n in range(4)]
    found = log_blocks.decoded_together([log_blocks.OrderedBlock(b, f"at {n}", "1") for n, b in enumerate(blocks)])
    rows: list[Any] = [value.rows for value in found.values()]
    assert [table["place"][0].as_py() for table in rows] == list(found) == [f"at {n}" for n in range(4)]
    assert asked == calls
    assert kept.taken > 0


def test_avro_rows_are_known_by_their_schema_and_not_by_the_columns_that_a_query_wants() -> None:
    decode, kept = Decoder(), KeptBlocks(10 * TAKEN)
    first = kept.rows(block(b"one", BlockType.AVRO, "s"), ["id"], decode)
    assert kept.rows(block(b"one", BlockType.AVRO, "s"), ["v"], decode) is first
    assert kept.rows(block(b"one", BlockType.AVRO, "t"), ["id"], decode) != first


def test_the_longest_unused_blocks_go_when_there_is_no_room() -> None:
    decode, kept = Decoder(), KeptBlocks(5 * TAKEN)
    for name in (b"1", b"2", b"3", b"4", b"5", b"1", b"6"):
        kept.rows(block(name), ["id"], decode)
        assert kept.taken <= 5 * TAKEN
    assert decode.calls == 6
    kept.rows(block(b"1"), ["id"], decode)
    assert decode.calls == 6, "it was used again before the sixth came"
    kept.rows(block(b"2"), ["id"], decode)
    assert decode.calls == 7, "it was the longest unused"


def test_a_block_that_is_large_or_unfolds_to_much_drives_no_other_out(monkeypatch: pytest.MonkeyPatch) -> None:
    decode, kept = Decoder(), KeptBlocks(3 * TAKEN)
    kept.rows(block(b"unfolds"), ["id"], decode)
    assert kept.taken == 0
    monkeypatch.setattr(limits, "KEPT_BLOCK_BYTES_MAX", 3)
    kept = KeptBlocks(10 * TAKEN)
    kept.rows(block(b"large"), ["id"], decode)
    assert kept.taken == 0


@pytest.mark.parametrize("lake", [Lake(buckets=1), commit_time()])
def test_a_second_read_finds_the_same_rows_and_whatever_came_meanwhile(lake: Lake, kept: KeptBlocks) -> None:
    lake.write([row("a", 1, "old"), row("b", 5, "kept")])
    lake.write([row("a", 2, "new")])
    first = lake.rows()
    assert kept.taken > 0
    assert lake.rows() == first
    assert open_table(lake.storage).to_arrow(["v"]).num_rows == 2, "other columns of the same blocks"
    lake.write([row("a", 3, "newer"), row("c", 1, "more")])
    assert [r["v"] for r in lake.rows()] == ["newer", "kept", "more"]


def test_a_file_that_is_damaged_after_a_read_is_found_by_the_next(kept: KeptBlocks) -> None:
    lake = Lake(buckets=1)
    (file,) = lake.write([row("a", 1)])
    lake.rows()
    assert kept.taken > 0
    data = lake.storage.read(file.path, 1 << 30)
    at = data.rindex(b"PAR1")
    lake.storage.replace(file.path, data[:at] + b"RAP1" + data[at + 4 :])
    with pytest.raises(CorruptFile, match=file.name):
        lake.rows()
