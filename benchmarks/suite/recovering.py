# SPDX-License-Identifier: Apache-2.0
"""How long a killed writer, or a killed compaction, stays where it is: SIGKILL, then a service runner finds it."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import lakebraid as lb
from benchmarks.suite.row import Rows, percentile

LOOK_S = 0.25
WAIT_S_MAX = 120
WRITER = """
import sys, time, lakebraid as lb
txn = lb.Table.open(sys.argv[1]).begin("upsert")
txn.write([{"id": 1, "ts": 2}])
print(txn.instant, flush=True)
time.sleep(600)
"""
COMPACTION = """
import sys, time, lakebraid as lb
from lakebraid.services.merging import run
def hang(execution, opened, held, *rest):
    print(held.start, flush=True)
    time.sleep(600)
run.run_claimed = hang
lb.Table.open(sys.argv[1]).compact()
"""
DEATHS = {"writer, rolled back": WRITER, "compaction, taken over": COMPACTION}


def recovery(folder: Path, *, quick: bool) -> Rows:
    """The silence after which a process counts as dead is twice the table's heartbeat interval; two minutes if none is set."""
    intervals, times = ((0.5, 1.0), 2) if quick else ((0.5, 1.0, 2.0, 5.0), 4)
    rows: Rows = []
    for interval in intervals:
        jobs = [(death, number) for death in DEATHS for number in range(times)]
        with ThreadPoolExecutor(len(jobs)) as pool:  # they mostly wait
            seen = list(pool.map(lambda job, i=interval: (job[0], _killed(folder, i, *job)), jobs))
        for death in DEATHS:
            taken = [seconds for name, seconds in seen if name == death]
            rows.append(
                {
                    "what": death,
                    "silence_s": 2 * interval,
                    "kills": len(taken),
                    "p50_s": percentile(taken, 0.5),
                    "slowest_s": max(taken),
                }
            )
    return rows


def _killed(folder: Path, interval_s: float, death: str, number: int) -> float:
    """Seconds from the kill until the write was rolled back, or the compaction completed by somebody else."""
    path = folder / f"{death} {interval_s} {number}"
    properties = {"hoodie.client.heartbeat.interval_in_ms": str(int(interval_s * 1000))}
    table = lb.Table.create(
        path, "id bigint, ts bigint", record_keys="id", ordering_fields="ts", buckets=1, properties=properties
    )
    table.upsert([{"id": 1, "ts": 1}])
    command = [sys.executable, "-c", DEATHS[death], str(path)]
    with contextlib.closing(_Doomed(command)) as doomed:
        instant = doomed.line()
        time.sleep(interval_s)  # so that it has shown that it lives
    killed = time.perf_counter()
    while not _is_over(table, instant):
        if time.perf_counter() - killed > WAIT_S_MAX:
            raise SystemExit(f"{death}: nothing happened for {WAIT_S_MAX} s after the kill.")
        time.sleep(LOOK_S)
        table.services.run(once=True, only=["rollback", "compact"])
    taken = time.perf_counter() - killed
    if table.to_arrow()["ts"].to_pylist() != [1]:
        raise SystemExit(f"{death}: the row is not what was published")
    return taken


def _is_over(table: lb.Table, instant: str) -> bool:
    """A rolled-back write is gone from the timeline, a compaction stands there completed."""
    entries = [entry.instant for entry in table.timeline() if entry.instant.request_time == instant]
    return all(entry.is_completed for entry in entries)


class _Doomed:
    """A process that says where it is, and is killed."""

    def __init__(self, command: list[str]) -> None:
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    def line(self) -> str:
        text = self._process.stdout.readline().strip() if self._process.stdout else ""
        if not text:
            raise SystemExit("The process that was to be killed died by itself.")
        return text

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
