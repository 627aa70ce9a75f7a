# SPDX-License-Identifier: Apache-2.0
"""One record of a metadata table: bytes without names, of which the schema gives the positions.

All records have one schema with a field for each kind of record, null for all but one. It is decoded by hand: fastavro takes
60 microseconds for the statistics of one column of one file, and there may be millions. (MDT, section 3)
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from lakebraid.errors import InvalidArgument
from lakebraid.format.avro.varint import format_long, parse_long
from lakebraid.format.damage import damaged
from lakebraid.format.metadata.values import Wrapped, format_wrapped, parse_wrapped

ALL_PARTITIONS: Final = "__all_partitions__"
PARTITIONS, FILES, COLUMN_STATS, BLOOM_FILTER, RECORD_INDEX, PARTITION_STATS = 1, 2, 3, 4, 5, 6
_META_FIELDS: Final = 5
_ENTRY_BYTES_MIN: Final = 3


@dataclass(frozen=True, slots=True)
class Files:
    """Files of a partition with their sizes, or partitions of the table; and those that are gone."""

    live: Mapping[str, int] = field(default_factory=dict)
    """Partitions have the size 0."""
    gone: frozenset[str] = frozenset()
    is_partitions: bool = False
    """Whether these are partitions: the record of `ALL_PARTITIONS`."""


class ColumnStats(NamedTuple):
    """What is known of one column in one file, or in one partition."""

    file_name: str
    """The partition's path in statistics of partitions."""
    column: str
    min: Wrapped | None
    max: Wrapped | None
    value_count: int
    """All rows, those without a value included."""
    null_count: int
    total_size: int = 0
    total_uncompressed_size: int = 0
    is_deleted: bool = False
    is_tight: bool = False
    """Whether it replaces what was known before; else the two are united."""
    value_type: tuple[int, str | None] | None = None
    """Hudi's number of the type, and what it adds to it; None in statistics of version V1."""
    is_of_partition: bool = False

    def without_range(self) -> ColumnStats:
        """The same record saying that nothing is known. Readers of Hudi's would take it for a column without values, so it is
        not for storing.
        """
        return self._replace(is_deleted=True)


class RowPlace(NamedTuple):
    """Where the row of a key is: an entry of the record index."""

    partition: str
    high: int
    low: int
    file_index: int
    file_id: str
    instant_ms: int
    encoding: int = 0
    """0: the file id is the two numbers as a UUID, and the index; 1: it is `file_id`."""
    position: int | None = None


class BloomFilter(NamedTuple):
    """The bloom filter of a base file, as its footer has it."""

    kind: str
    request_time: str
    content: bytes
    is_deleted: bool = False


class NotUnderstood(NamedTuple):
    """A record of another kind, as it is."""

    type: int
    content: bytes


Record: TypeAlias = Files | ColumnStats | RowPlace | BloomFilter | NotUnderstood


class RecordParser:
    """Records of one HFile; its schema has Hudi's five meta fields in front or not."""

    def __init__(self, where: str, *, has_meta_fields: bool = True) -> None:
        self._where, self._meta = where, _META_FIELDS if has_meta_fields else 0
        self._front, self._type = b"\xff", 0
        """The bytes with which the last record began, up to its own part: the next one mostly begins with them, too."""

    def parse(self, data: bytes) -> Record:
        """One record; CorruptFile for bytes that are none, or of which some are left over."""
        try:
            front = self._front
            position, kind = (len(front), self._type) if data.startswith(front) else self._parse_front(data)
            record, position = self._parse_own(data, position, kind)
        except IndexError:
            raise damaged(self._where, "a record ends in the middle of a value") from None
        except (ValueError, struct.error) as error:
            raise damaged(self._where, f"a record does not decode ({error!s:.120})") from None
        if position != len(data):
            raise damaged(self._where, f"{len(data) - position:,} bytes follow a record")
        return record

    def _parse_front(self, data: bytes) -> tuple[int, int]:
        """Where the part of its own kind begins, and the kind."""
        position = 0
        for _ in range(self._meta):
            _, position = _parse_optional_text(data, position)
        _, position = _parse_bytes(data, position)  # the key, which stands beside the record as well
        kind, position = parse_long(data, position)
        before = {PARTITIONS: 0, FILES: 0, BLOOM_FILTER: 1, COLUMN_STATS: 2, PARTITION_STATS: 2, RECORD_INDEX: 3}.get(
            kind
        )
        if before is not None:
            if data[position : position + before].strip(b"\x00") or data[position + before] != 2:
                raise ValueError(f"it says type {kind}, and holds another")
            position += before + 1
            self._front, self._type = data[:position], kind
        return position, kind

    def _parse_own(self, data: bytes, position: int, kind: int) -> tuple[Record, int]:
        if kind in (COLUMN_STATS, PARTITION_STATS):
            stats, position = _parse_column_stats(data, position, kind == PARTITION_STATS)
            return stats, _skip_nulls(data, position, 2)
        if kind in (PARTITIONS, FILES):
            files, position = _parse_files(data, position, kind == PARTITIONS)
            return files, _skip_nulls(data, position, 4)
        if kind == RECORD_INDEX:
            place, position = _parse_place(data, position)
            return place, _skip_nulls(data, position, 1)
        if kind == BLOOM_FILTER:
            bloom, position = _parse_bloom(data, position)
            return bloom, _skip_nulls(data, position, 3)
        return NotUnderstood(kind, data), len(data)


def _skip_nulls(data: bytes, position: int, count: int) -> int:
    if data[position : position + count] != bytes(count):
        raise ValueError("it holds two kinds of records")
    return position + count


def _parse_bytes(data: bytes, position: int) -> tuple[bytes, int]:
    length, position = parse_long(data, position)
    end = position + length
    if not position <= end <= len(data):
        raise ValueError(f"a value at byte {position:,} claims {length:,} bytes")
    return data[position:end], end


def _parse_text(data: bytes, position: int) -> tuple[str, int]:
    raw, position = _parse_bytes(data, position)
    return raw.decode(), position


def _parse_optional_text(data: bytes, position: int) -> tuple[str | None, int]:
    return _parse_text(data, position + 1) if _is_there(data, position) else (None, position + 1)


def _parse_optional_long(data: bytes, position: int) -> tuple[int | None, int]:
    return parse_long(data, position + 1) if _is_there(data, position) else (None, position + 1)


def _is_there(data: bytes, position: int) -> bool:
    branch = data[position]
    if branch not in (0, 2):
        raise ValueError(f"byte {position:,} says neither null nor a value")
    return branch == 2


def _parse_flag(data: bytes, position: int) -> tuple[bool, int]:
    if data[position] > 1:
        raise ValueError(f"byte {position:,} is neither true nor false")
    return data[position] == 1, position + 1


def _parse_files(data: bytes, position: int, is_partitions: bool) -> tuple[Files, int]:
    live: dict[str, int] = {}
    gone: set[str] = set()
    while True:
        count, position = parse_long(data, position)
        if count < 0:
            count, (_, position) = -count, parse_long(data, position)
        if not count:
            return Files(live, frozenset(gone), is_partitions), position
        if count > (len(data) - position) // _ENTRY_BYTES_MIN:
            raise ValueError(f"{count:,} files are announced")
        for _ in range(count):
            name, position = _parse_text(data, position)
            size, position = parse_long(data, position)
            is_gone, position = _parse_flag(data, position)
            if name in live or name in gone:
                raise ValueError(f"{name[:80]!r} stands twice")
            if is_gone:
                gone.add(name)
            elif size < 0 or not (size or is_partitions):
                raise ValueError(f"{name[:80]!r} has a size of {size:,} bytes")
            else:
                live[name] = size


def _parse_column_stats(data: bytes, position: int, is_of_partition: bool) -> tuple[ColumnStats, int]:
    file_name, position = _parse_optional_text(data, position)
    column, position = _parse_optional_text(data, position)
    low, position = parse_wrapped(data, position)
    high, position = parse_wrapped(data, position)
    values, position = _parse_optional_long(data, position)
    nulls, position = _parse_optional_long(data, position)
    size, position = _parse_optional_long(data, position)
    plain_size, position = _parse_optional_long(data, position)
    is_deleted, position = _parse_flag(data, position)
    is_tight, position = _parse_flag(data, position)
    kind: tuple[int, str | None] | None = None
    if _is_there(data, position):
        ordinal, position = parse_long(data, position + 1)
        more, position = _parse_optional_text(data, position)
        kind = (ordinal, more)
    else:
        position += 1
    if file_name is None or column is None or values is None or nulls is None:
        raise ValueError("statistics lack a name or a count")
    stats = ColumnStats(
        file_name,
        column,
        low,
        high,
        values,
        nulls,
        size or 0,
        plain_size or 0,
        is_deleted,
        is_tight,
        kind,
        is_of_partition,
    )
    return stats, position


def _parse_place(data: bytes, position: int) -> tuple[RowPlace, int]:
    partition, position = _parse_optional_text(data, position)
    high, position = _parse_optional_long(data, position)
    low, position = _parse_optional_long(data, position)
    index, position = _parse_optional_long(data, position)
    file_id, position = _parse_optional_text(data, position)
    instant, position = _parse_optional_long(data, position)
    encoding, position = parse_long(data, position)
    row, position = _parse_optional_long(data, position)
    if partition is None or high is None or low is None or index is None or instant is None:
        raise ValueError("an entry of the record index says not where the row is")
    if encoding not in (0, 1):
        raise ValueError(f"an entry of the record index has the unknown encoding {encoding}")
    return RowPlace(partition, high, low, index, file_id or "", instant, encoding, row), position


def _parse_bloom(data: bytes, position: int) -> tuple[BloomFilter, int]:
    kind, position = _parse_text(data, position)
    request_time, position = _parse_text(data, position)
    content, position = _parse_bytes(data, position)
    is_deleted, position = _parse_flag(data, position)
    return BloomFilter(kind, request_time, content, is_deleted), position


def format_record(record: Record) -> bytes:
    """A record as Hudi writes it: five empty meta fields, an empty key, its kind, and nulls for the other kinds."""
    match record:
        case Files():
            return _front(PARTITIONS if record.is_partitions else FILES, 0) + _format_files(record) + bytes(4)
        case ColumnStats():
            kind = PARTITION_STATS if record.is_of_partition else COLUMN_STATS
            return _front(kind, 2) + _format_column_stats(record) + bytes(2)
        case RowPlace():
            return _front(RECORD_INDEX, 3) + _format_place(record) + bytes(1)
        case BloomFilter():
            own = (_text(record.kind), _text(record.request_time), _sized(record.content), _flag(record.is_deleted))
            return _front(BLOOM_FILTER, 1) + b"".join(own) + bytes(3)
    return record.content


def _front(kind: int, before: int) -> bytes:
    return bytes(_META_FIELDS + 1) + format_long(kind) + bytes(before) + b"\x02"


def _format_files(record: Files) -> bytes:
    entries = [(name, size, False) for name, size in record.live.items()]
    entries += [(name, 0, True) for name in sorted(record.gone)]
    for name, size, is_gone in entries:
        if not is_gone and (size < 0 or not (size or record.is_partitions)):
            raise InvalidArgument(
                f"A file of {size:,} bytes cannot be in a metadata table: {name!r}. Nothing was written."
            )
    body = b"".join(_text(name) + format_long(size) + _flag(is_gone) for name, size, is_gone in entries)
    return (format_long(len(entries)) + body if entries else b"") + b"\x00"


def _format_column_stats(stats: ColumnStats) -> bytes:
    kind = stats.value_type
    return b"".join(
        (
            b"\x02", _text(stats.file_name), b"\x02", _text(stats.column), format_wrapped(stats.min), format_wrapped(stats.max),
            b"\x02", format_long(stats.value_count), b"\x02", format_long(stats.null_count),
            b"\x02", format_long(stats.total_size), b"\x02", format_long(stats.total_uncompressed_size),
            _flag(stats.is_deleted), _flag(stats.is_tight),
            b"\x00" if kind is None else b"\x02" + format_long(kind[0]) + _optional_text(kind[1]),
        )
    )  # fmt: skip


def _format_place(place: RowPlace) -> bytes:
    numbers = (place.high, place.low, place.file_index)
    return b"".join(
        (
            b"\x02", _text(place.partition), *(b"\x02" + format_long(number) for number in numbers),
            b"\x02", _text(place.file_id), b"\x02", format_long(place.instant_ms), format_long(place.encoding),
            b"\x00" if place.position is None else b"\x02" + format_long(place.position),
        )
    )  # fmt: skip


def _text(text: str) -> bytes:
    return _sized(text.encode())


def _sized(raw: bytes) -> bytes:
    return format_long(len(raw)) + raw


def _optional_text(text: str | None) -> bytes:
    return b"\x00" if text is None else b"\x02" + _text(text)


def _flag(value: bool) -> bytes:
    return b"\x01" if value else b"\x00"


def encoded(records: Mapping[str, Record]) -> Iterable[tuple[bytes, bytes]]:
    """The entries of an HFile with these records: sorted by the bytes of their keys."""
    return (
        (key, format_record(record))
        for key, record in sorted((key.encode(), record) for key, record in records.items())
    )
