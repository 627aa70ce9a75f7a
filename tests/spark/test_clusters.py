# SPDX-License-Identifier: Apache-2.0
"""Driver and executors are processes that share a disk, an installed lakebraid, and nothing else."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pyspark
import pytest

from lakebraid.spark.start.java import find_java
from tests.kit.waiting import until
from tests.spark import cluster_driver

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SPARK = Path(pyspark.__file__).parent
SHORT_LIVED = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
"""A Java that ends soon does not live to see its best compiler pay."""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a driver of a cluster of two executors says of all its jobs."""
    folder = tmp_path_factory.mktemp("cluster")
    return run_driver(folder, environment(folder), "local-cluster[2,1,1024]")


def environment(folder: Path) -> dict[str, str]:
    """The environment of a Spark of its own below the folder."""
    for each in ("home", "tables", "driver"):
        (folder / each).mkdir()
    for part in SPARK.iterdir():
        (folder / "home" / part.name).symlink_to(part)  # executors work below SPARK_HOME, which is not theirs to fill
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    environ.pop("PYTHONPATH", None)
    environ |= {"SPARK_HOME": str(folder / "home"), "JAVA_HOME": str(find_java().home), "PYTHONDONTWRITEBYTECODE": "1"}
    return environ | SHORT_LIVED


def run_driver(folder: Path, environ: dict[str, str], master: str, *steps: str) -> dict[str, Any]:
    script = folder / "driver" / "job.py"
    script.write_bytes(Path(cluster_driver.__file__).read_bytes())
    done = subprocess.run(
        [sys.executable, str(script), str(folder / "tables"), master, *steps],
        cwd=script.parent,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-5000:]
    return dict(json.loads(done.stdout.splitlines()[-1]))


@contextmanager
def standalone(folder: Path, environ: dict[str, str]) -> Iterator[str]:
    """A master and two workers of Spark's own, processes on loopback; gives the master's address."""
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
    address = f"spark://127.0.0.1:{port}"
    here = ["--host", "127.0.0.1", "--webui-port", "0"]
    worker = ["worker.Worker", *here, "--cores", "1", "--memory", "600m"]
    with ExitStack() as running:
        start(folder, environ, running, ["master.Master", *here, "--port", str(port)])
        wait_for(port)
        for number in range(2):
            start(folder, environ, running, [*worker, "--work-dir", str(folder / f"work-{number}"), address])
        yield address


def start(folder: Path, environ: dict[str, str], running: ExitStack, arguments: list[str]) -> None:
    """Starts one of Spark's daemons, and has it ended with the others."""
    log = running.enter_context((folder / "daemons.log").open("a"))
    command = [f"{environ['SPARK_HOME']}/bin/spark-class", f"org.apache.spark.deploy.{arguments[0]}", *arguments[1:]]
    small = {"SPARK_DAEMON_MEMORY": "256m", "SPARK_NO_DAEMONIZE": "1"}
    process = subprocess.Popen(command, cwd=folder, env=environ | small, stdout=log, stderr=log)
    running.callback(end, process)


def end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def wait_for(port: int) -> None:
    def listens() -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return True
        return False

    until(listens, "a master that listens")


def test_a_standalone_master_with_two_workers_writes_reads_and_streams(tmp_path: Path) -> None:
    environ = environment(tmp_path) | {"PYSPARK_PYTHON": sys.executable}  # as the cluster's administrator sets it
    with standalone(tmp_path, environ) as master:
        report = run_driver(tmp_path, environ, master, "upsert", "read_through_tasks", "stream")
    assert report["master"] == master and report["upsert"] == 200
    rows, times, workers = report["read_through_tasks"]
    assert (rows, times, workers) == (200, 2 * 200, ["0", "1"])
    assert report["stream"] == [600, 601, 602]


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
