# SPDX-License-Identifier: Apache-2.0
"""Upserts into copy-on-write tables beside Apache Hudi: one row in a hundred changes, so every base file is rewritten.

`python -m benchmarks.cow` [--rows 500000] [--times 3]. CPU seconds of lakebraid are those of the whole process tree, of
Hudi those of its JVM alone. The least of the repetitions counts; the first of each is left out. Both are handed the rows
of a Parquet file after a filter and with a computed column, as a job would: by Arrow here, by Spark there.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from tests.interop.referee import Referee

import lakebraid as lb
from benchmarks.meter import Meter, cpu_by_kind

SCHEMA = "id string, ts bigint, c0 double, c1 double, c2 double, c3 double, s string"
INDEXES = ("simple", "bucket")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--times", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        inputs = _inputs(root, given.rows, given.times + 1)
        for index in INDEXES:
            table = lb.Table.create(
                root / f"ours {index}", SCHEMA, record_keys="id", ordering_fields="ts", table_type="cow", index=index
            )
            _show(f"lakebraid, {index}", inputs, partial(_ours, table, inputs))
            assert table.to_arrow(columns=["id"]).num_rows == given.rows
        with Referee.start() as referee:
            for index in INDEXES:
                path = root / f"hudis {index}"
                _show(f"Hudi, {index}", inputs, partial(_hudis, referee, path, inputs, index), "jvm")


def _ours(table: lb.Table, inputs: list[Path], at: int) -> None:
    rows = pq.read_table(inputs[at])
    rows = rows.filter(pc.is_valid(rows["id"]))
    rows = rows.set_column(rows.column_names.index("c0"), "c0", pc.add(rows["c0"], 0.0))
    table.bulk_insert(rows) if at == 0 else table.upsert(rows)


def _hudis(referee: Referee, path: Path, inputs: list[Path], index: str, at: int) -> None:
    options = {
        "hoodie.table.name": "cow",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.operation": "bulk_insert" if at == 0 else "upsert",
        "hoodie.index.type": index.upper(),
        "hoodie.metadata.enable": "false",
        "hoodie.bulkinsert.shuffle.parallelism": "2",
        "hoodie.upsert.shuffle.parallelism": "2",
    }
    if index == "bucket":
        options["hoodie.bucket.index.num.buckets"] = "8"
    rows = {"parquet": str(inputs[at]), "where": "id IS NOT NULL", "set": {"c0": "c0 + 0.0D"}}
    referee.ask("write", path=str(path), rows=rows, options=options)


def _inputs(root: Path, rows: int, times: int) -> list[Path]:
    """The first load, and as many changes of a hundredth of its rows."""
    chance = np.random.default_rng(1)
    chosen = [np.arange(rows), *(np.sort(chance.choice(rows, rows // 100, replace=False)) for _ in range(times))]
    files = []
    for number, ids in enumerate(chosen):
        columns = {
            "id": pa.array([f"key-{n:09d}" for n in ids]),
            "ts": pa.array(np.full(len(ids), number, np.int64)),
            **{f"c{c}": pa.array(chance.random(len(ids))) for c in range(4)},
            "s": pa.array([f"text {n % 1000}" for n in ids]),
        }
        files.append(root / f"input {number}.parquet")
        pq.write_table(pa.table(columns), files[-1])
    return files


def _show(name: str, inputs: list[Path], run: Callable[[int], None], kind: str | None = None) -> None:
    used = []
    for at in range(len(inputs)):
        before = cpu_by_kind()
        with Meter() as meter:
            run(at)
        used.append(meter.cpu if kind is None else cpu_by_kind().get(kind, 0.0) - before.get(kind, 0.0))
    print(
        f"{name:20} load {used[0]:6.2f}   upsert of 1 % {min(used[2:]):6.2f}   ({', '.join(f'{u:.2f}' for u in used[1:])})",
        flush=True,
    )


if __name__ == "__main__":
    main()
