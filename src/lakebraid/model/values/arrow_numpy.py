# SPDX-License-Identifier: Apache-2.0
"""Numbers from numpy to Arrow and back, over the same memory.

`pa.array` and `np.asarray` do that, too, and import pandas to find out whether they were given some of its values: a
quarter of a CPU second in every process, each of Spark's Python workers among them. What every read does goes this way.

Rows are taken here, too, at places that numpy has found. Arrow's texts have offsets of 32 bits: an array holds less than 2 GiB
of them, and `take` puts the chunks of a column together first, so rows of columns that may be larger are taken in pieces.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakebraid import limits

_ARRAY_BYTES_MAX: Final = 2**31 - 1


def to_arrow(numbers: npt.NDArray[np.int64]) -> pa.Array:
    """The numbers as int64.

    >>> to_arrow(np.array([3, 4, 5])[::2]).to_pylist()
    [3, 5]
    """
    whole = np.ascontiguousarray(numbers, np.int64)
    return pa.Array.from_buffers(pa.int64(), len(whole), [None, pa.py_buffer(whole)])


def to_mask(flags: npt.NDArray[np.bool_]) -> pa.Array:
    """The flags as booleans, packed into bits.

    >>> to_mask(np.array([True, False, True])).to_pylist()
    [True, False, True]
    """
    return pa.Array.from_buffers(pa.bool_(), len(flags), [None, pa.py_buffer(np.packbits(flags, bitorder="little"))])


def to_ints(array: pa.Array) -> npt.NDArray[np.int64]:
    """Integers of any width, none of them null; not to be written to."""
    return _view(array.cast(pa.int64()), np.int64)


def to_doubles(array: pa.Array) -> npt.NDArray[np.float64]:
    """Numbers of any kind, none of them null; not to be written to."""
    return _view(array.cast(pa.float64()), np.float64)


def to_bools(array: pa.Array) -> npt.NDArray[np.bool_]:
    """Booleans, none of them null; not to be written to.

    >>> to_bools(pa.array([True, False, True]).slice(1)).tolist()
    [False, True]
    """
    return _view(array.cast(pa.uint8()), np.bool_)


def flagged(flags: pa.Array | pa.ChunkedArray) -> npt.NDArray[np.bool_]:
    """Which of the booleans are true; a null is not. Not to be written to.

    >>> flagged(pa.chunked_array([[True, None], [False]])).tolist()
    [True, False, False]
    """
    whole = flags.combine_chunks() if isinstance(flags, pa.ChunkedArray) else flags
    return to_bools(filled(whole, value=False))


def filled(array: pa.Array, value: float) -> pa.Array:
    """The array with this value instead of nulls."""
    return pc.fill_null(array, value) if array.null_count else array


def take_rows(rows: pa.Table, places: npt.NDArray[np.int64]) -> pa.Table:
    """These rows, in this order."""
    if rows.nbytes <= _ARRAY_BYTES_MAX:
        return rows.take(to_arrow(places))
    return pa.concat_tables([rows.slice(0, 0), *take_pieces(rows, places)])


def take_pieces(rows: pa.Table, places: npt.NDArray[np.int64]) -> Iterator[pa.Table]:
    """The same in pieces, so that not all of them need be there at once: one if they are few."""
    pieces = -(-rows.nbytes // limits.TAKEN_BYTES)
    if pieces <= 1:
        yield rows.take(to_arrow(places))
        return
    batches = rows.to_batches()
    ends = np.cumsum([batch.num_rows for batch in batches])
    for part in np.array_split(places, min(pieces, max(1, len(places)))):
        yield from _taken(batches, ends, part)


def _taken(
    batches: list[pa.RecordBatch], ends: npt.NDArray[np.int64], places: npt.NDArray[np.int64]
) -> Iterator[pa.Table]:
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


def _view(array: pa.Array, kind: type[Any]) -> npt.NDArray[Any]:
    if array.null_count:
        raise ValueError(f"{array.null_count} of {len(array)} values are null, and numpy has nothing for these.")
    if len(array) == 0:
        return np.empty(0, kind)  # there may be no memory at all
    offset = array.offset * np.dtype(kind).itemsize
    return np.frombuffer(array.buffers()[1], kind, len(array), offset)
