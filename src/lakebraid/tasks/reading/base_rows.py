# SPDX-License-Identifier: Apache-2.0
"""The rows of a base file with certain keys: the footer says where they can be, the key column where they are."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakebraid.format.parquet.rows import CheckedFile, columns_digest, read_parquet_rows
from lakebraid.model.merge_rules import KeyForm
from lakebraid.model.schema.conform import conform
from lakebraid.storage.protocol import Storage
from lakebraid.tasks.reading.cache import KEPT_KEYS, KeyRows, key_rows
from lakebraid.tasks.reading.kept_files import open_base_file
from lakebraid.tasks.reading.ranks import RANKS, ranks_type, with_column, with_ranks_of
from lakebraid.tasks.reading.versions import row_keys
from lakebraid.tasks.slice_task import ReadPlan, SliceTask


@dataclass(frozen=True, slots=True)
class OpenBase:
    """A base file, its footer checked."""

    file: CheckedFile
    source: Any
    name: str
    size: int

    @property
    def groups(self) -> range:
        return range(self.file.metadata.num_row_groups)

    @property
    def has_ranks(self) -> bool:
        return RANKS in self.file.schema_arrow.names

    def read(self, groups: Sequence[int], schema: pa.Schema, *, with_ranks: bool = False) -> Iterator[pa.Table]:
        """The rows of row groups with the columns of `schema`, one of which the file must have."""
        known = {*self.file.schema_arrow.names}
        columns = [name for name in schema.names if name in known] + ([RANKS] if with_ranks and self.has_ranks else [])
        for rows in read_parquet_rows(self.file, self.source, groups, columns, self.name):
            yield with_ranks_of(conform(rows, schema, self.name), rows)

    def digest(self, group: int, schema: pa.Schema) -> bytes | None:
        """What these columns of a row group are known by, if they may be kept."""
        bytes_max = KEPT_KEYS.bytes_max // 4
        try:
            return columns_digest(self.file, self.source, group, {*schema.names}, bytes_max)
        except (OSError, ValueError, OverflowError, pa.ArrowException):
            return None  # reading the rows will say what is wrong


@dataclass(frozen=True, slots=True)
class Sought:
    """Keys to look up, in the form of the rules."""

    keys: pa.Array
    """Those whose rows are wanted."""
    presence: pa.Array | None = None
    """Those of which only matters whether they are there: their rows come with the key, and else with nulls."""


def open_base_of(storage: Storage, task: SliceTask) -> OpenBase:
    """The base file of a slice that has one. SnapshotExpired if it was removed."""
    return OpenBase(*open_base_file(storage, task), task.base_name or "", task.base_size)


def base_of(storage: Storage, task: SliceTask) -> OpenBase | None:
    """The same of any slice; None if it has no base file."""
    return None if task.base_name is None else open_base_of(storage, task)


def rows_of_keys(
    base: OpenBase,
    plan: ReadPlan,
    groups: Sequence[int],
    schema: pa.Schema,
    sought: Sought,
    *,
    with_ranks: bool = False,
) -> Iterator[pa.Table]:
    """The rows of these row groups with the keys. The key column is read first; the others only where it has one."""
    kind = ranks_type(plan.rules, plan.schema) if with_ranks and base.has_ranks else None
    key_schema = pa.schema([f for f in plan.schema if f.name in plan.rules.key_columns])
    every = sought.keys if sought.presence is None else pa.concat_arrays([sought.keys, sought.presence])
    for group in groups:
        if not _may_hold(base.file, group, plan, every):
            continue
        left = 0
        keys = partial(_keys_of, base, plan, group, key_schema)
        # Those who follow a table's changes ask again, over the same base files.
        digest = None if sought.presence is None else base.digest(group, key_schema)
        origin = (digest, group, plan.rules, key_schema)
        for part in keys() if digest is None else KEPT_KEYS.rows(origin, keys):
            left += len(part.places(sought.keys))
            there = part.places(sought.presence)
            if len(there):
                hollow = _hollow(part.rows.take(pa.array(there)), schema)
                yield hollow if kind is None else with_column(hollow, kind)
        for rows in base.read([group], schema, with_ranks=with_ranks) if left else ():
            found = rows.filter(pc.is_in(row_keys(rows, plan.rules), value_set=sought.keys))
            yield found
            left -= found.num_rows
            if left <= 0:
                break  # all of this group were found


def _keys_of(base: OpenBase, plan: ReadPlan, group: int, schema: pa.Schema) -> Iterator[KeyRows]:
    for rows in base.read([group], schema):
        yield key_rows(rows, row_keys(rows, plan.rules))


def greatest(base: OpenBase, plan: ReadPlan, task: SliceTask, column: str) -> pa.Scalar | None:
    """An ordering value that no row of the base file exceeds; None if its footer does not tell for certain.

    Only of whole numbers and times: greatest texts may be cut short, and of floating numbers NaN is left out. A null
    number counts as 0, any other null is below everything.
    """
    kind = plan.schema.field(column).type
    at = base.file.schema_arrow.get_field_index(column)
    is_exact = pa.types.is_signed_integer(kind) or pa.types.is_timestamp(kind) or pa.types.is_date32(kind)
    is_folders = any(name == column for name, _ in (*task.constants, *task.fillings))
    if not is_exact or is_folders or at < 0 or base.file.schema_arrow.field(at).type != kind:
        return None
    values: list[Any] = [0] if pa.types.is_integer(kind) else []
    for group in base.groups:
        found = _bounds(base.file.metadata.row_group(group), column)
        if found is None:
            return None
        values.append(found[1])
    try:
        return pc.max(pa.array(values, kind)) if base.groups else None
    except (pa.ArrowException, ValueError, OverflowError):
        return None


def _hollow(there: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows of which nothing is known but that they are there."""
    known = {*there.column_names}
    columns = [there.column(f.name) if f.name in known else pa.nulls(there.num_rows, f.type) for f in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def _may_hold(file: pq.ParquetFile, group: int, plan: ReadPlan, keys: pa.Array) -> bool:
    """Whether one of the keys lies within the bounds of a row group's key column."""
    rules = plan.rules
    if rules.key_form is KeyForm.RENDERED or not len(keys):
        return bool(len(keys))
    column = rules.key_columns[0]
    at = file.schema_arrow.get_field_index(column)
    if at < 0 or file.schema_arrow.field(at).type != keys.type:
        return True
    bounds = _bounds(file.metadata.row_group(group), column)
    if bounds is None:
        return True
    least, most = (pa.scalar(bound, keys.type) for bound in bounds)
    return bool(pc.any(pc.and_(pc.greater_equal(keys, least), pc.less_equal(keys, most))).as_py())


def _bounds(row_group: pq.RowGroupMetaData, column: str) -> tuple[Any, Any] | None:
    """The least and the greatest value of a flat column in a row group, as its statistics have them."""
    for at in range(row_group.num_columns):
        chunk = row_group.column(at)
        if chunk.path_in_schema == column:
            return _range(chunk)
    return None


def _range(chunk: pq.ColumnChunkMetaData) -> tuple[Any, Any] | None:
    with contextlib.suppress(pa.ArrowException, ValueError, OverflowError):  # no date of Python's, or no text
        stats = chunk.statistics
        if stats is not None and stats.has_min_max:
            return stats.min, stats.max
    return None
