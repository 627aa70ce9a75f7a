# SPDX-License-Identifier: Apache-2.0
"""Which file groups a filter can leave out, from names alone: by partition folder and by bucket."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from lakebraid.model.buckets import bucket_of, bucket_of_file_id
from lakebraid.model.config import TableConfig
from lakebraid.model.keys import record_keys
from lakebraid.model.partitions import partition_values
from lakebraid.model.predicate import Predicate, columns_of
from lakebraid.model.predicate_arrow import ColumnStats, key_values, may_match
from lakebraid.model.slicing import FileSlice


def prune(slices: Iterable[FileSlice], where: Predicate | None, config: TableConfig, schema: pa.Schema) -> list[FileSlice]:
    """The slices in which a matching row may be. `where` is bound to the schema."""
    kept = list(slices)
    if where is None:
        return kept
    kept = _by_partition(kept, where, config, schema)
    return _by_bucket(kept, where, config, schema)


def _by_partition(
    slices: list[FileSlice], where: Predicate, config: TableConfig, schema: pa.Schema
) -> list[FileSlice]:
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


def _typed(text: str | None, schema: pa.Schema, field: str) -> object | None:
    """The column value that a folder's text stands for; None if that is not certain (null, empty, fractions, times)."""
    at = schema.get_field_index(field)
    if text is None or at < 0:
        return None
    kind = schema.field(at).type
    if not (pa.types.is_string(kind) or pa.types.is_integer(kind) or pa.types.is_date32(kind)):
        return None
    try:
        return pa.array([text]).cast(kind)[0].as_py()  # type: ignore[no-any-return]
    except pa.ArrowInvalid:
        return None


def _by_bucket(
    slices: list[FileSlice], where: Predicate, config: TableConfig, schema: pa.Schema
) -> list[FileSlice]:
    """With the simple bucket index a key is in one bucket only, and the bucket's number begins the file id."""
    if config.buckets is None or not config.record_keys:
        return slices
    pinned = key_values(where, config.record_keys)
    if pinned is None:
        return slices
    columns = [pa.array([row[i] for row in pinned], schema.field(f).type) for i, f in enumerate(config.record_keys)]
    rows = pa.Table.from_arrays(columns, names=list(config.record_keys))
    texts = record_keys(rows, config.record_keys, config.has_complex_keys).to_pylist()
    wanted = {bucket_of(text, config.bucket_fields, config.buckets) for text in texts}
    return [s for s in slices if (bucket_of_file_id(s.group.file_id) or 0) in wanted or _is_foreign(s)]


def _is_foreign(file_slice: FileSlice) -> bool:
    return bucket_of_file_id(file_slice.group.file_id) is None
