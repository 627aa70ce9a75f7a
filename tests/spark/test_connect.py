# SPDX-License-Identifier: Apache-2.0
"""Over Spark Connect there is no JVM to ask and no SparkContext to set; everything works all the same."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkImportError

from lakebraid.errors import EnvironmentProblem
from lakebraid.spark.start import session as session_module
from lakebraid.spark.start.java import JavaHome
from lakebraid.spark.start.session import session
from lakebraid.spark.start.workers import told_if_not_installed
from tests.spark import connect_driver
from tests.spark.test_clusters import SHORT_LIVED

pytestmark = pytest.mark.spark


@pytest.mark.slow
def test_all_ways_of_reading_and_writing_work_over_spark_connect(tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    script.write_bytes(Path(connect_driver.__file__).read_bytes())
    unset = ("SPARK_", "PYSPARK_", "PYTHONPATH")
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path / "tables")],
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if not name.startswith(unset)} | SHORT_LIVED,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-5000:]
    assert json.loads(done.stdout.splitlines()[-1]) == {
        "session": "pyspark.sql.connect.session",
        "bulk_insert": 100,
        "upsert": 30,
        "read": [90, 91],
        "compact": [120],
        "view": [119],
        "format": 1,
        "copy on write": 50,
    }


def test_missing_packages_of_spark_connect_are_told_with_the_command_that_installs_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def build(_: Any) -> Any:
        raise PySparkImportError("no grpc")

    monkeypatch.setattr(session_module, "active_session", lambda: None)
    monkeypatch.setattr(session_module, "find_java", lambda _: JavaHome(Path("/opt/java"), 21, "PATH"))
    monkeypatch.setattr(session_module, "_build", build)
    monkeypatch.setenv("JAVA_HOME", "/before")
    monkeypatch.setenv("PYSPARK_PYTHON", "/before")
    with pytest.raises(EnvironmentProblem, match=r"pip install 'pyspark\[connect\]'"):
        session(config={"spark.remote": "local[2]"})
    assert (os.environ["JAVA_HOME"], os.environ["PYSPARK_PYTHON"]) == ("/opt/java", sys.executable)


def test_workers_without_lakebraid_are_told_in_a_sentence() -> None:
    long = "Traceback (most recent call last):\n…\nModuleNotFoundError: No module named 'lakebraid'\n SQLSTATE: 38000"
    with (
        pytest.raises(EnvironmentProblem, match=r"Python without lakebraid.*set PYSPARK_PYTHON"),
        told_if_not_installed(),
    ):
        raise RuntimeError(long)
    with pytest.raises(RuntimeError, match="disk"), told_if_not_installed():
        raise RuntimeError("disk full")
