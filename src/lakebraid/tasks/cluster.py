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

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebraid import limits
from lakebraid.errors import CorruptFile
from lakebraid.format.names import BaseFileName
from lakebraid.model.cutting import take_rows
from lakebraid.model.ordering import Ints
from lakebraid.storage.protocol import Storage
from lakebraid.tasks.base_file import format_base_file
from lakebraid.tasks.compact import CompactPlan
from lakebraid.tasks.placing import place_file
from lakebraid.tasks.read import read_slice
from lakebraid.tasks.slice_task import ReadPlan, SliceTask
from lakebraid.tasks.staged_file import StagedFile


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


def output_file_id(start: str, number: int, output: int) -> str:
    """The id of a new file group: of the plan's start, the place of the input group in it, and the file's number.

    It begins with a letter, so nobody takes it for the id of a bucket.

    >>> output_file_id("20260101000000000", 0, 2)
    'c5839496-2dcb-f330-6041-7fc1c7e21fc1-2'
    """
    digits = hashlib.sha256(f"{start}.{number}".encode()).hexdigest()
    return f"c{digits[:7]}-{digits[7:11]}-{digits[11:15]}-{digits[15:19]}-{digits[19:31]}-{output}"


def run_clustering_task(storage: Storage, plan: CompactPlan, task: ClusterTask) -> list[StagedFile]:
    """Writes the base files of the new groups; nobody sees them yet. A file without rows is not written.

    Without an order and for one file the rows stream through; else a bounded part of the files is made at once, and the
    slices are read once for each part.
    """
    if task.outputs == 1 and not plan.sort_by:
        return _place(storage, plan, task, 0, _rows(storage, plan.read, task))
    return [
        file for output, rows in _outputs(storage, plan, task) for file in _place(storage, plan, task, output, [rows])
    ]


def _outputs(storage: Storage, plan: CompactPlan, task: ClusterTask) -> Iterator[tuple[int, pa.Table]]:
    """The rows of each file, in their order."""
    parts = max(1, min(task.outputs, -(-task.size // limits.CLUSTER_PART_BYTES)))
    if parts == 1:
        held = _together(_rows(storage, plan.read, task), plan.read)
        yield from _cut(held, _ranks(held, plan.sort_by), range(task.outputs), task.outputs, held.num_rows)
        return
    narrow = _narrow(plan)
    ranks = _ranks(_together(_rows(storage, narrow, task), narrow), plan.sort_by)
    for part in range(parts):
        wanted = range(task.outputs * part // parts, task.outputs * (part + 1) // parts)
        held, own = _of_files(_rows(storage, plan.read, task), ranks, wanted, task)
        yield from _cut(_together(held, plan.read), own, wanted, task.outputs, len(ranks))


def _narrow(plan: CompactPlan) -> ReadPlan:
    """The same rows in the same order, with no more columns than the order needs: at least one, to count them."""
    return plan.read.of_columns(plan.sort_by or ("_hoodie_record_key",))


def _rows(storage: Storage, read: ReadPlan, task: ClusterTask) -> Iterator[pa.Table]:
    for part in task.slices:
        yield from read_slice(storage, read, part)


def _together(batches: Iterable[pa.Table], read: ReadPlan) -> pa.Table:
    return pa.concat_tables([read.output_schema.empty_table(), *batches])


def _ranks(rows: pa.Table, columns: Sequence[str]) -> Ints:
    """The place of each row in the order of these columns; equal ones, and all if there are none, keep theirs."""
    ranks = np.arange(rows.num_rows)
    if columns:
        order = pc.sort_indices(rows, sort_keys=[(name, "ascending") for name in columns])
        ranks[np.asarray(order)] = np.arange(rows.num_rows)
    return ranks


def _of_files(
    batches: Iterable[pa.Table], ranks: Ints, wanted: range, task: ClusterTask
) -> tuple[list[pa.Table], Ints]:
    """Those of the rows that go into the wanted files, and their ranks."""
    held: list[pa.Table] = []
    own: list[Ints] = []
    seen = 0
    for batch in batches:
        here = ranks[seen : seen + batch.num_rows]
        seen += batch.num_rows
        _check_count(seen <= len(ranks), task)
        files = here * task.outputs // len(ranks)
        rows = np.flatnonzero((files >= wanted.start) & (files < wanted.stop))
        if len(rows):
            held.append(batch.take(pa.array(rows)))
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


def _cut(rows: pa.Table, ranks: Ints, wanted: range, outputs: int, total: int) -> Iterator[tuple[int, pa.Table]]:
    """The rows of each wanted file, equally many in each."""
    order = np.argsort(ranks, kind="stable")
    files = ranks[order] * outputs // max(total, 1)
    for output in wanted:
        first, last = np.searchsorted(files, (output, output + 1))
        if last > first:
            yield output, take_rows(rows, order[first:last])


def _place(
    storage: Storage, plan: CompactPlan, task: ClusterTask, output: int, rows: Iterable[pa.Table]
) -> list[StagedFile]:
    file_id = output_file_id(plan.start, task.number, output)
    name = BaseFileName(file_id, plan.token, plan.start, ".parquet").format()
    content = format_base_file(rows, plan.schema, name, has_filter=True)
    if content.rows == 0:
        return []
    place_file(storage, plan.start, task.partition, name, content.data)
    keys = (content.min_key, content.max_key)
    return [StagedFile(task.partition, file_id, name, len(content.data), content.rows, 0, True, *keys)]
