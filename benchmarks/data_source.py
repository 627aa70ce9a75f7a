# SPDX-License-Identifier: Apache-2.0
"""The format `lakebraid` beside `to_spark`, and the changes of one commit beside Hudi's incremental query.

`uv run python -m benchmarks.data_source [--scale mid|smoke] [--reps 5] [--no-hudi]`. CPU seconds of the whole process
tree; of Hudi those of its JVM alone. The least of the repetitions counts, after three that do not.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  as everybody calls it
from tests.interop.referee import Referee

import lakebraid as lb
from benchmarks.data import SCALES, Scale, workload
from benchmarks.meter import Meter, machine
from benchmarks.tables import OUT, made

WARM_UP = 3
AGGREGATE = ["c_cat", "c_long", "c_double", "c_int"]
SIZES = {"mid": (50_000, 500_000, 2_000_000), "smoke": (5_000, 20_000)}
"""Rows of the tables from which the changes of a last commit of the same size are read."""
COMMIT_ROWS = 1_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", choices=SCALES, default="mid")
    parser.add_argument("--reps", type=int, default=5)
    parser.add_argument("--no-hudi", action="store_true")
    asked = parser.parse_args()
    scale, times = SCALES[asked.scale], asked.reps + WARM_UP
    root = OUT / f"data-source-{asked.scale}"
    sizes = [Scale(rows=rows, upserts=3, upsert_rows=COMMIT_ROWS, buckets=8) for rows in SIZES[asked.scale]]
    paths = {s.rows: made(root / f"rows-{s.rows}", partial(_make, scale=s)) for s in sizes}
    print(machine() | {name: version(name) for name in ("pyspark", "pyarrow")})
    if not asked.no_hudi:
        with Referee.start() as referee:
            for rows, path in paths.items():
                ask = partial(_by_hudi, referee, path, _before_last(path))
                _show(f"Hudi: changes of the last commit, {rows:,} rows", ask, times, kind="jvm")
    spark = lb.session(
        "data source",
        master="local[2]",
        config={"spark.sql.shuffle.partitions": "8", "spark.sql.ansi.enabled": "false"},
    )
    for rows, path in paths.items():
        _changes(spark, path, rows, times)
    for path in (
        made(root / "table-1", lambda p: _make(p, scale)),
        made(root / "compacted", lambda p: _compacted(p, scale)),
    ):
        _aggregates(spark, path, times)
    spark.stop()


def _make(path: Path, scale: Scale) -> None:
    load = workload(scale)
    t = lb.Table.create(path, load.bulk.schema, record_keys="id", ordering_fields="ts", buckets=scale.buckets)
    t.bulk_insert(load.bulk)
    for rows in load.upserts:
        t.upsert(rows)


def _compacted(path: Path, scale: Scale) -> None:
    _make(path, scale)
    lb.Table.open(path).compact()


def _by_hudi(referee: Referee, path: Path, after: str) -> int:
    options = {"hoodie.datasource.read.begin.instanttime": after}
    return len(referee.ask("read", path=str(path), mode="incremental", options=options)["rows"])


def _changes(spark: SparkSession, path: Path, rows: int, times: int) -> None:
    after = _before_last(path)
    options = {"hoodie.datasource.query.type": "incremental", "hoodie.datasource.read.begin.instanttime": after}
    title = f"changes of the last commit, {rows:,} rows"
    t = lb.Table.open(path)
    _show(f"in process: {title}", lambda: t.changes(after).to_arrow().num_rows, times, kind="driver")
    _show(
        f"in process, upserts: {title}", lambda: t.changes(after, kinds=False).to_arrow().num_rows, times, kind="driver"
    )
    _show(
        f"in process, images: {title}", lambda: t.changes(after, images=True).to_arrow().num_rows, times, kind="driver"
    )
    _show(f"to_spark(): {title}", lambda: _drained(t.changes(after).to_spark(spark)), times)
    _show(f"to_spark(), upserts: {title}", lambda: _drained(t.changes(after, kinds=False).to_spark(spark)), times)
    _show(
        f"format: {title}", lambda: _drained(spark.read.format("lakebraid").options(**options).load(str(path))), times
    )


def _aggregates(spark: SparkSession, path: Path, times: int) -> None:
    t = lb.Table.open(path)
    columns = t.to_spark(AGGREGATE, spark=spark).schema
    _show(f"{path.name}: to_spark, aggregate", lambda: _sum(t.to_spark(AGGREGATE, spark=spark)), times)
    read = spark.read.format("lakebraid").schema(columns)
    _show(f"{path.name}: format with a schema, aggregate", lambda: _sum(read.load(str(path))), times)
    _show(
        f"{path.name}: format, all columns, aggregate",
        lambda: _sum(spark.read.format("lakebraid").load(str(path))),
        times,
    )


def _before_last(path: Path) -> str:
    before = [entry for entry in lb.Table.open(path).timeline() if entry.operation == "UPSERT"][-2]
    assert before.completion_time is not None
    return before.completion_time


def _sum(frame: DataFrame) -> int:
    rows = (
        frame.groupBy("c_cat")
        .agg(F.count("*").alias("n"), F.sum("c_long"), F.avg("c_double"), F.max("c_int"))
        .collect()
    )
    return sum(row["n"] for row in rows)


def _drained(frame: DataFrame) -> int:
    rows: pa.Table = frame.toArrow()
    return int(rows.num_rows)


def _show(title: str, run: Callable[[], Any], times: int, kind: str | None = None) -> None:
    used: list[float] = []
    found: set[Any] = set()
    for _ in range(times):
        with Meter() as meter:
            found.add(run())
        used.append(meter.cpu if kind is None else meter.parts.get(kind, 0.0))
    counted = used[WARM_UP:]
    print(
        f"{title:<70} {min(counted):6.2f} least {statistics.median(counted):6.2f} median   {sorted(found)} rows",
        flush=True,
    )


if __name__ == "__main__":
    main()
