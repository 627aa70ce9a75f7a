# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lakebraid.spark.start import daemon

pytestmark = pytest.mark.unit


class Replaced(Exception):
    """Instead of the end of this process."""


@pytest.fixture
def installed(tmp_path: Path) -> tuple[str, list[str]]:
    """A Spark that was installed by pip, and the path that it gives to Python."""
    home = tmp_path / "site-packages" / "pyspark"
    for package in (home, tmp_path / "site-packages" / "py4j"):
        package.mkdir(parents=True)
        (package / "__init__.py").touch()
    archives = [
        home / "python" / "lib" / "pyspark.zip",
        home / "python" / "lib" / "py4j-src.zip",
        home / "jars" / "core.jar",
    ]
    return str(home), [str(tmp_path), *map(str, archives), str(tmp_path / "site-packages")]


def test_workers_take_pyspark_from_its_folder_and_not_from_the_zip_file(installed: tuple[str, list[str]]) -> None:
    home, path = installed
    assert daemon.without_archives(path, home) == [path[0], path[-1]]


@pytest.mark.parametrize("missing", ["pyspark", "py4j"])
def test_the_zip_files_stay_on_the_path_where_nothing_else_has_what_is_in_them(
    installed: tuple[str, list[str]], missing: str
) -> None:
    home, path = installed
    Path(path[-1], missing, "__init__.py").unlink()
    Path(path[-1], missing).rename(Path(path[-1], "elsewhere"))
    assert daemon.without_archives(path, home) == path


def test_another_pyspark_does_not_replace_the_one_that_spark_brought(installed: tuple[str, list[str]]) -> None:
    home, path = installed
    other = Path(path[0], "pyspark")
    other.mkdir()
    (other / "__init__.py").touch()
    assert daemon.without_archives(path, home) == path
    assert daemon.without_archives(path, None) == path


def test_a_second_thread_before_the_fork_leads_back_to_the_daemon_of_pyspark(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[list[str]] = []

    def execv(_: str, arguments: list[str]) -> None:
        begun.append(arguments)
        raise Replaced

    monkeypatch.setattr(sys, "argv", ["daemon.py", "pyspark.worker"])
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(daemon, "import_ahead", lambda: None)
    monkeypatch.setattr(daemon, "threads", lambda: 2)
    monkeypatch.setattr(os, "execv", execv)
    with pytest.raises(Replaced):
        daemon.main()
    assert begun == [[sys.executable, "-m", "pyspark.daemon", "pyspark.worker"]]


AHEAD = """
import os, sys
os.environ["OMP_NUM_THREADS"] = "1"  # as Spark does
from lakebraid.spark.start import daemon
assert not {"pyspark", "pyarrow"} & set(sys.modules)
daemon.import_ahead()
print(daemon.threads(), daemon.ARROW_ALLOCATOR in os.environ, sorted({*daemon.MODULES} - {*sys.modules}),
      sorted({"datafusion", "pandas"} & {*sys.modules}))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing is imported ahead")
def test_what_is_imported_before_the_fork_starts_no_thread_and_neither_pandas_nor_datafusion() -> None:
    # datafusion cannot be used after a fork if it was imported before: Avro blocks would be read slowly for ever.
    done = subprocess.run([sys.executable, "-c", AHEAD], capture_output=True, text=True, check=True)
    assert done.stdout.split(maxsplit=2) == ["1", "False", "[] []\n"]
