# SPDX-License-Identifier: Apache-2.0
"""Slices of an object store are read many at once, as far as memory allows, and rows that are taken step by step not all."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, cast

import pytest

import lakebraid as lb
from lakebraid import limits
from lakebraid.storage import MemoryStorage, ObjectStorage, Storage
from tests.kit.tables.scene import TickingClock, make_table, table_on

pytestmark = pytest.mark.unit
BUCKETS: Final = 24
ROWS: Final = [{"id": f"{key}", "ts": 0, "v": f"{key}", "w": 0} for key in range(BUCKETS * 10)]
BOUND: Final = "lakebraid.storage.parallel.STORE_BYTES_AT_ONCE_MAX"
ACTS: Final[dict[str, Callable[[lb.Table], int]]] = {
    "read": lambda table: int(table.to_arrow().num_rows),
    "read in batches": lambda table: sum(batch.num_rows for batch in table.snapshot().to_batches()),
    "count": lambda table: table.count(),
    "changes": lambda table: int(table.changes().to_arrow().num_rows),
}


class Meeting:
    """A store that notes of how many buckets files are read at the same time; so many wait for each other first."""

    calls_at_once = ObjectStorage.calls_at_once

    def __init__(self, inner: Storage, parties: int) -> None:
        self._inner, self._lock = inner, threading.Lock()
        self._met = threading.Barrier(parties)
        self._waited: set[str] = set()
        self._reading: Counter[str] = Counter()
        self.most = 0
        self.read_names: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def read_listed(self, name: str, size_max: int) -> tuple[bytes, str]:
        return self.read(name, size_max), ""

    def read(self, name: str, size_max: int) -> bytes:
        bucket = name.lstrip(".")[:8]
        if not bucket.isdigit():
            return self._inner.read(name, size_max)
        with self._lock:
            self.read_names.append(name)
            self._reading[bucket] += 1
            self.most = max(self.most, sum(count > 0 for count in self._reading.values()))
            waits = bucket not in self._waited and len(self._waited) < self._met.parties
            self._waited.add(bucket)
        if waits:
            self._met.wait(30)  # raises if they do not come
        threading.Event().wait(0.002)
        try:
            return self._inner.read(name, size_max)
        finally:
            with self._lock:
                self._reading[bucket] -= 1


def table_of(parties: int) -> tuple[lb.Table, Meeting]:
    storage = MemoryStorage("memory://meeting", TickingClock())
    table = make_table(storage, storage.clock, buckets=BUCKETS)
    table.bulk_insert(ROWS)
    for turn in range(2):
        table.upsert([row | {"ts": 1 + turn} for row in ROWS])
    watched = Meeting(storage, parties)
    return table_on(cast("Storage", watched), storage.clock), watched


@pytest.mark.parametrize("act", ACTS)
def test_many_slices_are_read_at_once(act: str) -> None:
    table, storage = table_of(parties=12)
    assert ACTS[act](table) == len(ROWS)
    assert storage.most >= 12


@pytest.mark.parametrize("act", ACTS)
def test_no_more_slices_are_read_at_once_than_memory_allows(act: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table, storage = table_of(parties=1)
    largest = max(task.held_bytes for task in table.snapshot().plan()[1])
    monkeypatch.setattr(BOUND, 4 * largest)
    assert ACTS[act](table) == len(ROWS)
    smallest = min(task.held_bytes for task in table.snapshot().plan()[1])
    assert storage.most <= 4 * largest // smallest + 1  # the caller always goes on, with one slice


def test_a_slice_that_is_larger_than_the_bound_is_read_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    table, storage = table_of(parties=1)
    monkeypatch.setattr(BOUND, 1)
    assert table.to_arrow().num_rows == len(ROWS)
    assert storage.most == 1


def test_who_takes_the_first_batch_of_large_slices_has_not_read_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    table, storage = table_of(parties=1)
    held = max(task.held_bytes for task in table.snapshot().plan()[1])
    monkeypatch.setattr(BOUND, 4 * held)  # a quarter of it is what may lie there, not yet taken
    next(iter(table.snapshot().to_batches()))
    assert len(storage.read_names) == 3  # a base file and two logs


def test_what_a_slice_holds_is_all_of_its_logs_and_no_more_than_a_piece_of_its_base_file() -> None:
    table, _ = table_of(parties=1)
    task = table.snapshot().plan()[1][0]
    assert task.held_bytes == limits.SLICE_UNFOLDS * task.size
    logs = task.size - task.base_size
    huge = replace(task, base_size=10 * limits.PARQUET_WHOLE_BYTES_MAX, size=10 * limits.PARQUET_WHOLE_BYTES_MAX + logs)
    assert huge.held_bytes == limits.SLICE_UNFOLDS * (limits.PARQUET_WHOLE_BYTES_MAX + logs)
