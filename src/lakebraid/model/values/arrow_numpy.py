# SPDX-License-Identifier: Apache-2.0
"""Numbers from numpy to Arrow and back, over the same memory.

`pa.array` and `np.asarray` do that, too, and import pandas to find out whether they were given some of its values: a
quarter of a CPU second in every process, each of Spark's Python workers among them. What every read does goes this way.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc


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


def _view(array: pa.Array, kind: type[Any]) -> npt.NDArray[Any]:
    if array.null_count:
        raise ValueError(f"{array.null_count} of {len(array)} values are null, and numpy has nothing for these.")
    if len(array) == 0:
        return np.empty(0, kind)  # there may be no memory at all
    offset = array.offset * np.dtype(kind).itemsize
    return np.frombuffer(array.buffers()[1], kind, len(array), offset)
