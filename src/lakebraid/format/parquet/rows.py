# SPDX-License-Identifier: Apache-2.0
"""Parquet files that may hold anything: the content of Parquet data blocks, and the guard for every base file.

A footer of a few bytes can announce terabytes. What it announces is held against the bytes that are there, and the rows are
decoded in steps of bounded size. How far the bytes unfold in all is not judged: a text of blanks is a text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from lakebraid import limits
from lakebraid.errors import EnvironmentProblem, InvalidArgument, LakebraidError, StorageError, UnsupportedTable
from lakebraid.format.damage import damaged
from lakebraid.format.hudi_types import VECTOR_FOOTER_KEY
from lakebraid.format.parquet.footer import Footer, Leaf, RowGroup, leaf_indices, parse_footer, read_footer
from lakebraid.format.parquet.pages import batch_rows
from lakebraid.memory import check_held

_MAGIC: Final = b"PAR1"
_ENDS_BYTES: Final = 12
"""The magic at both ends and the length of the footer."""


def read_parquet_block(content: bytes | memoryview, columns: list[str] | None, where: str) -> pa.Table:
    """The rows of a Parquet data block; of `columns`, those that it has, in their order in the block."""
    return ParquetBlock(content, where).read(columns)


class ParquetBlock:
    """A Parquet data block, its footer checked, for one look or several."""

    def __init__(self, content: bytes | memoryview, where: str) -> None:
        _check_ends(memoryview(content), where)
        self._source, self._where = pa.BufferReader(pa.py_buffer(content)), where
        self._file = open_parquet_file(self._source, len(content), where)

    def read(self, columns: list[str] | None) -> pa.Table:
        """The rows; of `columns`, those that the block has, in their order there."""
        file, where = self._file, self._where
        schema = file.schema_arrow
        chosen = None if columns is None else set(columns)
        wanted = [name for name in schema.names if chosen is None or name in chosen]
        if not wanted:
            return pa.table({"rows": pa.nulls(file.metadata.num_rows)}).select([])
        groups = range(file.metadata.num_row_groups)
        tables, held = [], 0
        for rows in read_parquet_rows(file, self._source, groups, wanted, where):
            held += rows.nbytes
            check_held(held, f"Decoding {where}")
            tables.append(rows)
        try:
            if len(tables) != 1:
                tables = [pa.concat_tables([_empty(schema, wanted), *tables])]
            return _plain(tables[0])
        except pa.ArrowException as error:
            raise damaged(where, f"its rows do not decode ({error!s:.120})") from None


def read_parquet_rows(
    file: CheckedFile, source: Any, groups: Sequence[int], columns: Sequence[str], where: str
) -> Iterator[pa.Table]:
    """The rows of these row groups, about `limits.BATCH_ROWS` at a time, however far the file unfolds.

    They are decoded in smaller steps, so that memory is known before it is taken, and put together again.
    """
    try:
        step = batch_rows(source, file.metadata, file.footer, groups, set(columns), where)
        batches = file.iter_batches(step, row_groups=list(groups), columns=list(columns), use_threads=False)
        for rows in _together(batches):
            # Arrow's reader lets text that is none and decimals beyond their precision through.
            rows.validate(full=True)
            yield rows
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _unreadable(where, "its rows do not decode", error) from None


def columns_digest(file: CheckedFile, source: Any, group: int, columns: set[str], bytes_max: int) -> bytes | None:
    """A digest of all bytes that decide what some columns of a row group are: equal ones are the same values.

    None if they are more than `bytes_max`, or each look would be a request to a store.
    """
    chunks = [file.footer.groups[group].chunks[leaf] for leaf in leaf_indices(file.footer.leaves, columns)]
    if isinstance(source, pa.PythonFile) or sum(chunk.stored for chunk in chunks) > bytes_max:
        return None
    found = sha256(file.digest)
    for chunk in chunks:
        at = chunk.dictionary_at if 0 < chunk.dictionary_at < chunk.data_at else chunk.data_at
        found.update(source.read_at(chunk.stored, at))
    return found.digest()


def _together(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Small batches put together to ordinary ones."""
    parts: list[pa.RecordBatch] = []
    rows = held = 0
    for batch in batches:
        taken = batch.get_total_buffer_size()
        if parts and (rows + batch.num_rows > limits.BATCH_ROWS or held + taken > limits.PARQUET_HELD_BYTES):
            yield pa.Table.from_batches(parts).combine_chunks()
            parts, rows, held = [], 0, 0
        parts.append(batch)
        rows, held = rows + batch.num_rows, held + taken
    if parts:
        yield pa.Table.from_batches(parts).combine_chunks()


def read_parquet_schema(source: Any, size: int, where: str) -> pa.Schema:
    """The columns of a Parquet file of `size` bytes, as reading it gives them; UnsupportedTable if some are vectors."""
    file = open_parquet_file(source, size, where)
    vectors = (file.metadata.metadata or {}).get(VECTOR_FOOTER_KEY)
    if vectors:
        raise UnsupportedTable(
            f"{where} has the columns {vectors.decode(errors='replace')!r:.200}, and no commit says what the table's columns are: "
            "these would be read as bytes. Nothing was changed. Write once with Apache Hudi, which states them.",
            path=where,
        )
    return _plain(file.schema_arrow.empty_table()).schema


def check_parquet(footer: Footer, size: int, where: str) -> None:
    """Raises CorruptFile if a footer announces what a file of `size` bytes cannot hold."""
    if not 0 <= footer.rows <= max(limits.PARQUET_ROWS_FREE, size * limits.PARQUET_ROWS_PER_BYTE_MAX):
        raise damaged(where, f"its footer announces {footer.rows:,} rows in {size:,} bytes")
    wide = next((leaf for leaf in footer.leaves if leaf.width > limits.ROW_BYTES_MAX), None)
    if wide is not None:
        raise damaged(where, f"each value of its column {wide.path[:60]!r} takes {wide.width:,} bytes")
    rows = 0
    for number, group in enumerate(footer.groups):
        rows += group.rows
        _check_group(group, footer.leaves, size, f"row group {number:,}", where)
    if rows != footer.rows:
        raise damaged(where, f"its footer announces {footer.rows:,} rows and its row groups {rows:,}")


def format_parquet_block(table: pa.Table) -> bytes:
    """The content of a Parquet data block with these rows, as Hudi and Spark read them."""
    sink = pa.BufferOutputStream()
    try:
        pq.write_table(
            table,
            sink,
            compression="zstd",
            store_schema=False,  # readers take the types from the Parquet schema, not from Arrow's
            coerce_timestamps="us",
            use_deprecated_int96_timestamps=False,
        )
    except (pa.ArrowException, ValueError) as error:
        raise InvalidArgument(f"The rows cannot be written as Parquet: {error}. Nothing was written.") from error
    return bytes(sink.getvalue())


def _check_ends(content: memoryview, where: str) -> None:
    if len(content) < _ENDS_BYTES or not bytes(content[:4]) == bytes(content[-4:]) == _MAGIC:
        raise damaged(where, "its content is not a Parquet file")
    footer = int.from_bytes(content[-8:-4], "little")
    if footer > min(limits.PARQUET_FOOTER_BYTES_MAX, len(content) - _ENDS_BYTES):
        raise damaged(where, f"its footer claims {footer:,} of {len(content):,} bytes")


class CheckedFile(pq.ParquetFile):  # type: ignore[misc] # pyarrow has no types
    """A Parquet file whose footer was looked through by us: pyarrow may be asked for its chunks."""

    footer: Footer
    digest: bytes
    """Of the footer's bytes."""

    def again(self, source: Any) -> CheckedFile:
        """The same file for another thread: `source` has the same bytes, so that its footer need not be looked through."""
        file = _checked_file(source, self.metadata)
        file.footer, file.digest = self.footer, self.digest
        return file


def open_parquet_file(source: Any, size: int, where: str) -> CheckedFile:
    """The file, its footer held against the limits before any page is decoded."""
    try:
        source = source if isinstance(source, pa.NativeFile) else pa.PythonFile(source, mode="r")
        data = read_footer(source, where)
        file = _checked_file(source, _metadata(data) if isinstance(source, pa.PythonFile) else None)  # saves a request
        file.footer = parse_footer(data, file.schema, where)
        file.digest = sha256(data).digest()
        check_parquet(file.footer, size, where)
        names = file.schema_arrow.names
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _unreadable(where, "its footer does not decode", error) from None
    if len(set(names)) < len(names):
        raise damaged(where, "it has two columns of one name")
    return file


def _checked_file(source: Any, metadata: pq.FileMetaData | None) -> CheckedFile:
    return CheckedFile(
        source,
        metadata=metadata,
        pre_buffer=False,  # memory stays flat,
        buffer_size=limits.PARQUET_BUFFER_BYTES,  # and holds a piece of a column chunk, not all of it
        coerce_int96_timestamp_unit="us",
        thrift_string_size_limit=limits.PARQUET_FOOTER_BYTES_MAX,
        thrift_container_size_limit=limits.PARQUET_FOOTER_BYTES_MAX,
    )


def _metadata(footer: bytes) -> pq.FileMetaData:
    file = pa.BufferReader(_MAGIC + footer + len(footer).to_bytes(4, "little") + _MAGIC)
    limit = limits.PARQUET_FOOTER_BYTES_MAX
    return pq.ParquetFile(file, thrift_string_size_limit=limit, thrift_container_size_limit=limit).metadata


def _unreadable(where: str, what: str, error: Exception) -> LakebraidError:
    # Arrow reports damage as OSError without a number; one with a number came from the store below.
    if isinstance(error, MemoryError):
        return EnvironmentProblem(
            f"There was not enough memory to read {where}: {error!s:.120}. Nothing was changed, and nothing is damaged. "
            "Read fewer columns, or use a machine with more memory.",
            path=where,
        )
    if isinstance(error, OSError) and error.errno is not None:
        return StorageError(
            f"Reading {where} failed: {error!s:.200}. Nothing was changed. Check the disk or the store, then try again.",
            path=where,
            errno=error.errno,
        )
    return damaged(where, f"{what} ({error!s:.120})")


def _check_group(group: RowGroup, leaves: Sequence[Leaf], size: int, name: str, where: str) -> None:
    if group.rows < 0 or (group.rows and not leaves):
        raise damaged(where, f"its {name} announces {group.rows:,} rows of {len(leaves):,} columns")
    for chunk, leaf in zip(group.chunks, leaves, strict=True):
        if not 0 <= chunk.stored <= size or chunk.plain < 0:
            raise damaged(where, f"column {leaf.path[:60]!r} of its {name} claims {chunk.stored:,} of {size:,} bytes")
        if chunk.values < group.rows or (chunk.values > group.rows and leaf.levels[0] == 0):
            raise damaged(
                where, f"column {leaf.path[:60]!r} of its {name} has {chunk.values:,} values for {group.rows:,} rows"
            )


def _plain(table: pa.Table) -> pa.Table:
    """The table without dictionaries, large types and foreign metadata, which a file by another writer may ask for."""
    schema = table.schema
    if schema.metadata is None and not any(field.metadata or _plain_type(field.type) != field.type for field in schema):
        return table  # a cast to what it is takes as long as decoding a small block
    return table.cast(pa.schema([pa.field(f.name, _plain_type(f.type), f.nullable) for f in schema]))


def _empty(schema: pa.Schema, names: Sequence[str]) -> pa.Table:
    return pa.schema([schema.field(name) for name in names]).empty_table()


def _plain_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return _plain_type(kind.value_type)
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_large_binary(kind):
        return pa.binary()
    return kind
