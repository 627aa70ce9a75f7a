# SPDX-License-Identifier: Apache-2.0
"""Many writer processes on one local table: commits per second, and how long one takes.

    uv run python -m benchmarks.contention --writers 1 4 16 64 --seconds 20

Every process upserts batches of its own making into the same keys, without pause; nobody retries, nobody may fail.
`run` also takes optimistic tables, where writes are refused, or done again.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import shutil
import sys
import tempfile
import time
from multiprocessing.context import ForkServerContext
from multiprocessing.synchronize import Barrier, Event
from pathlib import Path
from typing import Any

import pyarrow as pa

import lakebraid as lb

KEYS = 10_000
START_SECONDS_MAX = 180
"""For all processes to have begun; a broken one would else be waited for without end."""


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--writers", type=int, nargs="+", default=[1, 4, 16, 64])
    arguments.add_argument("--seconds", type=float, default=20)
    arguments.add_argument("--rows", type=int, default=1000)
    given = arguments.parse_args()
    print(f"{'writers':>7}  {'commits/s':>9}  {'p50':>8}  {'p99':>8}  {'slowest':>8}  {'CPU/commit':>10}  failed")
    failed = 0.0
    for writers in given.writers:
        result = run(writers, given.seconds, given.rows)
        failed += result["failed"]
        print(
            f"{writers:7}  {result['rate']:9.1f}  {result['p50']:6.3f} s  {result['p99']:6.3f} s  {result['max']:6.3f} s  "
            f"{result['cpu'] * 1000:7.1f} ms  {result['failed']}",
            flush=True,
        )
    return 1 if failed else 0


def run(
    writers: int, seconds: float, rows: int, *, concurrency: str = "nbcc", retries: int | None = None
) -> dict[str, float]:
    folder = Path(tempfile.mkdtemp(prefix="lakebraid-contention-"))
    try:
        lb.Table.create(
            folder / "table",
            "id bigint, ts bigint, writer int",
            record_keys="id",
            ordering_fields="ts",
            buckets=4,
            concurrency=concurrency,
        )
        context = starting()
        ready, go = context.Barrier(writers + 1), context.Event()
        processes = [
            context.Process(target=work, args=(n, str(folder), seconds, rows, ready, go, retries))
            for n in range(writers)
        ]
        for process in processes:
            process.start()
        ready.wait(START_SECONDS_MAX)
        go.set()
        for process in processes:
            process.join()
        notes = [json.loads((folder / f"{n}.json").read_text()) for n in range(writers)]
        check(folder, notes)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    times = sorted(t for note in notes for t in note["times"])
    return {
        "rate": len(times) / max(note["seconds"] for note in notes),
        "p50": times[len(times) // 2],
        "p99": times[int(len(times) * 0.99)],
        "max": times[-1],
        "cpu": sum(note["cpu"] for note in notes) / len(times),
        "failed": sum(note["failed"] for note in notes),
    }


def starting() -> ForkServerContext:
    """How processes begin: as copies of one that has imported everything, which saves each a second of CPU."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["lakebraid.api.table"])
    return context


def work(
    number: int, folder: str, seconds: float, rows: int, ready: Barrier, go: Event, retries: int | None = None
) -> None:
    table = lb.Table.open(f"{folder}/table")
    batch = pa.table(
        {
            "id": [(number * 7919 + i * 13) % KEYS for i in range(rows)],
            "ts": pa.array([0] * rows, pa.int64()),
            "writer": pa.array([number] * rows, pa.int32()),
        }
    )
    ready.wait(START_SECONDS_MAX)
    go.wait()
    times, failed, last = [], 0, 0
    begun, cpu = time.monotonic(), time.process_time()
    while time.monotonic() - begun < seconds:
        at = time.monotonic()
        try:
            stamp = time.time_ns()
            table.upsert(batch.set_column(1, "ts", pa.array([stamp] * rows, pa.int64())), retries=retries)
        except lb.WriteConflict:
            failed += 1  # what an optimistic table may do
        except lb.LakebraidError as error:
            print(error, file=sys.stderr)
            failed += 1
        else:
            times.append(time.monotonic() - at)
            last = stamp
    note = {
        "times": times,
        "failed": failed,
        "seconds": time.monotonic() - begun,
        "cpu": time.process_time() - cpu,
        "last": last,
    }
    (Path(folder) / f"{number}.json").write_text(json.dumps(note))


def check(folder: Path, notes: list[dict[str, Any]]) -> None:
    """Every commit is on the timeline, and the newest of each writer's keys has won."""
    table = lb.Table.open(folder / "table")
    commits = sum(len(note["times"]) for note in notes)
    found = sum(entry.instant.is_completed and entry.instant.is_write for entry in table.timeline())
    if found != commits + 1:
        raise SystemExit(f"{commits} commits were acknowledged, the timeline has {found - 1}")
    newest = table.to_arrow(columns=["ts"])["ts"].to_pylist()
    if max(newest) != max(note["last"] for note in notes if note["times"]):
        raise SystemExit("the last acknowledged rows are not there")


if __name__ == "__main__":
    sys.exit(main())
