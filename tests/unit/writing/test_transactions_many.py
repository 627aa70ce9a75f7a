# SPDX-License-Identifier: Apache-2.0
"""Several writers in one process, their heartbeats, and what a commit costs."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import lakebraid as lb
from lakebraid.errors import InvalidArgument, RolledBack
from lakebraid.storage.memory import MemoryStorage
from lakebraid.txn.liveness.heartbeat import heartbeat_name
from tests.kit.races.processes import let_pass
from tests.kit.tables.scene import (
    CHANGES,
    READS,
    Scene,
    TickingClock,
    WatchedStorage,
    answer,
    make_table,
    row,
    table_on,
)
from tests.kit.waiting import PATIENCE_SECONDS, until

pytestmark = [pytest.mark.unit, pytest.mark.slow]


# --- several writers in one process ----------------------------------------------------------------------------------


def test_two_transactions_of_one_table_object_may_interleave() -> None:
    scene = Scene()
    one, two = scene.table.begin(), scene.table.begin()
    one.write([row("a", "one"), row("x", "one")])
    two.write([row("a", "two")])
    one.write([row("y", "one")])
    second = two.commit()
    assert answer(scene.table) == {"a": "two"}
    first = one.commit()
    assert first.instant < second.instant < second.completion_time < first.completion_time
    assert answer(scene.table) == {"a": "two", "x": "one", "y": "one"}
    assert answer(scene.table, second.completion_time) == {"a": "two"}


@pytest.mark.slow
@pytest.mark.parametrize("where", ["memory", "folder"])
def test_32_threads_with_one_table_object_lose_no_commit(where: str, tmp_path: Path) -> None:
    threads, commits = 32, 5
    path = f"memory://threads-{tmp_path.name}" if where == "memory" else str(tmp_path / "table")
    table = lb.Table.create(path, "id string, ts bigint, v string", record_keys="id", ordering_fields="ts", buckets=2)
    start = threading.Barrier(threads)

    def work(thread: int) -> list[lb.WriteResult]:
        start.wait()
        results = []
        for number in range(commits):
            rows = [{"id": f"{thread}-{number}", "ts": 1, "v": "own"}, {"id": "all", "ts": 1, "v": str(thread)}]
            results.append(table.upsert(rows))
        return results

    with ThreadPoolExecutor(threads) as pool:
        results = [result for made in pool.map(work, range(threads)) for result in made]
    seen = answer(table)
    last = max(results, key=lambda result: result.instant)
    assert {*seen} == {"all", *(f"{t}-{n}" for t in range(threads) for n in range(commits))}
    assert answer(table, last.completion_time)["all"] == seen["all"]
    times = [t for result in results for t in (result.instant, result.completion_time)]
    assert len(set(times)) == len(times) == 2 * threads * commits
    assert {table.status(result.instant) for result in results[::16]} == {"published"}


def test_a_writer_that_was_rolled_back_stops_early(tmp_path: Path) -> None:
    properties = {"hoodie.client.heartbeat.interval_in_ms": 60}
    table = lb.Table.create(
        tmp_path / "t", "id string, ts bigint", record_keys="id", ordering_fields="ts", properties=properties
    )
    transaction = table.begin()
    transaction.write([{"id": "a", "ts": 1}])
    # At times it was just beating.
    until(lambda: table.rollback(timeout_seconds=0).rolled_back, "a rollback of it")
    assert table.status(transaction.instant) == "refused"

    with pytest.raises(RolledBack, match=r"rolled back by another process.*Nothing of it is visible.*Write again"):
        until(lambda: transaction.write([{"id": "b", "ts": 1}]), "a refusal")
    with pytest.raises((RolledBack, InvalidArgument)):
        transaction.commit()
    assert table.count() == 0


def test_a_living_writer_beats_and_is_not_rolled_back(tmp_path: Path) -> None:
    properties = {"hoodie.client.heartbeat.interval_in_ms": 60}
    table = lb.Table.create(
        tmp_path / "t", "id string, ts bigint", record_keys="id", ordering_fields="ts", properties=properties
    )
    transaction = table.begin()
    beat = tmp_path / "t" / heartbeat_name(transaction.instant)
    let_pass(tmp_path / "t", seconds=7200)
    until(lambda: time.time() - beat.stat().st_mtime < 3600, "a beat")
    assert lb.Table.open(tmp_path / "t").rollback(timeout_seconds=3600).rolled_back == ()
    transaction.write([{"id": "a", "ts": 1}])
    transaction.commit()
    assert table.count() == 1


def test_no_thread_beats_after_a_transaction_has_ended() -> None:
    scene = Scene()
    with scene.table.begin() as committed:
        committed.write([row("a", "1")])
    aborted = scene.table.begin()
    aborted.abort()
    with pytest.raises(InvalidArgument), scene.table.begin() as failed:
        failed.write([{"no": "key"}])
    for transaction in (committed, aborted, failed):
        thread = transaction._heartbeat._thread
        assert thread is not None
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive()


# --- what a write costs ----------------------------------------------------------------------------------------------


def counted(table: lb.Table, storage: WatchedStorage, rows: Any) -> int:
    """Calls of one upsert, beside those for its data files, their markers and the files of partitions."""
    storage.calls.clear()
    result = table.upsert(rows)
    own = [call for call in storage.calls if call.name in READS | CHANGES]
    data = [c for c in own if c.name == "create" and (".marker." in c.target or result.instant in c.target)]
    parts = [c for c in own if c.target.endswith(".hoodie_partition_metadata")]
    return len(own) - len(data) - len(parts)


@pytest.mark.parametrize("buckets", [1, 64])
def test_the_calls_of_a_commit_are_few_and_do_not_grow_with_the_buckets_it_touches(buckets: int) -> None:
    storage = MemoryStorage("memory://cost", TickingClock())
    make_table(storage, storage.clock, buckets=buckets)
    watched = WatchedStorage(storage)
    table = table_on(watched, storage.clock)
    rows = [row(f"k{n}", "x") for n in range(600)]
    first, *others = [counted(table, watched, rows) for _ in range(3)]
    assert others == [19, 19]
    assert first <= 25, (
        "once for each process: the newest entry and the schema are read, and its files are copied side by side"
    )


@pytest.mark.slow
def test_the_calls_of_a_commit_do_not_grow_with_the_commits_before_it() -> None:
    storage = MemoryStorage("memory://cost", TickingClock())
    make_table(storage, storage.clock)
    watched = WatchedStorage(storage)
    table = table_on(watched, storage.clock)
    counts = [counted(table, watched, [row("a", str(n))]) for n in range(100)]
    assert counts[0] <= 25
    assert {*counts[1:]} == {19}
