# SPDX-License-Identifier: Apache-2.0
"""Compaction: its CPU beside that of pyarrow reading and writing the same bytes, and planning over many file groups.

    uv run python -m benchmarks.compaction --rows 1000000 --groups 10000

The floor reads every base file and every block of rows with pyarrow, and writes as many rows as the compaction does,
with the same compression; it merges nothing. Processor time is taken of all threads.
"""

from __future__ import annotations

import argparse
import io
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import lakebraid as lb
from lakebraid.format.log.blocks import BlockType, read_blocks
from lakebraid.format.names import LogFileName
from lakebraid.model.keys.buckets import bucket_file_id

T = TypeVar("T")
RATIO_MAX = 1.5
PLANNING_SECONDS_MAX = 2.0


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rows", type=int, default=1_000_000)
    arguments.add_argument("--updates", type=float, default=0.2, help="share of the rows that logs bring anew")
    arguments.add_argument("--logs", type=int, default=5)
    arguments.add_argument("--groups", type=int, default=10_000)
    arguments.add_argument("--rounds", type=int, default=3)
    given = arguments.parse_args()
    spent_and_floor = [merging(given.rows, given.updates, given.logs) for _ in range(given.rounds)]
    ratios = [spent / floor for spent, floor in spent_and_floor]
    best = min(ratios)
    print(
        f"compaction beside pyarrow: {best:.2f} times (of {', '.join(f'{r:.2f}' for r in ratios)}; at most {RATIO_MAX})"
    )
    spent = min(planning(given.groups) for _ in range(given.rounds))
    print(f"planning over {given.groups:,} file groups: {spent:.2f} s (at most {PLANNING_SECONDS_MAX})")
    return 1 if best > RATIO_MAX or spent > PLANNING_SECONDS_MAX else 0


def merging(rows: int, updates: float, logs: int) -> tuple[float, float]:
    """CPU seconds of the compaction and of pyarrow."""
    folder = Path(tempfile.mkdtemp(prefix="lakebraid-compaction-"))
    try:
        table = lb.Table.create(
            folder / "table",
            "id bigint, ts bigint, name string, city string, amount double, flag boolean, day int, note string",
            record_keys="id",
            ordering_fields="ts",
            buckets=4,
        )
        random = np.random.default_rng(7)
        table.bulk_insert(some_rows(np.arange(rows), 0, random))
        changed = max(1, int(rows * updates / logs))
        for turn in range(logs):
            table.upsert(some_rows(random.choice(rows, changed, replace=False), turn + 1, random))
        files = sorted(path for path in (folder / "table").iterdir() if path.is_file())
        floor, _ = cpu(lambda: read_and_write(files))
        spent, done = cpu(table.compact)
        if done[0].rows != rows:
            raise SystemExit(f"the compaction wrote {done[0].rows:,} rows, not {rows:,}")
        print(f"  compaction {spent:.2f} s, pyarrow {floor:.2f} s of CPU; {done[0].bytes:,} bytes written", flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return spent, floor


def some_rows(ids: np.ndarray, turn: int, random: np.random.Generator) -> pa.Table:
    count = len(ids)
    return pa.table(
        {
            "id": ids.astype(np.int64),
            "ts": np.full(count, turn, np.int64),
            "name": pa.array(ids).cast(pa.string()),
            "city": pa.array(np.array(["Oslo", "Rome", "Lima", "Kyiv"])[random.integers(0, 4, count)]),
            "amount": random.random(count),
            "flag": random.random(count) < 0.5,
            "day": random.integers(0, 365, count).astype(np.int32),
            "note": pa.array(random.integers(0, 10**12, count)).cast(pa.string()),
        }
    )


def read_and_write(files: list[Path]) -> None:
    """What a compaction cannot do without: all bytes decoded, the base files' rows encoded anew."""
    for path in files:
        if path.suffix == ".parquet":
            rows = pq.read_table(path)
            pq.write_table(rows, io.BytesIO(), compression="zstd", row_group_size=1 << 17)
        elif ".log." in path.name:
            for block in read_blocks(path.read_bytes(), path.name).blocks:
                if block.type is BlockType.PARQUET:
                    pq.read_table(pa.BufferReader(block.content))


def cpu(work: Callable[[], T]) -> tuple[float, T]:
    before = time.process_time()
    result = work()
    return time.process_time() - before, result


def planning(groups: int) -> float:
    """CPU seconds to choose what to compact in a table with that many groups of three log files each, listing included."""
    folder = Path(tempfile.mkdtemp(prefix="lakebraid-planning-"))
    try:
        table = lb.Table.create(
            folder / "many",
            "id bigint, ts bigint, part string",
            record_keys="id",
            ordering_fields="ts",
            partition_by="part",
            buckets=100,
        )
        for _ in range(3):
            put_logs(table, folder / "many", groups)
        spent, plan = cpu(lambda: table.plan_compaction(strategy="log_size", dry_run=True))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if plan is None or f"{groups:,} file groups" not in plan.what:
        raise SystemExit(f"not every group was planned: {plan}")
    return spent


def put_logs(table: lb.Table, folder: Path, groups: int) -> None:
    """A write with a log file in each group; what is in them does not matter here."""
    writer = table.begin()
    for group in range(groups):
        partition = folder / f"p{group // 100:03}"
        if group % 100 == 0 and not partition.exists():
            partition.mkdir()
            (partition / ".hoodie_partition_metadata").write_bytes(b"")
        name = LogFileName(bucket_file_id(group % 100), writer.instant, 1, "0-0-0", "").format()
        (partition / name).write_bytes(b"x")
    writer.commit()


if __name__ == "__main__":
    sys.exit(main())
