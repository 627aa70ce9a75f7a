# SPDX-License-Identifier: Apache-2.0
"""The rows of small log blocks that this process decoded last, for the next read of the same logs.

A query over an un-compacted table spends a third of its time on opening many small blocks, and the next query opens the
same ones. They are known by a digest of their bytes, not by their names: a file that was replaced, a table that was made
anew under the same name or another user's view of it can never be mistaken for what was there before, and nobody has to be
told when something ends. Logs are still read from storage each time.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from hashlib import blake2b
from threading import Lock
from typing import Any

import pyarrow as pa

from lakebraid import limits
from lakebraid.format.log_blocks import BlockType, LogBlock


class KeptBlocks:
    """Decoded rows by what they were decoded from; the longest unused go when they take more than `bytes_max`."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._rows: OrderedDict[tuple[Any, ...], pa.Table] = OrderedDict()
        self._taken = 0
        self._lock = Lock()

    def rows(self, block: LogBlock, columns: Sequence[str], decode: Callable[[], pa.Table]) -> pa.Table:
        """What `decode` gives or gave for these columns of a block of data with the same bytes."""
        if len(block.content) > limits.KEPT_BLOCK_BYTES_MAX:
            return decode()
        origin = _origin(block, columns)
        with self._lock:
            found = self._rows.get(origin)
            if found is not None:
                self._rows.move_to_end(origin)
                return found
        rows = decode()
        self._keep(origin, rows)
        return rows

    @property
    def taken(self) -> int:
        """Bytes in memory of what is kept."""
        return self._taken

    def _keep(self, origin: tuple[Any, ...], rows: pa.Table) -> None:
        taken = _bytes(rows)
        with self._lock:
            if origin in self._rows or taken > self._bytes_max // 4:
                return  # another thread was faster, or few bytes unfolded to so many that all others would have to go
            self._rows[origin] = rows
            self._taken += taken
            while self._taken > self._bytes_max:
                _, dropped = self._rows.popitem(last=False)
                self._taken -= _bytes(dropped)


def _origin(block: LogBlock, columns: Sequence[str]) -> tuple[Any, ...]:
    """All that decides what decoding gives: of an Avro block all columns are decoded, as its schema names them."""
    told = (block.schema_text or "",) if block.type is BlockType.AVRO else tuple(columns)
    return (blake2b(block.content, digest_size=16).digest(), block.type, block.is_partial, told)


def _bytes(rows: pa.Table) -> int:
    return int(rows.get_total_buffer_size())


KEPT = KeptBlocks(limits.KEPT_BLOCKS_BYTES)
"""Of this process: a driver, or one of Spark's Python workers, which live longer than a query."""
