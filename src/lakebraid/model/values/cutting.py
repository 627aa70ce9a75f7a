# SPDX-License-Identifier: Apache-2.0
"""Rows cut by their bytes, and taken in another order however many bytes they have.

Arrow's texts have offsets of 32 bits: an array holds less than 2 GiB of them, and `take` puts the chunks of a column together
first. Rows of columns that may be larger are taken here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from lakebraid import limits
from lakebraid.model.ordering import Ints
from lakebraid.model.values.arrow_numpy import to_arrow

_ARRAY_BYTES_MAX: Final = 2**31 - 1


def cut(rows: pa.Table, bytes_max: int, rows_max: int = limits.MEMORY_BYTES_UNKNOWN) -> Iterator[pa.Table]:
    """The rows in pieces of at most so many bytes and rows, in their order; a larger row is a piece of its own."""
    count = rows.num_rows
    size = rows.nbytes if count > 1 else 0
    if size <= bytes_max and count <= rows_max:
        yield from [rows] if count else []
        return
    # Equal numbers of rows; those of a piece may still be much longer than others.
    step = min(rows_max, -(-count // max(2, -(-size // bytes_max))) if size > bytes_max else count)
    for first in range(0, count, step):
        yield from cut(rows.slice(first, step), bytes_max, rows_max)


def take_rows(rows: pa.Table, places: Ints) -> pa.Table:
    """These rows, in this order."""
    if rows.nbytes <= _ARRAY_BYTES_MAX:
        return rows.take(to_arrow(places))
    return pa.concat_tables([rows.slice(0, 0), *take_pieces(rows, places)])


def take_pieces(rows: pa.Table, places: Ints) -> Iterator[pa.Table]:
    """The same in pieces, so that not all of them need be there at once: one if they are few."""
    pieces = -(-rows.nbytes // limits.TAKEN_BYTES)
    if pieces <= 1:
        yield rows.take(to_arrow(places))
        return
    batches = rows.to_batches()
    ends = np.cumsum([batch.num_rows for batch in batches])
    for part in np.array_split(places, min(pieces, max(1, len(places)))):
        yield from _taken(batches, ends, part)


def _taken(batches: list[pa.RecordBatch], ends: Ints, places: Ints) -> Iterator[pa.Table]:
    """Rows out of batches, each of which is small enough to be taken from."""
    homes = np.searchsorted(ends, places, side="right")
    found = [
        batches[home].take(to_arrow(places[homes == home] - (ends[home] - batches[home].num_rows)))
        for home in np.unique(homes)
    ]
    together = pa.Table.from_batches(found, batches[0].schema)
    if together.nbytes > _ARRAY_BYTES_MAX and len(places) > 1:
        half = len(places) // 2
        yield from _taken(batches, ends, places[:half])
        yield from _taken(batches, ends, places[half:])
        return
    back = np.empty(len(places), np.int64)
    back[np.argsort(homes, kind="stable")] = np.arange(len(places))
    yield together.take(to_arrow(back))
