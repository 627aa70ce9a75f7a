# SPDX-License-Identifier: Apache-2.0
"""Putting placed rows into files: the same in this process and in a Spark task."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from lakebraid.format.names import partition_numbers, write_token
from lakebraid.model.config import RECORD_KEY, TableType
from lakebraid.model.ordering import Ints
from lakebraid.model.values.arrow_numpy import take_rows
from lakebraid.storage.protocol import Storage
from lakebraid.tasks.lookup.assign import Assigned, Find, Ground, by_number, place_by_keys, place_in_buckets
from lakebraid.tasks.lookup.changes import RowChanges
from lakebraid.tasks.lookup.relocate import place_everywhere
from lakebraid.tasks.merging.rewrite import Target, names_of_rewrite, rewrite_group, whole_rows
from lakebraid.tasks.new_files import NewFiles, put_files
from lakebraid.tasks.staged_file import StagedFile
from lakebraid.tasks.writing.rows import Places, WritePlan, rows_to_put
from lakebraid.tasks.writing.skeletons import KnownKeys, check_fillable


def place(
    storage: Storage, plan: WritePlan, changes: RowChanges, ground: Ground, find: Find
) -> tuple[RowChanges, Assigned]:
    """Where each row goes; and the rows, to which a global index may add deletes. Nothing is written."""
    if plan.config.buckets is not None:
        return changes, place_in_buckets(plan, changes, ground)
    if plan.config.is_global:
        changes, placed = place_everywhere(storage, plan, changes, ground, find)
    else:
        placed = place_by_keys(plan, changes, ground, find)
    if changes.present is not None and placed.are_new.any():
        first = int(np.flatnonzero(placed.are_new)[0])
        check_fillable(changes.rows.column(RECORD_KEY).slice(first, 1), changes.present, plan.schema)
    return changes, placed


def write_placed(
    storage: Storage, plan: WritePlan, changes: RowChanges, placed: Assigned, task: int
) -> Iterator[StagedFile]:
    """Writes all rows into files that no reader sees yet. Task numbers are taken from `task` on, one for each piece and one
    more.
    """
    return put_files(storage, plan.request_time, placed_to_put(storage, plan, changes, placed, task))


def placed_to_put(
    storage: Storage, plan: WritePlan, changes: RowChanges, placed: Assigned, task: int
) -> Iterator[NewFiles]:
    """The files of `write_placed`, which are still to be put."""
    tokens = {p: write_token(task, n) for p, n in partition_numbers(t.partition for t in placed.targets).items()}
    for number, rows in by_number(placed.numbers):
        target = placed.targets[number] if number >= 0 else None
        if target is not None and (plan.config.table_type is TableType.COW or target.slice is None):
            yield _rewritten(storage, plan, changes, target, rows, tokens[target.partition])
    if plan.config.table_type is TableType.MOR:
        yield from _appended(storage, plan, changes, placed, task + 1)


def _rewritten(
    storage: Storage, plan: WritePlan, changes: RowChanges, target: Target, rows: Ints, token: str
) -> NewFiles:
    base, log = names_of_rewrite(plan, target, token)
    names = (base, log) if plan.config.cdc_enabled and target.slice is not None else (base,)
    given = changes.rows.nbytes // max(1, len(changes)) * len(rows)
    held = 0 if target.slice is None else target.slice.size

    def put() -> list[StagedFile]:
        file = rewrite_group(storage, plan, target, changes.versions(rows, plan.request_time), token)
        return [] if file is None else [file]

    return NewFiles(tuple((target.partition, name) for name in names), given + held, put)


def _appended(
    storage: Storage, plan: WritePlan, changes: RowChanges, placed: Assigned, task: int
) -> Iterator[NewFiles]:
    """Log files for the rows whose keys are there, piece by piece, since later ones win."""
    is_there = np.array([t.slice is not None for t in placed.targets] + [False])
    ids = {(t.partition, n): t.file_id for n, t in enumerate(placed.targets)}
    known = _known_keys(plan, changes, placed)
    start = 0
    for at, piece in enumerate(changes.pieces):
        stop = start + piece.rows.num_rows
        own = np.flatnonzero(is_there[placed.numbers[start:stop]])
        if len(own):
            numbers = placed.numbers[start:stop][own]
            homes = pa.array([placed.targets[n].partition for n in numbers], pa.string())
            piece_plan = replace(plan, operation=piece.operation, file_ids=ids, known=known)
            rows = take_rows(piece.rows, own)
            yield from rows_to_put(storage, piece_plan, rows, task + at, places=Places(homes, numbers))
        start = stop


def _known_keys(plan: WritePlan, changes: RowChanges, placed: Assigned) -> KnownKeys | None:
    """For a partial update: where to see whether a key that a base file has was deleted in a log file since. Then its row
    is opened anew, or what was deleted would come back.
    """
    if plan.columns is None:
        return None
    slices = {(t.partition, t.file_id): t.slice for t in placed.targets if t.slice is not None}
    sure = frozenset(group for group, held in slices.items() if not held.log_names)
    read = whole_rows(plan, changes.rules).of_columns(changes.rules.key_columns)
    return KnownKeys(read, slices, sure)
