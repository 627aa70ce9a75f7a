# SPDX-License-Identifier: Apache-2.0
"""Requests to be forgotten while others write: what they cost, and what the others notice of them."""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

import lakebraid as lb
from benchmarks.contention import START_SECONDS_MAX, starting, work
from benchmarks.suite.row import Row, Rows, percentile

WRITERS = 2
PERSONS, ROWS_EACH = 2_000, 20
FIRST = 1_000_000
"""Keys of the persons begin here; the writers' keys are smaller."""
PAUSE_S = 0.25


def gdpr_delete(folder: Path, *, quick: bool) -> Rows:
    """Two processes upsert 1,000 rows without pause; first alone, then while a person is deleted four times a second."""
    seconds = 3.0 if quick else 10.0
    return [_run(folder / name, name, seconds) for name in ("ingest alone", "ingest beside deletes")]


def _run(folder: Path, name: str, seconds: float) -> Row:
    table = lb.Table.create(
        folder / "table", "id bigint, ts bigint, writer int", record_keys="id", ordering_fields="ts", buckets=4
    )
    ids = np.arange(FIRST, FIRST + PERSONS * ROWS_EACH)
    table.bulk_insert(pa.table({"id": ids, "ts": np.ones(len(ids), np.int64), "writer": np.zeros(len(ids), np.int32)}))
    context = starting()
    ready, go = context.Barrier(WRITERS + 1), context.Event()
    processes = [context.Process(target=work, args=(n, str(folder), seconds, 1000, ready, go)) for n in range(WRITERS)]
    for process in processes:
        process.start()
    ready.wait(START_SECONDS_MAX)
    go.set()
    finds, deletes = _forget(table, seconds) if "beside" in name else ([], [])
    for process in processes:
        process.join()
    notes = [json.loads((folder / f"{n}.json").read_text()) for n in range(WRITERS)]
    if any(note["failed"] for note in notes):
        raise SystemExit("A writer failed beside a delete.")
    times = [t for note in notes for t in note["times"]]
    row: Row = {
        "what": name,
        "commits_per_s": len(times) / max(note["seconds"] for note in notes),
        "ingest_p50_s": percentile(times, 0.5),
        "ingest_p99_s": percentile(times, 0.99),
        "persons": len(deletes),
    }
    if deletes:
        row |= {"find_p50_s": percentile(finds, 0.5), "find_p99_s": percentile(finds, 0.99)}
        row |= {"delete_p50_s": percentile(deletes, 0.5), "delete_p99_s": percentile(deletes, 0.99)}
        row |= {"off_the_disk_s": _off_the_disk(table, len(deletes))}
    return row


def _forget(table: lb.Table, seconds: float) -> tuple[list[float], list[float]]:
    """One person after the other: how long it took to find the rows, and to delete them."""
    finds: list[float] = []
    deletes: list[float] = []
    until = time.monotonic() + seconds
    while time.monotonic() < until and len(deletes) < PERSONS:
        first = FIRST + len(deletes) * ROWS_EACH
        began = time.perf_counter()
        mine = table.to_arrow(columns=["id", "ts"], where=f"id >= {first} and id < {first + ROWS_EACH}")
        found = time.perf_counter()
        table.delete(mine)
        finds.append(found - began)
        deletes.append(time.perf_counter() - found)
        if len(mine) != ROWS_EACH:
            raise SystemExit(f"{len(mine)} rows of a person were found, not {ROWS_EACH}")
        time.sleep(PAUSE_S)
    return finds, deletes


def _off_the_disk(table: lb.Table, persons: int) -> float:
    """Seconds of the compaction and cleaning after which no file holds the rows any more; they must not be readable before."""
    left = table.to_arrow(columns=["id"], where=f"id >= {FIRST}")
    if len(left) != (PERSONS - persons) * ROWS_EACH:
        raise SystemExit(f"{len(left):,} rows of persons are left after {persons} deletes")
    began = time.perf_counter()
    table.compact()
    table.clean(versions=1)
    return time.perf_counter() - began
