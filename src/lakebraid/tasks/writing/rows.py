# SPDX-License-Identifier: Apache-2.0
"""What one task of a write does: rows in, data files of their file groups out. No reader sees them before the commit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebraid import limits
from lakebraid.errors import InvalidArgument
from lakebraid.format.names import BaseFileName, LogFileName, partition_numbers, write_token
from lakebraid.model.config import RECORD_KEY, TableConfig
from lakebraid.model.grouping import Group, group_rows, join_group
from lakebraid.model.incoming import prepare
from lakebraid.model.keys.buckets import Replaced, bucket_ids
from lakebraid.model.keys.keys import record_keys
from lakebraid.model.keys.partitions import partition_paths
from lakebraid.model.merge_rules import MergeRules, marked_deleted, merge_rules
from lakebraid.model.metadata.file_ranges import NO_COLUMNS, NOT_KNOWN, FileRanges, RangeRules, RangeTally
from lakebraid.model.operations import WITH_TASKS
from lakebraid.model.ordering import Bools, Ints, OrderKeys, order_keys
from lakebraid.model.schema.avro_text import row_schema_text
from lakebraid.model.schema.conform import with_meta
from lakebraid.model.values.arrow_numpy import take_rows
from lakebraid.storage.parallel import map_calls
from lakebraid.storage.protocol import Storage
from lakebraid.tasks.new_files import NewFiles, put_file, put_files
from lakebraid.tasks.staged_file import StagedFile
from lakebraid.tasks.writing.base_file import format_base_file, staged_base
from lakebraid.tasks.writing.log_file import BlockRules, Deletes, Skeletons, block_format, format_log_file
from lakebraid.tasks.writing.skeletons import KnownKeys, skeletons

__all__ = ["Places", "StagedFile", "WritePlan", "write_rows"]


@dataclass(frozen=True, slots=True)
class WritePlan:
    """What all tasks of one write have in common."""

    url: str
    options: tuple[tuple[str, str], ...]
    request_time: str
    schema: pa.Schema
    """The table's columns, without Hudi's own."""
    config: TableConfig
    buckets: int
    operation: str = "upsert"
    block_format: str = "parquet"
    columns: tuple[str, ...] | None = None
    """For a partial update: the only columns to write."""
    into_base: bool = False
    """Whether rows become base files: a bulk load into a table to which nothing was ever published. Then all rows of a
    file group must come to one task and in one batch, for a group has one base file.
    """
    file_ids: Mapping[tuple[str, int], str] = field(default_factory=dict)
    """The file ids of (partition, bucket) that were found in a listing."""
    replaced: Replaced = field(default_factory=Replaced)
    """Which overwrite gave the other buckets their ids."""
    announced: frozenset[tuple[str, str]] = frozenset()
    """Partitions and names of log files that were announced before there were rows: the write was begun ahead."""
    known: KnownKeys | None = None
    """For a partial update: the keys that have a row already; None if all columns are written."""
    ranges: RangeRules = NO_COLUMNS
    """Of which columns the ranges are to be found in each file."""

    def __post_init__(self) -> None:
        if self.operation not in WITH_TASKS:
            raise _unknown("operation", self.operation, WITH_TASKS)
        if self.block_format not in ("parquet", "avro"):
            raise _unknown("block format", self.block_format, ("parquet", "avro"))
        if self.into_base and (self.columns is not None or self.operation == "delete"):
            raise InvalidArgument("Base files hold whole rows: neither partial updates nor deletes go into them.")

    def __repr__(self) -> str:
        # `options` may hold credentials.
        return f"WritePlan(url={self.url!r}, request_time={self.request_time!r}, operation={self.operation!r})"

    def file_id(self, partition: str, bucket: int) -> str:
        """The file group of a bucket."""
        return self.file_ids.get((partition, bucket)) or self.replaced.file_id(partition, bucket)


@dataclass(frozen=True, slots=True)
class Places:
    """Where rows go: their partitions, and the numbers of their file groups in the plan's `file_ids`."""

    partitions: pa.Array
    numbers: Ints


def write_rows(
    storage: Storage,
    plan: WritePlan,
    rows: pa.Table | pa.RecordBatch,
    task: int,
    ready: Callable[[], None] = lambda: None,
) -> list[StagedFile]:
    """Writes the rows of one task, one log file (for a bulk load one base file) for each file group they belong to.

    Of rows with equal keys the one that the table would keep is written. A second attempt with the same rows and the
    same task number gives the same files. Raises InvalidArgument, before anything is written, if a row does not fit.
    Of equal rows of two tasks readers prefer that of the greater task number, compared as text: give numbers of equal
    length to tasks whose order matters.
    """
    groups = rows_to_put(storage, plan, rows, task)
    return list(put_files(storage, plan.request_time, groups, ready, plan.announced))


def rows_to_put(
    storage: Storage, plan: WritePlan, rows: pa.Table | pa.RecordBatch, task: int, *, places: Places | None = None
) -> list[NewFiles]:
    """The files of `write_rows`, which are still to be put. With `places` rows go there, and not where columns and hash say."""
    ready = prepare(rows, plan.schema, plan.config, operation=plan.operation, columns=plan.columns)
    batch = _batch(plan, ready, task, places)
    openings = _openings(storage, plan, batch)
    numbers = partition_numbers(group.partition for group in batch.groups)
    row_bytes = batch.rows.nbytes / max(1, batch.rows.num_rows)

    def new(group: Group, opening: Skeletons | None) -> NewFiles:
        names = _names(plan, batch, group, write_token(task, numbers[group.partition]))
        size = int(row_bytes * (group.stop - group.start))
        put = partial(_put, storage, plan, batch, group, opening, names)
        return NewFiles(tuple((group.partition, name) for name in names if name), size, put)

    return list(map(new, batch.groups, openings))


@dataclass(frozen=True, slots=True)
class _Fates:
    """Which rows are deletes (`dead`), and which of these go into delete blocks (`listed`). The others stay rows that
    say so themselves, among the rows of a log file.
    """

    dead: Bools
    listed: Bools


@dataclass(frozen=True, slots=True)
class _Batch:
    """The rows of a task in the order in which they are written."""

    rows: pa.Table
    keys: pa.Array
    numbers: pa.Array
    """Sequence numbers, unique in the write."""
    fates: _Fates | None
    """Which rows are deletes; None if no row is."""
    groups: tuple[Group, ...]
    schema: pa.Schema
    """The columns of the rows, Hudi's five first."""
    rules: MergeRules
    blocks: BlockRules


def _batch(plan: WritePlan, rows: pa.Table, task: int, places: Places | None) -> _Batch:
    config, rules = plan.config, merge_rules(plan.config, rows.schema)
    keys = record_keys(rows, config.record_keys, config.has_complex_keys)
    if places is None:
        paths = partition_paths(rows, config.partition_fields, config.hive_style, config.url_encode)
        places = Places(paths, bucket_ids(keys, config.bucket_fields, plan.buckets).astype(np.int64))
    for group in rules.groups:
        rows = join_group(rows, keys, places.partitions, group.by, group.columns)
    ordering = [rows.column(name) for name in rules.order_columns]
    order = order_keys(ordering, rows.num_rows) if ordering else OrderKeys((), rows.num_rows)
    grouping = group_rows(keys, places.partitions, places.numbers, order)
    chosen = pa.array(grouping.rows)
    rows = take_rows(rows, grouping.rows)
    return _Batch(
        rows=rows,
        keys=keys.take(chosen),
        numbers=_sequence_numbers(plan.request_time, task, rows.num_rows),
        fates=_fates(plan, rows, rules),
        groups=grouping.groups,
        schema=with_meta(rows.schema),
        rules=rules,
        blocks=_block_rules(plan, rows, rules),
    )


def _block_rules(plan: WritePlan, rows: pa.Table, rules: MergeRules) -> BlockRules:
    # A delete carries keys only, but its block states the table's schema like any other.
    stated = plan.schema if plan.columns is None else rows.schema
    return BlockRules(
        request_time=plan.request_time,
        schema_text=row_schema_text(stated, plan.config.name),
        block_format=block_format(plan.block_format, rows.schema, rules.order_columns),
        is_partial=plan.columns is not None,
        statistics=tuple(dict.fromkeys((RECORD_KEY, *rules.key_columns, *rules.order_columns))),
        is_small=rows.nbytes < limits.LOG_BLOCK_SMALL_BYTES,
    )


def _sequence_numbers(request_time: str, task: int, count: int) -> pa.Array:
    rows = pc.cast(pa.array(np.arange(count)), pa.string())
    return pc.binary_join_element_wise(f"{request_time}_{task}_", rows, "")


def _fates(plan: WritePlan, rows: pa.Table, rules: MergeRules) -> _Fates | None:
    if plan.operation == "delete":
        every = np.ones(rows.num_rows, np.bool_)
        return _Fates(every, every)
    dead = marked_deleted(rows, rules)
    if not dead.any():
        return None
    if [rows.schema.field(name).type for name in rules.order_columns] != [pa.int32()]:
        return _Fates(dead, dead)
    # In a delete block an int 0 means "no ordering value"; a row that marks itself keeps its own.
    zero = order_keys([rows.column(rules.order_columns[0])], rows.num_rows).fields[0] == 0
    return _Fates(dead, dead & ~zero)


def _openings(storage: Storage, plan: WritePlan, batch: _Batch) -> list[Skeletons | None]:
    """For each group of a partial update, whole rows of the keys that have none."""
    known = plan.known
    if known is None:
        return [None] * len(batch.groups)

    def opening(group: Group) -> Skeletons | None:
        rows, fates = _rows(plan, batch, group), _of_group(batch.fates, group)
        rows = rows if fates is None else rows.filter(pa.array(~fates.listed))
        are_new = known.are_new(storage, group.partition, plan.file_id(group.partition, group.bucket), rows)
        return skeletons(rows, are_new, plan.schema, plan.config.name)

    return map_calls(storage, opening, batch.groups)


def _names(plan: WritePlan, batch: _Batch, group: Group, token: str) -> tuple[str, str]:
    """The names of the base file and of the log file of a group; empty if `_files` makes none."""
    file_id = plan.file_id(group.partition, group.bucket)
    fates = _of_group(batch.fates, group)
    base = log = ""
    if plan.into_base and (fates is None or not fates.dead.all()):
        base = BaseFileName(file_id, token, plan.request_time, ".parquet").format()
    if not plan.into_base or fates is not None:
        log = LogFileName(file_id, plan.request_time, 1, token, "").format()
    return base, log


def _put(
    storage: Storage, plan: WritePlan, batch: _Batch, group: Group, opening: Skeletons | None, names: tuple[str, str]
) -> list[StagedFile]:
    made = list(_files(plan, batch, group, opening, names))
    map_calls(
        storage, lambda file: put_file(storage, plan.request_time, file[0].partition, file[0].name, file[1]), made
    )
    return [file for file, _ in made]


def _files(
    plan: WritePlan, batch: _Batch, group: Group, opening: Skeletons | None, names: tuple[str, str]
) -> Iterator[tuple[StagedFile, bytes]]:
    """The files of one group: a log file, or a base file and a log file of what it cannot hold."""
    rows, fates = _rows(plan, batch, group), _of_group(batch.fates, group)
    if plan.into_base:
        alive = rows if fates is None else rows.filter(pa.array(~fates.dead))
        rows = rows.slice(0, 0) if fates is None else rows.filter(pa.array(fates.dead & ~fates.listed))
        if alive.num_rows:
            yield _base_file(plan, group, alive, names[0])
    elif fates is not None:
        rows = rows.filter(pa.array(~fates.listed))
    deletes = None if fates is None else _deletes(batch, group, fates.listed)
    if rows.num_rows or deletes is not None:
        yield _log_file(plan, batch, group, rows, deletes, opening, names[1])


def _of_group(fates: _Fates | None, group: Group) -> _Fates | None:
    if fates is None or not fates.dead[group.start : group.stop].any():
        return None
    return _Fates(fates.dead[group.start : group.stop], fates.listed[group.start : group.stop])


def _base_file(plan: WritePlan, group: Group, rows: pa.Table, name: str) -> tuple[StagedFile, bytes]:
    file_id = plan.file_id(group.partition, group.bucket)
    content = format_base_file([rows], plan.schema, name, has_filter=plan.config.has_filters, ranges=plan.ranges)
    return staged_base(group.partition, file_id, name, content), content.data


def _log_file(
    plan: WritePlan,
    batch: _Batch,
    group: Group,
    rows: pa.Table,
    deletes: Deletes | None,
    opening: Skeletons | None,
    name: str,
) -> tuple[StagedFile, bytes]:
    file_id = plan.file_id(group.partition, group.bucket)
    data = format_log_file(batch.blocks, rows, deletes, opening)
    count = 0 if deletes is None else len(deletes)
    new_keys = 0 if opening is None else opening.rows.num_rows
    staged = StagedFile(
        group.partition, file_id, name, len(data), rows.num_rows, count, is_base=False, new_keys=new_keys,
        takes_all=deletes is not None and deletes.takes_all, ranges=_ranges(plan, rows, opening),
    )  # fmt: skip
    return staged, data


def _ranges(plan: WritePlan, rows: pa.Table, opening: Skeletons | None) -> FileRanges:
    """The ranges of a log file's rows; whatever it deletes has none."""
    if not plan.ranges.columns:
        return NOT_KNOWN
    tally = RangeTally(plan.ranges)
    tally.add_log(rows, is_partial=plan.columns is not None)
    if opening is not None:
        tally.add_log(opening.rows)
    return tally.found()


def _rows(plan: WritePlan, batch: _Batch, group: Group) -> pa.Table:
    """The rows of a group with Hudi's five columns."""
    count = group.stop - group.start
    meta = [
        pa.repeat(plan.request_time, count),
        batch.numbers.slice(group.start, count),
        batch.keys.slice(group.start, count),
        pa.repeat(group.partition, count),
        pa.repeat(plan.file_id(group.partition, group.bucket), count),
    ]
    rows = batch.rows.slice(group.start, count)
    return pa.Table.from_arrays([*meta, *rows.columns], schema=batch.schema)


def _deletes(batch: _Batch, group: Group, listed: Bools) -> Deletes | None:
    places = pa.array(np.flatnonzero(listed) + group.start)
    if not len(places):
        return None
    ordering = [batch.rows.column(name).combine_chunks().take(places) for name in batch.rules.order_columns]
    return Deletes(batch.keys.take(places), pa.repeat(group.partition, len(places)), tuple(ordering) or None)


def _unknown(what: str, given: str, known: tuple[str, ...]) -> InvalidArgument:
    return InvalidArgument(f"There is no {what} {given!r}; choose one of {', '.join(known)}. Nothing was written.")
