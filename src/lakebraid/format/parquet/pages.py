# SPDX-License-Identifier: Apache-2.0
"""How many rows of a Parquet file can be decoded at once, known before any page is.

A footer can lie about its pages, and a page of a few bytes can stand for gigabytes: a dictionary with one huge text that
every row repeats, or zeros that compress ten thousand times. That may be a bomb or honest data; Arrow takes it as it comes.
So the headers of the pages are read here first: by them Arrow takes its memory, so no lie in them is of use. They say how many
rows fit into a step of bounded size, and whether the pages themselves fit into the memory that there is.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakebraid import limits
from lakebraid.format.damage import damaged
from lakebraid.format.parquet.chunk import WIDTHS, Leaf
from lakebraid.format.parquet.footer import Chunk, Footer, leaf_indices
from lakebraid.format.parquet.thrift import parse_struct
from lakebraid.memory import check_needed

_HEADER_BYTES: Final = 128  # of an ordinary page header; longer ones are read again
_HEADER_BYTES_MAX: Final = 16 * limits.MIB
_STEP_ROWS_ENOUGH: Final = 8192
_TEXTS: Final = ("BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY")
_DICTIONARY_PAGE: Final = 2
_PARTS: Final = {0: 5, 3: 8}  # by the kind of a page with rows, in which field of its header their number stands
_DICTIONARIES: Final = (2, 8)
_I32: Final = 0x15  # a field of a 32 bit number that follows the one before it
_HELD: Final = {0: 0x2C, 2: 0x4C}  # by the kind of page, how the header of its data begins after the three numbers
_DELTA_BYTE_ARRAY: Final = 7  # a text may begin like the one before it, for no bytes
_CODECS: Final = {0: None, 1: "snappy", 2: "gzip", 4: "brotli", 6: "zstd", 7: "lz4_raw"}
_LENGTH: Final = struct.Struct("<I")
_PAGE_BYTES_MAX: Final = (1 << 31) - 1  # the header of a page has 32 bits for it
_LEVEL_BYTES: Final = 8  # of the levels of a value, and of what encodings add
_SLOT_BYTES: Final = 5  # what Arrow adds to a value: where it begins, and whether it is null


@dataclass(frozen=True, slots=True)
class _Page:
    kind: int
    stored: int
    plain: int
    values: int
    encoding: int
    begin: int


def batch_rows(
    source: Any, metadata: pq.FileMetaData, footer: Footer, groups: Sequence[int], columns: set[str], where: str
) -> int:
    """How many rows of these columns can be decoded at once; an error if a page is impossible or does not fit into memory.

    `source` is a `pyarrow.NativeFile`, `metadata` and `footer` are both of its footer. Give small files of a remote
    store in memory: the pages of a Python file are not looked at, and the footer is taken at its word.
    """
    wanted = leaf_indices(footer.leaves, columns)
    is_hidden = isinstance(source, pa.PythonFile)  # each look would be a request to a store
    most = 1.0
    for number in groups:
        if is_hidden:
            row_bytes = _announced_row_bytes(footer, number, wanted)
        else:
            row_bytes = _row_bytes(source, metadata, footer, number, wanted, where)
        most = max(most, row_bytes)
    rows_max = limits.PARQUET_STEP_ROWS if is_hidden else limits.BATCH_ROWS
    return max(1, min(rows_max, int(limits.PARQUET_HELD_BYTES / most)))


def _announced_row_bytes(footer: Footer, number: int, wanted: Sequence[int]) -> float:
    """What a row of a group takes by the footer, on average; texts in dictionaries count as long as their dictionary allows."""
    group = footer.groups[number]
    return sum(group.chunks[i].plain for i in wanted) / max(1, group.rows)


def _row_bytes(
    source: Any, metadata: pq.FileMetaData, footer: Footer, number: int, wanted: Sequence[int], where: str
) -> float:
    """What a row of a group may take: on average where that is in its pages, at worst where one value stands for many rows."""
    group, leaves = footer.groups[number], footer.leaves
    pages = {i: _checked_pages(source, group.chunks[i], leaves[i], f"{where}, column {i:,}") for i in wanted}
    open_bytes = sum(max((page.plain for page in found), default=0) for found in pages.values())
    check_needed(open_bytes, f"Decoding row group {number:,} of {where}")
    texts = {i: _text_bytes(found) for i, found in pages.items() if leaves[i].physical_type in _TEXTS}
    # Steps of some thousand rows cost little; only for smaller ones is it worth looking into the dictionaries.
    if sum(texts.values()) * min(_STEP_ROWS_ENOUGH, group.rows) > limits.PARQUET_HELD_BYTES:
        texts |= _longest_texts(source, metadata, number, {leaves[i].path: (i, pages[i]) for i in texts})
        for i in texts:
            if leaves[i].levels[0]:
                texts[i] = _longest_inside(source, group.chunks[i].codec, pages[i])
    taken = 0.0
    for i in wanted:
        value = max(texts.get(i, 0), _densest(pages[i])) if i in texts else 0
        taken += _leaf_bytes(group.chunks[i], leaves[i], group.rows, value, where)
    return taken


def _leaf_bytes(chunk: Chunk, leaf: Leaf, rows: int, text_bytes: float, where: str) -> float:
    """What one column of a row takes, with the bytes of a text known."""
    # A null of a fixed length takes that length in memory, and nothing in the file.
    value = max(text_bytes, WIDTHS.get(leaf.physical_type, leaf.width)) + _SLOT_BYTES
    if leaf.levels[0] == 0:
        return value
    in_one_row = chunk.values * (WIDTHS.get(leaf.physical_type, leaf.width) + _SLOT_BYTES)
    if in_one_row > limits.NESTED_EXPANSION_FREE * chunk.stored:
        check_needed(in_one_row, f"Decoding column {leaf.path[:60]!r} of {where}")
    return value * chunk.values / max(1, rows)


def _checked_pages(source: Any, chunk: Chunk, leaf: Leaf, where: str) -> list[_Page]:
    pages = list(_pages(source, chunk, source.size(), where))
    for page in pages:
        if not 0 <= page.plain <= _page_bytes_max(page, leaf):
            raise damaged(
                where, f"a page of {page.values:,} values would grow from {page.stored:,} bytes to {page.plain:,}"
            )
    if sum(page.plain for page in pages) > 2 * chunk.plain + limits.MIB:
        raise damaged(where, "its pages unfold to more than they announce")
    return pages


def _page_bytes_max(page: _Page, leaf: Leaf) -> int:
    """No page is larger than its values, and those of numbers have a size."""
    if leaf.physical_type in _TEXTS or page.kind == _DICTIONARY_PAGE:
        return _PAGE_BYTES_MAX
    return page.values * (WIDTHS[leaf.physical_type] + _LEVEL_BYTES) + limits.MIB


def _densest(pages: list[_Page]) -> float:
    """The bytes of a value in the page where they are longest."""
    return max((page.plain / page.values for page in pages if page.values > 0), default=1.0)


def _pages(source: Any, chunk: Chunk, size: int, where: str) -> Iterator[_Page]:
    at = chunk.dictionary_at if 0 < chunk.dictionary_at < chunk.data_at else chunk.data_at
    end = at + chunk.stored
    if not 0 <= at <= end <= size:
        raise damaged(where, f"it lies from byte {at:,} to {end:,} of {size:,}")
    missing = chunk.values
    # Arrow, too, stops when it has all values; what follows is never looked at.
    while at < end and missing > 0:
        try:
            page = _page(source, at, end)
        except (ValueError, IndexError):
            raise damaged(where, f"the header of the page at byte {at:,} does not decode") from None
        if page.begin + page.stored > end:
            raise damaged(where, f"the page at byte {at:,} has {page.stored:,} bytes; {end - page.begin:,} remain")
        yield page
        at = page.begin + page.stored
        missing -= page.values


def _page(source: Any, at: int, end: int) -> _Page:
    """The page whose header stands at `at`."""
    size = _HEADER_BYTES
    while True:
        data = source.read_at(min(size, end - at), at)
        quick = _plain_header(data)
        if quick is not None:
            return _checked_page(*quick[:5], at + quick[5])
        try:
            fields, length = parse_struct(data, 0)
            break
        except IndexError:
            if len(data) < size or size >= _HEADER_BYTES_MAX:
                raise
            size *= 8
    kind, plain, stored = (fields.get(key, -1) for key in (1, 2, 3))
    if not isinstance(kind, int):
        raise ValueError("the kind of the page is no number")  # noqa: TRY004 - of the bytes, not of an argument
    # The kind says which of the parts counts; the others may be there to deceive.
    held = fields.get(_PARTS.get(kind, 0)) or {}
    values, encoding = (held.get(1, 0), held.get(2 if kind == 0 else 4, 0)) if isinstance(held, dict) else (0, 0)
    if not all(isinstance(number, int) for number in (kind, plain, stored, values, encoding)):
        raise ValueError("a number is none")
    return _checked_page(kind, plain, stored, values, encoding, at + length)


def _checked_page(kind: int, plain: int, stored: int, values: int, encoding: int, begin: int) -> _Page:
    # Arrow takes the lowest 32 bits of each: a larger number would mean one thing here and another there.
    numbers = (kind, plain, stored, values, encoding)
    if stored < 0 or min(numbers) < -(1 << 31) or max(numbers) >= 1 << 31:
        raise ValueError("a number is out of range")
    return _Page(kind, stored, plain, values, encoding, begin)


def _plain_header(data: bytes) -> tuple[int, int, int, int, int, int] | None:
    """Kind, plain and stored size, values, encoding and length of a header as the usual writers make it.

    None for any other, which the general parser then reads. This one takes a tenth of its time, and a table of many
    small log blocks has very many pages.
    """
    try:
        numbers = []
        at = 0
        for _ in range(3):
            if data[at] != _I32:
                return None
            number, at = _number(data, at + 1)
            numbers.append(number)
        kind, plain, stored = numbers
        has_checksum = data[at] == _I32
        if has_checksum:
            _, at = _number(data, at + 1)
        if stored < 0 or data[at] != _HELD.get(kind, -1) - 0x10 * has_checksum:
            return None
        values, at = _number(data, at + 2) if data[at + 1] == _I32 else (-1, at)
        encoding, at = _number(data, at + 1) if data[at] == _I32 else (-1, at)
        if values < 0 or encoding < 0:
            return None
        at = _end_of_fields(data, at)
        return (
            (kind, plain, stored, values if kind == 0 else 0, encoding if kind == 0 else 0, at + 1)
            if at > 0 and data[at] == 0
            else None
        )
    except IndexError:
        return None


def _number(data: bytes, at: int) -> tuple[int, int]:
    """A zigzag number and where the next field begins."""
    raw, at = _varint(data, at)
    return (raw >> 1) ^ -(raw & 1), at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    raw = shift = 0
    while True:
        byte = data[at]
        at += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            return raw, at
        shift += 7
        if shift > 35:
            raise IndexError


def _end_of_fields(data: bytes, at: int) -> int:
    """Where the fields after the first ones end; 0 if there are other than numbers, flags, texts and one level of structs."""
    depth = 1
    while depth:
        head = data[at]
        at += 1
        kind = head & 0x0F
        if head == 0:
            depth -= 1
        elif head < 0x10:
            return 0
        elif kind in (5, 6):
            while data[at] >= 0x80:
                at += 1
            at += 1
        elif kind == 8:
            length, at = _varint(data, at)
            at += length
        elif kind == 12 and depth < 3:
            depth += 1
        elif kind not in (1, 2):
            return 0
    return at


def _text_bytes(pages: list[_Page]) -> int:
    """The most bytes that one row can repeat without taking room in the file."""
    return max((p.plain for p in pages if p.kind == _DICTIONARY_PAGE or p.encoding == _DELTA_BYTE_ARRAY), default=1)


def _longest_inside(source: Any, codec: int, pages: list[_Page]) -> int:
    """The most bytes that one value of a list can repeat: for columns inside of others the dictionary is looked through here."""
    first = pages[0] if pages else None
    if first is None or first.kind != _DICTIONARY_PAGE or codec not in _CODECS:
        return _text_bytes(pages)
    data = source.read_at(first.stored, first.begin)
    try:
        if _CODECS[codec]:
            data = pa.Codec(_CODECS[codec]).decompress(data, first.plain, asbytes=True)
    except (pa.ArrowException, OSError, ValueError):
        return _text_bytes(pages)  # reading it will tell what is wrong
    longest = at = 0
    length_at = _LENGTH.unpack_from
    while at + _LENGTH.size <= len(data):
        length = length_at(data, at)[0]
        longest = max(longest, length)
        at += _LENGTH.size + length
    return max(longest, _text_bytes(pages[1:]))


def _longest_texts(
    source: Any, metadata: pq.FileMetaData, group: int, pages: dict[str, tuple[int, list[_Page]]]
) -> dict[int, int]:
    """The same, with dictionaries looked through, where that is possible: ordinary ones are large and of short texts."""
    # The reader shows a dictionary only where the first values come out of it, and not inside of other columns.
    names = {
        name: index
        for name, (index, found) in pages.items()
        if "." not in name
        and len(found) > 1
        and found[0].kind == _DICTIONARY_PAGE
        and found[1].encoding in _DICTIONARIES
    }
    try:
        file = pq.ParquetFile(source, metadata=metadata, read_dictionary=list(names), pre_buffer=False)
        first = next(file.iter_batches(1, row_groups=[group], columns=list(names), use_threads=False), None)
        shown = {} if first is None else {name: first.column(name).dictionary for name in names}
    except (pa.ArrowException, OSError, ValueError, KeyError, AttributeError):
        return {}  # reading them will tell what is wrong
    longest = {name: pc.max(pc.binary_length(texts)).as_py() for name, texts in shown.items() if len(texts)}
    return {names[name]: max(length or 1, _text_bytes(pages[name][1][1:])) for name, length in longest.items()}
