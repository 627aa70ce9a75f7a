# SPDX-License-Identifier: Apache-2.0
"""Which file group each row of a placed write goes into: the one that has its key, else one with room, else a new one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebraid import limits
from lakebraid.model.config import TableType
from lakebraid.model.file_sizing import Room, Sizes, row_bytes_of, share_out
from lakebraid.model.grouping import sort_keys
from lakebraid.model.keys.buckets import bucket_ids
from lakebraid.model.merge_rules import MergeRules
from lakebraid.model.ordering import Bools, Ints
from lakebraid.storage.protocol import Storage
from lakebraid.tasks.lookup.changes import RowChanges
from lakebraid.tasks.lookup.find import find_homes
from lakebraid.tasks.merging.rewrite import Target, whole_rows
from lakebraid.tasks.reading.versions import row_keys
from lakebraid.tasks.writing.rows import WritePlan


@dataclass(frozen=True, slots=True)
class Ground:
    """What is there to place rows into."""

    groups: Mapping[str, Sequence[Target]]
    """The file groups of each partition, with what they hold."""
    sizes: Sizes
    new_id: Callable[[], str]
    """Gives file ids for new groups."""
    closed: frozenset[tuple[str, str]] = frozenset()
    """Groups, by partition and file id, that shall not get new rows."""


@dataclass(frozen=True, slots=True)
class Assigned:
    """Each row's target, by its number, or -1 if there is nothing to do: deletes of keys that are not there."""

    targets: tuple[Target, ...]
    numbers: Ints
    are_new: Bools
    """Rows whose key has no row yet."""


def place_in_buckets(plan: WritePlan, changes: RowChanges, ground: Ground) -> Assigned:
    """By hash: a bucket is a file group, and whether a key is there is seen when it is rewritten."""
    buckets = bucket_ids(changes.keys, plan.config.bucket_fields, plan.buckets).astype(np.int64)
    known = {(p, t.file_id): t for p, targets in ground.groups.items() for t in targets}
    targets: list[Target] = []
    numbers = np.full(len(changes), -1, np.int64)
    for partition, rows in by_partition(changes.partitions):
        for bucket, inside in by_number(buckets[rows]):
            own = rows[inside]
            file_id = plan.file_id(partition, bucket)
            target = known.get((partition, file_id)) or Target(partition, file_id)
            if target.slice is not None or not changes.deleted[own].all():
                numbers[own] = len(targets)
            targets.append(target)  # also where nothing is to be deleted: another writer may be about to write there
    return Assigned(tuple(targets), numbers, np.zeros(len(changes), np.bool_))


Find = Callable[[Sequence[Target], pa.Array], tuple[Ints, Ints]]
"""Which of the targets has each of the keys, or -1; and the rows of each target's base file, -1 if they are not known."""


def finder(storage: Storage, plan: WritePlan, rules: MergeRules) -> Find:
    """Looks keys up in the files."""
    read = whole_rows(plan, rules)

    def find(targets: Sequence[Target], keys: pa.Array) -> tuple[Ints, Ints]:
        slices = [t.slice for t in targets if t.slice is not None]
        return find_homes(storage, read, slices, keys, may_have_moved=plan.config.is_global)

    return find


def place_by_keys(plan: WritePlan, changes: RowChanges, ground: Ground, find: Find) -> Assigned:
    """By looking keys up in the partitions of their rows."""
    lookup = Lookup(plan, changes, ground, find)
    for partition, rows in by_partition(changes.partitions):
        lookup.share_out(partition, lookup.find(rows, ground.groups.get(partition, ())))
    return lookup.placed


class Lookup:
    """Places found so far."""

    def __init__(self, plan: WritePlan, changes: RowChanges, ground: Ground, find: Find) -> None:
        self._plan, self._changes, self._ground, self._find = plan, changes, ground, find
        self._keys = row_keys(changes.rows, changes.rules)
        self._weighed: list[tuple[int, int]] = []
        self._guess = changes.rows.nbytes / max(len(changes), 1)
        self.targets: list[Target] = []
        self.numbers: Ints = np.full(len(changes), -1, np.int64)
        self.are_new: Bools = np.zeros(len(changes), np.bool_)

    @property
    def placed(self) -> Assigned:
        return Assigned(tuple(self.targets), self.numbers, self.are_new)

    def find(self, rows: Ints, targets: Sequence[Target]) -> Ints:
        """Gives rows whose keys are there their targets; the places of the others."""
        there = [t for t in targets if t.slice is not None]
        encoded = self._keys.take(pa.array(rows)).dictionary_encode()
        codes = np.asarray(encoded.indices).astype(np.int64)
        homes, counts = self._find(there, encoded.dictionary)
        sizes = [(t.slice.base_size, int(n)) for t, n in zip(there, counts, strict=True) if t.slice is not None]
        self._weighed += [(size, n) for size, n in sizes if n > 0 and size >= limits.ROW_SIZE_FILE_BYTES]
        used = np.unique(homes[homes >= 0])
        place = np.full(len(there) + 1, -1, np.int64)
        place[used] = len(self.targets) + np.arange(len(used))
        self.targets += [there[number] for number in used]
        self.numbers[rows] = place[homes][codes]
        # A key of which there are only deletes, and no row, has nothing to be deleted.
        lives = np.zeros(len(homes), np.bool_)
        lives[codes[~self._changes.deleted[rows]]] = True
        new: Ints = rows[((homes < 0) & lives)[codes]]
        return new

    def share_out(self, partition: str, rows: Ints) -> None:
        """Gives rows with new keys their targets, neighbouring keys together."""
        if not len(rows):
            return
        self.are_new[rows] = True
        order, number = sort_keys(self._changes.keys.take(pa.array(rows)))
        shares = share_out(
            int(number[-1]) + 1,
            self._rooms(partition),
            row_bytes_of(self._weighed, self._guess),
            self._ground.sizes,
        )
        ends = np.cumsum([share.rows for share in shares])
        chosen = np.searchsorted(ends, number, side="right")
        known = {t.file_id: t for t in self._ground.groups.get(partition, ())}
        for at, share in enumerate(shares):
            target = known[share.file_id] if share.file_id else Target(partition, self._ground.new_id())
            self.numbers[rows[order[chosen == at]]] = self._numbered(target)

    def _rooms(self, partition: str) -> Iterator[Room]:
        """Only rewritten base files can take new rows: the keys in log files are not looked up."""
        if self._plan.config.table_type is not TableType.COW or self._plan.operation == "bulk_insert":
            return
        for target in self._ground.groups.get(partition, ()):
            is_open = (partition, target.file_id) not in self._ground.closed
            if target.slice is not None and is_open:
                yield Room(target.file_id, target.slice.base_size)

    def _numbered(self, target: Target) -> int:
        if target.slice is not None and target in self.targets:
            return self.targets.index(target)
        self.targets.append(target)
        return len(self.targets) - 1


def by_number(numbers: Ints) -> Iterator[tuple[int, Ints]]:
    """Each number, and the places where it stands, rising."""
    order = np.argsort(numbers, kind="stable")
    found, starts = np.unique(numbers[order], return_index=True)
    for number, own in zip(found, np.split(order, starts[1:]) if len(found) else [], strict=True):
        yield int(number), own


def by_partition(partitions: pa.Array) -> Iterator[tuple[str, Ints]]:
    """Each partition, and the places of its rows, by name."""
    encoded = pc.dictionary_encode(partitions)
    names = encoded.dictionary.to_pylist()
    found = dict(by_number(np.asarray(encoded.indices).astype(np.int64)))
    for code in sorted(range(len(names)), key=lambda c: names[c]):
        yield names[code], found[code]
