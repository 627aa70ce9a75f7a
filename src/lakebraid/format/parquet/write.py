# SPDX-License-Identifier: Apache-2.0
"""Rows as Parquet, the way Hudi and Spark read them: for log blocks and base files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakebraid import limits
from lakebraid.errors import InvalidArgument


def format_parquet(rows: pa.Table, *, constant: Sequence[str], statistics: Sequence[str], compression: str) -> bytes:
    """A whole Parquet file of one row group. `constant` columns hold one value each."""
    file = ParquetFile(rows.schema, constant=constant, statistics=statistics, compression=compression)
    file.add(rows)
    return file.finish({})


class ParquetFile:
    """A Parquet file in the making, in memory; each `add` is a row group."""

    def __init__(
        self, schema: pa.Schema, *, constant: Sequence[str], statistics: Sequence[str], compression: str
    ) -> None:
        self._schema = schema
        self._constant = constant
        self._compression, self._statistics = compression, list(statistics)
        self._sink = pa.BufferOutputStream()
        self._writer: pq.ParquetWriter | None = None

    def add(self, rows: pa.Table) -> None:
        writer = self._opened(rows)
        try:
            writer.write_table(rows, row_group_size=max(rows.num_rows, 1))
        except (pa.ArrowException, ValueError) as error:
            writer.is_open = False  # else it would try to finish the file when it is thrown away
            raise _misfit(error) from error

    def finish(self, metadata: Mapping[str, str]) -> bytes:
        """The file's bytes, with these entries in its footer."""
        writer = self._opened(None)
        try:
            if metadata:
                writer.add_key_value_metadata(dict(metadata))
            writer.close()
        except (pa.ArrowException, ValueError) as error:
            raise _misfit(error) from error
        data = bytes(self._sink.getvalue())
        footer = int.from_bytes(data[-8:-4], "little")
        if footer > limits.PARQUET_FOOTER_BYTES_MAX:
            raise InvalidArgument(
                f"The rows make a Parquet file with a footer of {footer:,} bytes; readers take {limits.PARQUET_FOOTER_BYTES_MAX:,}. "
                "Nothing was written. Use fewer columns, or more buckets."
            )
        return data

    def _opened(self, rows: pa.Table | None) -> pq.ParquetWriter:
        if self._writer is None:
            repeated = [*self._constant, *(() if rows is None else repeated_columns(rows, self._constant))]
            self._writer = pq.ParquetWriter(
                self._sink,
                self._schema,
                use_dictionary=repeated,
                compression=self._compression,
                write_statistics=self._statistics,
                store_schema=False,  # readers take the types from the Parquet schema, not from Arrow's
            )
        return self._writer


def repeated_columns(rows: pa.Table, known: Iterable[str] = ()) -> list[str]:
    """The flat columns with few different values: a dictionary of any other only costs time, here and for readers.

    Judged by the first rows. Small tables have none: compression does as well for them.
    """
    if rows.num_rows < limits.DICTIONARY_SAMPLE_ROWS:
        return []
    sample = rows.slice(0, limits.DICTIONARY_SAMPLE_ROWS)
    skipped = set(known)
    flat = [f.name for f in rows.schema if not (f.name in skipped or pa.types.is_nested(f.type) or _is_long(rows, f))]
    return [name for name in flat if pc.count_distinct(sample.column(name)).as_py() * 4 < sample.num_rows]


def _is_long(rows: pa.Table, field: pa.Field) -> bool:
    """Whether texts are so long that compression does as well: of a dictionary readers must expect the worst in every row."""
    if not (pa.types.is_string(field.type) or pa.types.is_binary(field.type)):
        return False
    column = rows.column(field.name)
    is_possible = column.nbytes > limits.DICTIONARY_TEXT_BYTES_MAX
    return is_possible and (pc.max(pc.binary_length(column)).as_py() or 0) > limits.DICTIONARY_TEXT_BYTES_MAX


def _misfit(error: Exception) -> InvalidArgument:
    return InvalidArgument(f"The rows cannot be written as Parquet: {error!s:.300}. Nothing was written.")
