# SPDX-License-Identifier: Apache-2.0
"""The keys of base files that this process read last, for the next look at what changed above them.

Who follows a table asks again and again which rows of the newest commit are new, over the same base files. Like log blocks
they are known by a digest of their bytes, which are read each time: that takes a quarter of decoding them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebraid import limits
from lakebraid.model.ordering import Ints
from lakebraid.tasks.reading.cache import Kept

_search_sorted: Any = getattr(pc, "search_sorted", None)
"""Not in the oldest pyarrow that we take."""


@dataclass(frozen=True, slots=True)
class KeyRows:
    """Rows of a base file, of which only the key columns were read."""

    rows: pa.Table
    keys: pa.Array
    """In the form of the rules."""
    rises: bool
    """Whether they are sorted, as in base files that we write."""

    def places(self, wanted: pa.Array | None) -> Ints:
        """Where the wanted keys stand. In sorted ones looking takes a sixth of hashing them all."""
        if wanted is None or not len(wanted):
            return np.zeros(0, np.int64)
        if self.rises:
            first, behind = (
                np.asarray(_search_sorted(self.keys, wanted, side=side)).astype(np.int64) for side in ("left", "right")
            )
            if (behind - first <= 1).all():  # as it should be, but nobody vouches for a file
                return np.sort(first[behind > first])
        return np.flatnonzero(np.asarray(pc.is_in(self.keys, value_set=wanted)))


def key_rows(rows: pa.Table, keys: pa.Array) -> KeyRows:
    """These rows and their keys."""
    may_search = _search_sorted is not None and not keys.null_count
    rises = may_search and bool(pc.all(pc.less_equal(keys[:-1], keys[1:]), min_count=0).as_py())
    return KeyRows(rows, keys, rises)


class KeptKeys:
    """Key columns by where they are from; the longest unused go when they take more than `bytes_max`."""

    def __init__(self, bytes_max: int) -> None:
        self._kept: Kept[tuple[KeyRows, ...]] = Kept(bytes_max, _bytes)
        self.bytes_max = bytes_max

    def rows(self, origin: tuple[Any, ...], read: Callable[[], Iterable[KeyRows]]) -> Iterator[KeyRows]:
        """What `read` gives or gave, step by step; it is kept once all was read."""
        found = self._kept.get(origin)
        if found is not None:
            yield from found
            return
        parts: list[KeyRows] | None = []
        for part in read():
            if parts is not None:
                parts.append(part)
                parts = parts if _bytes(parts) <= self.bytes_max // 4 else None  # and memory stays flat
            yield part
        if parts is not None:
            self._kept.keep(origin, tuple(parts))

    @property
    def taken(self) -> int:
        """Bytes in memory of what is kept."""
        return self._kept.taken


def _bytes(parts: Iterable[KeyRows]) -> int:
    return sum(int(part.rows.get_total_buffer_size()) for part in parts)


KEPT_KEYS = KeptKeys(limits.KEPT_KEYS_BYTES)
"""Of this process."""
