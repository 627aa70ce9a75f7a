# SPDX-License-Identifier: Apache-2.0
"""Reading one slice: the same function in this process and on a Spark executor."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakebraid import limits
from lakebraid.format.hudi_types import hudi_type_of
from lakebraid.format.parquet.rows import read_parquet_rows
from lakebraid.model.predicate.arrow import ColumnStats, may_match, to_arrow
from lakebraid.model.predicate.parse import Predicate, columns_of
from lakebraid.model.predicate.tree import column_path
from lakebraid.model.schema.conform import conform, widen
from lakebraid.storage.parallel import together
from lakebraid.storage.protocol import Storage
from lakebraid.tasks.reading.base_rows import OpenBase, Sought, base_of, open_base_of, rows_of_keys
from lakebraid.tasks.reading.blocks import ordered_blocks
from lakebraid.tasks.reading.columns import Keeping
from lakebraid.tasks.reading.merge import merge
from lakebraid.tasks.reading.ranks import RANKS, with_ranks_of
from lakebraid.tasks.reading.versions import Buried, Versions, load_versions, row_keys
from lakebraid.tasks.slice_task import ReadPlan, SliceTask


def read_slice(
    storage: Storage,
    plan: ReadPlan,
    task: SliceTask,
    *,
    keys: pa.Array | None = None,
    buried: Buried | None = None,
    keeping: Keeping | None = None,
) -> Iterator[pa.Table]:
    """The rows of a slice that match, with the plan's columns, a bounded number at a time; only those `keys`, if given.

    `buried` is told of the deletes in the logs that nothing outranks. With `keeping` the ranks of values that are older
    than their rows come along, in all batches or, if there are none, in no batch.
    """
    keys = plan.keys if keys is None else keys
    schema = plan.read_schema((*plan.columns, *(plan.rules.key_columns if keys is not None else ())), task)
    versions, base = open_slice(storage, plan, task, schema, keys)
    rows = base_batches(base, plan, task, schema, keys, with_ranks=keeping is not None or versions is not None)
    return merge_slice(rows, versions, plan, task, buried=buried, keeping=keeping)


def open_slice(
    storage: Storage, plan: ReadPlan, task: SliceTask, schema: pa.Schema, keys: pa.Array | None = None
) -> tuple[Versions | None, OpenBase | None]:
    """The versions in the slice's logs, if there are any, and its base file, if it has one: neither waits for the other."""
    versions, base = together(
        storage,
        lambda: load_versions(storage, plan, task, schema, keys) if task.log_names else None,
        lambda: base_of(storage, task),
    )
    return versions, base


def may_have_ranks(storage: Storage, plan: ReadPlan, task: SliceTask) -> bool:
    """Whether values of a row of the slice may be of different age, so that ranks have to be kept."""
    if plan.rules.groups:
        return True
    if task.base_name is not None and open_base_of(storage, task).has_ranks:
        return True
    return any(placed.block.is_partial for placed in ordered_blocks(storage, plan, task))


def merge_slice(
    base: Iterable[pa.Table],
    versions: Versions | None,
    plan: ReadPlan,
    task: SliceTask,
    *,
    buried: Buried | None = None,
    keeping: Keeping | None = None,
) -> Iterator[pa.Table]:
    """The rows of a slice out of its base file's and its logs', all of which have the same columns."""
    matching = None if plan.where is None else to_arrow(plan.where)
    for merged in merge(base, versions, plan.rules, late=task.has_late_log, buried=buried, keeping=keeping):
        rows = _with_constants(merged, task)
        wanted = rows if matching is None else rows.filter(matching)
        if wanted.num_rows:
            ranks = [RANKS] if keeping is not None and RANKS in rows.column_names else []
            yield wanted.select([*plan.columns, *ranks])


def base_batches(
    base: OpenBase | None,
    plan: ReadPlan,
    task: SliceTask,
    schema: pa.Schema,
    keys: pa.Array | None,
    *,
    with_ranks: bool = False,
) -> Iterator[pa.Table]:
    """The base file's rows, conformed, batch by batch; row groups that cannot matter are not touched.

    Ranks that the file keeps come along if they are asked for.
    """
    if base is None:
        return
    where = _about_keys(plan) if task.log_names else plan.where
    file = base.file
    believed = _believed(file, where, plan, task)
    groups = [g for g in range(file.metadata.num_row_groups) if _may_match(file, g, where, believed)]
    known = set(file.schema_arrow.names)
    present = [name for name in schema.names if name in known]
    if present and keys is not None:
        yield from rows_of_keys(base, plan, groups, schema, Sought(keys), with_ranks=with_ranks)
        return
    ranks = [RANKS] if with_ranks and RANKS in known else []
    if present:
        tables = read_parquet_rows(file, base.source, groups, [*present, *ranks], base.name)
    else:
        tables = _nothing(sum(file.metadata.row_group(group).num_rows for group in groups))
    # A file of an older schema may be narrow and the table wide.
    added = sum(_null_bytes(f.type) for f in schema if f.name not in known)
    rows_max = max(1, limits.PARQUET_HELD_BYTES // max(1, added))
    for table in tables:
        for first in range(0, table.num_rows, rows_max):
            part = table.slice(first, rows_max)
            rows = conform(part, schema, base.name) if present else _nulls(part.num_rows, schema)
            yield with_ranks_of(rows, part)


def _null_bytes(kind: pa.DataType) -> int:
    """What a null takes in memory, about."""
    if pa.types.is_struct(kind):
        return 1 + sum(_null_bytes(field.type) for field in kind)
    if pa.types.is_fixed_size_list(kind):
        return 1 + int(kind.list_size) * _null_bytes(kind.value_type)
    try:
        return 1 + int(kind.bit_width) // 8
    except ValueError:
        return 5  # where a text or a list begins, and that it is null


def _nothing(rows: int) -> Iterator[pa.Table]:
    for first in range(0, rows, limits.BATCH_ROWS):
        yield pa.table({"rows": pa.nulls(min(limits.BATCH_ROWS, rows - first))})


def base_keys(base: OpenBase | None, plan: ReadPlan, task: SliceTask) -> Iterator[pa.Array]:
    """The keys of the rows of a slice's base file, batch by batch, and nothing else of them."""
    key_schema = pa.schema([f for f in plan.schema if f.name in plan.rules.key_columns])
    for rows in base_batches(base, plan, task, key_schema, None):
        yield row_keys(rows, plan.rules)


def _about_keys(plan: ReadPlan) -> Predicate | None:
    """The filter, if it looks at nothing but the key columns.

    Only then may a row group be passed over where logs are merged: a base row that the filter drops can still be the
    one that outranks a log row, unless all versions of a key agree on the filter.
    """
    if plan.where is None:
        return None
    columns = {column_path(column)[0] for column in columns_of(plan.where)}
    return plan.where if columns <= {*plan.rules.identity_columns} else None


def _may_match(file: pq.ParquetFile, group: int, where: Predicate | None, believed: Collection[str]) -> bool:
    """Whether the row group may hold a matching row, by the statistics of the `believed` columns."""
    if where is None or not believed:
        return True
    row_group = file.metadata.row_group(group)
    stats = {}
    for at in range(row_group.num_columns):
        chunk = row_group.column(at)
        try:
            if chunk.path_in_schema in believed and chunk.is_stats_set:
                stats[chunk.path_in_schema] = _column_stats(chunk.statistics, row_group.num_rows)
        except (pa.ArrowException, ValueError, OverflowError):
            continue  # bounds beyond Python's calendar, or text that is none: they say nothing
    return may_match(where, stats)


def _believed(file: pq.ParquetFile, where: Predicate | None, plan: ReadPlan, task: SliceTask) -> set[str]:
    """The filter's columns whose statistics speak of the values we show: flat, of today's type, not the folder's.

    A float of 0.1 is shown as the double 0.1, which lies outside of its own statistics.
    """
    if where is None:
        return set()
    folders = {name for name, _ in (*task.constants, *task.fillings)}
    names = columns_of(where) - folders
    found = file.schema_arrow
    return {n for n in names if found.get_field_index(n) >= 0 and found.field(n).type == plan.schema.field(n).type}


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
    for name, text in task.fillings:
        at = rows.schema.get_field_index(name)
        if at >= 0 and rows.column(at).null_count:
            field = rows.schema.field(at)
            rows = rows.set_column(at, field, _filled(rows.column(at), text))
    return rows


def _filled(column: pa.ChunkedArray, text: str) -> pa.ChunkedArray:
    """The column with the folder's value for nulls, where the text stands for a value beyond doubt."""
    kind = column.type
    if not (pa.types.is_string(kind) or pa.types.is_integer(kind) or pa.types.is_date32(kind)):
        return column
    try:
        return pc.fill_null(column, pa.array([text]).cast(kind)[0])
    except pa.ArrowInvalid:
        return column


def has_schema(storage: Storage, plan: ReadPlan, task: SliceTask) -> bool:
    """Whether every column of the table is in the file with the table's own type, which Spark has, too; or not there at all."""
    if task.base_name is None:
        return False
    found = open_base_of(storage, task).file.schema_arrow
    for field in plan.schema:
        at = found.get_field_index(field.name)
        if at >= 0 and (hudi_type_of(field) or not _is_same_type(found.field(at).type, field.type)):
            return False
    return True


def _is_same_type(found: object, wanted: object) -> bool:
    return str(found).replace("item:", "element:").replace("array:", "element:").replace(" not null", "") == str(
        wanted
    ).replace("item:", "element:").replace(" not null", "")
