# SPDX-License-Identifier: Apache-2.0
"""What one task of a compaction does: a slice in, its next base file out, and a log of the deletes that must go on.

The rows are those that a reader of the slice sees, each with the commit time and sequence number it had. Where the
table orders by event time, a delete outlives its row: a write that arrives later and is older must stay deleted. So
the deletes that nothing outranks are carried in a log file of the compaction, each in a block that counts as written
by the delete's own instant; readers rank it there, as if the compaction had never been.

What would have to be forgotten while an older write is open (`tasks.merging.hazards`) is carried in the same way, block by
block: log files that began after the last open write are not merged then.

Rows come with the ranks of values that are older than they are, and base files keep them (`tasks.reading.ranks`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebraid import limits
from lakebraid.format.log.blocks import POSITIONS, HeaderKey, LogBlock, format_log
from lakebraid.format.names import BaseFileName, LogFileName, claim_token
from lakebraid.model.config import RECORD_KEY
from lakebraid.model.keys.keys import render_values
from lakebraid.model.metadata.file_ranges import NO_COLUMNS, FileRanges, RangeRules, RangeTally
from lakebraid.model.ordering import Bools, Ints
from lakebraid.model.schema.avro_text import row_schema_text
from lakebraid.model.values.arrow_numpy import take_rows, to_ints
from lakebraid.storage.protocol import Storage
from lakebraid.tasks.new_files import place_file
from lakebraid.tasks.reading.blocks import OrderedBlock, decode_block, ordered_blocks
from lakebraid.tasks.reading.columns import Keeping
from lakebraid.tasks.reading.read import read_slice
from lakebraid.tasks.reading.versions import Versions
from lakebraid.tasks.slice_task import ReadPlan, SliceTask
from lakebraid.tasks.staged_file import StagedFile
from lakebraid.tasks.writing.base_file import format_base_file, staged_base
from lakebraid.tasks.writing.log_file import BlockRules, Deletes, block_format, delete_block, row_blocks


@dataclass(frozen=True, slots=True)
class MergeContext:
    """What all tasks of one execution of a compaction plan have in common."""

    read: ReadPlan
    """Of all columns, without filter."""
    schema: pa.Schema
    """The columns that base files hold, without Hudi's own."""
    table: str
    request_time: str
    epoch: int
    """The claim under which the plan is executed; the files bear it, so no two executors meet under one name."""
    sort_by: tuple[str, ...] = ()
    """The columns by which base files are sorted, so that readers can pass over row groups; none for as it comes."""
    has_filter: bool = False
    """Whether base files carry filters of their keys."""
    oldest_open: str = ""
    """When the oldest write began that was open when the plan was made; empty if there was none."""
    ranges: RangeRules = NO_COLUMNS
    """Of which columns the ranges are to be found in each file."""

    def keeping(self) -> Keeping | None:
        """What a merge keeps of older values."""
        return Keeping.of(self.read.rules, self.oldest_open)

    def token(self, partition: int = 0) -> str:
        """The write token of files in one partition, given by its number among those of the plan."""
        return claim_token(self.epoch, partition)


@dataclass(frozen=True, slots=True)
class CompactTask:
    """One file group to compact."""

    file_id: str
    slice: SliceTask
    partition_number: int = 0
    """That of its partition among those of the plan."""
    earlier_logs: tuple[str, ...] = ()
    """For a log compaction: the logs of the slice that rank before those to compact, as far as they are not known."""

    @property
    def size(self) -> int:
        return self.slice.size


class SizedTask(Protocol):
    """What can be shared out: something to do, and the bytes that it is about."""

    @property
    def size(self) -> int: ...


RunTask = Callable[[Storage, MergeContext, Any], list[StagedFile]]
"""What one task of an execution does; it must be importable where it runs."""


def run_compaction_task(storage: Storage, plan: MergeContext, task: CompactTask) -> list[StagedFile]:
    """Writes the group's next base file and, if deletes must go on, a log file of them. No reader sees them yet.

    What is written is a function of plan and claim, so a second attempt meets its own files.
    """
    graves: list[tuple[Versions, Ints]] = []
    partition = task.slice.partition
    name = BaseFileName(task.file_id, plan.token(task.partition_number), plan.request_time, ".parquet").format()
    keeping = plan.keeping()
    rows = read_slice(
        storage, plan.read, task.slice, buried=lambda versions, at: graves.append((versions, at)), keeping=keeping
    )
    rows = _sorted(rows, plan.sort_by) if plan.sort_by else rows
    content = format_base_file(rows, plan.schema, name, has_filter=plan.has_filter, ranges=plan.ranges)
    place_file(storage, plan.request_time, partition, name, content.data)
    staged = [staged_base(partition, task.file_id, name, content)]
    # What lost to an older write must still be there if a delete that is open takes the winner.
    cut = plan.oldest_open if keeping is not None and keeping.has_outrun else task.slice.before
    carried = _carried(storage, plan, task, cut)
    # Ordered by commit time no later write can be older than a delete, save one that was open when this was planned:
    # the planner leaves such groups out.
    by_event = bool(plan.read.rules.order_columns)
    told = [(versions, _untold(versions, at, cut)) for versions, at in graves if by_event]
    return staged + _own_log(storage, plan, task, told, carried)


def ranges_of_blocks(plan: MergeContext, blocks: Iterable[OrderedBlock]) -> FileRanges:
    """The ranges of a log file whose rows are among those of these blocks; what it deletes has none."""
    tally = RangeTally(plan.ranges)
    for placed in blocks if plan.ranges.columns else ():
        decoded = decode_block(placed, plan.read.rules, plan.read.schema)
        if isinstance(decoded.rows, pa.Table):
            tally.add_log(decoded.rows, is_partial=decoded.is_partial)
    return tally.found()


def _untold(versions: Versions, rows: Ints, cut: str) -> Ints:
    """The deletes with an ordering value that no block from `cut` on tells.

    A delete without ordering value is over once it has taken place, as in commit time. Hudi merges a log's instants in the
    order in which it meets them: a delete ahead of the blocks that are carried from its own time would let the rows
    between them pass for newer ones.
    """
    is_carried = versions.request_times[rows] > int(cut) if cut else False
    return rows[~(versions.unconditional[rows] | is_carried)]


def _carried(storage: Storage, plan: MergeContext, task: CompactTask, cut: str) -> list[OrderedBlock]:
    """The blocks from `cut` on, which go on as they are, each counting as written at the place where it ranks.

    That some of them were merged as well does no harm: a merge may meet a version any number of times.
    """
    if not cut:
        return []
    blocks = ordered_blocks(storage, plan.read, replace(task.slice, before=""))
    return [placed for placed in blocks if placed.request_time > cut]


def _at_its_place(placed: OrderedBlock) -> LogBlock:
    left_out = (HeaderKey.COMPACTED_BLOCK_TIMES, *POSITIONS)
    kept = {key: value for key, value in placed.block.header.items() if key not in left_out}
    return replace(placed.block, header={**kept, HeaderKey.INSTANT_TIME: placed.request_time})


def _sorted(batches: Iterable[pa.Table], columns: Sequence[str]) -> Iterator[pa.Table]:
    """The rows in the order of these columns; very many rows in several stretches, each in order."""
    held: list[pa.Table] = []
    for batch in batches:
        held.append(batch)
        if sum(part.nbytes for part in held) >= limits.COMPACT_SORT_BYTES:
            yield _in_order(held, columns)
            held = []
    if held:
        yield _in_order(held, columns)


def _in_order(batches: Sequence[pa.Table], columns: Sequence[str]) -> pa.Table:
    rows = pa.concat_tables(batches)
    return take_rows(rows, to_ints(pc.sort_indices(rows, sort_keys=[(name, "ascending") for name in columns])))


def _own_log(
    storage: Storage,
    plan: MergeContext,
    task: CompactTask,
    graves: list[tuple[Versions, Ints]],
    carried: list[OrderedBlock],
) -> list[StagedFile]:
    """The log file of the compaction itself: deletes that must go on, then later blocks, all in the order of their instants."""
    told = [block for versions, rows in graves for block in _tombstones(plan, task.slice.partition, versions, rows)]
    if not told and not carried:
        return []
    name = LogFileName(task.file_id, plan.request_time, 1, plan.token(task.partition_number), "").format()
    data = format_log([*told, *map(_at_its_place, carried)])
    place_file(storage, plan.request_time, task.slice.partition, name, data)
    deletes = sum(len(rows) for _, rows in graves)
    ranges = ranges_of_blocks(plan, carried)
    return [StagedFile(task.slice.partition, task.file_id, name, len(data), 0, deletes, is_base=False, ranges=ranges)]


def _tombstones(plan: MergeContext, partition: str, versions: Versions, rows: Ints) -> Iterator[LogBlock]:
    """A delete block for each instant that deleted, oldest first."""
    schema_text = row_schema_text(plan.schema, plan.table)
    ordering = tuple(_zero_for_null(values) for values in versions.ordering)
    fits = fits_delete_block(ordering, len(versions.keys))
    times = versions.request_times
    for time in np.unique(times[rows]):
        own = rows[times[rows] == time]
        plain, odd = own[fits[own]], own[~fits[own]]
        if len(plain):
            at = pa.array(plain)
            keys = render_values(versions.keys.take(at))
            values = tuple(column.take(at) for column in ordering)
            yield delete_block(str(time), schema_text, Deletes(keys, pa.repeat(partition, len(plain)), values))
        if len(odd):
            yield from _marked_rows(plan, schema_text, versions, odd, str(time))


def _marked_rows(plan: MergeContext, schema_text: str, versions: Versions, rows: Ints, time: str) -> Iterator[LogBlock]:
    """Deletes that no delete block can tell, as the rows they came as: those mark themselves as deleted."""
    told = take_rows(versions.rows, rows).select(list(plan.read.columns))
    told = told.filter(pc.is_valid(told.column(RECORD_KEY)))
    form = block_format("parquet", plan.schema, plan.read.rules.order_columns)
    yield from row_blocks(BlockRules(time, schema_text, form), told)


def _zero_for_null(values: pa.Array) -> pa.Array:
    """A null number counts as 0 when rows are ranked (`model.ordering`); a delete block has to say so."""
    is_number = pa.types.is_integer(values.type) or pa.types.is_floating(values.type)
    return pc.fill_null(values, 0) if is_number and values.null_count else values


def fits_delete_block(ordering: tuple[pa.Array, ...], count: int) -> Bools:
    """Which ordering values a delete block can hold: no nulls, and not a single int 0, which means "none" there."""
    fits = np.ones(count, np.bool_)
    for values in ordering:
        fits &= np.asarray(values.is_valid())
    if len(ordering) == 1 and _is_int(ordering[0].type):
        fits &= np.asarray(pc.fill_null(pc.not_equal(ordering[0].cast(pa.int32()), 0), False))
    return fits


def _is_int(kind: pa.DataType) -> bool:
    """Whether a delete block holds such values as ints."""
    return bool(pa.types.is_date32(kind) or (pa.types.is_integer(kind) and kind.bit_width <= 32))
