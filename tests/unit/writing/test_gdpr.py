# SPDX-License-Identifier: Apache-2.0
"""People ask to be forgotten while a stream commits every second: deletes over all buckets, on a real disk."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import lakebraid as lb
from tests.kit.waiting import PATIENCE_SECONDS

pytestmark = [pytest.mark.unit, pytest.mark.slow]

BUCKETS = 8
VISITS = 400
"""Of each person; enough for all buckets."""
REQUESTS = 4
PEOPLE = [f"p{n}" for n in range(10 * REQUESTS + 1)]
"""More than asked for: where two must meet, requests go on until they have."""
NEWER = 1_000_000
"""The ordering value of a request: above all that the stream has."""


def visits(person: str, count: int, ts: int) -> list[dict[str, Any]]:
    return [{"id": f"{person}-{n}", "person": person, "ts": ts} for n in range(count)]


@dataclass
class Ingestion:
    """A stream that commits into all buckets every second."""

    table: lb.Table
    attempts: list[int] = field(default_factory=list)
    errors: list[Exception] = field(default_factory=list)
    begins: threading.Event = field(default_factory=threading.Event)
    """A batch is about to be written."""
    stop: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def running(self) -> Iterator[None]:
        thread = threading.Thread(target=self._run)
        thread.start()
        try:
            yield
        finally:
            self.stop.set()
            thread.join(PATIENCE_SECONDS)

    def _run(self) -> None:
        try:
            while not self.stop.is_set():
                due = time.monotonic() + 1
                batch = len(self.attempts)
                rows = visits(f"new{batch}", VISITS, batch)
                self.begins.set()
                self.attempts.append(self.table.upsert(rows, writer="stream", batch=batch).attempts)
                self.stop.wait(due - time.monotonic())
        except Exception as error:  # noqa: BLE001  told by the test
            self.errors.append(error)


@pytest.mark.parametrize(
    "kind",
    [
        {"concurrency": "nbcc", "buckets": BUCKETS},
        {"concurrency": "occ", "buckets": BUCKETS},
        {"table_type": "cow", "index": "simple"},
    ],
    ids=["never waiting", "optimistic", "copy on write"],
)
def test_deletes_over_all_buckets_finish_beside_a_stream_that_commits_every_second(
    tmp_path: Path, kind: dict[str, Any]
) -> None:
    table = lb.Table.create(
        tmp_path / "t", "id string, person string, ts bigint", record_keys="id", ordering_fields="ts", **kind
    )
    table.upsert([row for person in PEOPLE for row in visits(person, VISITS, 1)])
    stream = Ingestion(lb.Table.open(tmp_path / "t"))
    deletes: list[int] = []
    # In buckets of log files the rows of the stream and the deletes have nothing to do with each other (decision 21).
    may_meet = "buckets" not in kind

    def have_met() -> bool:
        return max(deletes, default=1) > 1 or max(stream.attempts, default=1) > 1

    with stream.running():
        for number, person in enumerate(PEOPLE[:-1]):
            if number >= REQUESTS and (have_met() or not may_meet):
                break
            stream.begins.clear()
            assert stream.begins.wait(PATIENCE_SECONDS), stream.errors
            keys = [{"id": row["id"], "ts": NEWER} for row in visits(person, VISITS, 0)]
            done = table.delete(keys, writer="gdpr", batch=number)
            deletes.append(done.attempts)
            assert done.rows_deleted == VISITS
            assert "buckets" not in kind or done.files == BUCKETS
    print(f"{kind}: attempts of the deletes {deletes}, of the stream {stream.attempts}")
    assert stream.errors == []
    assert have_met() == may_meet, "where base files are rewritten somebody had to do it again, elsewhere nobody"
    # Who stays is all there: everything that was acknowledged, and nobody who asked to be forgotten.
    left = [*PEOPLE[len(deletes) :], *(f"new{n}" for n in range(len(stream.attempts)))]
    counts = table.to_arrow(["person"]).column("person").value_counts().to_pylist()
    assert {c["values"]: c["counts"] for c in counts} == dict.fromkeys(left, VISITS)
