# SPDX-License-Identifier: Apache-2.0
"""Tables of ours: writers that overlap, wait, give up or die, and compactions."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

import lakebraid as lb
from lakebraid.services.merging import compaction
from tests.interop.our_tables import ROW, Written, create, keys, plan, rows, run_plan, written


def overlap(path: Path, **options: Any) -> lb.Table:
    """a begins first and commits last; keys 1 to 3 are in both, with ordering values that are less, equal, greater."""
    table = create(path, buckets=1, **options)
    a, b = table.begin(), table.begin()
    a.write(rows("a", {1: 1, 2: 2, 3: 3, 4: 1}))
    b.write(rows("b", {1: 2, 2: 2, 3: 2, 5: 1}))
    b.commit()
    a.commit()
    return table


@written
def overlapping_writers(path: Path) -> Written:
    return Written(overlap(path), ["b1", "b2", "a3", "a4", "b5"])


@written
def overlapping_writers_in_commit_order(path: Path) -> Written:
    return Written(overlap(path, ordering_fields=None), ["b1", "b2", "b3", "a4", "b5"])


@written
def pending_writer(path: Path) -> Written:
    table = create(path, buckets=1)
    table.upsert(rows("a", {1: 1, 2: 1}))
    pending = table.begin()
    pending.write(rows("pending", {1: 9, 3: 9}))
    table.upsert(rows("b", {2: 2}))
    return Written(table, ["a1", "b2"], hold=pending)


@written
def pending_first_writer_of_a_seeded_bucket(path: Path) -> Written:
    table = create(path, buckets=2, seed_base=True)
    pending = table.begin()
    pending.write(rows("pending", dict.fromkeys(range(20), 9)))
    table.upsert(rows("a", {1: 1, 2: 1}))
    return Written(table, ["a1", "a2"], hold=pending)


@written
def pending_first_writer_of_a_partition(path: Path) -> Written:
    table = create(path, f"{ROW}, p string", partition_by=["p"], buckets=1)
    pending = table.begin()
    pending.write(rows("pending", {1: 9}, p="x"))
    table.upsert([*rows("a", {1: 1, 2: 1}, p="x"), *rows("a", {3: 1}, p="y")])
    return Written(table, ["a1", "a2", "a3"], hidden={"1": "a1", "2": "a2"}, hold=pending)


@written
def writers_that_gave_up(path: Path) -> Written:
    table = create(path, buckets=1, seed_base=False)
    first = table.begin()
    first.write(rows("gone", {1: 9, 7: 9}))
    table.upsert(rows("a", {1: 1, 2: 1}))
    first.abort()
    second = table.begin("delete")
    second.write(keys({1: 10}))
    second.abort()
    table.upsert(rows("b", {2: 2}))
    return Written(table, ["a1", "b2"])


@written
def writers_that_died(path: Path) -> Written:
    table = create(path, buckets=1, seed_base=False)
    dead = table.begin()
    dead.write(rows("dead", {1: 9, 7: 9}))
    dead._heartbeat.stop()
    table.upsert(rows("a", {1: 1, 2: 1}))
    assert table.rollback(timeout_seconds=0).rolled_back == (dead.instant,)
    table.upsert(rows("b", {2: 2}))
    return Written(table, ["a1", "b2"])


@written
def pending_compaction(path: Path) -> Written:
    table = create(path, buckets=1)
    table.upsert(rows("a", {1: 1, 2: 1, 3: 5}))
    table.upsert(rows("b", {2: 2}))
    plan(table)
    table.upsert(rows("c", {1: 2, 3: 4, 4: 1}))
    table.delete(keys({2: 3}))
    return Written(table, ["c1", "a3", "c4"])


@written
def compaction_that_died(path: Path) -> Written:
    """Its base file and its carried deletes are there, its commit is not."""
    table = create(path, buckets=1)
    table.upsert(rows("a", {1: 1, 2: 1, 3: 1}))
    table.delete(keys({2: 2}))
    dying = mock.patch.object(compaction, "publish_plan", side_effect=InterruptedError)
    with dying, pytest.raises(InterruptedError):
        table.compact()
    table.upsert(rows("b", {2: 1, 3: 2}))
    return Written(table, ["a1", "b3"])


@written
def compaction_taken_over(path: Path) -> Written:
    """The first executor died after writing its files, the second finished."""
    table = compaction_that_died(path).table
    (request_time,) = (str(i.request_time) for i in table.timeline() if i.action == "compaction")
    beat = path / ".hoodie" / ".heartbeat" / request_time
    beat.touch()
    os.utime(beat, (0, 0))
    run_plan(table, request_time)
    table.upsert(rows("c", {2: 1, 4: 1}))
    return Written(table, ["a1", "b3", "c4"])


@written
def compacted_twice(path: Path) -> Written:
    table = create(path, f"{ROW}, p string", partition_by=["p"], buckets=2)
    table.upsert(rows("a", dict.fromkeys(range(10), 1), p="x"))
    table.delete([{"id": 1, "p": "x", "ts": 1}, {"id": 2, "p": "x", "ts": 7}])
    table.compact()
    table.upsert([*rows("b", {2: 6, 3: 2, 4: 0}, p="x"), *rows("b", {1: 1}, p="y")], block_format="avro")
    table.compact()
    table.upsert([*rows("c", {2: 5, 5: 2}, p="x")])
    names = ["a0", "b3", "a4", "c5", "a6", "a7", "a8", "a9", "b1"]
    return Written(table, names)


@written
def tombstones_carried_over(path: Path) -> Written:
    """Deletes outlive the compaction in a log file of it: an event that is older than the delete stays dead."""
    table = create(path, buckets=1)
    table.upsert(rows("row", dict.fromkeys(range(1, 5), 5)))
    table.delete(keys({1: 6, 2: 6, 3: 4}))
    table.compact()
    table.upsert(rows("late", {1: 5, 2: 7, 3: 5}))
    return Written(table, ["late2", "late3", "row4"])


@written
def compacted_partial_updates(path: Path) -> Written:
    table = create(path, f"{ROW}, extra string", buckets=1)
    table.upsert(rows("base", {1: 5, 2: 5}, extra="e"))
    table.upsert([{"id": 1, "name": "part1", "ts": 6}], columns=["id", "name", "ts"])
    table.compact()
    table.upsert([{"id": 1, "extra": "x", "ts": 7}], columns=["id", "extra", "ts"])
    return Written(table, ["part1", "base2"])


@written
def compacted_in_commit_order(path: Path) -> Written:
    table = create(path, buckets=1, ordering_fields=None)
    table.upsert(rows("a", {1: 1, 2: 1, 3: 1}))
    table.delete([{"id": 1}])
    table.upsert(rows("b", {2: 0}))
    table.compact()
    table.upsert(rows("c", {1: 0, 3: 0}))
    return Written(table, ["c1", "b2", "c3"])


@written
def late_finisher_behind_a_compaction(path: Path) -> Written:
    """Began before the plan, finished after the compaction; it has the newer events of 1, the older ones of 2."""
    table = create(path, buckets=1)
    table.upsert(rows("a", {1: 1, 2: 5, 3: 1}))
    late = table.begin()
    late.write(rows("late", {1: 2, 2: 4, 4: 1}))
    table.compact()
    late.commit()
    return Written(table, ["late1", "a2", "a3", "late4"])


@written
def unmerged_blocks_behind_a_compaction(path: Path) -> Written:
    """A write is open and an event came out of order, so the compaction carries blocks on: a row, its delete, the event.

    Hudi takes the instants of a log in the order in which it meets them; of equal ordering values the later one counts.
    """
    table = create(path, buckets=1)
    slow = table.begin()
    table.upsert(rows("a", {1: 1, 2: 3, 3: 1}))
    table.delete(keys({1: 1}))
    table.upsert(rows("older", {2: 1}))
    assert table.compact()
    slow.write(rows("slow", {3: 2}))
    slow.commit()
    return Written(table, ["a2", "slow3"])
