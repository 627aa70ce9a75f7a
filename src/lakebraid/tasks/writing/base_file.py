# SPDX-License-Identifier: Apache-2.0
"""The bytes of one base file, out of rows that come in batches; and the empty one with which a file group begins."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebraid import limits
from lakebraid.errors import InvalidArgument
from lakebraid.format.names import BaseFileName, partition_numbers, write_token
from lakebraid.format.parquet.bloom import MAX_KEY, MIN_KEY, FilterOfKeys
from lakebraid.format.parquet.write import ParquetFile
from lakebraid.model.config import RECORD_KEY
from lakebraid.model.metadata.file_ranges import NO_COLUMNS, NOT_KNOWN, FileRanges, RangeRules, RangeTally
from lakebraid.model.schema.conform import with_meta
from lakebraid.model.values.cutting import cut
from lakebraid.storage.protocol import Storage
from lakebraid.tasks.new_files import NewFiles, put_file, put_files
from lakebraid.tasks.reading.ranks import RANKS
from lakebraid.tasks.staged_file import StagedFile

_FILE_NAME: Final = "_hoodie_file_name"
_CONSTANT: Final = ("_hoodie_partition_path", _FILE_NAME)
_UNSEARCHED: Final = (*_CONSTANT, "_hoodie_commit_seqno")
"""No reader looks for rows by these, so their least and greatest values are not noted."""


@dataclass(frozen=True, slots=True)
class BaseContent:
    """A base file's bytes, and what is known of its rows; no keys if it has none."""

    data: bytes
    rows: int
    min_key: str | None
    max_key: str | None
    ranges: FileRanges = NOT_KNOWN


def format_base_file(
    batches: Iterable[pa.Table],
    schema: pa.Schema,
    name: str,
    *,
    has_filter: bool = False,
    ranges: RangeRules = NO_COLUMNS,
) -> BaseContent:
    """A base file called `name` of rows that have Hudi's five columns; `schema` is the table's, without them.

    If the rows come with ranks of their older values, the file keeps these beside its columns (`tasks.reading.ranks`).
    Whatever `_hoodie_file_name` the rows had, they now have this one. No rows at all make an empty, valid file. With a
    filter of its keys in the footer, those who look keys up can pass over it; buckets need none. `ranges` says of which columns
    the ranges are to be found.
    """
    batches = iter(batches)
    first = next(batches, None)
    stored = with_meta(schema)
    statistics = [name for name in stored.names if name not in _UNSEARCHED]
    if first is not None and RANKS in first.column_names:
        stored = stored.append(first.schema.field(RANKS))
    count, least, greatest = 0, None, None
    file = ParquetFile(stored, constant=_CONSTANT, statistics=statistics, compression="zstd")
    keys = FilterOfKeys() if has_filter else None
    tally = RangeTally(ranges)
    for rows in _row_groups(chain([] if first is None else [first], batches)):
        if keys is not None:
            keys.add(rows.column(RECORD_KEY))
        named = _named(rows, stored, name)
        file.add(named)
        tally.add(named)
        if RANKS in stored.names and named.column(RANKS).null_count < named.num_rows:
            tally.inherit()  # a later write of some columns may win over older values of a newer row
        count += rows.num_rows
        least, greatest = _wider((least, greatest), key_range(rows.column(RECORD_KEY)))
    known = {MIN_KEY: least, MAX_KEY: greatest, **(keys.entries() if keys is not None else {}), **_calendar(schema)}
    data = file.finish({key: value for key, value in known.items() if value is not None})
    return BaseContent(data, count, least, greatest, tally.found())


def staged_base(partition: str, file_id: str, name: str, content: BaseContent) -> StagedFile:
    """A base file that is new as a whole."""
    return StagedFile(
        partition, file_id, name, len(content.data), content.rows, 0, is_base=True,
        min_key=content.min_key, max_key=content.max_key, ranges=content.ranges,
    )  # fmt: skip


def put_seeds(
    storage: Storage,
    request_time: str,
    schema: pa.Schema,
    groups: Iterable[tuple[str, str]],
    ranges: RangeRules = NO_COLUMNS,
) -> Iterator[StagedFile]:
    """Empty base files with which file groups (partition and file id) begin, put but not visible. Every attempt gives the
    same names and bytes.
    """
    wanted = list(groups)
    numbers = partition_numbers(partition for partition, _ in wanted)

    def seed(partition: str, file_id: str) -> NewFiles:
        name = BaseFileName(file_id, write_token(0, numbers[partition]), request_time, ".parquet").format()
        return NewFiles(((partition, name),), 0, lambda: [put(partition, file_id, name)])

    def put(partition: str, file_id: str, name: str) -> StagedFile:
        content = format_base_file([], schema, name, ranges=ranges)
        put_file(storage, request_time, partition, name, content.data)
        return staged_base(partition, file_id, name, content)

    return put_files(storage, request_time, (seed(*group) for group in wanted))


def _calendar(schema: pa.Schema) -> dict[str, str]:
    """What Spark wants to see in a footer to read days before 1582 as they are, and times before 1900: that the file is of no
    Spark before 3.0, which counted by another calendar. Otherwise it refuses to read them.
    """
    return {"org.apache.spark.version": "3.5.0"} if any(_has_days(field.type) for field in schema) else {}


def _has_days(kind: pa.DataType) -> bool:
    if pa.types.is_nested(kind):
        return any(_has_days(kind.field(at).type) for at in range(kind.num_fields))
    return bool(pa.types.is_date(kind) or pa.types.is_timestamp(kind))


def key_range(keys: pa.Array | pa.ChunkedArray) -> tuple[str | None, str | None]:
    """The least and the greatest key as Java compares texts: by UTF-16 units."""
    if any(_has_surrogates(chunk) for chunk in (keys.chunks if isinstance(keys, pa.ChunkedArray) else [keys])):
        texts = sorted(keys.to_pylist(), key=_java_order)
        return texts[0], texts[-1]
    found = pc.min_max(keys).as_py()
    return found["min"], found["max"]


def _has_surrogates(chunk: pa.Array) -> bool:
    """Whether a text may lie beyond the first plane: only there UTF-8 and UTF-16 sort differently."""
    data = chunk.buffers()[2]
    return data is not None and data.size > 0 and bool(np.frombuffer(data, np.uint8).max() >= 0xF0)


def _java_order(text: str) -> bytes:
    return text.encode("utf-16-be", "surrogatepass")


def _wider(known: tuple[str | None, str | None], more: tuple[str | None, str | None]) -> tuple[str | None, str | None]:
    least = [text for text in (known[0], more[0]) if text is not None]
    greatest = [text for text in (known[1], more[1]) if text is not None]
    return min(least, key=_java_order, default=None), max(greatest, key=_java_order, default=None)


def _row_groups(batches: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """The batches put together or cut to the size of row groups; none for no rows."""
    held: list[pa.Table] = []
    rows = taken = 0
    for batch in batches:
        for piece in cut(batch, limits.BASE_ROW_GROUP_BYTES, limits.BASE_ROW_GROUP_ROWS):
            if held and (
                rows + piece.num_rows > limits.BASE_ROW_GROUP_ROWS or taken + piece.nbytes > limits.BASE_ROW_GROUP_BYTES
            ):
                yield pa.concat_tables(held)
                held, rows, taken = [], 0, 0
            held.append(piece)
            rows, taken = rows + piece.num_rows, taken + piece.nbytes
    if held:
        yield pa.concat_tables(held)


def _named(rows: pa.Table, stored: pa.Schema, name: str) -> pa.Table:
    if rows.schema.names != stored.names:
        raise InvalidArgument(
            f"Rows with the columns {', '.join(rows.schema.names)} do not fit a base file with the columns "
            f"{', '.join(stored.names)}. Nothing was written. Conform them first."
        )
    columns = [pa.repeat(name, rows.num_rows) if n == _FILE_NAME else rows.column(n) for n in stored.names]
    return pa.Table.from_arrays(columns, schema=stored)
