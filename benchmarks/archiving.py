# SPDX-License-Identifier: Apache-2.0
"""Archiving a long timeline on a local disk: seconds for each call, and what a commit costs before and after.

    uv run python -m benchmarks.archiving --instants 10000 --batch 2500

The instants are copies of one real commit with times of their own, put down as files: making them one by one would take
longer than archiving them.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

import lakebraid as lb
from benchmarks.meter import Meter, machine
from lakebraid import limits

FIRST = 20260101000000000
SECONDS_MAX = 10.0
"""CPU seconds for ten thousand instants; the wall clock tells more about the neighbours."""
COMMITS = 20


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--instants", type=int, default=10_000)
    arguments.add_argument("--batch", type=int, default=0, help="instants of one call; 0: all at once")
    given = arguments.parse_args()
    print(machine())
    folder = Path(tempfile.mkdtemp(prefix="lakebraid-archiving-"))
    try:
        return run(folder, given.instants, given.batch)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run(folder: Path, instants: int, batch: int) -> int:
    table = make(folder / "table", instants)
    before = commit_seconds(table)
    if batch:
        limits.ARCHIVE_INSTANTS_MAX = batch  # type: ignore[misc]
    print(f"{'instants':>8}  {'seconds':>8}  {'CPU':>8}")
    moved = wall = cpu = 0.0
    while True:
        with Meter() as used:
            done = table.archive()
        if not done.instants:
            break
        moved, wall, cpu = moved + done.instants, wall + used.wall, cpu + used.cpu
        print(f"{done.instants:8,}  {used.wall:6.2f} s  {used.cpu:6.2f} s", flush=True)
    after = commit_seconds(table)
    print(f"{moved:8,.0f}  {wall:6.2f} s  {cpu:6.2f} s  in all")
    print(f"a commit took {before * 1000:.1f} ms before and {after * 1000:.1f} ms after")
    check(table, instants)
    return 0 if cpu < SECONDS_MAX * max(instants / 10_000, 1) else 1


def make(path: Path, instants: int) -> lb.Table:
    """A table with that many completed writes, and one row."""
    table = lb.Table.create(path, "id bigint, ts bigint", record_keys="id", ordering_fields="ts", buckets=1)
    written = table.upsert([{"id": 1, "ts": 1}])
    timeline = path / ".hoodie" / "timeline"
    content = (timeline / f"{written.instant}_{written.completion_time}.deltacommit").read_bytes()
    for number in range(instants):
        request_time, done = FIRST + 2 * number, FIRST + 2 * number + 1
        for state in ("requested", "inflight"):
            os.mknod(timeline / f"{request_time}.deltacommit.{state}")
        # The request time stands in the names of the files that a commit lists.
        (timeline / f"{request_time}_{done}.deltacommit").write_bytes(
            content.replace(written.instant.encode(), b"%d" % request_time)
        )
    return table


def commit_seconds(table: lb.Table) -> float:
    begun = time.perf_counter()
    for number in range(COMMITS):
        table.upsert([{"id": 1, "ts": number}])
    return (time.perf_counter() - begun) / COMMITS


def check(table: lb.Table, instants: int) -> None:
    """Every instant is in the history or on the timeline, once, and the row is still there."""
    request_times = [entry.instant.request_time for entry in table.timeline(archived=True)]
    if len(request_times) != len({*request_times}) or len(request_times) != instants + 2 + 2 * COMMITS:
        raise SystemExit(
            f"{instants + 2 + 2 * COMMITS} instants were completed, {len({*request_times})} of {len(request_times)} are found"
        )
    if table.status(str(FIRST)) != "published" or table.to_arrow().num_rows != 1:
        raise SystemExit("the first write is not found any more, or its row")


if __name__ == "__main__":
    sys.exit(main())
