# SPDX-License-Identifier: Apache-2.0
"""Sorting record keys: eight bytes of each as a number first, whole texts only where these are equal."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakebraid.model.ordering import Bools, Ints


def sort_keys(keys: pa.Array) -> tuple[Ints, Ints]:
    """The rows in the order of their keys' UTF-8 bytes, equal keys in the order of the rows; and for each of them in
    that order the number of its key, equal for equal keys only.

    >>> [list(map(int, found)) for found in sort_keys(pa.array(["b", "a", "b"]))]
    [[1, 0, 2], [0, 1, 1]]
    """
    heads = _heads(keys)
    order = np.argsort(heads, kind="stable")
    tied = _tied(heads[order])
    differs = np.ones(len(keys), np.bool_)
    if tied.any():
        # The order of heads is that of keys as far as it goes, so tied rows only change places among themselves.
        rows = order[tied]
        texts = keys.take(pa.array(rows))
        by_text = np.asarray(pc.sort_indices(texts)).astype(np.int64)
        order[tied] = rows[by_text]
        differs[np.flatnonzero(tied)[1:]] = _differs(texts.take(pa.array(by_text)))
    return order, np.cumsum(differs) - 1


def _heads(keys: pa.Array) -> npt.NDArray[np.uint64]:
    """The eight bytes of each key that follow what all keys begin with, as a number; zeros behind its end."""
    if len(keys) == 0:
        return np.zeros(0, np.uint64)
    _, offsets, data = keys.buffers()
    ends = np.frombuffer(offsets, np.int32)[keys.offset : keys.offset + len(keys) + 1].astype(np.int64)
    starts = ends[:-1] + _common(keys)
    units = np.zeros(int(ends[-1]) + 8, np.uint8)
    units[:-8] = np.frombuffer(data or b"", np.uint8)[: ends[-1]]
    eights = np.lib.stride_tricks.sliding_window_view(units, 8)
    heads = eights[starts].view(">u8").ravel().astype(np.uint64)
    beyond = np.uint64(8) * np.maximum(8 - (ends[1:] - starts), 0).astype(np.uint64)
    return np.where(beyond < 64, heads >> np.minimum(beyond, 63) << np.minimum(beyond, 63), np.uint64(0))


def _common(keys: pa.Array) -> int:
    """How many bytes all keys begin with: as many as the least and the greatest do."""
    found = pc.min_max(keys.cast(pa.binary())).as_py()
    least, greatest = found["min"], found["max"]
    differing = (at for at, (a, b) in enumerate(zip(least, greatest, strict=False)) if a != b)
    return next(differing, min(len(least), len(greatest)))


def _tied(heads: npt.NDArray[np.uint64]) -> Bools:
    """Which of the sorted heads have an equal neighbour."""
    same = heads[1:] == heads[:-1]
    return np.r_[same, False] | np.r_[False, same] if len(heads) else np.zeros(0, np.bool_)


def _differs(texts: pa.Array) -> Bools:
    """Whether each text but the first is another than the one before it."""
    return np.asarray(pc.not_equal(texts[1:], texts[:-1]).cast(pa.uint8())).astype(np.bool_)
