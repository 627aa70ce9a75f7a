# SPDX-License-Identifier: Apache-2.0
"""The same life of tables on each PySpark from 3.5 on, in environments of their own.

CI takes two of them, one with the oldest packages that pyproject.toml allows. LAKEBRAID_EFFORT=2 takes all, on three Pythons.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

import lakebraid as lb
from tests.kit import effort
from tests.versions.platforms import IN_CI, OTHERS, ROOT, Platform, surroundings

pytestmark = pytest.mark.versions

PLATFORMS = (*IN_CI, *(OTHERS if effort.EFFORT > 1 else ()))
TYPE = (
    "struct<id:bigint,city:string,price:decimal(10,2),at:timestamp,tags:array<string>,counts:map<string,int>,ts:bigint>"
)


@pytest.mark.parametrize("platform", PLATFORMS, ids=str)
def test_a_table_is_written_read_merged_compacted_and_streamed_on_every_pyspark(
    platform: Platform, tmp_path: Path
) -> None:
    home = platform.environment()
    table, inbox = killed_stream(home, tmp_path)

    report = json.loads(done(home, "tests.versions.life", str(tmp_path / "tables"), inbox, table).splitlines()[-1])

    assert report.pop("pyspark").startswith(platform.pyspark)
    told = report.pop("format")
    if platform.pyspark == "3.5":
        assert "has no data sources in Python" in told["refused"] and "lakebraid.write(df, path" in told["refused"]
    else:
        assert told == {"new": 3, "streamed": 10, "as of": 10}
    assert report == {
        "placed": True,
        "small_writes": {
            "read": [[4, "Oslo", "6.00", 4], [5, "Rome", "6.00", 5], [6, "Oslo", "7.00", 6]],
            "schema": TYPE,
            "changes": 19,
        },
        "shuffled_writes": {"cow": 20, "cow simple": 20, "simple": 20},
        "conditions": {"rows": [[1, "ROME"], [2, "Bergen"], [100, None]]},
        "compaction": {"compacted": 19, "same": True},
        "options": {"rows": 2, "sql": 3},
        "stream": {"before": {"orders": 1}, "after": {"orders": 2}, "row": "batch 2"},
    }


def killed_stream(home: Path, folder: Path) -> tuple[str, str]:
    """A table into which a stream was killed, after its second batch was published and before Spark noted that."""
    table = lb.Table.create(folder / "killed", "id string, ts bigint, v string", record_keys="id", buckets=1)
    inbox = folder / "inbox"
    inbox.mkdir()
    for batch in range(3):
        file = inbox / f"{batch}.json"
        file.write_text(json.dumps({"id": "a", "ts": batch, "v": f"batch {batch}"}))
        os.utime(file, (1_700_000_000 + batch,) * 2)  # Spark takes them in the order of their times
    ended = run(home, "tests.spark.stream_driver", table.path, str(inbox), "1")
    assert ended.returncode == -9, ended.stderr[-3000:]
    return table.path, str(inbox)


def done(home: Path, module: str, *arguments: str) -> str:
    ended = run(home, module, *arguments)
    assert ended.returncode == 0, ended.stderr[-5000:]
    return str(ended.stdout)


def run(home: Path, module: str, *arguments: str) -> subprocess.CompletedProcess[Any]:
    command = [str(home / "bin" / "python"), "-m", module, *arguments]
    return subprocess.run(command, cwd=ROOT, env=surroundings(home), capture_output=True, text=True, check=False)
