# SPDX-License-Identifier: Apache-2.0
"""What identifies rows that are to be written: no two different keys with one text, no folder that Hudi cannot read.

Hudi escapes nothing in the text of a key of several columns (`a:1,b:2`), and nothing in a folder's name unless the table
is url encoded. Values that would make these texts ambiguous are refused, so that no row takes another one's place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from lakebraid.errors import InvalidArgument
from lakebraid.model.config import TableConfig
from lakebraid.model.keys.keys import EMPTY_TEXT, NULL_TEXT, column_of
from lakebraid.model.keys.partitions import check_partition_value


def check_identity(rows: pa.Table, config: TableConfig) -> None:
    """Raises InvalidArgument for a value of a key or partition column that cannot be told from another one."""
    if len(config.record_keys) > 1:
        for name, column in _texts(rows, config.record_keys):
            _check_distinct(column, name, config.record_keys)
    for name, column in _texts(rows, config.partition_fields):
        for value in column.unique().to_pylist():
            check_partition_value(value, name, config)


def _texts(rows: pa.Table, names: Sequence[str]) -> Iterator[tuple[str, pa.ChunkedArray]]:
    for name in names:
        column = column_of(rows, name)
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            yield name, column


def _check_distinct(column: pa.ChunkedArray, name: str, fields: Sequence[str]) -> None:
    """A value must not stand for NULL or the empty text, nor hold what begins the value of another key column."""
    _refuse(column, pc.is_in(column, value_set=pa.array([NULL_TEXT, EMPTY_TEXT], column.type)), name)
    if pc.any(pc.match_substring(column, ",")).as_py():
        for other in fields[1:]:
            _refuse(column, pc.match_substring(column, f",{other}:"), name, other)


def _refuse(column: pa.ChunkedArray, found: pa.ChunkedArray, name: str, other: str | None = None) -> None:
    """Raises for the first row that was found, if there is one."""
    row = pc.index(found, True).as_py()
    if row < 0:
        return
    value = column[row].as_py()
    why = (
        f"it holds ',{other}:', with which the value of {other!r} begins in Hudi's record keys"
        if other is not None
        else f"Hudi's record keys have this text for {'NULL' if value == NULL_TEXT else 'the empty text'}"
    )
    raise InvalidArgument(
        f"Row {row} has {value!r:.200} in the key column {name!r}, and {why}: two different keys would be one row. "
        "Nothing was written. Change the value, or use a single key column.",
        row=row,
        column=name,
    )
