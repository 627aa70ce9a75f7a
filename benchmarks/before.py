# SPDX-License-Identifier: Apache-2.0
"""Two states of the code beside each other: commits, upserts from Spark, merge reads and compactions, in turn.

`uv run python -m benchmarks.before OTHER [--rounds 5] [--only commit]`, where OTHER is the folder `src` of another checkout (`git worktree add`).
Each work is done by a process of its own for each state, and the states take turns, so that what else the machine does
meets both. Only what is public in both is called. CPU is of the whole process tree.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.meter import Meter, machine

ROOT: Final = Path(__file__).parents[1]
COLUMNS: Final = "id bigint, city string, price double, ts bigint"
BASE_ROWS: Final = 200_000


def some_rows(first: int, count: int, ts: int) -> pa.Table:
    """Rows with keys from `first` on, all of one ordering value."""
    ids = pa.array(range(first, first + count), pa.int64())
    city = pa.array([f"city {n % 97}" for n in range(count)])
    return pa.table(
        {"id": ids, "city": city, "price": pc.cast(ids, pa.float64()), "ts": pa.array([ts] * count, pa.int64())}
    )


def made(folder: str, name: str, rows: int) -> Any:
    import lakebraid as lb  # noqa: PLC0415  which one it is, the process that was started knows

    table = lb.Table.create(f"{folder}/{name}", COLUMNS, record_keys="id", ordering_fields="ts", buckets=8)
    table.bulk_insert(some_rows(0, rows, 1))
    return table


def commit(folder: str) -> list[Meter]:
    """Commits of 1,000 rows in process, into eight buckets."""
    table = made(folder, "t", 20_000)
    given = [some_rows(n * 100, 1000, n + 2) for n in range(60)]
    return [_metered(lambda rows=rows: table.upsert(rows)) for rows in given][10:]  # type: ignore[misc]


def read(folder: str) -> list[Meter]:
    """Reads of 200,000 rows with five upserts of 5,000 that are not compacted."""
    table = made(folder, "t", BASE_ROWS)
    for n in range(5):
        table.upsert(some_rows(n * 9000, 5000, n + 2))
    return [_metered(table.to_arrow) for _ in range(12)][2:]


def compaction(folder: str) -> list[Meter]:
    """Compactions of 200,000 rows with five upserts of 5,000."""
    found = []
    for at in range(3):
        table = made(folder, f"t{at}", BASE_ROWS)
        for n in range(5):
            table.upsert(some_rows(n * 9000, 5000, n + 2))
        found.append(_metered(table.compact))
    return found


def spark(folder: str) -> list[Meter]:
    """Upserts of 5,000 rows from a data frame with a filter and a computed column."""
    import lakebraid as lb  # noqa: PLC0415  the same

    at_work = lb.session(config={"spark.ui.enabled": "false"})
    table = made(folder, "t", BASE_ROWS)
    frame = at_work.range(0, 10_000, numPartitions=4).where("id % 2 = 0")

    def upsert(n: int) -> None:
        table.upsert(
            frame.selectExpr(
                f"id + {n} * 1000 as id", "concat('city ', id % 97) as city", "id * 1.5D as price", f"{n + 2}L as ts"
            )
        )

    used = [_metered(lambda n=n: upsert(n)) for n in range(25)]  # type: ignore[misc]
    at_work.stop()
    return used[10:]


WORKS: Final[dict[str, Callable[[str], list[Meter]]]] = {
    "commit": commit,
    "spark": spark,
    "read": read,
    "compaction": compaction,
}


def _metered(run: Callable[[], Any]) -> Meter:
    with Meter() as used:
        run()
    return used


def _child(work: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        used = WORKS[work](folder)
    import lakebraid  # noqa: PLC0415  the same

    times = {"cpu": [one.cpu for one in used], "wall": [one.wall for one in used]}
    print(json.dumps({"of": lakebraid.__file__} | times))


def _played(work: str, source: Path) -> dict[str, Any]:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(source), str(ROOT)])}
    command = [sys.executable, "-m", "benchmarks.before", "--child", work]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    if not Path(found["of"]).is_relative_to(source):
        raise SystemExit(f"{found['of']} was measured instead of {source}")
    return found


def _line(work: str, before: list[dict[str, Any]], now: list[dict[str, Any]]) -> str:
    """The mean CPU of an operation (steps of a hundredth say nothing of one), and the median and least wall time."""
    cells = [work]
    for rounds in (before, now):
        cpu = statistics.median(statistics.fmean(one["cpu"]) for one in rounds)
        wall = [seconds for one in rounds for seconds in one["wall"]]
        cells.append(f"{1000 * cpu:.1f} | {1000 * statistics.median(wall):.1f} | {1000 * min(wall):.1f}")
    return f"| {' | '.join(cells)} |"


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("other", type=Path, nargs="?")
    asked.add_argument("--rounds", type=int, default=5)
    asked.add_argument("--only", choices=list(WORKS), action="append")
    asked.add_argument("--child", choices=list(WORKS))
    said = asked.parse_args()
    if said.child:
        _child(said.child)
        return
    states = (said.other.resolve(), ROOT / "src")
    print(machine())
    print("| milliseconds | before: CPU | wall, median | wall, least | now: CPU | wall, median | wall, least |")
    for work in said.only or WORKS:
        found: dict[Path, list[dict[str, Any]]] = {state: [] for state in states}
        for turn in range(said.rounds):
            for state in states if turn % 2 == 0 else states[::-1]:
                found[state].append(_played(work, state))
        print(_line(work, found[states[0]], found[states[1]]), flush=True)
    print(machine()["load"])


if __name__ == "__main__":
    main()
