# SPDX-License-Identifier: Apache-2.0
"""What one task of a clustering does: some slices of one partition in, base files of new file groups out.

The rows are those that a reader of the slices sees, each with the commit time and sequence number it had. Into how many
files they go, and in which order, is a function of the plan alone, and so are the ids of the new groups; the claim is
in the write token. So whatever a late executor of an earlier claim leaves is a twin of a published file with the same
rows: readers that find both (Apache Hudi's) may take either, and never see a row twice.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from operator import itemgetter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebraid import limits
from lakebraid.errors import CorruptFile
from lakebraid.format.names import BaseFileName
from lakebraid.model.config import RECORD_KEY
from lakebraid.model.ordering import Ints
from lakebraid.model.values.arrow_numpy import take_pieces, take_rows
from lakebraid.storage.protocol import Storage
from lakebraid.tasks.merging.compact import MergeContext
from lakebraid.tasks.new_files import place_file
from lakebraid.tasks.reading.ranks import ranks_type, with_column
from lakebraid.tasks.reading.read import may_have_ranks, read_slice
from lakebraid.tasks.slice_task import ReadPlan, SliceTask
from lakebraid.tasks.staged_file import StagedFile
from lakebraid.tasks.writing.base_file import format_base_file, staged_base


@dataclass(frozen=True, slots=True)
class ClusterTask:
    """The slices that are rewritten together, and into how many files."""

    number: int
    """Its place in the plan."""
    partition: str
    slices: tuple[SliceTask, ...]
    outputs: int

    @property
    def size(self) -> int:
        return sum(part.size for part in self.slices)


def output_file_id(request_time: str, number: int, output: int) -> str:
    """The id of a new file group: of the plan's request time, the place of the input group in it, and the file's number.

    It begins with a letter, so it cannot be taken for the id of a bucket.

    >>> output_file_id("20260101000000000", 0, 2)
    'c5839496-2dcb-f330-6041-7fc1c7e21fc1-2'
    """
    digits = hashlib.sha256(f"{request_time}.{number}".encode()).hexdigest()
    return f"c{digits[:7]}-{digits[7:11]}-{digits[11:15]}-{digits[15:19]}-{digits[19:31]}-{output}"


def run_clustering_task(storage: Storage, plan: MergeContext, task: ClusterTask) -> list[StagedFile]:
    """Writes the base files of the new groups; no reader sees them yet. A file without rows is not written.

    Without an order and for one file the rows stream through; else as many as fit into a bounded part of memory are put in
    order at once, and the slices are read again for each further part.
    """
    if task.outputs == 1 and not plan.sort_by:
        return _place(storage, plan, task, 0, _ranked_rows(storage, plan, task))
    files = groupby(_numbered(*_in_order(storage, plan, task), task.outputs), key=itemgetter(0))
    return [
        file for output, pieces in files for file in _place(storage, plan, task, output, (rows for _, rows in pieces))
    ]


def _in_order(storage: Storage, plan: MergeContext, task: ClusterTask) -> tuple[int, Iterator[pa.Table]]:
    """How many rows there are, and the rows in their order."""
    held, sizes = _held(_ranked_rows(storage, plan, task), plan)
    count = held.num_rows
    order = np.argsort(_ranks(held, plan.sort_by), kind="stable")
    if held.column_names[: len(plan.read.columns)] == list(plan.read.columns):
        return count, take_pieces(held, order)
    # The rows of a batch count as equally large.
    parts = np.cumsum(sizes[order]) // limits.CLUSTER_PART_BYTES
    bounds = np.append(np.flatnonzero(np.diff(parts, prepend=-1)), count)
    ranks: Ints = np.empty(count, np.int64)
    ranks[order] = np.arange(count)
    return count, _part_by_part(storage, plan, task, ranks, bounds)


def _held(batches: Iterable[pa.Table], plan: MergeContext) -> tuple[pa.Table, Ints]:
    """All rows, with no more columns than the order needs if they are too many; and the bytes of each row."""
    narrow = list(plan.sort_by or (RECORD_KEY,))
    held: list[pa.Table] = []
    sizes: list[Ints] = []
    taken = 0
    for batch in batches:
        if taken <= limits.CLUSTER_PART_BYTES < taken + batch.nbytes:
            held = [part.select(narrow) for part in held]
        taken += batch.nbytes
        held.append(batch if taken <= limits.CLUSTER_PART_BYTES else batch.select(narrow))
        sizes.append(np.full(batch.num_rows, batch.nbytes // max(1, batch.num_rows), np.int64))
    rows = pa.concat_tables(held) if held else plan.read.output_schema.empty_table()
    return rows, np.concatenate(sizes) if sizes else np.zeros(0, np.int64)


def _part_by_part(
    storage: Storage, plan: MergeContext, task: ClusterTask, ranks: Ints, bounds: Ints
) -> Iterator[pa.Table]:
    """The rows in their order, those between two bounds of ranks at once."""
    for first, last in pairwise(bounds):
        held, own = _between(_ranked_rows(storage, plan, task), ranks, first, last, task)
        if held:
            yield from take_pieces(pa.concat_tables(held), np.argsort(own, kind="stable"))


def _numbered(count: int, ordered: Iterable[pa.Table], outputs: int) -> Iterator[tuple[int, pa.Table]]:
    """The rows, each piece with the number of the file it goes to: equally many into each."""
    seen = 0
    for rows in ordered:
        first = 0
        while first < rows.num_rows:
            output = seen * outputs // count
            fitting = -(-(output + 1) * count // outputs) - seen
            piece = rows.slice(first, fitting)
            yield output, piece
            seen, first = seen + piece.num_rows, first + piece.num_rows


def _rows(storage: Storage, read: ReadPlan, task: ClusterTask) -> Iterator[pa.Table]:
    for part in task.slices:
        yield from read_slice(storage, read, part)


def _ranked_rows(storage: Storage, plan: MergeContext, task: ClusterTask) -> Iterator[pa.Table]:
    """The same rows; all with the ranks of their older values, if some slice may have such values."""
    keeping = plan.keeping()
    if keeping is None or not any(may_have_ranks(storage, plan.read, part) for part in task.slices):
        yield from _rows(storage, plan.read, task)
        return
    kind = ranks_type(plan.read.rules, plan.read.schema)
    for part in task.slices:
        for rows in read_slice(storage, plan.read, part, keeping=keeping):
            yield with_column(rows, kind)


def _ranks(rows: pa.Table, columns: Sequence[str]) -> Ints:
    """The place of each row in the order of these columns; equal ones, and all if there are none, keep theirs."""
    ranks = np.arange(rows.num_rows)
    if columns:
        order = pc.sort_indices(rows, sort_keys=[(name, "ascending") for name in columns])
        ranks[np.asarray(order)] = np.arange(rows.num_rows)
    return ranks


def _between(
    batches: Iterable[pa.Table], ranks: Ints, first: int, last: int, task: ClusterTask
) -> tuple[list[pa.Table], Ints]:
    """Those of the rows whose ranks lie there, and these ranks."""
    held: list[pa.Table] = []
    own: list[Ints] = []
    seen = 0
    for batch in batches:
        here = ranks[seen : seen + batch.num_rows]
        seen += batch.num_rows
        _check_count(seen <= len(ranks), task)
        rows = np.flatnonzero((here >= first) & (here < last))
        if len(rows):
            held.append(take_rows(batch, rows))
            own.append(here[rows])
    _check_count(seen == len(ranks), task)
    return held, np.concatenate(own) if own else np.zeros(0, np.int64)


def _check_count(fits: bool, task: ClusterTask) -> None:
    if not fits:
        name = task.slices[0].base_name or task.slices[0].log_names[0]
        raise CorruptFile(
            f"The slices of {name} and {len(task.slices) - 1} more had another number of rows when they were read again: "
            "something changes files in place. Nothing is visible; the plan stays. Look for what writes into this folder.",
            file=name,
        )


def _place(
    storage: Storage, plan: MergeContext, task: ClusterTask, output: int, rows: Iterable[pa.Table]
) -> list[StagedFile]:
    file_id = output_file_id(plan.request_time, task.number, output)
    name = BaseFileName(file_id, plan.token(), plan.request_time, ".parquet").format()
    content = format_base_file(rows, plan.schema, name, has_filter=True, ranges=plan.ranges)
    if content.rows == 0:
        return []
    place_file(storage, plan.request_time, task.partition, name, content.data)
    return [staged_base(task.partition, file_id, name, content)]
