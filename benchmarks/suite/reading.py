# SPDX-License-Identifier: Apache-2.0
"""Reading a table whose logs pile up, and the compaction that puts an end to it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

import lakebraid as lb
from benchmarks import compaction as compacting
from benchmarks.compaction import some_rows
from benchmarks.suite.row import Rows
from benchmarks.suite.writing import COLUMNS


def merge_read(folder: Path, *, quick: bool) -> Rows:
    """A table of eight buckets after more and more upserts of a hundredth of its rows, then compacted."""
    total, times, steps = (100_000, 3, (0, 1, 5, 20)) if quick else (500_000, 3, (0, 1, 5, 10, 20, 50))
    random = np.random.default_rng(11)
    table = lb.Table.create(folder / "table", COLUMNS, record_keys="id", ordering_fields="ts", buckets=8)
    table.bulk_insert(some_rows(np.arange(total), 0, random))
    rows, done = [], 0
    for upserts in steps:
        for turn in range(done, upserts):
            table.upsert(some_rows(random.choice(total, total // 100, replace=False), turn + 1, random))
        done = upserts
        rows.append({"state": "with logs", "upserts": upserts, **_queries(folder, total, times)})
    table.compact()
    rows.append({"state": "compacted", "upserts": done, **_queries(folder, total, times)})
    return rows


def _queries(folder: Path, total: int, times: int) -> dict[str, float]:
    """CPU milliseconds, the least of several; the floor is pyarrow with the newest base files, the logs left out."""
    newest = {path.name.split("_")[0]: path for path in sorted((folder / "table").glob("*.parquet"), key=_start)}
    columns = [field.split()[0] for field in COLUMNS.split(", ")]

    def opened() -> lb.Table:
        return lb.Table.open(folder / "table")

    if opened().count() != total:
        raise SystemExit(f"The table has {opened().count():,} rows, not {total:,}.")
    return {
        "scan_cpu_ms": _least(times, lambda: opened().to_arrow()),
        "count_cpu_ms": _least(times, lambda: opened().count()),
        "lookup_cpu_ms": _least(times, lambda: opened().to_arrow(where=f"id = {total // 3}")),
        "pyarrow_scan_cpu_ms": _least(times, lambda: [pq.read_table(p, columns=columns) for p in newest.values()]),
    }


def _start(file: Path) -> str:
    return file.stem.rsplit("_", 1)[1]


def _least(times: int, work: Callable[[], object]) -> float:
    used = []
    for _ in range(times):
        began = time.process_time()
        work()
        used.append(time.process_time() - began)
    return min(used) * 1000


def compaction(folder: Path, *, quick: bool) -> Rows:  # noqa: ARG001 - it has a folder of its own
    """A fifth of the rows changed by five upserts; beside it pyarrow, which decodes and encodes the same and merges nothing."""
    sizes, times = ((20_000, 100_000), 2) if quick else ((100_000, 300_000, 1_000_000), 3)
    rows = []
    for size in sizes:
        spent, floor = min((compacting.merging(size, 0.2, 5) for _ in range(times)), key=lambda pair: pair[0])
        rows.append({"rows": size, "cpu_s": spent, "pyarrow_cpu_s": floor, "ratio": spent / floor})
    return rows
