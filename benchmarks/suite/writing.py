# SPDX-License-Identifier: Apache-2.0
"""Writing: many processes at once, small commits, upserts into the kinds of tables."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import lakebraid as lb
from benchmarks import contention as writers
from benchmarks.compaction import some_rows
from benchmarks.suite.row import Row, Rows, percentile

COLUMNS = "id bigint, ts bigint, name string, city string, amount double, flag boolean, day int, note string"
"""Those of `some_rows`."""

KINDS: dict[str, dict[str, Any]] = {
    "merge-on-read, bucket": {"table_type": "mor", "index": "bucket"},
    "copy-on-write, bucket": {"table_type": "cow", "index": "bucket"},
    "copy-on-write, simple": {"table_type": "cow", "index": "simple"},
}


def contention(folder: Path, *, quick: bool) -> Rows:  # noqa: ARG001 - it has a folder of its own
    """Processes that upsert 1,000 rows each time into the same 10,000 keys, without pause."""
    seconds = 3.0 if quick else 6.0
    counts = (1, 4, 16) if quick else (1, 2, 4, 8, 16, 32, 64)
    rivals = (1, 4) if quick else (1, 4, 8)
    plan: list[tuple[str, int, dict[str, Any]]] = [("non-blocking", count, {}) for count in counts]
    plan += [("optimistic, retried", count, {"concurrency": "occ"}) for count in rivals]
    plan += [("optimistic", count, {"concurrency": "occ", "retries": 0}) for count in rivals]
    rows = []
    for mode, count, how in plan:
        seen = writers.run(count, seconds, 1000, **how)
        rows.append(
            {
                "mode": mode,
                "writers": count,
                "commits_per_s": seen["rate"],
                "p50_s": seen["p50"],
                "p99_s": seen["p99"],
                "slowest_s": seen["max"],
                "cpu_ms": seen["cpu"] * 1000,
                "refused_per_s": seen["failed"] / seconds,
            }
        )
    if any(row["refused_per_s"] for row in rows if row["mode"] == "non-blocking"):
        raise SystemExit("A non-blocking write failed.")
    return rows


def small_commits(folder: Path, *, quick: bool) -> Rows:
    """One writer, one commit after the other, in a table of four buckets."""
    times = 20 if quick else 200
    return [_small_commit(folder / f"of {count}", count, times) for count in (1, 100, 1_000, 10_000)]


def _small_commit(path: Path, count: int, times: int) -> Row:
    table = lb.Table.create(path, COLUMNS, record_keys="id", ordering_fields="ts", buckets=4)
    random = np.random.default_rng(3)
    batches = [some_rows(np.arange(count), turn, random) for turn in range(times)]
    table.upsert(batches[0])
    walls, cpu = [], time.process_time()
    for batch in batches:
        began = time.perf_counter()
        table.upsert(batch)
        walls.append(time.perf_counter() - began)
    cpu = time.process_time() - cpu
    return {
        "rows": count,
        "commits": times,
        "p50_ms": percentile(walls, 0.5) * 1000,
        "p99_ms": percentile(walls, 0.99) * 1000,
        "cpu_ms": cpu / times * 1000,
    }


def upsert(folder: Path, *, quick: bool) -> Rows:
    """Random rows of a table change: a thousandth, a hundredth, a tenth of them."""
    total, times = (100_000, 2) if quick else (500_000, 3)
    random = np.random.default_rng(5)
    rows = []
    for kind, how in KINDS.items():
        table = lb.Table.create(folder / kind, COLUMNS, record_keys="id", ordering_fields="ts", **how)
        first = some_rows(np.arange(total), 0, random)
        loaded = _used(partial(table.bulk_insert, first))
        rows.append({"kind": kind, "changed_rows": total, "share": 1.0, "cpu_s": loaded[0], "wall_s": loaded[1]})
        for part in (1000, 100, 10):
            used = []
            for turn in range(times + 1):
                ids = np.sort(random.choice(total, total // part, replace=False))
                batch = some_rows(ids, 1 + turn, random)
                used.append(_used(partial(table.upsert, batch)))
            cpu, wall = min(used[1:])
            rows.append({"kind": kind, "changed_rows": total // part, "share": 1 / part, "cpu_s": cpu, "wall_s": wall})
        _check(table, total)
    return rows


def _used(work: Callable[[], object]) -> tuple[float, float]:
    """CPU and wall seconds."""
    cpu, wall = time.process_time(), time.perf_counter()
    work()
    return time.process_time() - cpu, time.perf_counter() - wall


def _check(table: lb.Table, total: int) -> None:
    found: pa.Table = table.to_arrow(columns=["id"])
    if len(found) != total or len(found["id"].unique()) != total:
        raise SystemExit(f"The table has {len(found):,} rows, not {total:,} different ones.")
