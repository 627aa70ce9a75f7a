# SPDX-License-Identifier: Apache-2.0
"""A Spark 3.5 with Apache Hudi and three processes of ours write the same keys of one table at the same time.

Hudi works as it does by default, cleaning and archiving after its commits, but for one thing: it compacts when told to, not
after each commit. Where another one is at a plan, Hudi fails the whole job over it, though its rows are committed.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import lakebraid as lb
from tests.interop.referee import HudiRefused, Referee
from tests.interop.shared_table import SharedTable
from tests.interop.soak_writer import WRITERS, batches
from tests.kit.reference import hudi_rows, our_rows

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(1800)]

ROOT = Path(__file__).parent.parent.parent
HUDIS = WRITERS - 1
HUDI_COMMITS = 12
COMPACTS_EVERY = 4


def test_rows_of_hudi_and_of_three_processes_of_ours_are_neither_lost_nor_wrong_nor_doubled(
    referee: Referee, tmp_path: Path
) -> None:
    shared = SharedTable.create(referee, tmp_path / "table")
    logs = [tmp_path / f"{number}.log" for number in range(WRITERS)]
    stop = tmp_path / "stop"
    processes = [start(shared.path, number, logs[number], stop) for number in range(HUDIS)]
    try:
        write_with_hudi(shared, logs)
    finally:
        stop.touch()
        ended = [process.communicate()[1] for process in processes]
    assert [process.returncode for process in processes] == [0] * HUDIS, ended
    commits = [json.loads(line) for log in logs for line in log.read_text().splitlines()]
    assert len(commits) >= 200
    check_end(shared, [row for commit in commits for row in commit])


def start(path: Path, number: int, log: Path, stop: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.interop.soak_writer", str(path), str(number), str(log), str(stop)]
    log.touch()
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True)


def write_with_hudi(shared: SharedTable, logs: list[Path]) -> None:
    """Hudi's commits, its compactions, and between them a look at what readers see meanwhile."""
    with logs[HUDIS].open("w") as log:
        upserts = (batch for batch in batches(HUDIS) if batch[0]["name"] is not None)
        for turn, batch in zip(range(HUDI_COMMITS), upserts, strict=False):
            shared.hudi_writes(batch, hoodie__compact__inline="false")
            log.write(json.dumps(batch) + "\n")
            log.flush()
            if turn % COMPACTS_EVERY == COMPACTS_EVERY - 1:
                with a_living_compactor_is_respected():
                    shared.call(
                        "run_compaction",
                        "op => 'scheduleAndExecute'",
                        "options => 'hoodie.compact.inline.max.delta.commits=1'",
                    )
            check_meanwhile(shared.table, logs)


@contextlib.contextmanager
def a_living_compactor_is_respected() -> Iterator[None]:
    """Hudi says no if an executor of ours is at the plan, or was faster; the table must be right all the same."""
    try:
        yield
    except HudiRefused as refused:
        print("Hudi gave way:", str(refused)[:300])


def check_meanwhile(table: lb.Table, logs: list[Path]) -> None:
    """What was acknowledged before the look is seen, or something newer; nothing is made up or seen twice."""
    before = newest([row for log in logs for line in whole_lines(log) for row in json.loads(line)])
    seen = table.to_arrow().to_pylist()
    assert not [key for key, times in Counter(row["id"] for row in seen).items() if times > 1]
    assert not [row for row in seen if not row["name"].endswith(f":{row['ts']}")]
    now = {row["id"]: row["ts"] for row in seen}
    alive = {key: row for key, row in before.items() if key < 1000}
    assert not [row for key, row in alive.items() if now.get(key, -1) < row["ts"]]


def check_end(shared: SharedTable, rows: list[dict[str, Any]]) -> None:
    expected = sorted(row["name"] for row in newest(rows).values() if row["name"] is not None)
    ours = our_rows(shared.table.to_arrow(meta_columns=True))
    assert sorted(str(dict(row)["name"]) for row in ours) == expected
    assert hudi_rows(shared.referee.ask("read", path=str(shared.path))["rows"]) == ours
    shared.table.compact()
    assert our_rows(shared.table.to_arrow(meta_columns=True)) == ours


def newest(rows: list[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    """The model: of each key the row with the greatest ordering value."""
    return {row["id"]: row for row in sorted(rows, key=lambda row: row["ts"])}


def whole_lines(log: Path) -> list[str]:
    return [line for line in log.read_text().splitlines(keepends=True) if line.endswith("\n")]
