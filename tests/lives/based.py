# SPDX-License-Identifier: Apache-2.0
"""What a read-optimised query gives: of each file group its rows as of its base file."""

from __future__ import annotations

from dataclasses import replace

from lakebraid.reading.snapshot import Snapshot
from lakebraid.tasks.reading.read import read_slice
from tests.lives.kinds import Row
from tests.lives.life import Life
from tests.lives.world import World, check_same


def check_bases(life: Life, moment: str | None = None, columns: World | None = None) -> None:
    """No row that was not there when its base file was made; where no log files are left, the whole table."""
    snapshot, kind = life.other.snapshot(moment), life.kind
    plan, tasks = snapshot.plan(mode="read_optimized")
    seen: list[Row] = []
    for task in tasks:
        rows = [row for table in read_slice(life.other._storage, plan, task) for row in table.to_pylist()]
        seen += rows
        made = [
            replace(columns or life.world, versions=w.versions).rows() for w in _worlds_of(life, task.base_request_time)
        ]
        for row in rows if made else ():
            assert any(there.get(kind.identity(row)) == row for there in made), (
                f"read-optimised: {row} in {task.base_name}"
            )
    given = snapshot.to_arrow(mode="read_optimized").to_pylist()
    check_same(given, seen, "read-optimised")
    assert snapshot.count(mode="read_optimized") == len(given)
    if _is_all_based(snapshot):
        assert {kind.identity(row): row for row in given} == (columns or life.world).rows(), "nothing is in logs"


def _worlds_of(life: Life, request_time: str) -> list[World]:
    """The tables that a base file may be of: after the write that made it, or when the service that made it was planned.

    A service leaves in log files what began after the oldest writer that was open then: its rows may belong in between.
    """
    write = next((done for done in life.done if done.request_time == request_time), None)
    if write is None:
        earlier = [world for time, world in life.past if time < request_time]
        return earlier if _had_open(life, request_time) else earlier[-1:]
    if life.kind.concurrency == "nbcc":
        return []  # others may have published newer rows of the same keys, which lie in logs
    return [world for time, world in life.past if time == write.completion]


def _had_open(life: Life, request_time: str) -> bool:
    ended = {done.request_time: done.completion for done in life.done}
    return any(begun < request_time < ended.get(begun, "9") for begun in life.begun)


def _is_all_based(snapshot: Snapshot) -> bool:
    return all(held.base is not None and not held.logs for held in snapshot.slices)
