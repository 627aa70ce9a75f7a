# SPDX-License-Identifier: Apache-2.0
"""The rows of small log blocks that this process decoded last, for the next read of the same logs.

A query over an un-compacted table spends a third of its time on opening many small blocks, and the next query opens the
same ones. They are known by a digest of their bytes, not by their names: a file that was replaced, a table that was made
anew under the same name or another user's view of it can never be mistaken for what was there before, and nobody has to be
told when something ends. Logs are still read from storage each time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any

import pyarrow as pa

from lakebraid import limits
from lakebraid.format.log.blocks import BlockType, LogBlock
from lakebraid.tasks.reading.cache import Kept


class KeptBlocks:
    """Decoded rows by what they were decoded from; the longest unused go when they take more than `bytes_max`."""

    def __init__(self, bytes_max: int) -> None:
        self._kept: Kept[pa.Table] = Kept(bytes_max, _bytes)

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


def _bytes(rows: pa.Table) -> int:
    return int(rows.get_total_buffer_size())


KEPT = KeptBlocks(limits.KEPT_BLOCKS_BYTES)
"""Of this process: a driver, or one of Spark's Python workers, which live longer than a query."""
