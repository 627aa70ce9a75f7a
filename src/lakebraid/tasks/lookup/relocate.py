# SPDX-License-Identifier: Apache-2.0
"""Placing rows where a key is there once in the whole table: a row may find its key in another partition, and moves it.

The row is deleted there and inserted here, in one commit. Where the table orders by event time and the row that is there
has the greater ordering value, it stays, and the one that came is dropped, as it would be in its own partition.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebraid.errors import InvalidArgument
from lakebraid.model.config import RECORD_KEY
from lakebraid.model.ordering import Bools, Ints, order_keys, winners
from lakebraid.storage.protocol import Storage
from lakebraid.tasks.lookup.assign import Assigned, Find, Ground, Lookup, by_partition
from lakebraid.tasks.lookup.changes import RowChanges
from lakebraid.tasks.merging.rewrite import Target, whole_rows
from lakebraid.tasks.reading.read import read_slice
from lakebraid.tasks.reading.versions import outranks, row_keys
from lakebraid.tasks.writing.rows import WritePlan


def place_everywhere(
    storage: Storage, plan: WritePlan, changes: RowChanges, ground: Ground, find: Find
) -> tuple[RowChanges, Assigned]:
    """The changes, with a delete for every row that leaves its partition, and where each goes."""
    changes = _one_of_each_key(changes)
    lookup = Lookup(plan, changes, ground, find)
    new = lookup.find(np.arange(len(changes)), [t for targets in ground.groups.values() for t in targets])
    moved, homes = _moved(changes, lookup)
    if len(moved):
        if changes.present is not None:
            _check_dead(storage, plan, changes, lookup, moved, homes)
        wins = _wins(storage, plan, changes, lookup, moved, homes)
        lookup.numbers[moved] = -1
        moved, homes = moved[wins], homes[wins]
    for partition, rows in by_partition(changes.partitions):
        lookup.share_out(partition, np.intersect1d(rows, np.concatenate([new, moved])))
    if not len(moved):
        return changes, lookup.placed
    placed = lookup.placed
    numbers = np.concatenate([placed.numbers, homes])
    are_new = np.concatenate([placed.are_new, np.zeros(len(moved), np.bool_)])
    return changes.with_deletes(moved), replace(placed, numbers=numbers, are_new=are_new)


def _one_of_each_key(changes: RowChanges) -> RowChanges:
    """Of rows with one key the winner alone: they may name several partitions."""
    encoded = changes.keys.dictionary_encode()
    codes = np.asarray(encoded.indices).astype(np.int64)
    if len(encoded.dictionary) == len(changes):
        return changes
    order = order_keys([changes.rows.column(name) for name in changes.rules.order_columns], len(changes))
    return changes.only(np.sort(winners(codes, order, changes.unconditional, len(encoded.dictionary))))


def _moved(changes: RowChanges, lookup: Lookup) -> tuple[Ints, Ints]:
    """The rows that find their key in another partition than their own, and the targets that have it.

    A delete goes to where the key is.
    """
    names = np.array([target.partition for target in lookup.targets] + [""], dtype=object)
    own = np.array(changes.partitions.to_pylist(), dtype=object)
    rows = np.flatnonzero((lookup.numbers >= 0) & ~changes.deleted & (names[lookup.numbers] != own))
    return rows, lookup.numbers[rows]


def _wins(storage: Storage, plan: WritePlan, changes: RowChanges, lookup: Lookup, moved: Ints, homes: Ints) -> Bools:
    """Which of these rows outrank the row that is there."""
    wins: Bools = np.ones(len(moved), np.bool_)
    rules = changes.rules
    if not rules.order_columns:
        return wins
    read = whole_rows(plan, rules).of_columns(tuple(dict.fromkeys((*rules.key_columns, *rules.order_columns))))
    for home in np.unique(homes):
        at = np.flatnonzero(homes == home)
        versions = changes.versions(moved[at], plan.request_time)
        target = lookup.targets[home].slice
        for there in () if target is None else read_slice(storage, read, target, keys=versions.keys):
            met = np.asarray(pc.index_in(row_keys(there, rules), value_set=versions.keys)).astype(np.int64)
            wins[at[met]] = outranks(versions, met, there, np.arange(there.num_rows), rules, late=False)
    return wins


def _check_dead(
    storage: Storage, plan: WritePlan, changes: RowChanges, lookup: Lookup, moved: Ints, homes: Ints
) -> None:
    """InvalidArgument if a partial update would move a row. A key that was deleted where it lies has none."""
    rules = changes.rules
    read = whole_rows(plan, rules).of_columns(rules.key_columns)
    for home in np.unique(homes):
        target = lookup.targets[home]
        wanted = row_keys(changes.rows.take(pa.array(moved[homes == home])), rules)
        for there in () if target.slice is None else read_slice(storage, read, target.slice, keys=wanted):
            found = pc.index_in(row_keys(there, rules), value_set=wanted).drop_null()
            if len(found):
                raise _cannot_move(changes, moved[homes == home][found[0].as_py()], target)


def _cannot_move(changes: RowChanges, row: int, home: Target) -> InvalidArgument:
    key = changes.rows.column(RECORD_KEY)[int(row)].as_py()
    return InvalidArgument(
        f"A partial update cannot move the key {key!r:.200} out of partition {home.partition!r}: its other columns would be "
        "missing. Nothing was published. Write whole rows to move it.",
        key=key,
        partition=home.partition,
    )
