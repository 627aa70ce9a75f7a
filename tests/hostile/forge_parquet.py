# SPDX-License-Identifier: Apache-2.0
"""Parquet files made by hand, which say whatever they are told to say. No honest writer could be talked into them."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

INT32, INT64, INT96, BYTE_ARRAY, FIXED = 1, 2, 3, 6, 7
PLAIN, RLE, DICTIONARY, DELTA_BYTE_ARRAY = 0, 3, 8, 7
CODECS = {None: 0, "snappy": 1, "gzip": 2, "lzo": 3, "zstd": 6, "unknown": 77}


def unsigned(number: int) -> bytes:
    encoded = b""
    while number >= 0x80:
        encoded += bytes((number & 0x7F | 0x80,))
        number >>= 7
    return encoded + bytes((number,))


def signed(number: int) -> bytes:
    return unsigned((number << 1) ^ (number >> 63) if number < 0 else number << 1)


def field(step: int, kind: int, value: bytes) -> bytes:
    """One Thrift field, `step` ids after the one before it."""
    return bytes((step << 4 | kind,)) + value


def number(step: int, value: int, kind: int = 5) -> bytes:
    return field(step, kind, signed(value))


def text(step: int, value: bytes) -> bytes:
    return field(step, 8, unsigned(len(value)) + value)


def struct(step: int, *fields: bytes) -> bytes:
    return field(step, 12, b"".join(fields) + b"\0")


def items(step: int, values: Sequence[bytes], kind: int = 12) -> bytes:
    head = bytes((len(values) << 4 | kind,)) if len(values) < 15 else bytes((0xF0 | kind,)) + unsigned(len(values))
    return field(step, 9, head + b"".join(values))


@dataclass(frozen=True)
class Column:
    """One column chunk: its pages as they lie in the file, and what the footer says of it."""

    name: bytes
    kind: int
    pages: bytes
    values: int
    codec: str | None = None
    plain_bytes: int | None = None
    stored_bytes: int | None = None
    width: int | None = None
    is_text: bool = False
    more_metadata: bytes = b""
    """Fields after the ninth of the chunk's metadata."""
    more: bytes = b""
    """Fields after the third of the chunk."""


def page(
    content: bytes, *, values: int, encoding: int = PLAIN, codec: str | None = None, claims: int | None = None
) -> bytes:
    """A data page; `claims` is the unfolded size that its header announces."""
    stored = compressed(content, codec)
    head = number(1, 0) + number(1, len(content) if claims is None else claims) + number(1, len(stored))
    return head + struct(2, number(1, values), number(1, encoding), number(1, RLE), number(1, RLE)) + b"\0" + stored


def dictionary_page(content: bytes, *, values: int, codec: str | None = None) -> bytes:
    stored = compressed(content, codec)
    head = number(1, 2) + number(1, len(content)) + number(1, len(stored))
    return head + struct(4, number(1, values), number(1, PLAIN)) + b"\0" + stored


def compressed(content: bytes, codec: str | None) -> bytes:
    if codec is None or codec not in ("snappy", "gzip", "zstd"):
        return content
    return gzip.compress(content, 9) if codec == "gzip" else pa.Codec(codec).compress(content, asbytes=True)


def repeated(count: int, value: bytes = b"\0", *, bits: int = 1) -> bytes:
    """One RLE run: the same index `count` times."""
    return bytes((bits,)) + unsigned(count << 1) + value


def parquet(columns: Sequence[Column], rows: int, *, group_rows: int | None = None, times: int = 1) -> bytes:
    """The file. All columns are required, so that their pages hold nothing but values; each chunk is there `times` times."""
    body, chunks = b"PAR1", []
    for column in columns:
        at = len(body)
        body += column.pages
        stored = len(column.pages) if column.stored_bytes is None else column.stored_bytes
        plain = stored if column.plain_bytes is None else column.plain_bytes
        metadata = _column_metadata(column, at, stored, plain) + column.more_metadata
        chunks.append(number(2, at, 6) + struct(1, metadata) + column.more + b"\0")
    total = sum(len(column.pages) for column in columns)
    group = (
        items(1, chunks * times)
        + number(1, total, 6)
        + number(1, rows if group_rows is None else group_rows, 6)
        + b"\0"
    )
    schema = [text(4, b"schema") + number(1, len(columns)) + b"\0", *map(_element, columns)]
    footer = number(1, 1) + items(1, schema) + number(1, rows, 6) + items(1, [group]) + b"\0"
    return body + footer + len(footer).to_bytes(4, "little") + b"PAR1"


def _element(column: Column) -> bytes:
    width = b"" if column.width is None else number(1, column.width)
    head = number(1, column.kind) + width + number(2 if column.width is None else 1, 0)
    return head + text(1, column.name) + (number(2, 0) if column.is_text else b"") + b"\0"


def _column_metadata(column: Column, at: int, stored: int, plain: int) -> bytes:
    return b"".join(
        (
            number(1, column.kind),
            items(1, [signed(PLAIN), signed(DICTIONARY)], 5),
            items(1, [unsigned(len(column.name)) + column.name], 8),
            number(1, CODECS[column.codec]),
            number(1, column.values, 6),
            number(1, plain, 6),
            number(1, stored, 6),
            number(2, at, 6),
        )
    )


def text_column(name: bytes, content: bytes, rows: int, *, codec: str | None = None, **claims: int) -> Column:
    """Every row repeats one text out of a dictionary: a few bytes for any number of rows."""
    pages = dictionary_page(len(content).to_bytes(4, "little") + content, values=1, codec=codec)
    pages += page(repeated(rows), values=rows, encoding=DICTIONARY, codec=codec)
    plain = len(content) + len(repeated(rows)) + 100
    return Column(name, BYTE_ARRAY, pages, rows, codec, **{"plain_bytes": plain, "is_text": True, **claims})  # type: ignore[arg-type]


def number_column(name: bytes, rows: int, *, codec: str | None = None) -> Column:
    pages = dictionary_page(bytes(8), values=1, codec=codec) + page(
        repeated(rows), values=rows, encoding=DICTIONARY, codec=codec
    )
    return Column(name, INT64, pages, rows, codec, plain_bytes=len(pages) + 100)


def nested_schema(depth: int) -> bytes:
    """A file without rows whose one column lies under `depth` groups."""
    groups = [number(3, 1) + text(1, b"g") + number(1, 1) + b"\0"] * depth
    schema = [text(4, b"schema") + number(1, 1) + b"\0", *groups, number(1, 1) + number(2, 1) + text(1, b"x") + b"\0"]
    footer = number(1, 1) + items(1, schema) + number(1, 0, 6) + items(1, []) + b"\0"
    return b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1"
