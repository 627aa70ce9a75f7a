# SPDX-License-Identifier: Apache-2.0
"""What the pages of a Parquet file unfold to, known before any of them is decoded.

A footer can lie about its pages, and a page of a few bytes can stand for gigabytes: a dictionary with one huge text that
every row repeats, or zeros that compress ten thousand times. Arrow takes all that as it comes. So the headers of the
pages are read here first: by them Arrow takes its memory, so no lie in them is of use.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakebraid import limits
from lakebraid.format.damage import damaged
from lakebraid.format.parquet_footer import Chunk, Footer, leaf_indices
from lakebraid.format.thrift import parse_struct

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
    """How many rows of these columns can be decoded at once; CorruptFile if pages unfold beyond all measure.

    `source` is a `pyarrow.NativeFile`, `metadata` and `footer` are both of its footer. Give small files of a remote
    store in memory: what a Python file hides is not looked at, and then only the number of rows is kept small.
    """
    if isinstance(source, pa.PythonFile):
        return limits.PARQUET_STEP_ROWS  # each look would be a request to a store
    size: int = source.size()
    step_bytes = max(limits.PARQUET_STEP_BYTES_FREE, size * limits.PARQUET_PAGE_EXPANSION_MAX)
    wanted = leaf_indices(footer.leaves, columns)
    texts_wanted = [i for i in wanted if footer.leaves[i].physical_type in _TEXTS]
    most = 1
    for number in groups:
        group = footer.groups[number]
        pages = {i: _checked_pages(source, group.chunks[i], size, f"{where}, column {i:,}") for i in wanted}
        if sum(max((p.plain for p in found), default=0) for found in pages.values()) > unfolded_bytes_max(size):
            raise damaged(where, f"the pages of its row group {number:,} take too much memory together")
        texts = {i: _text_bytes(pages[i]) for i in texts_wanted}
        # Steps of some thousand rows cost little; only for smaller ones is it worth looking into the dictionaries.
        if sum(texts.values()) * min(_STEP_ROWS_ENOUGH, group.rows) > step_bytes:
            texts |= _longest_texts(source, metadata, number, {footer.leaves[i].path: (i, pages[i]) for i in texts})
        # A null of a fixed length takes that length in memory, and nothing in the file.
        most = max(most, sum(max(footer.leaves[i].width, taken) for i, taken in texts.items()))
    return max(1, min(limits.BATCH_ROWS, step_bytes // most))


def unfolded_bytes_max(size: int) -> int:
    """How many bytes the rows of a Parquet file of `size` bytes may take in memory."""
    return max(limits.PARQUET_UNFOLDED_BYTES_FREE, size * limits.PARQUET_EXPANSION_MAX)


def text_bytes_max(size: int) -> int:
    """How many of them may be texts and lists: nulls and numbers are small, but there may be many."""
    return max(limits.PARQUET_UNFOLDED_BYTES_FREE, size * limits.PARQUET_TEXT_EXPANSION_MAX)


def _checked_pages(source: Any, chunk: Chunk, size: int, where: str) -> list[_Page]:
    pages = []
    for page in _pages(source, chunk, size, where):
        if not 0 <= page.plain <= max(limits.PARQUET_PAGE_BYTES_FREE, page.stored * limits.PARQUET_PAGE_EXPANSION_MAX):
            raise damaged(where, f"a page would grow from {page.stored:,} bytes to {page.plain:,}")
        pages.append(page)
    if sum(page.plain for page in pages) > 2 * chunk.plain + limits.MIB:
        raise damaged(where, "its pages unfold to more than they announce")
    return pages


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
