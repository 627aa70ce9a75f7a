# SPDX-License-Identifier: Apache-2.0
"""Reading, beside the floors: `uv run python -m benchmarks.read [--tables hudi,plain] [--reps 5] [--scale mid|smoke]`.

A process keeps the log blocks that it decoded last (`lakebraid.tasks.reading.cache`), which helps whoever asks twice. So every
un-compacted table is read in two ways: as users read it, and, as `… anew`, with every block decoded again.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

import lakebraid as lb
from benchmarks import floors
from benchmarks.data import SCALES, Scale, Workload, workload
from benchmarks.meter import Meter, machine
from benchmarks.tables import KINDS, OUT, base_files, made, make_tables
from lakebraid import limits
from lakebraid.spark import read as spark_read
from lakebraid.storage.protocol import Storage
from lakebraid.tasks.reading.read import read_slice
from lakebraid.tasks.slice_task import ReadPlan, SliceTask

WARM_UP = 2
"""Repetitions that do not count: the JVM compiles, the Python workers start, the files come into memory."""

SPARK = {
    "spark.driver.memory": "4g",
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.ansi.enabled": "false",  # the sum of the aggregate wraps around
}
FLOOR = "floor"
KEPT = limits.KEPT_BLOCK_BYTES_MAX


@dataclass(frozen=True, slots=True)
class Sample:
    """One run of one query. `parts` is the CPU by kind of process."""

    where: str
    system: str
    query: str
    repetition: int
    cpu: float
    wall: float
    parts: dict[str, float]


def main() -> None:
    asked = _arguments()
    scale = SCALES[asked.scale]
    root = OUT / asked.scale
    tables = [name for kind in asked.tables.split(",") for name in KINDS[kind]]
    load = workload(scale)
    make_tables(root, tables, scale, load)
    samples = _in_process(root, tables, scale, load, asked.reps + WARM_UP)
    samples += _on_spark(root, tables, scale, load, asked.reps + WARM_UP)
    facts = machine() | {name: version(name) for name in ("lakebraid", "pyspark", "pyarrow")} | {"scale": asked.scale}
    result = OUT / f"read-{asked.scale}.json"
    result.write_text(json.dumps({"machine": facts, "samples": [asdict(s) for s in samples]}, indent=1))
    print(report([s for s in samples if s.repetition >= WARM_UP], facts))
    print(f"\nAll samples: {result.relative_to(Path.cwd()) if result.is_relative_to(Path.cwd()) else result}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", default="hudi,plain", help="kinds, with commas: hudi, plain")
    parser.add_argument("--reps", type=int, default=5, help=f"repetitions that count, after {WARM_UP} that do not")
    parser.add_argument("--scale", choices=SCALES, default="mid")
    return parser.parse_args()


# In process -----------------------------------------------------------------------------------------------------------


def _in_process(root: Path, tables: list[str], scale: Scale, load: Workload, times: int) -> list[Sample]:
    """Each table against the Arrow floor in the same state, in CPU seconds of this process."""
    batches = [load.bulk, *load.upserts]
    logs = made(root / "floor-arrow", lambda folder: floors.make_arrow_floor(folder, batches, scale.buckets))
    compacted = made(
        root / "floor-arrow-compacted", lambda folder: floors.make_arrow_floor(folder, [load.merged], scale.buckets)
    )
    systems = {
        FLOOR: floors.arrow_queries(logs, load.point_key),
        f"{FLOOR} compacted": floors.arrow_queries(compacted, load.point_key),
    }
    for name in tables:
        for state in ("", "-compacted"):
            _check_rows(lb.Table.open(root / f"{name}{state}").to_arrow(), load.merged, f"{name}{state}")
            systems[f"{name}{state.replace('-', ' ')}"] = _local_queries(root / f"{name}{state}", load.point_key, KEPT)
        systems[f"{name} anew"] = _local_queries(root / name, load.point_key, 0)
    return _measured("process", systems, {}, load, times)


def _local_queries(path: Path, key: str, kept: int) -> floors.Queries:
    def table() -> lb.Table:
        limits.KEPT_BLOCK_BYTES_MAX = kept  # type: ignore[misc]  # final but for this comparison
        return lb.Table.open(path)

    return {
        "agg": lambda: floors.arrow_aggregate(table().to_arrow(floors.AGG_COLUMNS)),
        "count": lambda: table().count(),
        "point": lambda: table().to_arrow(where=f"id = '{key}'").to_pylist(),
        "scan": lambda: table().to_arrow().num_rows,
    }


# On Spark -------------------------------------------------------------------------------------------------------------


def _on_spark(root: Path, tables: list[str], scale: Scale, load: Workload, times: int) -> list[Sample]:
    """Each table, and Spark's own scan of its base files, against plain Parquet files: all in one session."""
    spark = lb.session("benchmark", "local[2]", SPARK)
    source = root / "input" / "merged.parquet"
    floor = made(root / "floor-spark", lambda folder: floors.make_parquet_floor(spark, source, folder, scale.buckets))
    columns = load.merged.column_names
    systems = {FLOOR: floors.parquet_queries(spark, [str(floor)], columns, load.point_key)}
    old_rows: dict[str, pa.Table] = {}
    for name in tables:
        for state in ("", "-compacted"):
            path, title = root / f"{name}{state}", f"{name}{state.replace('-', ' ')}"
            _check_rows(lb.Table.open(path).to_spark(spark=spark).toArrow(), load.merged, path.name)
            scan = f"{title}: base files"
            systems[scan] = floors.parquet_queries(spark, base_files(path), columns, load.point_key)
            systems[title] = _spark_queries(path, load.point_key, spark, KEPT)
            systems |= {} if state else {f"{title} anew": _spark_queries(path, load.point_key, spark, 0)}
            old_rows |= {} if state else {scan: load.bulk}
    samples = _measured("spark", systems, old_rows, load, times)
    spark.stop()
    return samples


def _spark_queries(path: Path, key: str, spark: SparkSession, kept: int) -> floors.Queries:
    def frame(**wanted: Any) -> DataFrame:
        limits.KEPT_BLOCK_BYTES_MAX = kept  # type: ignore[misc]  # final but for this comparison
        spark_read._slice_reader = lambda plan: _reader(plan, kept)
        return lb.Table.open(path).to_spark(spark=spark, **wanted)

    return {
        "agg": lambda: floors.aggregate(frame(columns=floors.AGG_COLUMNS)),
        "count": lambda: frame(columns=[]).count(),
        "point": lambda: frame(where=f"id = '{key}'").collect(),
        "scan": lambda: floors.drain(frame()),
    }


def _reader(plan: ReadPlan, kept: int) -> Callable[[Storage, SliceTask], Iterator[pa.Table]]:
    """As Spark's tasks read, in a worker that keeps log blocks of up to so many bytes."""

    def read(storage: Storage, task: SliceTask) -> Iterator[pa.Table]:
        limits.KEPT_BLOCK_BYTES_MAX = kept  # type: ignore[misc]  # final but for this comparison
        return read_slice(storage, plan, task)

    return read


# Measuring ------------------------------------------------------------------------------------------------------------


def _measured(
    where: str, systems: Mapping[str, floors.Queries], rows_of: Mapping[str, pa.Table], load: Workload, times: int
) -> list[Sample]:
    """All queries of all systems, one after the other, so that a busy minute of the machine meets all of them."""
    expected = {name: _answers(rows_of.get(name, load.merged), load.point_key) for name in systems}
    samples = []
    for repetition in range(times):
        for query in floors.QUERIES:
            for system, queries in systems.items():
                began, used = time.process_time(), Meter()
                with used:
                    answer = queries[query]()
                cpu = time.process_time() - began if where == "process" else used.cpu
                _check_answer(query, answer, expected[system], f"{query} on {system}, {where}")
                samples.append(Sample(where, system, query, repetition, round(cpu, 4), round(used.wall, 4), used.parts))
    return samples


def _answers(rows: pa.Table, key: str) -> dict[str, Any]:
    point = rows.filter(pc.equal(rows["id"], key)).to_pylist()
    return {"agg": floors.arrow_aggregate(rows), "count": len(rows), "point": point, "scan": len(rows)}


def _check_answer(query: str, answer: Any, expected: dict[str, Any], what: str) -> None:
    wanted = expected[query]
    if query == "point":
        answer = [row if isinstance(row, dict) else row.asDict() for row in answer]
        same = [_point(row) for row in answer] == [_point(row) for row in wanted]
    elif query == "agg":
        pairs = zip(sorted(answer), sorted(wanted), strict=True)
        same = all(a[:2] == b[:2] and a[4] == b[4] for a, b in pairs)
        pairs = zip(sorted(answer), sorted(wanted), strict=True)
        same = same and all(a[2] == b[2] and math.isclose(a[3], b[3], rel_tol=1e-6) for a, b in pairs)
    else:
        same = answer == wanted
    if not same:
        raise SystemExit(f"Wrong answer: {what} gave {answer!s:.300}, not {wanted!s:.300}")


def _point(row: dict[str, Any]) -> tuple[Any, ...]:
    # Spark gives times without a zone.
    return tuple(value for name, value in sorted(row.items()) if name != "event_time")


def _check_rows(found: pa.Table, wanted: pa.Table, what: str) -> None:
    if not found.select(wanted.column_names).cast(wanted.schema).sort_by("id").equals(wanted):
        raise SystemExit(f"Wrong rows: {what} does not hold what was written.")


# Telling --------------------------------------------------------------------------------------------------------------


def report(samples: list[Sample], facts: Mapping[str, str]) -> str:
    """A Markdown table for each place: least and middle CPU seconds, and the least as a multiple of the floor's least."""
    lines = [", ".join(f"{name} {value}" for name, value in facts.items())]
    for where in ("spark", "process"):
        lines += [
            "",
            *_grid([s for s in samples if s.where == where], "On Spark" if where == "spark" else "In process"),
        ]
    return "\n".join(lines)


def _grid(samples: list[Sample], title: str) -> list[str]:
    cpu: dict[tuple[str, str], list[float]] = {}
    for sample in samples:
        cpu.setdefault((sample.system, sample.query), []).append(sample.cpu)
    systems = list(dict.fromkeys(s.system for s in samples))
    lines = [f"| {title} | {' | '.join(floors.QUERIES)} |", "|---|" + "---|" * len(floors.QUERIES)]
    for system in systems:
        # In process the floor, too, is there before and after its files were put together.
        other = f"{FLOOR} compacted"
        floor = other if system.endswith("compacted") and other in systems else FLOOR
        cells = []
        for query in floors.QUERIES:
            used = cpu[system, query]
            ratio = min(used) / max(min(cpu[floor, query]), 1e-9)
            cells.append(f"{min(used):.3f} · {statistics.median(used):.3f} · **{ratio:.2f}**")
        lines.append(f"| {system} | {' | '.join(cells)} |")
    return lines


if __name__ == "__main__":
    main()
