# SPDX-License-Identifier: Apache-2.0
"""Log files: claims of exabytes, negative lengths, garbage, flipped bits. Rows, a skipped block, or a clear error."""

from __future__ import annotations

import struct
from random import Random

import pytest

import lakebraid as lb
from lakebraid.errors import CorruptFile, LakebraidError
from lakebraid.format.avro.varint import format_long
from lakebraid.format.log.blocks import MAGIC, BlockType, HeaderKey, LogBlock, format_block, read_blocks
from tests.hostile.attack import Target, each, look_at_everything, read_rows, refusal, refused, target
from tests.kit.present import present
from tests.kit.tally import TALLY

pytestmark = pytest.mark.hostile


def _logs(made: Target) -> list[str]:
    return [name for name in made.live() if ".log." in name]


def _log(made: Target) -> str:
    return max(_logs(made), key=lambda name: len(made.files[name]))


def _blocks(made: Target, name: str) -> list[LogBlock]:
    return list(read_blocks(made.files[name], name).blocks)


def _claims(size: int) -> bytes:
    return MAGIC + struct.pack(">qii", size, 1, 3) + bytes(60)


OUTER = {
    "nothing": b"",
    "one byte": b"#",
    "half a magic": MAGIC[:3],
    "only a magic": MAGIC,
    "garbage": bytes(range(256)) * 20,
    "zeros": bytes(5000),
    "a block of 9 exabytes": _claims(2**63 - 1),
    "a block of -1 bytes": _claims(-1),
    "a block of 2 GiB": _claims(2**31),
    "a block smaller than any": _claims(3),
    "a hundred thousand magics": MAGIC * 100_000,
    "a million magics and more": MAGIC * 1_000_001,
    "magics that claim each other": (MAGIC + struct.pack(">q", 40)) * 10_000,
}


@pytest.mark.parametrize("name", sorted(OUTER))
def test_a_log_file_of_false_frames_ends_in_rows_or_a_refusal(mor: Target, name: str) -> None:
    file = _log(mor)
    mor.put(file, OUTER[name])
    refusal("log frame", lambda: lb.Table.open(mor.url).to_arrow(), what=name)
    mor.put(file, mor.files[file] + OUTER[name])
    refusal("log frame", lambda: lb.Table.open(mor.url).to_arrow(), what=name)


def _block(
    header: bytes,
    content: bytes,
    *,
    length: int | None = None,
    kind: int = 3,
    version: int = 1,
    footer: bytes = bytes(4),
) -> bytes:
    """A block whose outer frame is whole, with these insides."""
    inner = header + struct.pack(">q", len(content) if length is None else length) + content + footer
    size = 8 + len(inner) + 8
    return MAGIC + struct.pack(">qii", size, version, kind) + inner + struct.pack(">q", size + 6)


def _entries(*pairs: tuple[int, bytes], count: int | None = None) -> bytes:
    packed = b"".join(struct.pack(">ii", key, len(value)) + value for key, value in pairs)
    return struct.pack(">i", len(pairs) if count is None else count) + packed


TIME = (int(HeaderKey.INSTANT_TIME), b"20260101000000000")
SCHEMA = (int(HeaderKey.SCHEMA), b'{"type":"record","name":"t","fields":[{"name":"id","type":"string"}]}')

INNER = {
    "2^31 header entries": _block(struct.pack(">i", 2**31 - 1), b""),
    "-1 header entries": _block(struct.pack(">i", -1), b""),
    "a header value of 2 GiB": _block(struct.pack(">iii", 1, 0, 2**31 - 1), b""),
    "a header value of -1 bytes": _block(struct.pack(">iii", 1, 0, -1), b""),
    "a header that is no text": _block(_entries((0, b"\xff\xfe")), b""),
    "an instant time of letters": _block(_entries((0, b"yesterday"), SCHEMA), b""),
    "an instant time of a thousand digits": _block(_entries((0, b"1" * 1000), SCHEMA), b""),
    "no instant time": _block(_entries(SCHEMA), struct.pack(">ii", 3, 0)),
    "compacted times of letters": _block(_entries(TIME, SCHEMA, (4, b"x,y,../z")), struct.pack(">ii", 3, 0)),
    "no schema": _block(_entries(TIME), struct.pack(">ii", 3, 0)),
    "a schema 40 deep": _block(_entries(TIME, (2, b'{"type":"array","items":' * 40 + b'"int"' + b"}" * 40)), b""),
    "a schema 100,000 deep": _block(_entries(TIME, (2, b"[" * 100_000)), b""),
    "a content of an exabyte": _block(_entries(TIME, SCHEMA), b"", length=2**60),
    "a content of -1 bytes": _block(_entries(TIME, SCHEMA), b"", length=-1),
    "2^31 records": _block(_entries(TIME, SCHEMA), struct.pack(">ii", 3, 2**31 - 1)),
    "-1 records": _block(_entries(TIME, SCHEMA), struct.pack(">ii", 3, -1)),
    "a record of 2 GiB": _block(_entries(TIME, SCHEMA), struct.pack(">iii", 3, 1, 2**31 - 1) + b"\x02a"),
    "a record of -1 bytes": _block(_entries(TIME, SCHEMA), struct.pack(">iii", 3, 1, -1)),
    "a text of an exabyte": _block(
        _entries(TIME, SCHEMA), struct.pack(">iii", 3, 1, 10) + format_long(2**60)[:10].ljust(10, b"\0")
    ),
    "a text that is no UTF-8": _block(_entries(TIME, SCHEMA), struct.pack(">iii", 3, 1, 3) + b"\x04\xff\xfe"),
    "content version 99": _block(_entries(TIME, SCHEMA), struct.pack(">ii", 99, 0)),
    "block type 77": _block(_entries(TIME), b"", kind=77),
    "log format version 2": _block(_entries(TIME), b"", version=2),
    "a footer of 2^31 entries": _block(
        _entries(TIME, SCHEMA), struct.pack(">ii", 3, 0), footer=struct.pack(">i", 2**31 - 1)
    ),
    "an HFile block": _block(_entries(TIME, SCHEMA), bytes(50), kind=4),
    "a Parquet block of garbage": _block(_entries(TIME, SCHEMA), b"PAR1" + bytes(50) + b"PAR1", kind=5),
    "a Parquet block with a footer of 4 GiB": _block(
        _entries(TIME, SCHEMA), b"PAR1" + bytes(50) + b"\xff" * 4 + b"PAR1", kind=5
    ),
    "a delete block of nothing": _block(_entries(TIME), b"", kind=1),
    "a delete block of Java objects": _block(_entries(TIME), struct.pack(">ii", 1, 4) + bytes(4), kind=1),
    "2^60 deletes": _block(_entries(TIME), struct.pack(">ii", 3, 10) + format_long(2**60).ljust(10, b"\0"), kind=1),
    "-2^60 deletes": _block(_entries(TIME), struct.pack(">ii", 3, 11) + format_long(-(2**60)).ljust(11, b"\0"), kind=1),
    "a deleted key of an exabyte": _block(
        _entries(TIME), struct.pack(">ii", 3, 13) + b"\x02\x02" + format_long(2**60).ljust(11, b"\0"), kind=1
    ),
    "a delete list longer than its block": _block(_entries(TIME), struct.pack(">ii", 3, 2**31 - 1) + b"\0", kind=1),
    "a delete list of -1 bytes": _block(_entries(TIME), struct.pack(">ii", 3, -1) + b"\0", kind=1),
    "a delete with ordering values in lists of 2^40": _block(
        _entries(TIME),
        struct.pack(">ii", 3, 18) + b"\x02\x02\x02a\x00\x18\x02" + format_long(2**40).ljust(11, b"\0"),
        kind=1,
    ),
    "a delete with an unknown kind of ordering value": _block(
        _entries(TIME), struct.pack(">ii", 3, 7) + b"\x02\x02\x02a\x00\x7e\0", kind=1
    ),
}


@pytest.mark.parametrize("name", sorted(INNER))
def test_a_block_with_a_whole_frame_and_false_insides_is_refused_or_holds_nothing(mor: Target, name: str) -> None:
    file = _log(mor)
    time = present(_blocks(mor, file)[0].instant_time).encode()
    data = INNER[name].replace(TIME[1], time)
    mor.put(file, data)
    error = refusal("log block", lambda: look_at_everything(mor.url), what=name)
    assert error is not None or "compacted" in name or name.endswith(("2^31 entries", "no schema"))
    mor.put(file, mor.files[file] + data)
    refusal("log block", lambda: look_at_everything(mor.url), what=name)


@pytest.mark.parametrize(
    "table", ["v9_mor_bucket_nbcc_avro", "v9_mor_bucket_nbcc_parquet", "v9_mor_types_avro", "v6_mor_bucket"]
)
def test_every_seventh_byte_flipped_in_real_logs_ends_in_rows_or_a_refusal(table: str) -> None:
    made = target(table)
    name = _log(made)
    data, random = made.files[name], Random(7)
    flipped = [
        data[:at] + bytes((data[at] ^ (1 << random.randrange(8)),)) + data[at + 1 :] for at in range(0, len(data), 7)
    ]
    outcomes = each("log flipped", made, name, flipped[:: max(1, len(flipped) // 250)], read=read_rows)
    assert outcomes["CorruptFile"]
    assert outcomes["rows"]


@pytest.mark.parametrize("table", ["v9_mor_types_avro", "v9_mor_types_parquet", "v6_mor_bucket"])
def test_the_blocks_of_a_log_with_any_bit_flipped_are_found_or_refused(table: str) -> None:
    made = target(table)
    name = _log(made)
    data, random = made.files[name], Random(8)
    for at in range(len(data)):
        changed = data[:at] + bytes((data[at] ^ (1 << random.randrange(8)),)) + data[at + 1 :]
        TALLY.tried["log blocks flipped"] += 1
        try:
            found = read_blocks(changed, name)
        except CorruptFile:
            TALLY.refused += 1
        else:
            assert sum(b.size for b in found.blocks) + sum(d.size for d in found.damaged) == len(data)


@pytest.mark.parametrize("table", ["v9_mor_bucket_nbcc_avro", "v9_mor_bucket_nbcc_parquet"])
def test_a_log_cut_anywhere_gives_whole_blocks(table: str) -> None:
    made = target(table)
    name = _log(made)
    data = made.files[name]
    cuts = [data[:end] for end in range(0, len(data), max(1, len(data) // 150))]
    outcomes = each("log cut", made, name, cuts, read=read_rows)
    assert set(outcomes) == {"rows"}, outcomes


@pytest.mark.parametrize("kind", [BlockType.PARQUET, BlockType.AVRO, BlockType.DELETE])
def test_the_content_of_a_block_cut_anywhere_is_refused(kind: BlockType) -> None:
    made = target("v9_mor_bucket_nbcc_parquet" if kind is BlockType.PARQUET else "v9_mor_bucket_nbcc_avro")
    name, block = next((n, b) for n in _logs(made) for b in _blocks(made, n) if b.type is kind)
    content = bytes(block.content)
    for end in range(0, len(content), max(1, len(content) // 100)):
        made.put(name, format_block(block.type, block.header, content[:end]))
        refused("block content cut", CorruptFile, lambda: lb.Table.open(made.url).to_arrow(), what=f"{kind.name} {end}")


def test_a_row_without_a_record_key_is_refused() -> None:
    made = target("v9_mor_bucket_nbcc_avro")
    name, block = next((n, b) for n in _logs(made) for b in _blocks(made, n) if b.type is BlockType.AVRO)
    schema = '{"type":"record","name":"t","fields":[{"name":"id","type":["null","string"]},{"name":"_hoodie_record_key","type":["null","string"]}]}'
    header = {**block.header, HeaderKey.SCHEMA: schema}
    made.put(name, format_block(BlockType.AVRO, header, struct.pack(">iii", 3, 1, 2) + b"\0\0"))
    refused("log block", CorruptFile, lambda: lb.Table.open(made.url).to_arrow())


def test_a_hundred_thousand_rollback_commands_take_no_square_of_the_time() -> None:
    made = target("v6_mor_bucket")
    name = _log(made)
    header = {
        HeaderKey.INSTANT_TIME: "20260101000000000",
        HeaderKey.TARGET_INSTANT_TIME: "20260101000000000",
        HeaderKey.COMMAND_BLOCK_TYPE: "0",
    }
    made.put(name, format_block(BlockType.COMMAND, header, b"") * 30_000)
    refusal("many blocks", lambda: lb.Table.open(made.url).to_arrow(), seconds_max=4)


def test_blocks_that_claim_to_have_compacted_each_other_end() -> None:
    made = target("v9_mor_bucket_nbcc_avro")
    name, block = next((n, b) for n in _logs(made) for b in _blocks(made, n) if b.type is BlockType.AVRO)
    times = [f"2026010100000{n:04d}" for n in range(1000)]
    blocks = []
    for time in times[:50]:
        header = {**block.header, HeaderKey.INSTANT_TIME: time, HeaderKey.COMPACTED_BLOCK_TIMES: ",".join(times)}
        blocks.append(format_block(block.type, header, bytes(block.content)))
    made.put(name, b"".join(blocks))
    error = refusal("many blocks", lambda: lb.Table.open(made.url).to_arrow())
    assert error is None or isinstance(error, LakebraidError)
