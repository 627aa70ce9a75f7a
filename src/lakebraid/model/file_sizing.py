# SPDX-License-Identifier: Apache-2.0
"""Which file groups new rows go into: first those that are small and have room, then new ones of a full size."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lakebraid.digits import whole_number
from lakebraid.errors import InvalidArgument

SMALL: Final = "hoodie.parquet.small.file.limit"
FULL: Final = "hoodie.parquet.max.file.size"
_SMALL_BYTES: Final = 100 << 20
_FULL_BYTES: Final = 120 << 20


@dataclass(frozen=True, slots=True)
class Sizes:
    """How large base files should become, in bytes."""

    small: int = _SMALL_BYTES
    """A base file below this takes new rows; 0: none does."""
    full: int = _FULL_BYTES


@dataclass(frozen=True, slots=True)
class Room:
    """A base file that might take more rows."""

    file_id: str
    size: int


@dataclass(frozen=True, slots=True)
class Share:
    """So many of the new rows, and the file group they go into; None for a new one."""

    file_id: str | None
    rows: int


def sizes_of(properties: Mapping[str, str]) -> Sizes:
    """The table's file sizes, by Hudi's settings."""
    return Sizes(_bytes(properties, SMALL, _SMALL_BYTES, least=0), _bytes(properties, FULL, _FULL_BYTES, least=1))


def share_out(rows: int, rooms: Iterable[Room], row_bytes: float, sizes: Sizes) -> list[Share]:
    """Where so many new rows of a partition go, in their order.

    >>> share_out(250, [Room("a", 4000)], 100.0, Sizes(small=5000, full=10_000))
    [Share(file_id='a', rows=60), Share(file_id=None, rows=100), Share(file_id=None, rows=90)]
    """
    shares = []
    left = rows
    for room in sorted(rooms, key=lambda r: (r.size, r.file_id)):
        fits = int((sizes.full - room.size) / row_bytes)
        if left and room.size < sizes.small and fits > 0:
            shares.append(Share(room.file_id, min(left, fits)))
            left -= shares[-1].rows
    each = max(1, int(sizes.full / row_bytes))
    while left:
        shares.append(Share(None, min(left, each)))
        left -= shares[-1].rows
    return shares


def row_bytes_of(files: Sequence[tuple[int, int]], guess: float) -> float:
    """What a row takes in a base file: by (bytes, rows) of files that are there, else as guessed."""
    size, rows = sum(f[0] for f in files), sum(f[1] for f in files)
    return max(1.0, size / rows if rows else guess)


def _bytes(properties: Mapping[str, str], key: str, default: int, *, least: int) -> int:
    text = (properties.get(key) or "").strip()
    if not text:
        return default
    size = whole_number(text)
    if size is not None and least <= size < 1 << 50:
        return size
    raise InvalidArgument(f"{key}={text!r:.100} is no number of bytes. Nothing was begun. Correct it.", setting=key)
