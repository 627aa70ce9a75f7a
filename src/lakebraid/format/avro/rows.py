# SPDX-License-Identifier: Apache-2.0
"""The content of Avro data blocks and CDC blocks, to and from Arrow.

A content version, a record count, then for each record its length and its Avro bytes by the schema of the block header.
"""

from __future__ import annotations

import contextlib
import io
import struct
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Any, Final

import fastavro
import pyarrow as pa

from lakebraid import limits
from lakebraid.errors import InvalidArgument
from lakebraid.format.avro.scan import ScanRefused, scan_records
from lakebraid.format.avro.types import AvroSchema, read_avro_schema
from lakebraid.format.damage import damaged
from lakebraid.format.hudi_types import decoded
from lakebraid.format.python_rows import python_rows
from lakebraid.memory import check_held, check_needed

_CONTENT_VERSION: Final = 3
_CONTENT_VERSIONS_READ: Final = (1, 2, 3)
"""The layout of the records has been the same in all of them."""
_HEAD: Final = struct.Struct(">ii")
_INT: Final = struct.Struct(">i")
_SLOW_BATCH_ROWS: Final = 1024


def parse_avro_block(content: bytes | memoryview, schema_text: str, where: str) -> pa.Table:
    """The rows of an Avro or CDC block, in the columns and types of `parse_avro_schema`."""
    schema = read_avro_schema(schema_text, where)
    view = memoryview(content)
    ends = _record_ends(view, schema.type.bytes_min, where)
    tables: list[pa.Table] = [schema.arrow.empty_table()]
    total = first = 0
    for last in _steps(ends, schema):
        start = ends[first - 1] if first else _HEAD.size
        table = _read_step(view, start, ends[first:last], schema, where)
        tables.append(table)
        first = last
        total += table.nbytes
        check_held(total, f"Decoding {where}")
    return pa.concat_tables(tables[1:] or tables)


def parse_avro_blocks(
    contents: Sequence[bytes | memoryview], schema_text: str, places: Sequence[str]
) -> list[pa.Table]:
    """The same for several blocks of one schema, each with its place: together they take less time, if they are small."""
    schema = read_avro_schema(schema_text, places[0])
    views = [memoryview(content) for content in contents]
    ends = [_record_ends(v, schema.type.bytes_min, place) for v, place in zip(views, places, strict=True)]
    records, size = sum(map(len, ends)), sum(map(len, views))
    if len(views) > 1 and records and _worst(records, size, schema) <= limits.AVRO_CHUNK_BYTES:
        with contextlib.suppress(ScanRefused):  # one of them is damaged, or all are of a kind for the slow reader
            return _scan_together(views, ends, schema)
    return [parse_avro_block(view, schema_text, place) for view, place in zip(views, places, strict=True)]


def _scan_together(views: Sequence[memoryview], ends: Sequence[Sequence[int]], schema: AvroSchema) -> list[pa.Table]:
    begins = list(accumulate((len(view) - _HEAD.size for view in views), initial=0))
    records = b"".join(view[_HEAD.size :] for view in views)
    shifted = [end - _HEAD.size + begin for own, begin in zip(ends, begins, strict=False) for end in own]
    table = scan_records(memoryview(records), 0, shifted, schema)
    firsts = accumulate(map(len, ends), initial=0)
    return [_copied(table.slice(first, len(own))) for first, own in zip(firsts, ends, strict=False)]


def _copied(rows: pa.Table) -> pa.Table:
    """The rows in memory of their own: a block may be kept for long, and the others not."""
    columns = [pa.concat_arrays(column.chunks) if column.num_chunks else column for column in rows.columns]
    return pa.Table.from_arrays(columns, schema=rows.schema)


def format_avro_block(table: pa.Table, schema_text: str) -> bytes:
    """The content of an Avro data block with these rows; the table's columns are fitted to the schema by name."""
    schema = read_avro_schema(schema_text, "the schema of the new block")
    try:
        stored = table.select(schema.arrow.names).cast(schema.arrow).cast(schema.stored)
        rows = python_rows(_as_numbers(stored))
        encoded = [_encode(row, schema) for row in rows]
    except (pa.ArrowException, KeyError, ValueError, TypeError, AttributeError, OverflowError) as error:
        raise InvalidArgument(
            f"The rows do not fit the schema of the block: {error}. Nothing was written. Cast the columns first."
        ) from error
    return _HEAD.pack(_CONTENT_VERSION, len(encoded)) + b"".join(encoded)


def _record_ends(view: memoryview, bytes_min: int, where: str) -> list[int]:
    """Where each record ends, all lengths checked."""
    if len(view) < _HEAD.size:
        raise damaged(where, f"an Avro block has {len(view)} bytes, too few to say how many records it has")
    version, count = _HEAD.unpack_from(view)
    if version not in _CONTENT_VERSIONS_READ:
        raise damaged(where, f"an Avro block has content version {version}; 1 to 3 are known")
    position, size = _HEAD.size, len(view)
    if not 0 <= count <= min(limits.BLOCK_RECORDS_MAX, (size - position) // (4 + bytes_min)):
        raise damaged(where, f"an Avro block claims {count:,} records in {size - position:,} bytes")
    ends: list[int] = []
    length_at = _INT.unpack_from
    for _ in range(count):
        length = length_at(view, position)[0] if position + 4 <= size else -1
        position += 4 + length
        if not bytes_min <= length <= size or position > size:
            raise damaged(where, f"record {len(ends):,} of {count:,} in an Avro block claims {length:,} bytes")
        ends.append(position)
    if position != size:
        raise damaged(where, f"{size - position:,} bytes follow the last record of an Avro block")
    return ends


def _steps(ends: Sequence[int], schema: AvroSchema) -> Iterator[int]:
    """Numbers of records to decode up to, so that no step needs more memory than is allowed, whatever the bytes say."""

    def worst(begin: int, first: int, last: int) -> float:
        return _worst(last - first, ends[last - 1] - begin, schema)

    first, begin = 0, _HEAD.size
    while first < len(ends):
        last = len(ends)
        while worst(begin, first, last) > limits.AVRO_CHUNK_BYTES and last - first > 1:
            last = first + (last - first) // 2
        yield last
        first, begin = last, ends[last - 1]


def _worst(records: int, size: int, schema: AvroSchema) -> float:
    """The most memory that so many records of so many bytes can take, whatever these say."""
    return records * schema.type.slot_bytes + size * (schema.type.spread + 1)


def _read_step(view: memoryview, start: int, ends: Sequence[int], schema: AvroSchema, where: str) -> pa.Table:
    # A single record that could take all memory there is: the slow reader counts before anything is taken.
    if _worst(len(ends), ends[-1] - start, schema) <= limits.AVRO_BLOCK_ARROW_BYTES_MAX:
        with contextlib.suppress(ScanRefused):
            return scan_records(view, start, ends, schema)
    return _read_slowly(view, start, ends, schema, where)


def _read_slowly(view: memoryview, start: int, ends: Sequence[int], schema: AvroSchema, where: str) -> pa.Table:
    """The same rows, one record at a time: for what the fast reader refuses, and to say which record is damaged."""
    try:
        codec = _codec(schema.text)
    except Exception as error:  # noqa: BLE001 - as below
        raise damaged(f"The Avro schema in {where}", f"names in it are not allowed ({error!r:.100})") from None
    batches, rows = [], []
    for number, end in enumerate(ends, 1):
        stream = io.BytesIO(view[start + 4 : end])
        try:
            rows.append(fastavro.schemaless_reader(stream, codec, None))
        except Exception as error:  # noqa: BLE001 - fastavro raises nearly every type there is on damaged bytes
            raise damaged(
                where, f"record {number:,} of an Avro block does not follow its schema ({error!r:.100})"
            ) from None
        if stream.tell() != end - start - 4:
            raise damaged(where, f"record {number:,} of an Avro block is shorter than its length says")
        if _worst(1, end - start, schema) > limits.AVRO_BLOCK_ARROW_BYTES_MAX:
            check_needed(int(_items(rows[-1]) * schema.type.spread), f"Record {number:,} of an Avro block of {where}")
        start = end
        if number % _SLOW_BATCH_ROWS == 0 or number == len(ends):
            batches.append(_slow_batch(rows, schema, where))
            rows = []
    return pa.concat_tables(batches)


def _items(value: Any) -> int:
    """How many members the lists and maps in a value have, at all levels."""
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return len(inside) + sum(_items(member) for member in inside if isinstance(member, dict | list))


def _slow_batch(rows: list[Any], schema: AvroSchema, where: str) -> pa.Table:
    try:
        table = decoded(pa.Table.from_pylist(rows, schema.stored), schema.arrow).cast(schema.arrow)
        table.validate(full=True)
    except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
        raise damaged(where, f"a record of an Avro block has a value out of range ({error!s:.100})") from None
    return table


def _encode(row: dict[str, Any], schema: AvroSchema) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, _codec(schema.text), row)
    encoded = stream.getvalue()
    if len(encoded) > limits.BLOCK_BYTES_MAX:
        raise ValueError(f"a row takes {len(encoded):,} bytes")
    return _INT.pack(len(encoded)) + encoded


def _as_numbers(table: pa.Table) -> pa.Table:
    """Times as the numbers that Avro stores, for Python's own times end in the year 9999."""
    return table.cast(pa.schema([field.with_type(_number_type(field.type)) for field in table.schema]))


def _number_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_number_type(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_number_type(kind.value_type)))
    if pa.types.is_map(kind):
        return pa.map_(pa.string(), kind.item_field.with_type(_number_type(kind.item_type)))
    if pa.types.is_temporal(kind):
        return pa.int32() if kind.bit_width == 32 else pa.int64()
    return kind


@lru_cache(maxsize=16)
def _codec(schema_text: str) -> Any:
    plain = read_avro_schema(schema_text, "a schema that was read before").type.plain
    return fastavro.parse_schema(_without_times(plain))


def _without_times(plain: Any) -> Any:
    """The schema without logical types other than decimals, so that times stay the numbers they are."""
    match plain:
        case list():
            return [_without_times(branch) for branch in plain]
        case {"type": "record", "fields": fields}:
            return plain | {"fields": [field | {"type": _without_times(field["type"])} for field in fields]}
        case {"type": "array", "items": items}:
            return plain | {"items": _without_times(items)}
        case {"type": "map", "values": values}:
            return plain | {"values": _without_times(values)}
        case {"type": "int" | "long" as base}:
            return base
    return plain
