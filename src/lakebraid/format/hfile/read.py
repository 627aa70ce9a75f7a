# SPDX-License-Identifier: Apache-2.0
"""Reading an HFile: from memory as a whole, or by ranges, block by block.

By ranges: the last bytes say where the index is (`parse_trailer`), the index says in which blocks a key may lie
(`parse_index`, `Selection.blocks`), and each block is read alone (`parse_entries`). Keys are sorted by their bytes; a file
in which they are not is damaged, since a lookup in it could miss what is there.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from lakebraid import limits
from lakebraid.format.hfile.parts import (
    DATA,
    FILE_INFO,
    HEADER,
    ROOT_INDEX,
    TRAILER_BYTES,
    Trailer,
    parse_block,
    parse_fields,
    parse_number,
    parse_trailer,
    refuse,
)

_ENTRY: Final = struct.Struct(">iiH")
_KEY_REST: Final = 12
"""Of a key's length: two bytes before its text, a family of no bytes, a time, a type."""
_PUT: Final = 4
_PLACE: Final = struct.Struct(">qi")
_INFO_MAGIC: Final = b"PBUF"
_VERSION_KEY, _SCHEMA_KEY = b"KEY_VALUE_VERSION", b"schema"


@dataclass(frozen=True, slots=True)
class Selection:
    """Which entries are wanted: all, those of some keys, or those whose keys begin with some texts."""

    keys: tuple[bytes, ...] | None = None
    prefixes: tuple[bytes, ...] | None = None

    @classmethod
    def of_keys(cls, keys: Iterable[bytes]) -> Selection:
        """The entries of exactly these keys."""
        return cls(keys=tuple(sorted(set(keys))))

    @classmethod
    def of_prefixes(cls, prefixes: Iterable[bytes]) -> Selection:
        """The entries whose keys begin with one of these."""
        return cls(prefixes=tuple(sorted(set(prefixes))))

    def blocks(self, index: Index) -> list[int]:
        """The numbers of the blocks in which such entries may lie, in order."""
        if self.keys is not None:
            found = {bisect_right(index.first_keys, key) - 1 for key in self.keys}
            return sorted(found - {-1})
        if self.prefixes is not None:
            return sorted(
                {number for prefix in self.prefixes for number in _blocks_of_prefix(index.first_keys, prefix)}
            )
        return list(range(len(index.first_keys)))

    def of(self, entries: Iterable[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, bytes]]:
        """Those of the entries that are wanted."""
        if self.keys is not None:
            wanted = frozenset(self.keys)
            return (entry for entry in entries if entry[0] in wanted)
        if self.prefixes is not None:
            prefixes = self.prefixes
            return (entry for entry in entries if entry[0].startswith(prefixes))
        return iter(entries)


EVERYTHING: Final = Selection()


def _blocks_of_prefix(first_keys: tuple[bytes, ...], prefix: bytes) -> range:
    first = max(0, bisect_left(first_keys, prefix) - 1)
    last = first
    while last < len(first_keys) and (first_keys[last] <= prefix or first_keys[last].startswith(prefix)):
        last += 1
    return range(first, last)


@dataclass(frozen=True, slots=True)
class Index:
    """What is loaded on open: where each data block lies, with which key it begins, and the file info."""

    offsets: tuple[int, ...]
    sizes: tuple[int, ...]
    first_keys: tuple[bytes, ...]
    info: dict[bytes, bytes]
    trailer: Trailer

    @property
    def schema_text(self) -> str:
        """The Avro schema of the values; empty if the file does not say."""
        return self.info.get(_SCHEMA_KEY, b"").decode("utf-8", "replace")


def parse_index(section: bytes | memoryview, trailer: Trailer, where: str) -> Index:
    """The index of a file out of its bytes from `trailer.load_on_open_offset` on, up to the trailer or beyond."""
    view, start = memoryview(section), trailer.load_on_open_offset
    magic, root, _ = parse_block(view, start, trailer.codec, where)
    if magic != ROOT_INDEX:
        refuse(where, start, "its index should begin there")
    offsets, sizes, first_keys = _parse_root(root, trailer, where)
    magic, content, _ = parse_block(
        view[trailer.file_info_offset - start :], trailer.file_info_offset, trailer.codec, where
    )
    if magic != FILE_INFO:
        refuse(where, trailer.file_info_offset, "its file info should begin there")
    info = _parse_info(content, where)
    if info.get(_VERSION_KEY) != b"\x00\x00\x00\x01":
        refuse(where, trailer.file_info_offset, "its entries are not of the version that Hudi writes")
    return Index(offsets, sizes, first_keys, info, trailer)


def _parse_root(
    root: bytes, trailer: Trailer, where: str
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[bytes, ...]]:
    offsets: list[int] = []
    sizes: list[int] = []
    keys: list[bytes] = []
    position = end = 0
    while position < len(root):
        if len(root) - position < _PLACE.size + 1:
            refuse(where, trailer.load_on_open_offset, "an entry of its index is cut off")
        offset, size = _PLACE.unpack_from(root, position)
        key, position = _parse_index_key(root, position + _PLACE.size, trailer.load_on_open_offset, where)
        if not (end <= offset and HEADER.size <= size <= trailer.load_on_open_offset - offset):
            refuse(where, trailer.load_on_open_offset, f"its index has a block of {size:,} bytes at byte {offset:,}")
        if keys and key <= keys[-1]:
            refuse(
                where,
                trailer.load_on_open_offset,
                f"block {len(keys):,} of its index does not begin after the one before it",
            )
        end = offset + size
        offsets.append(offset)
        sizes.append(size)
        keys.append(key)
    if len(keys) != trailer.blocks:
        refuse(
            where,
            trailer.load_on_open_offset,
            f"its index has {len(keys):,} blocks, its trailer says {trailer.blocks:,}",
        )
    return tuple(offsets), tuple(sizes), tuple(keys)


def _parse_index_key(root: bytes, position: int, offset: int, where: str) -> tuple[bytes, int]:
    """A key of the index, without what may follow its text, and where its entry ends."""
    length, position = _parse_vint(root, position, offset, where)
    end = position + length
    if not position + 2 <= end <= len(root):
        refuse(where, offset, f"a key of its index claims {length:,} bytes; {len(root) - position:,} remain")
    text = int.from_bytes(root[position : position + 2], "big")
    if text > length - 2:
        refuse(where, offset, f"a key of its index claims {text:,} of {length:,} bytes")
    return root[position + 2 : position + 2 + text], end


def _parse_vint(data: bytes, position: int, offset: int, where: str) -> tuple[int, int]:
    """Hadoop's number: one byte up to 127, else a byte that says how many follow."""
    first = data[position]
    if first < 0x80:
        return first, position + 1
    count = 0x90 - first
    if not 1 <= count <= 4 or len(data) - position <= count:
        refuse(where, offset, "a length in its index has no end")
    return int.from_bytes(data[position + 1 : position + 1 + count], "big"), position + 1 + count


def format_vint(value: int) -> bytes:
    """The same number as bytes.

    >>> [format_vint(n).hex() for n in (50, 127, 128, 40000)]
    ['32', '7f', '8f80', '8e9c40']
    """
    if value < 0x80:
        return bytes((value,))
    count = (value.bit_length() + 7) // 8
    return bytes((0x90 - count,)) + value.to_bytes(count, "big")


def _parse_info(content: bytes, where: str) -> dict[bytes, bytes]:
    if not content.startswith(_INFO_MAGIC):
        refuse(where, 0, "its file info is none")
    length, start = parse_number(content, len(_INFO_MAGIC), where)
    if length > len(content) - start:
        refuse(where, 0, f"its file info claims {length:,} bytes; {len(content) - start:,} remain")
    info: dict[bytes, bytes] = {}
    for field, pair in parse_fields(content[start : start + length], where):
        if field == 1 and isinstance(pair, bytes):
            parts = {number: part for number, part in parse_fields(pair, where) if isinstance(part, bytes)}
            info[parts.get(1, b"")] = parts.get(2, b"")
        if len(info) > limits.HFILE_INFO_ENTRIES_MAX:
            refuse(where, 0, f"its file info has more than {limits.HFILE_INFO_ENTRIES_MAX:,} entries")
    return info


def read_entries(data: memoryview, number: int, index: Index, where: str) -> Iterator[tuple[bytes, bytes]]:
    """Keys and values of a data block, whose bytes `data` begins with, in order."""
    offset = index.offsets[number]
    magic, content, size = parse_block(data, offset, index.trailer.codec, where)
    if magic != DATA or size != index.sizes[number]:
        refuse(where, offset, f"no data block of {index.sizes[number]:,} bytes begins there")
    following = index.first_keys[number + 1] if number + 1 < len(index.first_keys) else None
    return parse_entries(content, index.first_keys[number], following, offset, where)


def parse_entries(
    content: bytes, first: bytes, following: bytes | None, offset: int, where: str
) -> Iterator[tuple[bytes, bytes]]:
    """Keys and values of an inflated data block: from the key `first` on, all before the key `following`."""
    position, end, before = 0, len(content), None
    unpack = _ENTRY.unpack_from
    while position < end:
        if end - position < _ENTRY.size:
            refuse(where, offset, f"an entry at byte {position:,} of this block is cut off")
        key_size, value_size, text = unpack(content, position)
        begin = position + _ENTRY.size
        value = position + 8 + key_size
        stop = value + value_size
        if key_size != text + _KEY_REST or value_size < 0 or stop >= end:
            refuse(
                where,
                offset,
                f"an entry at byte {position:,} of this block claims {key_size:,} and {value_size:,} bytes",
            )
        key = content[begin : begin + text]
        if content[begin + text] or content[value - 1] != _PUT or content[stop]:
            refuse(where, offset, f"an entry at byte {position:,} of this block is no plain value")
        if (key < first) if before is None else (key <= before):
            refuse(where, offset, f"the keys of this block are not sorted at its byte {position:,}")
        yield key, content[value:stop]
        before, position = key, stop + 1
    if before is not None and following is not None and before >= following:
        refuse(where, offset, "this block ends after the key with which the next one begins")


@dataclass(frozen=True, slots=True)
class HFile:
    """A whole file in memory: an HFile, or the content of a log block that is one."""

    data: memoryview
    index: Index
    where: str

    def entries(self, selection: Selection = EVERYTHING) -> Iterator[tuple[bytes, bytes]]:
        """The wanted keys and values, in order; blocks without any are not looked at."""
        for number in selection.blocks(self.index):
            at = self.index.offsets[number]
            block = self.data[at : at + self.index.sizes[number]]
            yield from selection.of(read_entries(block, number, self.index, self.where))

    def get(self, key: bytes) -> bytes | None:
        """The value of a key; None if the file has none."""
        return next((value for _, value in self.entries(Selection.of_keys([key]))), None)


def parse_hfile(data: bytes | memoryview, where: str) -> HFile:
    """A file out of all its bytes."""
    view = memoryview(data).toreadonly().cast("B")
    trailer = parse_trailer(view[-TRAILER_BYTES:], len(view), where)
    index = parse_index(view[trailer.load_on_open_offset : len(view) - TRAILER_BYTES], trailer, where)
    return HFile(view, index, where)
