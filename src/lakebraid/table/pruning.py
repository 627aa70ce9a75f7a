# SPDX-License-Identifier: Apache-2.0
"""Which file groups a filter can leave out, from names alone: by partition folder and by bucket."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from lakebraid.errors import InvalidArgument
from lakebraid.model.config import TableConfig
from lakebraid.model.keys.buckets import bucket_of, bucket_of_file_id
from lakebraid.model.keys.keys import record_keys
from lakebraid.model.keys.partitions import partition_values
from lakebraid.model.predicate.arrow import ColumnStats, key_values, may_match
from lakebraid.model.predicate.parse import Predicate, columns_of
from lakebraid.model.predicate.tree import Value
from lakebraid.model.timeline.slicing import FileSlice


def prune(
    slices: Iterable[FileSlice], where: Predicate | None, config: TableConfig, schema: pa.Schema
) -> list[FileSlice]:
    """The slices in which a matching row may be. `where` is bound to the schema."""
    kept = list(slices)
    if where is None:
        return kept
    kept = _by_partition(kept, where, config, schema)
    return _by_bucket(kept, where, config, schema)


def _by_partition(slices: list[FileSlice], where: Predicate, config: TableConfig, schema: pa.Schema) -> list[FileSlice]:
    if not config.has_text_partitions or not columns_of(where) & {*config.partition_fields}:
        return slices
    verdicts = {path: _may_hold(path, where, config, schema) for path in {s.group.partition for s in slices}}
    return [s for s in slices if verdicts[s.group.partition]]


def _may_hold(path: str, where: Predicate, config: TableConfig, schema: pa.Schema) -> bool:
    values = partition_values(path, config.partition_fields, config.hive_style, config.url_encode)
    if values is None:
        return True
    stats = {}
    for field, text in zip(config.partition_fields, values, strict=True):
        value = _typed(text, schema, field)
        if value is not None:
            stats[field] = ColumnStats(value, value, 0, 1)
    return may_match(where, stats)


def _typed(text: str | None, schema: pa.Schema, field: str) -> Value:
    """The column value that a folder's text stands for; None if that is not certain (null, empty, fractions, times)."""
    at = schema.get_field_index(field)
    if text is None or at < 0:
        return None
    kind = schema.field(at).type
    if not (pa.types.is_string(kind) or pa.types.is_integer(kind) or pa.types.is_date32(kind)):
        return None
    try:
        value: Value = pa.array([text]).cast(kind)[0].as_py()
    except (pa.ArrowInvalid, ValueError, OverflowError):  # the last two: beyond Python's calendar
        return None
    return value


def _by_bucket(slices: list[FileSlice], where: Predicate, config: TableConfig, schema: pa.Schema) -> list[FileSlice]:
    """With the simple bucket index a key is in one bucket only, and the bucket's number begins the file id."""
    if config.buckets is None:
        return slices
    texts = pinned_keys(where, config, schema)
    if texts is None:
        return slices
    wanted = {bucket_of(text, config.bucket_fields, config.buckets) for text in texts.to_pylist()}
    return [s for s in slices if _is_foreign(s) or bucket_of_file_id(s.group.file_id) in wanted]


def pinned_keys(where: Predicate, config: TableConfig, schema: pa.Schema) -> pa.Array | None:
    """The record keys of the only rows that can match, as text, if the filter pins them; None if not.

    Keys inside of structs are never pinned, nor are values that cannot be keys.
    """
    fields = config.record_keys
    if not fields or any(schema.get_field_index(field) < 0 for field in fields):
        return None
    pinned = key_values(where, fields)
    if pinned is None:
        return None
    columns = [pa.array([row[i] for row in pinned], schema.field(f).type) for i, f in enumerate(fields)]
    try:
        return record_keys(pa.Table.from_arrays(columns, names=list(fields)), fields, config.has_complex_keys)
    except InvalidArgument:
        return None  # an empty or null key: no row has it, and the filter says so by itself


def _is_foreign(file_slice: FileSlice) -> bool:
    return bucket_of_file_id(file_slice.group.file_id) is None
