# SPDX-License-Identifier: Apache-2.0
"""The rig that measures as on an object store: its storage delays and counts what it says."""

from __future__ import annotations

import doctest
import os
import pickle
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from benchmarks.cloud.rig import calls, latency
from benchmarks.cloud.rig.calls import TALLY, Call, round_trips, summed
from benchmarks.cloud.rig.latency import MEDIAN_MS, Latencies
from benchmarks.cloud.rig.storage import DelayedStorage, delayed

import lakebraid as lb
from lakebraid.errors import ObjectNotFound
from lakebraid.storage import LocalStorage, MemoryStorage, open_storage

pytestmark = pytest.mark.unit


@pytest.fixture
def sleeps(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Instead of sleeping, how long it would have been."""
    noted: list[float] = []
    monkeypatch.setattr("benchmarks.cloud.rig.storage.time.sleep", noted.append)
    return noted


def test_every_request_is_delayed_by_its_kind_and_counted_with_its_bytes(sleeps: list[float]) -> None:
    slow, mark = DelayedStorage(MemoryStorage("memory://rig"), Latencies()), TALLY.mark()
    slow.create("a/one", b"12345")
    slow.replace("a/one", b"1234567")
    slow.copy("a/one", "a/two")
    assert slow.read("a/two", 100) == b"1234567"
    assert slow.read_range("a/two", 2, 3) == b"345"
    assert slow.info("a/two").size == 7
    assert len(slow.list("a")) == len(slow.list_folder("a")[0]) == len(slow.list_names("a")) == 2
    assert slow.open_input("a/two").read() == b"1234567"
    slow.delete(["a/one", "a/two"])
    with pytest.raises(ObjectNotFound):
        slow.read("a/two", 100)

    sent = TALLY.since(mark)
    kinds = ["put", "put", "copy", "get", "get", "head", "list", "list", "list", "head", "get", "delete", "get"]
    assert [call.kind for call in sent] == kinds
    assert sum(sleeps) == pytest.approx(sum(MEDIAN_MS[kind] for kind in kinds) / 1000)
    assert summed(sent).bytes == {"put": 12, "copy": 0, "get": 17, "head": 0, "list": 0, "delete": 0}


def test_further_pages_of_a_list_and_of_a_delete_are_requests_of_their_own(sleeps: list[float]) -> None:
    full = MemoryStorage("memory://many")
    names = [f"a/{number:04}" for number in range(2001)]
    for name in names:
        full.create(name, b"")
    slow, mark = DelayedStorage(full, Latencies()), TALLY.mark()

    slow.list("a")
    slow.list("a", after="a/1500")
    slow.delete(names)
    slow.delete([])

    assert [call.kind for call in TALLY.since(mark)] == ["list"] * 4 + ["delete"] * 3
    assert full.list("a") == []


def test_threads_sleep_side_by_side_for_no_lock_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    slow, mark = DelayedStorage(MemoryStorage("memory://threads"), Latencies()), TALLY.mark()
    together = threading.Barrier(4)
    monkeypatch.setattr("benchmarks.cloud.rig.storage.time.sleep", lambda _: together.wait(60))
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda number: slow.create(f"a/{number}", b"x"), range(4)))

    assert summed(TALLY.since(mark)).requests == {"put": 4}
    assert round_trips(TALLY.since(mark)) == 1


def test_a_forked_process_counts_its_own_requests_and_a_storage_travels() -> None:
    slow = pickle.loads(pickle.dumps(DelayedStorage(LocalStorage("/nowhere"), Latencies().scaled(0))))
    slow.list("")
    child = os.fork()
    if not child:
        slow.list("")
        os._exit(len(TALLY.calls))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1


def test_the_tail_is_four_medians_long_and_the_same_for_the_same_seed() -> None:
    chance = random.Random(1)
    drawn = sorted(Latencies(tail=4.0).seconds("put", chance) for _ in range(20_000))
    assert drawn[10_000] == pytest.approx(0.045, rel=0.03)
    assert drawn[19_800] == pytest.approx(0.180, rel=0.06)
    again = [Latencies(tail=4.0).seconds("put", random.Random(7)) for _ in range(2)]
    assert again[0] == again[1]


def test_tables_on_local_paths_are_delayed_inside_the_block_and_only_there(tmp_path: Path) -> None:
    mark = TALLY.mark()
    with delayed(Latencies().scaled(0)):
        table = lb.Table.create(tmp_path / "t", "id bigint, ts bigint", record_keys="id", ordering_fields="ts")
        table.upsert([{"id": 1, "ts": 1}])
        assert table.count() == 1
        assert {call.kind for call in TALLY.since(mark)} == set(MEDIAN_MS)
    assert isinstance(open_storage(tmp_path), LocalStorage)


def test_round_trips_are_the_longest_chain_of_requests() -> None:
    side_by_side = [Call("put", str(n), 1.0, 2.0 + n) for n in range(5)]
    assert round_trips([*side_by_side, Call("list", "", 7.0, 8.0), Call("get", "", 0.0, 1.0)]) == 3
    assert [doctest.testmod(module).failed for module in (calls, latency)] == [0, 0]
