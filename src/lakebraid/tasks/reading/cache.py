# SPDX-License-Identifier: Apache-2.0
"""What this process decoded last, for the next read: the rows of small log blocks, and the keys of base files.

`kept_files` has the files themselves, of stores that say in a listing whether they are still the same.

A query over an un-compacted table spends a third of its time on opening many small blocks, and the next query opens the
same ones. A reader that follows a table asks again and again which rows of the newest commit are new, over the same base
files; reading their bytes takes a quarter of decoding them.

Both are known by a digest of their bytes, not by their names: a file that was replaced, a table that was made anew under
the same name or another user's view of it can never be mistaken for what was there before, and no entry has to be dropped
when something changes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from threading import Lock
from typing import Any, Final, Generic, TypeVar
from weakref import WeakSet

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebraid import limits
from lakebraid.format.log.blocks import BlockType, LogBlock
from lakebraid.model.ordering import Ints

T = TypeVar("T")
_search_sorted: Any = getattr(pc, "search_sorted", None)
"""Not in the oldest pyarrow that we take."""


_CACHES: Final[WeakSet[Cache[Any]]] = WeakSet()


class Cache(Generic[T]):
    """Values by what they were made from, which must say all that decides what they are; the longest unused go first."""

    def __init__(self, bytes_max: int, size: Callable[[T], int]) -> None:
        self._bytes_max, self._size = bytes_max, size
        self._values: OrderedDict[Hashable, T] = OrderedDict()
        self._taken = 0
        self._lock = Lock()
        _CACHES.add(self)

    def get(self, origin: Hashable) -> T | None:
        """What was kept, if it still is."""
        with self._lock:
            found = self._values.get(origin)
            if found is not None:
                self._values.move_to_end(origin)
            return found

    def keep(self, origin: Hashable, value: T) -> None:
        """Keeps a value, unless few bytes unfolded to so many that all others would have to go."""
        taken = self._size(value)
        with self._lock:
            if origin in self._values or taken > self._bytes_max // 4:
                return  # another thread was faster, or it is too large
            self._values[origin] = value
            self._taken += taken
            while self._taken > self._bytes_max:
                _, dropped = self._values.popitem(last=False)
                self._taken -= self._size(dropped)

    def clear(self) -> None:
        """Drops all that is kept."""
        with self._lock:
            self._values.clear()
            self._taken = 0

    @property
    def taken(self) -> int:
        """Bytes in memory of what is kept."""
        return self._taken


def forget_all() -> None:
    """This process knows no more than a new one would: for measurements."""
    for cache in list(_CACHES):
        cache.clear()


class KeptBlocks:
    """Decoded rows by what they were decoded from; the longest unused go when they take more than `bytes_max`."""

    def __init__(self, bytes_max: int) -> None:
        self._kept: Cache[pa.Table] = Cache(bytes_max, _rows_bytes)

    def rows(self, block: LogBlock, columns: Sequence[str], decode: Callable[[], pa.Table]) -> pa.Table:
        """What `decode` gives or gave for these columns of a block of data with the same bytes."""
        return self.all_rows([block], columns, lambda _: [decode()])[0]

    def all_rows(
        self,
        blocks: Sequence[LogBlock],
        columns: Sequence[str],
        decode: Callable[[Sequence[int]], Sequence[pa.Table]],
    ) -> list[pa.Table]:
        """The same for several blocks: `decode` is told the numbers of all that were not decoded before, if there are any."""
        origins = [_origin(block, columns) if self.may_keep(block) else None for block in blocks]
        found = {n: None if origin is None else self._kept.get(origin) for n, origin in enumerate(origins)}
        missing = [n for n, rows in found.items() if rows is None]
        for n, rows in zip(missing, decode(missing) if missing else (), strict=True):
            found[n] = rows
            if origins[n] is not None:
                self._kept.keep(origins[n], rows)
        return [found[n] for n in range(len(blocks))]

    @staticmethod
    def may_keep(block: LogBlock) -> bool:
        """Whether a block is small enough to be decoded as a whole, and kept."""
        return len(block.content) <= limits.KEPT_BLOCK_BYTES_MAX

    @property
    def taken(self) -> int:
        """Bytes in memory of what is kept."""
        return self._kept.taken


def _origin(block: LogBlock, columns: Sequence[str]) -> tuple[Any, ...]:
    """All that decides what decoding gives: of an Avro block all columns are decoded, as its schema names them."""
    told = (block.schema_text or "",) if block.type is BlockType.AVRO else tuple(columns)
    return (blake2b(block.content, digest_size=16).digest(), block.type, block.is_partial, told)


def _rows_bytes(rows: pa.Table) -> int:
    return int(rows.get_total_buffer_size())


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
            if (behind - first <= 1).all():  # as it should be, but a file may say anything
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
        self._kept: Cache[tuple[KeyRows, ...]] = Cache(bytes_max, _keys_bytes)
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
                parts = parts if _keys_bytes(parts) <= self.bytes_max // 4 else None  # and memory stays flat
            yield part
        if parts is not None:
            self._kept.keep(origin, tuple(parts))

    @property
    def taken(self) -> int:
        """Bytes in memory of what is kept."""
        return self._kept.taken


def _keys_bytes(parts: Iterable[KeyRows]) -> int:
    return sum(int(part.rows.get_total_buffer_size()) for part in parts)


KEPT = KeptBlocks(limits.KEPT_BLOCKS_BYTES)
"""Of this process: a driver, or one of Spark's Python workers, which live longer than a query."""

KEPT_KEYS = KeptKeys(limits.KEPT_KEYS_BYTES)
"""Of this process."""
