# SPDX-License-Identifier: Apache-2.0
"""Hudi's simple bucket index: which of N file groups of a partition a record key belongs to.

The bucket is Java's `List.hashCode` of the key's values, without its sign, modulo N. The values are taken from the
key's text by Hudi's own parser, not from the columns, and characters are UTF-16 units. A writer that gets one of these
wrong puts a second copy of a row into another bucket, and no error tells it.

A replaced file group is gone for good, and file ids of buckets are fixed, so rows that come after an overwrite need
other ids: agreed by all writers, and never used before (scenario F8). They follow from the request time of the overwrite
alone: a writer that knows which one was the last of a partition knows the ids of its buckets, without looking at files.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakebraid.errors import InvalidArgument
from lakebraid.format.times import is_instant_time
from lakebraid.limits import BUCKETS_MAX
from lakebraid.model.keys.keys import EMPTY_TEXT, NULL_TEXT, parse_record_key

_TAIL: Final = "-0000-0000-0000-000000000000-0"
_BUCKET: Final = re.compile("[0-9]{8}-")
_BLOCK_BYTES: Final = 1 << 18
_INVERSE_OF_31: Final = pow(31, -1, 1 << 32)

Hashes: TypeAlias = npt.NDArray[np.uint32]
Positions: TypeAlias = npt.NDArray[np.int64]
Units: TypeAlias = npt.NDArray[Any]


def bucket_ids(record_keys: pa.Array | pa.ChunkedArray, fields: Sequence[str], buckets: int) -> npt.NDArray[np.int32]:
    """The bucket of every record key; `fields` are the hash fields, usually the record key fields."""
    _check_buckets(buckets)
    return (key_hashes(record_keys, fields) % np.uint32(buckets)).astype(np.int32)


def key_hashes(record_keys: pa.Array | pa.ChunkedArray, fields: Sequence[str]) -> Hashes:
    """The hash of every record key, without its sign: its remainder by the number of buckets is the bucket."""
    chunks = record_keys.chunks if isinstance(record_keys, pa.ChunkedArray) else [record_keys]
    hashes = [block for chunk in chunks for block in _chunk_hashes(chunk, list(fields))]
    joined = np.concatenate(hashes) if hashes else np.zeros(0, dtype=np.uint32)
    return joined & np.uint32(0x7FFFFFFF)


def bucket_of(key_text: str, fields: Sequence[str], buckets: int) -> int:
    """The bucket of one record key.

    >>> bucket_of("7", ["id"], 4), bucket_of("a:x,b:2", ["a", "b"], 4)
    (2, 3)
    """
    _check_buckets(buckets)
    return (_list_hash(parse_record_key(key_text, fields)) & 0x7FFFFFFF) % buckets


def bucket_file_id(bucket: int) -> str:
    """The file id that all non-blocking writers give to a bucket, so that they meet without talking."""
    if 0 <= bucket < BUCKETS_MAX:
        return f"{bucket:08d}{_TAIL}"
    raise InvalidArgument(f"There is no bucket {bucket}; numbers go from 0 to {BUCKETS_MAX - 1}.", bucket=bucket)


def bucket_of_file_id(file_id: str) -> int | None:
    """The bucket that a file id begins with, fixed or random tail; None if it does not look like one.

    Only meaningful in tables with a bucket index: a random id elsewhere may begin with eight digits too.
    """
    return int(file_id[:8]) if _BUCKET.match(file_id) else None


@dataclass(frozen=True, slots=True)
class Replaced:
    """The request time of the last overwrite of each partition; of partitions that are not named, that of the whole table."""

    partitions: Mapping[str, str] = field(default_factory=dict)
    whole: str | None = None

    def file_id(self, partition: str, bucket: int) -> str:
        """The file group of a bucket: the fixed one as long as nothing was overwritten there."""
        request_time = self.partitions.get(partition) or self.whole
        return bucket_file_id(bucket) if request_time is None else replaced_file_id(bucket, request_time)

    def after(self, request_time: str, partitions: Iterable[str] | None) -> Replaced:
        """The same after one more overwrite: of these partitions, or of the whole table."""
        if partitions is None:
            return Replaced(whole=request_time)
        return Replaced({**self.partitions, **dict.fromkeys(sorted(partitions), request_time)}, self.whole)


def replaced_file_id(bucket: int, request_time: str) -> str:
    """The file id of a bucket since the overwrite that began at `request_time`: as long and of the same form as the fixed ones.

    >>> replaced_file_id(3, "20261116091228123")
    '00000003-2026-1116-0912-281230000000-0'
    """
    if not is_instant_time(request_time) or len(request_time) != 17:
        raise InvalidArgument(f"{request_time[:40]!r} is no request time of an overwrite. Nothing was written.")
    number = bucket_file_id(bucket)[:8]
    return f"{number}-{request_time[:4]}-{request_time[4:8]}-{request_time[8:12]}-{request_time[12:]}0000000-0"


def java_string_hash(text: str) -> int:
    """Java's String.hashCode as an unsigned 32-bit number.

    >>> java_string_hash("Hello"), java_string_hash("")
    (69609650, 0)
    """
    units = text.encode("utf-16-le", "surrogatepass")
    value = 0
    for at in range(0, len(units), 2):
        value = (31 * value + units[at] + (units[at + 1] << 8)) & 0xFFFFFFFF
    return value


def _list_hash(values: Sequence[str | None]) -> int:
    value = 1
    for part in values:
        value = (31 * value + (0 if part is None else java_string_hash(part))) & 0xFFFFFFFF
    return value


def _check_buckets(buckets: int) -> None:
    if not 1 <= buckets <= BUCKETS_MAX:
        raise InvalidArgument(
            f"{buckets} buckets make no sense; give a number from 1 to {BUCKETS_MAX}.", buckets=buckets
        )


def _chunk_hashes(chunk: pa.Array, fields: list[str]) -> Iterator[Hashes]:
    if chunk.null_count:
        raise InvalidArgument("A record key is null, so it has no bucket. Nothing was written.")
    offsets, data = _string_buffers(chunk)
    first = 0
    while first < len(chunk):
        # Blocks that fit a cache: three passes over them cost less than one over the whole.
        last = int(np.searchsorted(offsets, offsets[first] + _BLOCK_BYTES, side="right")) - 1
        last = min(max(last, first + 1), len(chunk))
        yield _block_hashes(data[offsets[first] : offsets[last]], offsets[first : last + 1] - offsets[first], fields)
        first = last


def _string_buffers(chunk: pa.Array) -> tuple[Positions, Units]:
    if not (pa.types.is_string(chunk.type) or pa.types.is_large_string(chunk.type)):
        raise InvalidArgument(f"Record keys are text, but a column of type {chunk.type} was given.")
    _, offsets, data = chunk.buffers()
    if not len(chunk):
        return np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.uint8)
    width = np.int64 if pa.types.is_large_string(chunk.type) else np.int32
    ends = np.frombuffer(offsets, dtype=width)[chunk.offset : chunk.offset + len(chunk) + 1].astype(np.int64)
    return ends, np.frombuffer(data, dtype=np.uint8) if data else np.zeros(0, dtype=np.uint8)


def _block_hashes(data: Units, offsets: Positions, fields: list[str]) -> Hashes:
    units, offsets = _utf16(data, offsets)
    text = _Text(units)
    starts, ends = offsets[:-1], offsets[1:]
    hashes = np.uint32(31) + text.hashes(starts, ends)
    marks = _Marks(np.flatnonzero(units == ord(":")), np.flatnonzero(units == ord(",")))
    composed = np.flatnonzero(_any_within(marks.colons, starts, ends) & _any_within(marks.commas, starts, ends))
    if len(composed):
        hashes[composed] = _composed_hashes(text, starts[composed], ends[composed], marks, fields)
    return hashes


def _utf16(data: Units, offsets: Positions) -> tuple[Units, Positions]:
    """The text as UTF-16 units, and where each key begins in them; ASCII bytes are units already."""
    if not len(data) or data.max() < 0x80:
        return data, offsets
    # One unit per character, two beyond the first plane (four bytes in UTF-8), none for continuation bytes.
    counts = ((data & 0xC0) != 0x80).astype(np.int64) + (data >= 0xF0)
    before = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts)])
    try:
        units = np.frombuffer(data.tobytes().decode("utf-8").encode("utf-16-le"), dtype="<u2")
    except UnicodeDecodeError as problem:
        raise InvalidArgument(f"A record key is not valid UTF-8 ({problem}). Nothing was written.") from problem
    return units, before[offsets]


class _Text:
    """UTF-16 units of many keys with running sums, from which the hash of any stretch is one subtraction.

    With prefix[n] = sum of unit[i] * 31**-i for i < n (31 has an inverse modulo 2**32), the hash of the units
    [a, b) is (prefix[b] - prefix[a]) * 31**(b - 1).
    """

    __slots__ = ("powers", "prefix", "units")

    def __init__(self, units: Units) -> None:
        inverses, self.powers = _powers_of_31(1 << max(len(units), _BLOCK_BYTES - 1).bit_length())
        self.units = units
        self.prefix = np.zeros(len(units) + 1, dtype=np.uint32)
        np.cumsum(units.astype(np.uint32) * inverses[: len(units)], dtype=np.uint32, out=self.prefix[1:])

    def hashes(self, starts: Positions, ends: Positions) -> Hashes:
        summed = self.prefix[ends] - self.prefix[starts]
        return (summed * self.powers[np.maximum(ends - 1, 0)]).astype(np.uint32)

    def equal(self, starts: Positions, ends: Positions, wanted: str) -> npt.NDArray[np.bool_]:
        """Whether each stretch reads exactly `wanted`."""
        expected = np.frombuffer(wanted.encode("utf-16-le", "surrogatepass"), dtype="<u2")
        same: npt.NDArray[np.bool_] = ends - starts == len(expected)
        for at, unit in enumerate(expected):
            same[same] = self.units[starts[same] + at] == unit
        return same


@functools.lru_cache(maxsize=2)
def _powers_of_31(count: int) -> tuple[Hashes, Hashes]:
    def powers(base: int) -> Hashes:
        factors = np.full(count, base, dtype=np.uint32)
        factors[0] = 1
        return np.cumprod(factors, dtype=np.uint32)

    return powers(_INVERSE_OF_31), powers(31)


def _any_within(marks: Positions, starts: Positions, ends: Positions) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = np.searchsorted(marks, starts) < np.searchsorted(marks, ends)
    return found


def _composed_hashes(text: _Text, starts: Positions, ends: Positions, marks: _Marks, fields: list[str]) -> Hashes:
    """Hashes of keys like `a:1,b:2`: those of a known layout together, odd ones (a value with `:` or `,`) one by one."""
    hashes = np.zeros(len(starts), dtype=np.uint32)
    rest = np.arange(len(starts))
    every = not fields or fields == [""]
    for names in (fields, _field_names(_key_text(text, starts[0], ends[0]))):
        kept = [at for at, name in enumerate(names) if every or name in fields]
        if not kept:
            continue
        layout = _regular(text, starts[rest], ends[rest], marks, names)
        hashes[rest[layout.rows]] = _layout_hashes(text, layout, kept)
        rest = np.delete(rest, layout.rows)
    for row in rest:
        hashes[row] = _list_hash(parse_record_key(_key_text(text, starts[row], ends[row]), fields))
    return hashes


class _Marks(NamedTuple):
    """Where the separators of a block are."""

    colons: Positions
    commas: Positions


class _Layout(NamedTuple):
    """The rows that are exactly `name:value,name:value…`, and where their values lie (rows x fields)."""

    rows: Positions
    starts: Positions
    ends: Positions


def _regular(text: _Text, starts: Positions, ends: Positions, marks: _Marks, names: Sequence[str]) -> _Layout:
    count = len(names)
    first_colon, first_comma = np.searchsorted(marks.colons, starts), np.searchsorted(marks.commas, starts)
    right = np.searchsorted(marks.colons, ends) - first_colon == count
    right &= np.searchsorted(marks.commas, ends) - first_comma == count - 1
    rows = np.flatnonzero(right)
    colons = marks.colons[first_colon[rows, None] + np.arange(count)]
    commas = marks.commas[first_comma[rows, None] + np.arange(max(count - 1, 0))]
    names_at = np.hstack([starts[rows, None], commas + 1])
    value_ends = np.hstack([commas, ends[rows, None]])
    fits = np.ones(len(rows), dtype=np.bool_)
    for at, name in enumerate(names):
        fits &= text.equal(names_at[:, at], colons[:, at], name) & (colons[:, at] < value_ends[:, at])
    return _Layout(rows[fits], colons[fits] + 1, value_ends[fits])


def _layout_hashes(text: _Text, layout: _Layout, kept: Sequence[int]) -> Hashes:
    hashes = np.ones(len(layout.rows), dtype=np.uint32)
    for at in kept:
        starts, ends = layout.starts[:, at], layout.ends[:, at]
        blank = text.equal(starts, ends, NULL_TEXT) | text.equal(starts, ends, EMPTY_TEXT)
        hashes = hashes * np.uint32(31) + np.where(blank, np.uint32(0), text.hashes(starts, ends))
    return hashes


def _field_names(key_text: str) -> list[str]:
    return [part.partition(":")[0] for part in key_text.split(",")]


def _key_text(text: _Text, start: int, end: int) -> str:
    return text.units[start:end].astype("<u2").tobytes().decode("utf-16-le", "surrogatepass")
