# SPDX-License-Identifier: Apache-2.0
"""Long timelines: opening, reading and committing with many instants, all active, then all but a few archived."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

import lakebraid as lb
from benchmarks.archiving import FIRST, make
from benchmarks.suite.row import Row, Rows

MANY = 10_000
"""With more active instants than this one turn must do: each takes many seconds."""


def timeline(folder: Path, *, quick: bool) -> Rows:
    """One row in one bucket, so that everything measured is the timeline."""
    rows: Rows = []
    for instants in (1_000, 5_000) if quick else (1_000, 10_000, 100_000):
        path = folder / f"{instants} instants"
        table = make(path, instants)
        rows.append(_looked(path, instants, "active"))
        began, moved = time.perf_counter(), 0
        while done := table.archive().instants:
            moved += done
        spent = time.perf_counter() - began
        rows.append(_looked(path, instants, "archived") | {"archived": moved, "archive_s": spent})
        shutil.rmtree(path)
    return rows


def _looked(path: Path, instants: int, state: str) -> Row:
    opened = lb.Table.open(path)
    times = 1 if state == "active" and instants > MANY else 3
    row: Row = {
        "instants": instants,
        "state": state,
        "open_ms": _least(times, lambda: lb.Table.open(path).snapshot()),
        "read_ms": _least(times, lambda: lb.Table.open(path).to_arrow()),
        "first_commit_ms": _least(times, lambda: lb.Table.open(path).upsert([{"id": 1, "ts": 1}])),
        "next_commit_ms": _least(times, lambda: opened.upsert([{"id": 1, "ts": 1}])),
    }
    if state == "archived":
        row["whole_history_ms"] = _least(times, lambda: lb.Table.open(path).timeline(archived=True))
    if opened.status(str(FIRST)) != "published":
        raise SystemExit("the first write is not found any more")
    return row


def _least(times: int, work: Callable[[], object]) -> float:
    """Milliseconds by the clock on the wall: most of it is waiting for the disk."""
    used = []
    for _ in range(times):
        began = time.perf_counter()
        work()
        used.append(time.perf_counter() - began)
    return min(used) * 1000
