# SPDX-License-Identifier: Apache-2.0
"""What a user may hand to a write that is done in this process: Arrow, pandas, polars, or plain rows."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from lakebraid import limits
from lakebraid.errors import InvalidArgument
from lakebraid.model.schema.growth import is_wider, widened
from lakebraid.model.values.arrow_casts import exact_cast
from lakebraid.model.values.exact import Inexact, exact_array, refused


def arrow_pieces(data: Any, table: pa.Schema | None = None) -> Iterator[pa.Table]:
    """The rows as Arrow tables of a bounded number of rows each; at least one, however empty.

    Plain Python values get the types of the table's columns, if its schema is given.
    """
    if isinstance(data, pa.RecordBatchReader):
        yield from _gathered(data, data.schema)
    elif isinstance(data, pa.Table | pa.RecordBatch):
        yield from _sliced(pa.Table.from_batches([data]) if isinstance(data, pa.RecordBatch) else data)
    else:
        yield from _sliced(_as_table(data, table))


def as_table(data: Any, table: pa.Schema | None = None) -> pa.Table:
    """All rows as one Arrow table; a reader is read to its end."""
    return pa.concat_tables(arrow_pieces(data, table))


def repeatable(data: Any) -> Any:
    """The same rows, but so that they can be taken more than once: readers and iterators are read to their end."""
    if isinstance(data, pa.RecordBatchReader):
        return data.read_all()
    return list(data) if isinstance(data, Iterator) else data


def is_repeatable(data: Any) -> bool:
    """Whether the rows can be taken more than once as they are."""
    return not isinstance(data, pa.RecordBatchReader | Iterator)


def _as_table(data: Any, table: pa.Schema | None) -> pa.Table:
    kind = type(data)
    try:
        if kind.__module__.startswith("pandas"):
            return _from_pandas(data, table)
        if kind.__module__.startswith("polars") and kind.__name__ == "LazyFrame":
            data = data.collect()
        if hasattr(data, "__arrow_c_stream__"):
            return pa.table(data)
        if hasattr(data, "to_arrow"):
            return data.to_arrow()
        if isinstance(data, Mapping):
            return pa.table({name: _column(values, name, table) for name, values in data.items()})
        if isinstance(data, Iterable) and not isinstance(data, str | bytes):
            return _from_rows(list(data), table)
    except (pa.ArrowException, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise InvalidArgument(
            f"These rows ({kind.__name__}) cannot be turned into Arrow columns: {error!s:.300}. Nothing was written. "
            "Mend the named column, or give an Arrow table with the types you mean."
        ) from error
    raise InvalidArgument(
        f"Rows cannot be taken from a {kind.__module__}.{kind.__name__}. Nothing was written. Give a Spark DataFrame, an "
        "Arrow table or reader, a pandas or polars DataFrame, or a list of dictionaries."
    )


def _from_rows(rows: list[Any], table: pa.Schema | None) -> pa.Table:
    """Rows of plain Python; a column that only some of them have is null in the others."""
    strange = next((row for row in rows if not isinstance(row, Mapping)), None)
    if strange is not None:
        raise InvalidArgument(
            f"{strange!r:.100} is no row: in a list of rows each is a dictionary of columns, such as {{'id': 1}}. Nothing was written."
        )
    names = dict.fromkeys(itertools.chain.from_iterable(rows))
    fitting = _fitting(rows, {name: kind for name in names if (kind := _type(table, name)) is not None})
    others = (name for name in names if name not in fitting)
    columns = fitting | {name: _array([row.get(name) for row in rows], name, table) for name in others}
    return pa.table({name: columns[name] for name in names})


def _fitting(rows: list[Any], kinds: dict[str, pa.DataType]) -> dict[str, pa.Array]:
    """The columns in these types, but for those with a value that does not fit.

    A few rows at a time: all columns of them are taken while the processor has them at hand.
    """
    parts: dict[str, list[pa.Array]] = {name: [] for name in kinds}
    for start in range(0, len(rows), limits.PLAIN_ROWS):
        some = rows[start : start + limits.PLAIN_ROWS]
        for name in [*parts]:
            try:
                parts[name].append(exact_array([row.get(name) for row in some], kinds[name]))
            except Inexact:
                del parts[name]
    return {name: pa.concat_arrays(arrays) for name, arrays in parts.items()}


def _from_pandas(data: Any, table: pa.Schema | None) -> pa.Table:
    """The columns of a pandas frame, in which NaN, NaT and NA are NULL. Columns of objects are plain Python values."""
    are_objects = [isinstance(kind, np.dtype) and kind.kind == "O" for kind in data.dtypes]
    rest = pa.Table.from_pandas(data.loc[:, [not is_object for is_object in are_objects]], preserve_index=False)
    typed = iter(rest.columns)
    columns = []
    for at, (name, is_object) in enumerate(zip(map(str, data.columns), are_objects, strict=True)):
        if is_object:
            series = data.iloc[:, at]
            columns.append(_array([*series.where(series.notna(), None)], name, table))
        else:
            columns.append(_narrowed(next(typed), _type(table, name)))
    return pa.Table.from_arrays(columns, names=[*map(str, data.columns)])


def _column(values: Any, name: str, table: pa.Schema | None) -> pa.Array | pa.ChunkedArray:
    """A column of a mapping: Arrow's, pandas', numpy's, or any values."""
    if type(values).__module__.startswith("pandas"):
        return _from_pandas(values.to_frame(name), table).column(0)
    if isinstance(values, np.ndarray) and values.dtype.kind != "O":
        return _narrowed(pa.array(values), _type(table, name))
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    return _array(list(values), name, table)


def _array(values: list[Any], name: str, table: pa.Schema | None) -> pa.Array:
    """Plain values in the table's type; in a wider one, if they do not fit and there is one."""
    kind = _type(table, name)
    try:
        return exact_array(values, pa.infer_type(values) if kind is None else kind)
    except Inexact as trouble:
        wider = None if kind is None else _wider(values, kind)
        if wider is None:
            raise refused(trouble, name) from None
        return wider


def _wider(values: list[Any], kind: pa.DataType) -> pa.Array | None:
    """The values in the type to which they widen a column; None if they do not, or not all of them fit then."""
    with contextlib.suppress(Inexact, pa.ArrowException, OverflowError, ValueError, TypeError):
        wider = widened(kind, pa.infer_type(values))
        return None if wider is None else exact_array(values, wider)
    return None


def _narrowed(column: pa.Array | pa.ChunkedArray, kind: pa.DataType | None) -> pa.Array | pa.ChunkedArray:
    """The same values in the table's narrower type, where they fit: pandas and numpy know no int of their own accord.

    Their doubles become the nearest floats, as Python's do.
    """
    if kind is None or not is_wider(column.type, kind):
        return column
    with contextlib.suppress(Inexact):
        if kind == pa.float32():
            return exact_array(column.to_pylist(), kind)
        return exact_cast(column, kind)
    return column


def _type(table: pa.Schema | None, name: str) -> pa.DataType | None:
    return table.field(name).type if table is not None and name in table.names else None


def _sliced(table: pa.Table) -> Iterator[pa.Table]:
    if table.num_rows <= limits.WRITE_TASK_ROWS:
        yield table  # a slice of a table without columns would claim to have rows
        return
    yield table.slice(0, limits.WRITE_TASK_ROWS)
    for start in range(limits.WRITE_TASK_ROWS, table.num_rows, limits.WRITE_TASK_ROWS):
        yield table.slice(start, limits.WRITE_TASK_ROWS)


def _gathered(reader: pa.RecordBatchReader, schema: pa.Schema) -> Iterator[pa.Table]:
    held: list[pa.RecordBatch] = []
    rows = 0
    is_empty = True
    for batch in reader:
        held.append(batch)
        rows += batch.num_rows
        if rows >= limits.WRITE_TASK_ROWS:
            yield pa.Table.from_batches(held, schema)
            held, rows, is_empty = [], 0, False
    if held or is_empty:
        yield pa.Table.from_batches(held, schema)
