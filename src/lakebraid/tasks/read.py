# SPDX-License-Identifier: Apache-2.0
"""Reading one slice: the same function in this process and on a Spark executor."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakebraid import limits
from lakebraid.errors import CorruptFile, LakebraidError
from lakebraid.format.parquet_rows import check_parquet
from lakebraid.model.evolution import conform, widen
from lakebraid.model.predicate import Predicate, columns_of
from lakebraid.model.predicate_tree import column_path
from lakebraid.model.predicate_arrow import ColumnStats, may_match, to_arrow
from lakebraid.storage.protocol import Storage
from lakebraid.tasks.merge import merge
from lakebraid.tasks.slice_task import ReadPlan, SliceTask
from lakebraid.tasks.versions import load_versions, only_keys, row_keys


def read_slice(
    storage: Storage, plan: ReadPlan, task: SliceTask, *, keys: pa.Array | None = None
) -> Iterator[pa.Table]:
    """The rows of a slice that match, with the plan's columns, a bounded number at a time; only those `keys`, if given."""
    schema = plan.read_schema((*plan.columns, *(plan.rules.key_columns if keys is not None else ())), task)
    versions = load_versions(storage, plan, task, schema) if task.log_names else None
    base = _base_batches(storage, plan, task, schema, merged=versions is not None)
    if keys is not None:
        base = (rows.filter(pc.is_in(row_keys(rows, plan.rules), value_set=keys)) for rows in base)
        versions = versions if versions is None else only_keys(versions, keys)
    keep = None if plan.where is None else to_arrow(plan.where)
    for merged in merge(base, versions, plan.rules, late=task.has_late_log):
        rows = _with_constants(merged, task)
        wanted = rows if keep is None else rows.filter(keep)
        if wanted.num_rows:
            yield wanted.select(list(plan.columns))


def _base_batches(
    storage: Storage, plan: ReadPlan, task: SliceTask, schema: pa.Schema, *, merged: bool
) -> Iterator[pa.Table]:
    """The base file's rows, conformed, batch by batch; row groups that cannot matter are not touched."""
    if task.base_name is None:
        return
    where = plan.where if not merged else _about_keys(plan)
    file = open_parquet(storage, task.base_name, task.base_size)
    groups = [g for g in range(file.metadata.num_row_groups) if _may_match(file, g, where)]
    present = [name for name in schema.names if name in file.schema_arrow.names]
    if not present:
        for group in groups:
            rows = file.metadata.row_group(group).num_rows
            yield _nulls(rows, schema)
        return
    try:
        for batch in file.iter_batches(limits.BATCH_ROWS, row_groups=groups, columns=present, use_threads=False):
            yield conform(batch, schema, task.base_name)
    except (pa.ArrowException, OSError) as error:
        raise _damaged(task.base_name, error) from error


def open_parquet(storage: Storage, name: str, size: int) -> pq.ParquetFile:
    """A base file, its footer held against the limits before any page is decoded."""
    source: Any = storage.open_input(name)
    try:
        # Without pre_buffer memory stays flat as the file grows.
        file = pq.ParquetFile(source, pre_buffer=False, coerce_int96_timestamp_unit="us")
    except LakebraidError:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _damaged(name, error) from error
    check_parquet(file.metadata, size, name)
    return file


def _about_keys(plan: ReadPlan) -> Predicate | None:
    """The filter, if it looks at nothing but the key columns.

    Only then may a row group be passed over where logs are merged: a base row that the filter drops can still be the
    one that outranks a log row, unless all versions of a key agree on the filter.
    """
    if plan.where is None:
        return None
    columns = {column_path(column)[0] for column in columns_of(plan.where)}
    return plan.where if columns <= {*plan.rules.identity_columns} else None


def _may_match(file: pq.ParquetFile, group: int, where: Predicate | None) -> bool:
    if where is None:
        return True
    wanted = columns_of(where)
    row_group = file.metadata.row_group(group)
    stats = {}
    for at in range(row_group.num_columns):
        chunk = row_group.column(at)
        if chunk.path_in_schema in wanted and chunk.is_stats_set:  # names of flat columns; nested ones never prune
            stats[chunk.path_in_schema] = _column_stats(chunk.statistics, row_group.num_rows)
    return may_match(where, stats)


def _column_stats(stats: Any, rows: int) -> ColumnStats:
    has_range = stats.has_min_max
    nulls = stats.null_count if stats.has_null_count else None
    return ColumnStats(stats.min if has_range else None, stats.max if has_range else None, nulls, rows)


def _nulls(rows: int, schema: pa.Schema) -> pa.Table:
    return pa.Table.from_arrays([pa.nulls(rows, f.type) for f in schema], schema=schema)


def _with_constants(rows: pa.Table, task: SliceTask) -> pa.Table:
    """The rows with the partition columns that live only in the folder's name."""
    for name, text in task.constants:
        at = rows.schema.get_field_index(name)
        if at >= 0:
            field = rows.schema.field(at)
            value = widen(pa.array([text], pa.string()), field.type, f"the partition {task.partition}")[0]
            rows = rows.set_column(at, field, pa.repeat(value, rows.num_rows))
    return rows


def _damaged(name: str, error: Exception) -> CorruptFile:
    return CorruptFile(
        f"The Parquet file {name} cannot be read: {str(error)[:300]}. Nothing was changed. Compare it with a backup; "
        "an older version of the table may still be readable with as_of.",
        path=name,
    )
