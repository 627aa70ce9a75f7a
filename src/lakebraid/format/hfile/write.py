# SPDX-License-Identifier: Apache-2.0
"""Writing an HFile as Hudi writes it: data blocks of some 64 kB, one index, no meta blocks."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import Final

from lakebraid import limits
from lakebraid.errors import InvalidArgument
from lakebraid.format.hfile.parts import (
    DATA,
    FILE_INFO,
    ROOT_INDEX,
    Codec,
    Trailer,
    format_block,
    format_bytes_field,
    format_number,
)
from lakebraid.format.hfile.read import format_vint

BLOCK_BYTES: Final = 64 * 1024
"""A new block is begun once one has so many bytes, as in Hudi's files."""
_ENTRY_HEAD: Final = struct.Struct(">iiH")
_AFTER_KEY: Final = b"\x00" + struct.pack(">q", 2**63 - 1) + b"\x04"
_INDEX_ENTRY: Final = struct.Struct(">qi")
_KEY_BYTES_MAX: Final = 32767
"""Java reads the length as a short."""


def format_hfile(
    entries: Iterable[tuple[bytes, bytes]],
    info: Mapping[str, bytes],
    *,
    created_ms: int = 0,
    codec: Codec = Codec.GZIP,
    block_bytes: int = BLOCK_BYTES,
) -> bytes:
    """A file of these keys and values; the keys must be sorted by their bytes, each once. `info` goes before Hudi's own."""
    writer = _Writer(codec, block_bytes)
    for key, value in entries:
        writer.add(key, value)
    return writer.finish(info, created_ms)


class _Writer:
    """A file as it grows."""

    def __init__(self, codec: Codec, block_bytes: int) -> None:
        self._codec, self._block_bytes = codec, block_bytes
        self._file = bytearray()
        self._block: list[bytes] = []
        self._block_size = 0
        self._first = self._last = b""
        self._index: list[bytes] = []
        self._offsets: list[int] = []
        self._count = self._key_bytes = self._value_bytes = self._data_bytes = 0

    def add(self, key: bytes, value: bytes) -> None:
        if len(key) > _KEY_BYTES_MAX:
            raise InvalidArgument(f"A key of {len(key):,} bytes does not fit into an HFile. Nothing was written.")
        if self._count and key <= self._last:
            raise InvalidArgument(
                f"The keys of an HFile must be sorted: {key!r} came after {self._last!r}. Nothing was written."
            )
        if self._block_size >= self._block_bytes:
            self._end_block()
        if not self._block:
            self._first = key
        entry = b"".join((_ENTRY_HEAD.pack(len(key) + 12, len(value), len(key)), key, _AFTER_KEY, value, b"\x00"))
        self._block.append(entry)
        self._block_size += len(entry)
        self._last = key
        self._count += 1
        self._key_bytes += len(key)
        self._value_bytes += len(value)
        if self._block_size > limits.HFILE_BLOCK_BYTES_MAX:
            raise InvalidArgument(
                f"The entry {key[:60]!r} has {len(value):,} bytes; readers take {limits.HFILE_BLOCK_BYTES_MAX:,}. Nothing was written."
            )

    def _end_block(self) -> None:
        content = b"".join(self._block)
        block = format_block(DATA, content, self._codec)
        offset = len(self._file)
        self._file += block
        self._offsets.append(offset)
        key = len(self._first).to_bytes(2, "big") + self._first
        self._index.append(_INDEX_ENTRY.pack(offset, len(block)) + format_vint(len(key)) + key)
        self._data_bytes += len(content)
        self._block, self._block_size = [], 0

    def finish(self, info: Mapping[str, bytes], created_ms: int) -> bytes:
        if self._block:
            self._end_block()
        start = len(self._file)
        self._file += format_block(ROOT_INDEX, b"".join(self._index), self._codec)
        self._file += format_block(ROOT_INDEX, b"", self._codec)
        info_at = len(self._file)
        self._file += format_block(FILE_INFO, self._info(info, created_ms), self._codec)
        first, last = (self._offsets[0], self._offsets[-1]) if self._offsets else (0, 0)
        count = len(self._offsets)
        self._file += Trailer(info_at, start, self._data_bytes, count, self._count, first, last, self._codec).format()
        return bytes(self._file)

    def _info(self, given: Mapping[str, bytes], created_ms: int) -> bytes:
        count = max(1, self._count)
        pairs = {
            **given,
            "hfile.LASTKEY": len(self._last).to_bytes(2, "big") + self._last,
            "hfile.AVG_VALUE_LEN": struct.pack(">i", self._value_bytes // count),
            "hfile.AVG_KEY_LEN": struct.pack(">i", self._key_bytes // count),
            "KEY_VALUE_VERSION": struct.pack(">i", 1),
            "MAX_MEMSTORE_TS_KEY": struct.pack(">q", 0),
            "hfile.CREATE_TIME_TS": struct.pack(">q", created_ms),
        }
        fields = (format_bytes_field(1, name.encode()) + format_bytes_field(2, value) for name, value in pairs.items())
        message = b"".join(format_bytes_field(1, pair) for pair in fields)
        return b"PBUF" + format_number(len(message)) + message
