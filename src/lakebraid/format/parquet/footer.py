# SPDX-License-Identifier: Apache-2.0
"""What a Parquet footer says of its column chunks, read without pyarrow.

pyarrow's view on chunks does not turn every failure into an exception: over a chunk too many, an encrypted chunk, a
histogram of the wrong length, a bound of too few bytes or an unknown compression, it aborts the process. A footer that
was read here is safe in that respect: its chunks and their statistics may be asked for, but never `compression`.

Nothing is read more generously than Arrow reads it. Where the two might take one footer for two different ones (a field
twice, out of order, or of another type than it should have), it is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import pyarrow.parquet as pq

from lakebraid import limits
from lakebraid.format.damage import damaged
from lakebraid.format.parquet.chunk import WIDTHS, Chunk, Leaf, number, parse_chunk, quick_chunk
from lakebraid.format.parquet.thrift import STRUCT, field_head, list_head, skip

_MAGIC: Final = b"PAR1"
_TAIL_BYTES: Final = 64 * limits.KIB
"""What is read at first; nearly every footer fits."""


class RowGroup(NamedTuple):
    """One row group; the chunks stand in the order of the leaves."""

    rows: int
    plain: int
    chunks: list[Chunk]


class Footer(NamedTuple):
    """All of it that matters for reading safely."""

    rows: int
    leaves: list[Leaf]
    groups: list[RowGroup]


def read_footer(source: Any, where: str) -> bytes:
    """The footer of the Parquet file that a `pyarrow.NativeFile` holds, its length checked; CorruptFile if it is none."""
    size = source.size()
    tail = source.read_at(min(size, _TAIL_BYTES), max(0, size - _TAIL_BYTES))
    if size < 12 or tail[-4:] != _MAGIC:
        raise damaged(where, "it does not end like a Parquet file")
    length = int.from_bytes(tail[-8:-4], "little")
    if length > min(limits.PARQUET_FOOTER_BYTES_MAX, size - 12):
        raise damaged(where, f"its footer claims {length:,} of {size:,} bytes")
    return bytes(tail[-8 - length : -8] if length + 8 <= len(tail) else source.read_at(length, size - 8 - length))


def parse_footer(data: bytes, schema: pq.ParquetSchema, where: str) -> Footer:
    """The footer in these bytes; `schema` is what pyarrow made of the same bytes."""
    try:
        leaves = [_leaf(schema.column(index)) for index in range(len(schema))]
        return _parse(data, leaves)
    except (ValueError, IndexError) as error:
        raise damaged(where, f"its footer does not hold together ({error!s:.100})") from None


def _leaf(column: pq.ColumnSchema) -> Leaf:
    kind = column.physical_type
    levels = (column.max_repetition_level, column.max_definition_level)
    return Leaf(column.path, kind, 0 if kind in WIDTHS else column.length, levels)


def _parse(data: bytes, leaves: list[Leaf]) -> Footer:
    rows, groups = 0, []
    key = at = 0
    while data[at]:
        key, kind, at = field_head(data, at, key)
        if key == 3:
            rows, at = number(data, at, kind)
        elif key == 4:
            count, at = list_head(data, at, kind, STRUCT)
            for _ in range(count):
                group, at = _group(data, at, leaves)
                groups.append(group)
        else:
            at = skip(data, at, kind)
    return Footer(rows, leaves, groups)


def _group(data: bytes, at: int, leaves: list[Leaf]) -> tuple[RowGroup, int]:
    rows = plain = key = 0
    chunks: list[Chunk] = []
    while data[at]:
        key, kind, at = field_head(data, at, key)
        if key == 1:
            count, at = list_head(data, at, kind, STRUCT)
            if count != len(leaves):
                raise ValueError(f"{count:,} chunks for {len(leaves):,} columns")
            for leaf in leaves:
                chunk, at = quick_chunk(data, at, leaf) or parse_chunk(data, at, leaf)
                chunks.append(chunk)
        elif key == 2:
            plain, at = number(data, at, kind)
        elif key == 3:
            rows, at = number(data, at, kind)
        else:
            at = skip(data, at, kind)
    if len(chunks) != len(leaves):
        raise ValueError("a row group without columns")
    return RowGroup(rows, plain, chunks), at + 1


def leaf_indices(leaves: Sequence[Leaf], columns: set[str]) -> list[int]:
    """Where the leaves of these top-level columns stand."""
    return [index for index, leaf in enumerate(leaves) if _is_among(leaf.path, columns)]


def _is_among(path: str, columns: set[str]) -> bool:
    return path in columns or any(path[:dot] in columns for dot, mark in enumerate(path) if mark == ".")


__all__ = ["Chunk", "Footer", "Leaf", "RowGroup", "leaf_indices", "parse_footer", "read_footer"]
