# SPDX-License-Identifier: Apache-2.0
"""Processes that fork and threads that share a table, on an object store: they work or are told what to do, and never hang."""

from __future__ import annotations

import itertools
import json
import multiprocessing
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

import lakebraid as lb
from lakebraid.storage import ObjectStorage
from tests.kit.waiting import PATIENCE_SECONDS
from tests.objects.conftest import BUCKET, options

pytestmark = pytest.mark.objects

COLUMNS = "id string, ts bigint, v string"
_folders = itertools.count()


@pytest.fixture
def url() -> str:
    return f"s3://{BUCKET}/processes/{next(_folders)}"


def create(url: str, endpoint: str) -> lb.Table:
    return lb.Table.create(
        url, COLUMNS, record_keys="id", ordering_fields="ts", buckets=4, storage_options=options(endpoint)
    )


def in_fork(work: Callable[[], object]) -> str:
    """What it gave, or the error, in a child that was forked here."""
    fork = multiprocessing.get_context("fork")
    answers = fork.SimpleQueue()

    def run() -> None:
        try:
            answers.put(f"gave {work()}")
        except BaseException as error:  # noqa: BLE001 - told to the parent
            answers.put(f"{type(error).__name__}: {error}")

    child = fork.Process(target=run)
    child.start()
    child.join(PATIENCE_SECONDS)
    assert child.exitcode == 0, "it hangs"
    return str(answers.get())


def test_a_child_forked_after_its_parent_used_an_object_store_is_told_what_to_do_and_does_not_hang(
    endpoint: str, url: str
) -> None:
    table = create(url, endpoint)
    table.upsert([{"id": "a", "ts": 1, "v": "before"}])
    works: list[Callable[[], object]] = [
        lambda: table.to_arrow(),
        lambda: table.upsert([{"id": "b", "ts": 1, "v": "child"}]),
        lambda: lb.Table.open(url, options(endpoint)).to_arrow(),
        lambda: ObjectStorage(url, options(endpoint)).create("x", b""),
    ]
    for work in works:
        told = in_fork(work)
        assert told.startswith("StorageError: "), told
        assert "forked" in told
        assert "spawn" in told
        assert "nothing was changed" in told
    table.upsert([{"id": "c", "ts": 1, "v": "after"}])
    assert sorted(table.to_arrow()["v"].to_pylist()) == ["after", "before"], "the parent goes on"


_FORKS_FIRST = """
import json, os, sys
import lakebraid as lb
url, options = json.loads(sys.argv[1])
child = os.fork()
table = lb.Table.open(url, options)
table.upsert([{"id": "child" if child == 0 else "parent", "ts": 1, "v": "x"}])
if child:
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_processes_that_fork_before_they_use_an_object_store_all_write(endpoint: str, url: str) -> None:
    table = create(url, endpoint)
    command = [sys.executable, "-c", _FORKS_FIRST, json.dumps([url, options(endpoint)])]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    assert sorted(table.to_arrow()["id"].to_pylist()) == ["child", "parent"]


def _upsert(url: str, endpoint: str) -> None:
    lb.Table.open(url, options(endpoint)).upsert([{"id": "spawned", "ts": 1, "v": "x"}])


def test_a_spawned_process_writes_after_its_parent_has(endpoint: str, url: str) -> None:
    table = create(url, endpoint)
    child = multiprocessing.get_context("spawn").Process(target=_upsert, args=(url, endpoint))
    child.start()
    child.join(PATIENCE_SECONDS)
    assert child.exitcode == 0
    assert table.to_arrow()["id"].to_pylist() == ["spawned"]


def test_one_table_is_written_read_and_compacted_by_many_threads(endpoint: str, url: str) -> None:
    table = create(url, endpoint)
    writers, rounds = 6, 3

    def write(writer: int) -> None:
        for turn in range(rounds):
            table.upsert(
                [{"id": f"{writer}-{turn}", "ts": turn, "v": "x"}, {"id": f"w{writer}", "ts": turn, "v": str(turn)}]
            )

    def read(_: int) -> list[int]:
        return [table.to_arrow().num_rows for _ in range(rounds)]

    with ThreadPoolExecutor(writers + 3) as pool:
        writing = [pool.submit(write, number) for number in range(writers)]
        reading = [pool.submit(read, number) for number in range(2)]
        compacting = pool.submit(table.compact)
        for work in writing:
            work.result()
        for seen in reading:
            assert sorted(seen.result()) == seen.result(), "rows that were there are gone"
        compacting.result()
    rows = {found["id"]: found["v"] for found in table.to_arrow().to_pylist()}
    assert len(rows) == writers * rounds + writers
    assert {rows[f"w{number}"] for number in range(writers)} == {str(rounds - 1)}
    assert table.audit(deep=True).is_healthy
