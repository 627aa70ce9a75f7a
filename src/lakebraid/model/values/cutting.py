# SPDX-License-Identifier: Apache-2.0
"""How many bytes rows take: none too large to be read, rows cut by their bytes, and taken in another order however large.

Arrow's texts have offsets of 32 bits: an array holds less than 2 GiB of them, and `take` puts the chunks of a column together
first. Rows of columns that may be larger are taken here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebraid import limits
from lakebraid.errors import InvalidArgument
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


def check_sizes(rows: pa.Table, key_columns: Iterable[str]) -> None:
    """Raises InvalidArgument if a row or a key is so large that we, Apache Hudi or Spark could not read it.

    It looks at single rows only if one of them can be.
    """
    size = rows.nbytes
    if size > limits.KEY_BYTES_MAX:
        for name in key_columns:
            if name in rows.column_names:
                _check_key(rows.column(name), name)
    if size > limits.ROW_BYTES_MAX:
        most = max((part.nbytes for part in cut(rows, limits.ROW_BYTES_MAX)), default=0)
        if most > limits.ROW_BYTES_MAX:
            raise InvalidArgument(
                f"A row takes {most:,} bytes; at most {limits.ROW_BYTES_MAX:,} are written, since readers hold rows as a whole. "
                "Nothing was written. Keep what is so large in a file of its own, and its name in the table.",
                row_bytes=most,
            )


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


def _check_key(column: pa.ChunkedArray, name: str) -> None:
    if not (pa.types.is_string(column.type) or pa.types.is_binary(column.type)):
        return
    most = pc.max(pc.binary_length(column)).as_py() or 0
    if most > limits.KEY_BYTES_MAX:
        raise InvalidArgument(
            f"A key in column {name!r} takes {most:,} bytes; at most {limits.KEY_BYTES_MAX:,} are written, since the footers of "
            "base files hold keys. Nothing was written. Use a digest of it as the key.",
            column=name,
        )
