# SPDX-License-Identifier: Apache-2.0
"""Base and log files of a described history, as bytes."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lakebraid.format.avro.rows import format_avro_block
from lakebraid.format.avro.types import format_avro_schema
from lakebraid.format.log.blocks import BlockType, HeaderKey, LogBlock, format_block, format_log
from lakebraid.format.log.delete_list import format_delete_block
from lakebraid.format.names import BaseFileName, LogFileName
from lakebraid.format.parquet.rows import format_parquet_block
from lakebraid.format.properties import PartitionMetadata, format_partition_metadata
from lakebraid.storage import Storage
from tests.kit.models.oracle import Base, Block, Gone, Group, Log, Put, Settings

ARROW_TYPES = {
    "id": pa.string(),
    "part": pa.string(),
    "ts": pa.int64(),
    "ts2": pa.int64(),
    "v": pa.string(),
    "w": pa.int64(),
    "extra": pa.string(),
    "_hoodie_is_deleted": pa.bool_(),
}


META = (
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    "_hoodie_record_key",
    "_hoodie_partition_path",
    "_hoodie_file_name",
)


ORDER_TYPES: dict[str, tuple[pa.DataType, Callable[[int], Any]]] = {
    "long": (pa.int64(), lambda n: n),
    "int": (pa.int32(), lambda n: n + 7),  # in a delete an int 0 means "no ordering value"
    "double": (pa.float64(), lambda n: math.nan if n == 2 else n / 4),  # NaN is above every number
    "string": (pa.string(), lambda n: ("", "Z", "a", "ä")[n + 1]),
    "decimal": (pa.decimal128(12, 2), lambda n: Decimal(n) / 4),
    "timestamp": (pa.timestamp("us", tz="UTC"), lambda n: datetime(2026, 1, 1, tzinfo=UTC) + timedelta(microseconds=n)),
}


def t(number: int) -> str:
    """An instant time for a small number."""
    assert 0 < number < 60_000
    return f"{20260101000000000 + number:017d}"


def record_key(key: str, settings: Settings) -> str:
    return f"id:{key}" if settings.complex_keys else key


def stored(name: str, value: Any, settings: Settings) -> Any:
    """A column's value as it lies in a file."""
    is_order = name in ("ts", "ts2") and value is not None
    return ORDER_TYPES[settings.order_type][1](value) if is_order else value


def column_type(name: str, settings: Settings) -> pa.DataType:
    return ORDER_TYPES[settings.order_type][0] if name in ("ts", "ts2") else ARROW_TYPES[name]


def file_name(file: Log | Base) -> str:
    if isinstance(file, Base):
        return BaseFileName(file.group[1], file.token, t(file.request_time), ".parquet").format()
    return LogFileName(file.group[1], t(file.request_time), file.version, file.token, "").format()


def file_path(file: Log | Base) -> str:
    return f"{file.group[0]}/{file_name(file)}" if file.group[0] else file_name(file)


def put_file(storage: Storage, file: Log | Base, settings: Settings | None = None) -> None:
    """Writes a data file, and the partition's own file before it."""
    partition = file.group[0]
    mark = f"{partition}/.hoodie_partition_metadata" if partition else ".hoodie_partition_metadata"
    depth = len(partition.split("/")) if partition else 0
    storage.replace(mark, format_partition_metadata(PartitionMetadata(t(file.request_time), depth)))
    settings = settings or Settings()
    data = base_bytes(file, settings) if isinstance(file, Base) else log_bytes(file, settings)
    storage.replace(file_path(file), data)


def base_bytes(base: Base, settings: Settings) -> bytes:
    columns = base.columns or _columns_of(row for _, row in base.rows)
    rows = [(at, row["id"], row) for at, row in base.rows]
    table = _with_meta(rows, columns, base.group, file_name(base), settings)
    sink = io.BytesIO()
    pq.write_table(table, sink, store_schema=False, row_group_size=2)
    return sink.getvalue()


def log_bytes(log: Log, settings: Settings) -> bytes:
    return format_log([_log_block(log, block, settings) for block in log.blocks])


def _log_block(log: Log, block: Block, settings: Settings) -> LogBlock:
    header = {HeaderKey.INSTANT_TIME: t(log.request_time)}
    if block.compacted:
        header[HeaderKey.COMPACTED_BLOCK_TIMES] = ",".join(t(s) for s in block.compacted)
    if block.partial:
        header[HeaderKey.IS_PARTIAL] = "true"
    kind, content = BlockType.DELETE, b""
    if block.form == "delete":
        content = _deletes([e for e in block.entries if isinstance(e, Gone)], log.group[0], settings)
    else:
        rows = [(log.request_time, e.key, e.values) for e in block.entries if isinstance(e, Put)]
        table = _with_meta(rows, block.columns, log.group, log.group[1], settings)
        header[HeaderKey.SCHEMA] = format_avro_schema(table.schema, "built_record", "hoodie.built")
        if block.form == "avro":
            kind, content = BlockType.AVRO, format_avro_block(table, header[HeaderKey.SCHEMA])
        else:
            kind, content = BlockType.PARQUET, format_parquet_block(table)
    format_block(kind, header, content)
    return LogBlock(kind, header, content)


def _deletes(entries: Sequence[Gone], partition: str, settings: Settings) -> bytes:
    keys = pa.array([record_key(e.key, settings) for e in entries], pa.string())
    partitions = pa.array([partition] * len(entries), pa.string())
    width = max((len(e.order) for e in entries if e.order is not None), default=0)
    kind, value = ORDER_TYPES[settings.order_type]
    ordering = [pa.array([None if e.order is None else value(e.order[i]) for e in entries], kind) for i in range(width)]
    return format_delete_block(keys, partitions, ordering or None)


def _columns_of(rows: Iterable[dict[str, Any]]) -> tuple[str, ...]:
    named = {name for row in rows for name in row}
    return tuple(name for name in ARROW_TYPES if name in named)


def _with_meta(
    rows: Sequence[tuple[int, str, dict[str, Any]]], columns: Sequence[str], group: Group, name: str, settings: Settings
) -> pa.Table:
    meta = [
        [t(at) for at, _, _ in rows],
        [f"{t(at)}_0_{i}" for i, (at, _, _) in enumerate(rows)],
        [record_key(key, settings) for _, key, _ in rows],
        [group[0]] * len(rows),
        [name] * len(rows),
    ]
    arrays = [pa.array(values, pa.string()) for values in meta] if settings.meta else []
    for column in columns:
        values = [stored(column, row.get(column), settings) for _, _, row in rows]
        arrays.append(pa.array(values, column_type(column, settings)))
    return pa.Table.from_arrays(arrays, names=[*(META if settings.meta else ()), *columns])


def schema_text(columns: Sequence[str], settings: Settings) -> str:
    fields = [(c, column_type(c, settings)) for c in columns]
    return format_avro_schema(pa.schema(fields), "built_record", "hoodie.built")
