# SPDX-License-Identifier: Apache-2.0
"""Driver and executors are processes that share a disk, an installed lakebraid, and nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyspark
import pytest

from lakebraid.spark.java import find_java
from tests.spark import cluster_driver

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SPARK = Path(pyspark.__file__).parent
SHORT_LIVED = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
"""A Java that ends soon does not live to see its best compiler pay."""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a driver of a cluster of two executors says of all its jobs."""
    folder = tmp_path_factory.mktemp("cluster")
    for each in ("home", "tables", "driver"):
        (folder / each).mkdir()
    for part in SPARK.iterdir():
        (folder / "home" / part.name).symlink_to(part)  # executors work below SPARK_HOME, which is not theirs to fill
    script = folder / "driver" / "job.py"
    script.write_bytes(Path(cluster_driver.__file__).read_bytes())
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    environ.pop("PYTHONPATH", None)
    environ |= {"SPARK_HOME": str(folder / "home"), "JAVA_HOME": str(find_java().home), "PYTHONDONTWRITEBYTECODE": "1"}
    environ |= SHORT_LIVED
    done = subprocess.run(
        [sys.executable, str(script), str(folder / "tables"), "local-cluster[2,1,1024]"],
        cwd=script.parent,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr[-5000:]
    return dict(json.loads(done.stdout.splitlines()[-1]))


def test_rows_are_computed_by_both_executors_and_not_by_the_driver(report: dict[str, Any]) -> None:
    assert report["master"] == "local-cluster[2,1,1024]"
    *_, workers = report["read_through_tasks"]
    assert workers == ["0", "1"], "the folders of the two executors"
    assert Path(report["driver"]).name == "driver"


def test_executors_write_log_files_and_base_files_after_a_shuffle(report: dict[str, Any]) -> None:
    assert report["bulk_insert"] == [400, 2]
    assert report["upsert"] == 200


def test_executors_merge_slices_with_logs(report: dict[str, Any]) -> None:
    rows, times, _ = report["read_through_tasks"]
    assert (rows, times) == (500, 300 + 2 * 200)


def test_executors_compact_and_read_what_they_compacted(report: dict[str, Any]) -> None:
    assert report["compact"] == [500, 2]
    assert report["read_base_files"] == 500


def test_the_format_reads_and_writes_on_executors(report: dict[str, Any]) -> None:
    assert report["write_by_the_format"] == 10
