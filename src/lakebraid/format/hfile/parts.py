# SPDX-License-Identifier: Apache-2.0
"""What an HFile consists of: blocks with a header, and a trailer of fixed size at the end, which says where the rest is.

    data blocks · other blocks · root index · meta index · file info · trailer of 4096 bytes

From the root index on it is called the part that is loaded on open. (MDT, section 3; FORMAT, section 15)
"""

from __future__ import annotations

import enum
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NoReturn

from lakebraid import limits
from lakebraid.errors import UnsupportedTable
from lakebraid.format.damage import damaged

DATA, ROOT_INDEX, FILE_INFO = b"DATABLK*", b"IDXROOT2", b"FILEINF2"
TRAILER_BYTES: Final = 4096
HEADER: Final = struct.Struct(">8siiqbii")
"""Magic, size without header, size once inflated, offset of the block before, checksum type, bytes per checksum, size without checksums."""
BYTES_PER_CHECKSUM: Final = 16384
COMPARATOR: Final = b"org.apache.hudi.io.storage.HoodieHBaseKVComparator"

_TRAILER_MAGIC: Final = b'TRABLK"$'
_VERSION: Final = 3
_GZIP: Final = 16 + zlib.MAX_WBITS
_GZIP_SYSTEM: Final = 9
"""Where gzip says on which system it ran; Java says that it does not know, and so the same content gives the same bytes everywhere."""
_NUMBER, _FIXED_64, _BYTES, _FIXED_32 = 0, 1, 2, 5


class Codec(enum.IntEnum):
    """How blocks are compressed; other numbers are refused."""

    GZIP = 1
    NONE = 2


@dataclass(frozen=True, slots=True)
class Trailer:
    """Where the parts of a file are, and how many entries it has."""

    file_info_offset: int
    load_on_open_offset: int
    data_bytes: int
    """Of all data blocks once inflated."""
    blocks: int
    entries: int
    first_block_offset: int
    last_block_offset: int
    codec: Codec

    def format(self) -> bytes:
        """The last bytes of a file."""
        numbers = {
            1: self.file_info_offset, 2: self.load_on_open_offset, 3: self.data_bytes, 5: self.blocks, 6: 0, 7: self.entries,
            8: 1, 9: self.first_block_offset, 10: self.last_block_offset,
        }  # fmt: skip
        message = b"".join(format_number(field << 3) + format_number(value) for field, value in numbers.items())
        message += format_bytes_field(11, COMPARATOR) + format_number(12 << 3) + format_number(self.codec)
        head = _TRAILER_MAGIC + format_number(len(message)) + message
        return head.ljust(TRAILER_BYTES - 4, b"\x00") + struct.pack(">i", _VERSION)


def parse_trailer(tail: bytes | memoryview, file_size: int, where: str) -> Trailer:
    """The trailer of a file of that size, of which `tail` are the last bytes; every offset in it lies inside of the file."""
    if len(tail) < TRAILER_BYTES or file_size < len(tail):
        refuse(where, 0, f"{file_size:,} bytes are too few for an HFile")
    last = bytes(tail[len(tail) - TRAILER_BYTES :])
    at = file_size - TRAILER_BYTES
    if not last.startswith(_TRAILER_MAGIC):
        refuse(where, at, "it does not end like an HFile")
    version = int.from_bytes(last[-3:], "big")
    if version != _VERSION:
        raise _unsupported(where, f"an HFile of version {version}")
    length, start = parse_number(last, len(_TRAILER_MAGIC), where)
    if length > TRAILER_BYTES - 4 - start:
        refuse(where, at, f"its trailer claims {length:,} bytes")
    fields = {field: value for field, value in parse_fields(last[start : start + length], where) if type(value) is int}
    if fields.get(8, 1) > 1:
        raise _unsupported(where, f"an HFile whose index has {fields[8]} levels")
    if fields.get(12) not in set(Codec):
        raise _unsupported(where, f"an HFile that is compressed with codec {fields.get(12)}")
    offset, start_of_index, data_bytes, blocks, entries, first, last_block = (
        fields.get(f, 0) for f in (1, 2, 3, 5, 7, 9, 10)
    )
    trailer = Trailer(offset, start_of_index, data_bytes, blocks, entries, first, last_block, Codec(fields[12]))
    if not trailer.load_on_open_offset <= trailer.file_info_offset <= at:
        refuse(where, at, f"its index should be at byte {trailer.load_on_open_offset:,}, its end is at {at:,}")
    if at - trailer.load_on_open_offset > limits.HFILE_INDEX_BYTES_MAX:
        refuse(
            where,
            at,
            f"its index has {at - trailer.load_on_open_offset:,} bytes; {limits.HFILE_INDEX_BYTES_MAX:,} are read",
        )
    return trailer


def parse_block(data: memoryview, offset: int, codec: Codec, where: str) -> tuple[bytes, bytes, int]:
    """Magic and inflated content of the block at the beginning of `data`, and its size; `offset` is its place in the file."""
    if len(data) < HEADER.size:
        refuse(where, offset, f"a block's header should begin, and {len(data)} bytes remain")
    magic, size, inflated, _, _, _, stored = HEADER.unpack_from(data)
    size += HEADER.size
    if not HEADER.size <= stored <= size <= len(data):
        refuse(where, offset, f"a block claims {size:,} bytes, {stored:,} of them content; {len(data):,} remain")
    if not 0 <= inflated <= limits.HFILE_BLOCK_BYTES_MAX:
        refuse(where, offset, f"a block claims {inflated:,} bytes; {limits.HFILE_BLOCK_BYTES_MAX:,} are read")
    return magic, _inflated(data[HEADER.size : stored], inflated, codec, offset, where), size


def _inflated(content: memoryview, size: int, codec: Codec, offset: int, where: str) -> bytes:
    if codec is Codec.NONE:
        if len(content) != size:
            refuse(where, offset, f"a block of {len(content):,} bytes claims {size:,}")
        return bytes(content)
    if not size:
        return b""
    inflater = zlib.decompressobj(_GZIP)
    try:
        plain = inflater.decompress(content, size) + inflater.decompress(inflater.unconsumed_tail, 1)
    except zlib.error as error:
        refuse(where, offset, f"a block does not inflate ({error})")
    if len(plain) != size or not inflater.eof:
        refuse(where, offset, f"a block does not inflate to the {size:,} bytes that it claims")
    return plain


def format_block(magic: bytes, content: bytes, codec: Codec) -> bytes:
    """One block, with checksums of the type that has none: zeros."""
    packed = content
    if codec is Codec.GZIP:
        packer = zlib.compressobj(wbits=_GZIP)
        stream = packer.compress(content) + packer.flush()
        packed = stream[:_GZIP_SYSTEM] + b"\xff" + stream[_GZIP_SYSTEM + 1 :]
    stored = HEADER.size + len(packed)
    checksums = bytes(4 * -(-stored // BYTES_PER_CHECKSUM))
    size = len(packed) + len(checksums)
    return HEADER.pack(magic, size, len(content), -1, 0, BYTES_PER_CHECKSUM, stored) + packed + checksums


def parse_fields(message: bytes, where: str) -> Iterator[tuple[int, int | bytes]]:
    """The numbers and byte strings of a protobuf message, with the numbers of their fields."""
    position = 0
    while position < len(message):
        tag, position = parse_number(message, position, where)
        kind = tag & 7
        if kind == _NUMBER:
            value, position = parse_number(message, position, where)
            yield tag >> 3, value
            continue
        if kind not in (_FIXED_64, _BYTES, _FIXED_32):
            refuse(where, 0, f"a field of kind {kind} is none of its trailer or file info")
        length, position = (
            parse_number(message, position, where) if kind == _BYTES else (8 if kind == _FIXED_64 else 4, position)
        )
        if length > len(message) - position:
            refuse(where, 0, f"a field claims {length:,} bytes; {len(message) - position:,} remain")
        position += length
        yield tag >> 3, message[position - length : position]


def format_bytes_field(field: int, value: bytes) -> bytes:
    """A byte string as a field of a protobuf message."""
    return format_number(field << 3 | _BYTES) + format_number(len(value)) + value


def parse_number(data: bytes, position: int, where: str) -> tuple[int, int]:
    """A protobuf number without sign, and where it ends."""
    value = 0
    for shift in range(0, 63, 7):
        if position >= len(data):
            break
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise damaged(f"The HFile {where}", "a number in its trailer or file info has no end")


def format_number(value: int) -> bytes:
    """The same number as bytes.

    >>> format_number(300).hex()
    'ac02'
    """
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*encoded, value))


def refuse(where: str, offset: int, problem: str) -> NoReturn:
    raise damaged(f"The HFile {where}", f"at byte {offset:,}, {problem}")


def _unsupported(where: str, what: str) -> UnsupportedTable:
    return UnsupportedTable(
        f"{where} is {what}, which lakebraid does not read. Nothing was changed. The table itself can be read without its metadata "
        "table: its folders say the same.",
        path=where,
    )
