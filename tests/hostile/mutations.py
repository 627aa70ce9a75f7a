# SPDX-License-Identifier: Apache-2.0
"""Ways to damage bytes. Everything is drawn from the generator that is given, so a seed tells the whole story."""

from __future__ import annotations

import struct
from random import Random

from lakebraid.errors import LakebraidError
from lakebraid.format.log.blocks import BlockType, HeaderKey, LogBlock, format_block, read_blocks

_INTERESTING = (0, 1, 2, 3, 7, 8, 15, 16, 31, 32, 63, 64, 127, 128, 129, 254, 255)
_NUMBERS = (-1, 0, 1, 2, 127, 128, 65535, 2**31 - 1, -(2**31), 2**31, 2**32 - 1, 2**60, 2**63 - 1, -(2**63))


def mutate(data: bytes, random: Random) -> bytes:
    """One to four random damages, small and large."""
    changed = bytearray(data)
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        random.choice(_DAMAGES)(changed, random)
    return bytes(changed)


def _flip_bit(data: bytearray, random: Random) -> None:
    if data:
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)


def _set_byte(data: bytearray, random: Random) -> None:
    if data:
        data[random.randrange(len(data))] = random.choice(_INTERESTING)


def _set_number(data: bytearray, random: Random) -> None:
    """A number of four or eight bytes in either order."""
    form = random.choice((">i", "<i", ">q", "<q"))
    size = struct.calcsize(form)
    if len(data) >= size:
        at = random.randrange(len(data) - size + 1)
        bits = 8 * size
        number = random.choice(_NUMBERS) & ((1 << bits) - 1)
        struct.pack_into(form, data, at, number - (1 << bits) if number >> (bits - 1) else number)


def _set_varint(data: bytearray, random: Random) -> None:
    if data:
        at = random.randrange(len(data))
        data[at : at + 1] = bytes([0xFF] * random.randrange(1, 10)) + bytes((random.choice((0, 1, 3, 15, 127)),))


def _cut(data: bytearray, random: Random) -> None:
    if data:
        del data[random.randrange(len(data)) :]


def _remove(data: bytearray, random: Random) -> None:
    if data:
        at = random.randrange(len(data))
        del data[at : at + random.randrange(1, 65)]


def _repeat(data: bytearray, random: Random) -> None:
    if data:
        at = random.randrange(len(data))
        piece = data[at : at + random.randrange(1, 65)]
        data[at:at] = piece * random.choice((1, 1, 2, 50))


def _zero(data: bytearray, random: Random) -> None:
    if data:
        at = random.randrange(len(data))
        size = min(random.randrange(1, 33), len(data) - at)
        data[at : at + size] = bytes(size)


def _noise(data: bytearray, random: Random) -> None:
    if data:
        at = random.randrange(len(data))
        size = min(random.randrange(1, 33), len(data) - at)
        data[at : at + size] = random.randbytes(size)


_DAMAGES = (_flip_bit, _flip_bit, _set_byte, _set_byte, _set_number, _set_varint, _cut, _remove, _repeat, _zero, _noise)


def mutate_log(data: bytes, random: Random) -> bytes:
    """A log file whose frames are whole and whose insides are not: lengths and trailers are made to fit again."""
    try:
        blocks = list(read_blocks(data, "a log file").blocks)
    except LakebraidError:
        return mutate(data, random)
    if not blocks:
        return mutate(data, random)
    at = random.randrange(len(blocks))
    blocks[at] = _mutate_block(blocks[at], blocks, random)
    if random.random() < 0.1:
        random.shuffle(blocks)
    return b"".join(format_block(b.type, b.header, b.content) for b in blocks)


def _mutate_block(block: LogBlock, others: list[LogBlock], random: Random) -> LogBlock:
    header, content, kind = dict(block.header), bytes(block.content), block.type
    match random.randrange(8):
        case 0:
            kind = random.choice(list(BlockType))
        case 1 | 2:
            key = random.choice(list(HeaderKey))
            text = random.choice(
                (header.get(key, ""), "true", "9", "0", "x" * 50, "20260101000000000,20260101000000001")
            )
            header[key] = mutate(text.encode(), random).decode("utf-8", "replace")
        case 3:
            content = bytes(random.choice(others).content)
        case _:
            content = mutate(content, random)
    return LogBlock(kind, header, content)


def mutate_records(content: bytes, random: Random) -> bytes:
    """The content of an Avro block, one record of which is damaged and has its length made to fit again."""
    version, count = struct.unpack_from(">ii", content)
    records, at = [], 8
    for _ in range(count):
        (length,) = struct.unpack_from(">i", content, at)
        records.append(content[at + 4 : at + 4 + length])
        at += 4 + length
    if records:
        chosen = random.randrange(len(records))
        records[chosen] = mutate(records[chosen], random)
    body = b"".join(struct.pack(">i", len(record)) + record for record in records)
    return struct.pack(">ii", version, len(records)) + body
