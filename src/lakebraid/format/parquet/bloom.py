# SPDX-License-Identifier: Apache-2.0
"""Hudi's Bloom filters in the footers of base files: which keys are certainly not in a file.

A filter is base64 text of big-endian fields: -1, number of hashes, one byte for the hash (1: Murmur), number of bits,
the bits, the lowest of each byte first. A SIMPLE filter is one of these; a DYNAMIC_V0 one has a header like it, three
more numbers, of which the last is a count, and so many filters, of which any may hold the key.
"""

from __future__ import annotations

import base64
import binascii
import math
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakebraid import limits

FILTER: Final = "org.apache.hudi.bloomfilter"
FILTER_TYPE: Final = "hoodie_bloom_filter_type_code"
MIN_KEY: Final = "hoodie_min_record_key"
MAX_KEY: Final = "hoodie_max_record_key"

_HEADER: Final = struct.Struct(">iibi")
_ROWS: Final = struct.Struct(">iii")
_MURMUR: Final = 1
_BLOCK_KEYS: Final = 1 << 15
_M: Final = np.uint32(0x5BD1E995)

Words = npt.NDArray[np.uint32]
Bits = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class BloomFilter:
    """Filters of which one may hold a key: each a number of hashes and bits."""

    parts: tuple[tuple[int, Bits], ...]

    def may_hold(self, keys: pa.Array) -> Bits:
        """Key by key: False if it is certainly not among those that were put in."""
        found = np.zeros(len(keys), np.bool_)
        for hashes, bits in self.parts:
            for rows, places in _places(keys, hashes, len(bits)):
                inside = np.ones(len(rows), np.bool_)
                for place in places:
                    inside &= bits[place]
                found[rows] |= inside
        return found


class FilterOfKeys:
    """A filter in the making; keys may come in several pieces."""

    def __init__(self) -> None:
        self._keys: list[pa.Array] = []

    def add(self, keys: pa.Array | pa.ChunkedArray) -> None:
        self._keys += keys.chunks if isinstance(keys, pa.ChunkedArray) else [keys]

    def entries(self) -> dict[str, str]:
        """What a footer says of these keys, beside the least and the greatest."""
        count = sum(map(len, self._keys))
        size, hashes = _shape(count)
        bits = np.zeros(size, np.bool_)
        for keys in self._keys:
            for _, places in _places(keys, hashes, size):
                for place in places:
                    bits[place] = True
        data = _HEADER.pack(-1, hashes, _MURMUR, size) + np.packbits(bits, bitorder="little").tobytes()
        return {FILTER: base64.b64encode(data).decode("ascii"), FILTER_TYPE: "SIMPLE"}


def parse_filter(footer: Mapping[bytes, bytes]) -> BloomFilter | None:
    """The filter that a footer holds; None if there is none that can be read: then every key may be in the file."""
    text = footer.get(FILTER.encode())
    if text is None or len(text) > limits.BLOOM_TEXT_BYTES_MAX:
        return None
    try:
        data = base64.b64decode(text)
        at = 0
        count = 1
        if footer.get(FILTER_TYPE.encode(), b"SIMPLE") == b"DYNAMIC_V0":
            at = _HEADER.size + _ROWS.size
            count = _ROWS.unpack_from(data, _HEADER.size)[2]
        parts = []
        for _ in range(count):
            part, at = _parse_part(data, at)
            parts.append(part)
    except (binascii.Error, struct.error, ValueError):
        return None
    return BloomFilter(tuple(parts)) if parts else None


def _parse_part(data: bytes, at: int) -> tuple[tuple[int, Bits], int]:
    version, hashes, kind, size = _HEADER.unpack_from(data, at)
    at += _HEADER.size
    end = at + (size + 7) // 8
    if (version, kind) != (-1, _MURMUR) or not 0 < hashes <= limits.BLOOM_HASHES_MAX or not size > 0 or end > len(data):
        raise ValueError("no such filter")
    bits = np.unpackbits(np.frombuffer(data, np.uint8, end - at, at), bitorder="little")[:size].astype(np.bool_)
    return (hashes, bits), end


def _shape(count: int) -> tuple[int, int]:
    """Bits and hashes for so many keys."""
    wanted = math.ceil(max(count, 1) * -math.log(limits.BLOOM_ERROR_RATE) / math.log(2) ** 2)
    size = min(max(wanted, 64), limits.BLOOM_BITS_MAX)
    return size, max(1, min(limits.BLOOM_HASHES_MAX, math.ceil(math.log(2) * size / max(count, 1))))


def _places(keys: pa.Array, hashes: int, size: int) -> Iterator[tuple[Any, Iterator[Words]]]:
    """Rows of the keys, and for each hash the bits of these rows. Each hash is the seed of the next."""
    for start in range(0, len(keys), _BLOCK_KEYS):
        block = keys.slice(start, _BLOCK_KEYS)
        for rows, texts in _by_length(block):
            yield rows + start, _bit_places(texts, hashes, size)


def _by_length(keys: pa.Array) -> Iterator[tuple[Any, npt.NDArray[np.uint8]]]:
    """The keys' UTF-8 bytes as rectangles, one for each length."""
    keys = keys.cast(pa.large_string())
    _, offsets, data = keys.buffers()
    ends = np.frombuffer(offsets, np.int64)[keys.offset : keys.offset + len(keys) + 1]
    content = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
    lengths = np.diff(ends)
    for length in np.unique(lengths):
        rows = np.flatnonzero(lengths == length)
        yield rows, content[ends[:-1][rows][:, None] + np.arange(length)]


def _bit_places(texts: npt.NDArray[np.uint8], hashes: int, size: int) -> Iterator[Words]:
    length = texts.shape[1]
    whole = length // 4 * 4
    words = [_mixed(word) for word in np.ascontiguousarray(texts[:, :whole]).view("<u4").T] if whole else []
    tail = _tail(texts[:, whole:])
    seed = np.zeros(len(texts), np.uint32)
    for _ in range(hashes):
        seed = _murmur(words, tail, seed ^ np.uint32(length))
        # Java's remainder has the sign of the number, and then its absolute value is taken.
        signed = seed.view(np.int32)
        yield np.where(signed < 0, ~seed + np.uint32(1), seed) % np.uint32(size)


def _mixed(word: Words) -> Words:
    mixed = word * _M
    mixed ^= mixed >> np.uint32(24)
    return mixed * _M


def _tail(rest: npt.NDArray[np.uint8]) -> Words | None:
    """What is left of the text, its bytes with their signs, the last one lowest."""
    count = rest.shape[1]
    if not count:
        return None
    tail = np.zeros(len(rest), np.uint32)
    for at in range(count):
        signed = rest[:, at].view(np.int8).astype(np.int32) << np.int32(8 * (count - 1 - at))
        tail ^= signed.view(np.uint32)
    return tail


def _murmur(words: list[Words], tail: Words | None, value: Words) -> Words:
    for word in words:
        value = (value * _M) ^ word
    if tail is not None:
        value = (value ^ tail) * _M
    value = value ^ (value >> np.uint32(13))
    value = value * _M
    return value ^ (value >> np.uint32(15))
