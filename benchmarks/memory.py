# SPDX-License-Identifier: Apache-2.0
"""Peak memory of merging one slice, with a small and a large base file: `uv run python -m benchmarks.memory`."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import lakebraid as lb
from benchmarks.meter import machine
from benchmarks.tables import OUT, instant_time, log_block, made, start_plain, with_meta, write_commit
from lakebraid.format.names import BaseFileName, LogFileName
from lakebraid.format.timeline.commit import WriteStat
from lakebraid.model.keys.buckets import bucket_file_id

SIZES_MB = (20, 100, 400)
LOGS, LOG_ROWS = 10, 2_000
GROUP_ROWS = 400_000
"""Of a row group: some 120 MB, as Hudi's writers make them."""
PAYLOAD = 300
ROW_BYTES = 264
"""What a row takes in the base file."""
GROWTH_MAX = 1.25
"""What the largest may take, compared with one a quarter of its size, and still be called flat."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--once", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.once:
        print(json.dumps(_read(Path(asked.once))))
        return
    runs = {}
    for size in SIZES_MB:
        folder = made(OUT / "memory" / f"{size}-mb", partial(make, base_bytes=size * 1_000_000))
        command = [sys.executable, "-m", "benchmarks.memory", "--once", str(folder)]
        runs[size] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    facts = machine()
    (OUT / "memory.json").write_text(json.dumps({"machine": facts, "runs": runs}, indent=1))
    print(", ".join(f"{name} {value}" for name, value in facts.items()))
    print("\n| base file | rows | peak of the process | of it for the merge |\n|---|---|---|---|")
    for run in runs.values():
        merge = run["peak_mb"] - run["idle_mb"]
        print(f"| {run['base_mb']:.0f} MB | {run['rows']:,} | {run['peak_mb']:.0f} MB | {merge:.0f} MB |")
    # The smallest fits into one batch; from there on a larger base file must not take more.
    growth = runs[SIZES_MB[-1]]["peak_mb"] / runs[SIZES_MB[1]]["peak_mb"]
    if growth > GROWTH_MAX:
        raise SystemExit(
            f"Not flat: the largest base file takes {growth:.2f} times the memory of one a quarter of its size."
        )


def make(folder: Path, base_bytes: int) -> None:
    """A table of one bucket: a base file of about that size, sorted by key, and the same logs whatever the size."""
    start_plain(folder, 1)
    random = np.random.default_rng(7)
    file_id, request_time = bucket_file_id(0), instant_time(0)
    name = BaseFileName(file_id, "0-0-0", request_time, ".parquet").format()
    rows, writer = 0, None
    wanted = int(base_bytes / ROW_BYTES)
    while rows < wanted:
        count = min(GROUP_ROWS, wanted - rows)
        table = with_meta(_rows(np.arange(rows, rows + count), 0, random), request_time, name)
        writer = writer or pq.ParquetWriter(folder / name, table.schema, compression="zstd", store_schema=False)
        writer.write_table(table, row_group_size=count)
        rows += count
    if writer is not None:
        writer.close()
    write_commit(folder, request_time, {"": (WriteStat(file_id=file_id, path=name, num_writes=rows),)}, _PLAIN)
    random = np.random.default_rng(8)
    for number in range(1, LOGS + 1):
        request_time = instant_time(number)
        name = LogFileName(file_id, request_time, 1, "0-0-0", "").format()
        batch = _rows(random.choice(50_000, LOG_ROWS, replace=False), number, random)
        (folder / name).write_bytes(log_block(with_meta(batch, request_time, file_id), request_time))
        write_commit(folder, request_time, {"": (WriteStat(file_id=file_id, path=name, num_writes=LOG_ROWS),)}, _PLAIN)


_PLAIN = pa.schema({"id": pa.string(), "ts": pa.int64(), "amount": pa.float64(), "payload": pa.string()})


def _rows(numbers: np.ndarray, version: int, random: np.random.Generator) -> pa.Table:
    """Keys in order, and texts that do not compress much."""
    count = len(numbers)
    letters = random.integers(32, 127, count * PAYLOAD, dtype=np.uint8)
    offsets = pa.py_buffer(np.arange(0, count * PAYLOAD + 1, PAYLOAD, dtype=np.int32))
    payload = pa.StringArray.from_buffers(count, offsets, pa.py_buffer(letters))
    keys = pa.array([f"key-{n:012}" for n in numbers.tolist()])
    columns = [keys, np.full(count, version, np.int64), random.random(count), payload]
    return pa.table([pa.array(c) for c in columns], schema=_PLAIN)


def _read(folder: Path) -> dict[str, float]:
    """All rows, batch by batch, each forgotten at once."""
    snapshot = lb.Table.open(folder).snapshot()
    idle = _resident("VmRSS")
    rows = sum(batch.num_rows for batch in snapshot.to_batches())
    base = sum(s.base.size for s in snapshot.slices if s.base)
    wanted = sum(pq.read_metadata(file).num_rows for file in folder.glob("*.parquet"))
    if rows != wanted:  # the logs only update
        raise SystemExit(f"Wrong: {rows:,} rows, not {wanted:,}")
    return {"rows": rows, "base_mb": base / 1e6, "idle_mb": idle, "peak_mb": _resident("VmHWM")}


def _resident(kind: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(kind)) / 1000


if __name__ == "__main__":
    main()
