# SPDX-License-Identifier: Apache-2.0
"""How many bytes rows take: none too large to be read, and rows cut by their bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from lakebraid import limits
from lakebraid.errors import InvalidArgument


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
