# SPDX-License-Identifier: Apache-2.0
"""Opening a table with 1,000 active instants and 100,000 files: `uv run python -m benchmarks.opening [--reps 3]`."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa

import lakebraid as lb
from benchmarks.meter import machine
from benchmarks.tables import OUT, instant_time, made, mark_partition, start_plain, write_commit
from lakebraid.format.names import BaseFileName, LogFileName
from lakebraid.format.timeline.commit import WriteStat

INSTANTS, PARTITIONS, GROUPS = 1_000, 100, 100
"""Each instant writes one file of each of the 100 groups of one partition: first a base file, then nine log files."""
SECONDS_MAX = 3.0
SCHEMA = pa.schema({"id": pa.string(), "ts": pa.int64(), "place": pa.string(), "value": pa.float64()})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reps", type=int, default=3)
    parser.add_argument("--once", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.once:
        print(json.dumps(_opened(Path(asked.once))))
        return
    folder = made(OUT / "opening", make)
    runs = []
    for _ in range(asked.reps):
        # A process of its own each time, so that nothing is known from the time before.
        command = [sys.executable, "-m", "benchmarks.opening", "--once", str(folder)]
        runs.append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
    facts = machine()
    (OUT / "opening.json").write_text(json.dumps({"machine": facts, "runs": runs}, indent=1))
    best = min(runs, key=lambda run: run["cpu"])
    print(", ".join(f"{name} {value}" for name, value in facts.items()))
    print(f"{INSTANTS:,} instants, {best['files']:,} files in {best['slices']:,} slices of {PARTITIONS} partitions:")
    print(f"least of {len(runs)}: {best['cpu']:.2f} s CPU, {min(run['wall'] for run in runs):.2f} s wall")
    if best["cpu"] > SECONDS_MAX:
        raise SystemExit(f"That is more than {SECONDS_MAX} s.")


def make(folder: Path) -> None:
    """The table, by format functions; its data files are empty, since opening reads none."""
    more = {
        "hoodie.table.partition.fields": "place",
        "hoodie.table.keygenerator.type": "SIMPLE",
        "hoodie.datasource.write.hive_style_partitioning": "false",
    }
    start_plain(folder, GROUPS, more)
    (folder / ".hoodie_partition_metadata").unlink()
    for number in range(INSTANTS):
        round_, place = divmod(number, PARTITIONS)
        partition, request_time = f"place-{place:03}", instant_time(number)
        if round_ == 0:
            (folder / partition).mkdir()
            mark_partition(folder / partition, 1)
        stats = []
        for group in range(GROUPS):
            file_id = f"{group:08}-0000-4000-8000-{place:012}-0"
            base = BaseFileName(file_id, "0-0-0", request_time, ".parquet").format()
            name = LogFileName(file_id, request_time, 1, "0-0-0", "").format() if round_ else base
            (folder / partition / name).touch()
            path = f"{partition}/{name}"
            stats.append(WriteStat(file_id=file_id, path=path, partition_path=partition, num_writes=10))
        write_commit(folder, request_time, {partition: tuple(stats)}, SCHEMA)


def _opened(folder: Path) -> dict[str, float]:
    began, cpu = time.perf_counter(), time.process_time()
    snapshot = lb.Table.open(folder).snapshot()
    slices = snapshot.slices
    wall, cpu = time.perf_counter() - began, time.process_time() - cpu
    files = sum(len(s.logs) + (s.base is not None) for s in slices)
    if (len(slices), files) != (PARTITIONS * GROUPS, INSTANTS * GROUPS) or snapshot.schema.names != SCHEMA.names:
        raise SystemExit(f"Wrong: {len(slices):,} slices with {files:,} files, {snapshot.schema.names}")
    return {"wall": wall, "cpu": cpu, "files": files, "slices": len(slices)}


if __name__ == "__main__":
    main()
