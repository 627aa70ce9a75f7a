# SPDX-License-Identifier: Apache-2.0
"""Streams whose drivers are killed at random, and what a micro-batch costs.

    uv run python -m benchmarks.streams torture --batches 200 --streams 3 --kills 6
    uv run python -m benchmarks.streams cost --batches 20 --rows 1000

`torture`: the streams write one table, each from a folder of its own, one file in a batch. Their drivers (one process for
all streams, or one for each with --apart) get SIGKILL at random moments and are started again. In the end the table must
hold what the files say, every batch must have been published once, and a stream of its changes must lead to the same rows.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from pyspark.sql import functions as F  # noqa: N812  as everybody calls it

import lakebraid as lb
from benchmarks.meter import Meter, machine
from lakebraid.table.loading import load_commit, load_timeline
from lakebraid.txn.actions.batches import BATCH
from lakebraid.txn.checks.file_groups import WRITER

SCHEMA = "id bigint, ts bigint, writer string"
KEYS = 500
CONFIG = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("torture", "cost", "drive"))
    parser.add_argument("--batches", type=int, default=200)
    parser.add_argument("--streams", type=int, default=3)
    parser.add_argument("--kills", type=int, default=6)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--apart", action="store_true", help="one driver process for each stream")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--names", nargs="*")
    given = parser.parse_args()
    if given.what == "drive":
        return drive(given.folder, given.names)
    folder = Path(tempfile.mkdtemp(prefix="lakebraid-streams-"))
    try:
        return torture(folder, given) if given.what == "torture" else cost(folder, given)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


# --- torture -----------------------------------------------------------------------------------------------------------


def torture(folder: Path, given: argparse.Namespace) -> int:
    rng = random.Random(given.seed)
    new_table(folder)
    names = [f"stream-{n}" for n in range(given.streams)]
    expected = {name: write_files(folder, name, -(-given.batches // given.streams), 20, rng) for name in names}
    began = time.monotonic()
    kills = keep_driving(folder, [[name] for name in names] if given.apart else [names], given.kills, rng)
    table = lb.Table.open(folder / "table")
    found = {row["id"]: (row["ts"], row["writer"]) for row in table.to_arrow().to_pylist()}
    oracle: dict[int, tuple[int, str]] = {}
    for rows in expected.values():
        for row in rows:
            oracle[row["id"]] = max(oracle.get(row["id"], (-1, "")), (row["ts"], row["writer"]))
    told = batches_of(table)
    ends = {
        "the table equals the oracle": found == oracle,
        "every batch was published once": set(told.values()) == {1} and len(told) >= given.batches,
        "its changes lead to the same rows": replayed(folder, table) == oracle,
    }
    print(
        f"{len(told)} batches of {given.streams} streams, {kills} kills, {time.monotonic() - began:.0f} s; seed {given.seed}"
    )
    for what, holds in ends.items():
        print(f"  {'yes' if holds else 'NO '}  {what}")
    return 0 if all(ends.values()) else 1


def keep_driving(folder: Path, drivers: list[list[str]], kills: int, rng: random.Random) -> int:
    """Starts drivers until all streams are at their end, and kills them at random moments; how often that was done."""
    running: dict[int, subprocess.Popen[bytes]] = {}
    done: set[int] = set()
    killed = 0
    while len(done) < len(drivers):
        for n, names in enumerate(drivers):
            if n not in done and n not in running:
                running[n] = start(folder, names)
        table = lb.Table.open(folder / "table")
        time.sleep(0.5 + 2 * rng.random())
        for n, process in list(running.items()):
            code = process.poll()
            if code is not None:
                del running[n]
                if code == 0:
                    done.add(n)
            elif killed < kills and set(drivers[n]) & set(table.writers()) and rng.random() < 0.1:
                process.send_signal(signal.SIGKILL)
                killed += 1
    return killed


def start(folder: Path, names: list[str]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "benchmarks.streams", "drive", "--folder", str(folder), "--names", *names]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def drive(folder: Path, names: list[str]) -> int:
    """One driver: takes what lies in the folders, file by file."""
    spark = lb.session(master="local[2]", config=CONFIG)
    table = lb.Table.open(folder / "table")
    queries = [table.stream(frame_of(spark, folder, name), writer=name, trigger="available now") for name in names]
    for query in queries:
        query.awaitTermination()
    return 0


def batches_of(table: lb.Table) -> Counter[tuple[str, str]]:
    found = (load_commit(table._table, i) for i in writes(table))
    return Counter((c.extra[WRITER], c.extra[BATCH]) for c in found if BATCH in c.extra)


def writes(table: lb.Table) -> Any:
    return load_timeline(table._table).writes


def replayed(folder: Path, table: lb.Table) -> dict[int, tuple[int, str]]:
    """The rows that a stream of changes gives, from the beginning, some commits at a time."""
    rows: dict[int, tuple[int, str]] = {}

    def apply(frame: Any, _: int) -> None:
        for row in frame.collect():
            if row["_change_type"] == "delete":
                del rows[row["id"]]
            else:
                rows[row["id"]] = (row["ts"], row["writer"])

    options = {"hoodie.datasource.query.incremental.format": "changes", "maxCommitsPerTrigger": "40"}
    spark = lb.session(master="local[2]", config=CONFIG)
    stream = spark.readStream.format("lakebraid").options(**options).load(table.path)
    query = stream.writeStream.foreachBatch(apply).option("checkpointLocation", str(folder / "replay"))
    query.trigger(availableNow=True).start().awaitTermination()
    return rows


# --- cost --------------------------------------------------------------------------------------------------------------


def cost(folder: Path, given: argparse.Namespace) -> int:
    """CPU seconds of one batch, after as many that start Python and compile Java; and, as a floor, of the same stream to
    a function that only takes the rows over as Arrow.
    """
    table, rng = new_table(folder), random.Random(given.seed)
    half = given.batches // 2
    spark = lb.session(master="local[2]", config=CONFIG)
    for name in ("warm", "floor", "measured"):
        write_files(folder, name, half, given.rows, rng)
        frame = frame_of(spark, folder, name)
        with Meter() as used:
            if name == "floor":
                place = str(folder / "floor-checkpoint")
                stream = frame.writeStream.foreachBatch(lambda batch, _: batch.toArrow()).trigger(availableNow=True)
                stream.option("checkpointLocation", place).start().awaitTermination()
            else:
                table.stream(frame, writer=name, trigger="available now").awaitTermination()
        parts = ", ".join(f"{kind} {cpu / half:.3f}" for kind, cpu in used.parts.items())
        print(
            f"{name:>8}: {used.cpu / half:.3f} CPU s a batch of {given.rows:,} rows ({parts}), {used.wall / half:.2f} s"
        )
    print(json.dumps(machine()))
    return 0


# --- both --------------------------------------------------------------------------------------------------------------


def new_table(folder: Path) -> lb.Table:
    return lb.Table.create(folder / "table", SCHEMA, record_keys="id", ordering_fields="ts", buckets=2)


def write_files(folder: Path, name: str, files: int, rows: int, rng: random.Random) -> list[dict[str, Any]]:
    """Files for a stream, in the order of their times; ordering values never meet."""
    place, made = folder / name, []
    place.mkdir()
    for n in range(files):
        batch = [
            {"id": rng.randrange(max(KEYS, rows)), "ts": rng.randrange(1 << 40), "writer": name} for _ in range(rows)
        ]
        path = place / f"{n:05}.json"
        path.write_text("\n".join(json.dumps(row) for row in batch))
        os.utime(path, (1_700_000_000 + n, 1_700_000_000 + n))
        made += batch
    return made


def frame_of(spark: Any, folder: Path, name: str) -> Any:
    """The rows of the files with a filter and a computed column: what a job hands over is seldom a bare scan."""
    rows = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(folder / name))
    return rows.where(F.col("id").isNotNull()).withColumn("ts", F.col("ts") + F.lit(0))


if __name__ == "__main__":
    sys.exit(main())
