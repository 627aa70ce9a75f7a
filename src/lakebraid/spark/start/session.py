# SPDX-License-Identifier: Apache-2.0
"""The Spark session to work with: the one there is, else a local one that needs no set-up."""

from __future__ import annotations

import os
import site
import sys
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lakebraid import spark as on_spark
from lakebraid.errors import EnvironmentProblem
from lakebraid.limits import BATCH_ROWS, DRIVER_MEMORY_BYTES_MAX, DRIVER_MEMORY_BYTES_MIN, MIB
from lakebraid.spark.start.java import JavaHome, find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOGGING: Final = Path(__file__).with_name("log4j2.properties")


def session(
    app_name: str = "lakebraid", master: str | None = None, config: Mapping[str, str] | None = None
) -> SparkSession:
    """The active Spark session, else a new one, on this machine unless `master` says otherwise.

    An active session is returned as it is; the arguments are then without effect. In a program started by spark-submit
    or with SPARK_REMOTE set, the new session is the one described there, with `config` on top. Otherwise Java is looked
    up (`lakebraid.spark.start.java`), and `config` wins over the defaults set here. `{"spark.remote": "local"}` gives a Spark
    Connect session with a server on this machine.

    Starting a local session sets JAVA_HOME and PYSPARK_PYTHON of this process and leaves them set, so that a session
    that plain pyspark creates later, here or in a child process, runs on the same Java and Python. Nothing else in
    lakebraid changes the environment. Raises EnvironmentProblem if Java or pyspark is missing or does not fit.
    """
    existing = active_session()
    if existing is not None:
        return existing
    on_spark.versions.check_version()
    settings = {"spark.app.name": app_name} | ({} if master is None else {"spark.master": master}) | dict(config or {})
    if _is_local_server(settings):
        return _start_server(settings)
    return _build(settings) if _is_described_elsewhere(settings) else _start(settings)


def active_session() -> SparkSession | None:
    """The session of this thread or, failing that, of this process, if it is alive; classic or Spark Connect."""
    if "pyspark.sql" not in sys.modules:
        return None  # There can be none; importing pyspark to find out would take a second.
    from pyspark.errors import PySparkRuntimeError  # noqa: PLC0415 - pyspark may be missing
    from pyspark.sql import SparkSession  # noqa: PLC0415 - see above

    try:
        found = SparkSession.active()
    except PySparkRuntimeError:
        return None
    return found if _is_alive(found) else None


def _is_alive(found: SparkSession) -> bool:
    if hasattr(found, "is_stopped"):  # Spark Connect, which has no SparkContext to ask.
        return not found.is_stopped
    return found.sparkContext._jsc is not None  # noqa: SLF001 - stopping the context leaves no other trace


def _is_described_elsewhere(settings: Mapping[str, str]) -> bool:
    """Whether a Java process or a server is there already, or will be reached by an address."""
    variables = ("PYSPARK_GATEWAY_PORT", "SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED")
    return "spark.remote" in settings or any(name in os.environ for name in variables)


def _is_local_server(settings: Mapping[str, str]) -> bool:
    """Whether pyspark will start a Spark Connect server in a process of its own, here."""
    return settings.get("spark.remote", os.environ.get("SPARK_REMOTE", "")).startswith("local")


def _start_server(settings: Mapping[str, str]) -> SparkSession:
    """The server inherits the environment, and runs our functions with this Python, which has lakebraid."""
    java = find_java(on_spark.versions.javas())
    os.environ["JAVA_HOME"] = str(java.home)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    try:
        return _build(settings)
    except ImportError as error:
        raise EnvironmentProblem(
            f"Spark Connect needs packages that are not installed ({error}). Nothing was started. Run "
            "`pip install 'pyspark[connect]'`, or leave `spark.remote` out.",
            package="pyspark[connect]",
        ) from error


def _start(settings: Mapping[str, str]) -> SparkSession:
    from pyspark.errors import PySparkRuntimeError  # noqa: PLC0415 - pyspark may be missing

    java = find_java(on_spark.versions.javas())
    os.environ["JAVA_HOME"] = str(java.home)
    chosen = DEFAULTS | dict(settings) | _quiet_logging(settings)
    if chosen["spark.master"].startswith("local"):
        os.environ["PYSPARK_PYTHON"] = sys.executable
        chosen = LOCAL | _own_daemon() | {"spark.driver.memory": f"{driver_memory_bytes() // MIB}m"} | chosen
    try:
        return _build(chosen)
    except PySparkRuntimeError as error:
        raise _not_started(java, error) from error


DEFAULTS: Final = {
    "spark.master": "local[*]",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(BATCH_ROWS),
    "spark.python.worker.reuse": "true",
    "spark.ui.showConsoleProgress": "false",
}

LOCAL: Final = {
    # No other machine has to reach this driver, and none should.
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
}


def _own_daemon() -> dict[str, str]:
    """Workers come out of a process that has imported what our tasks need, unless the user has another one.

    Spark could run no Python function at all if that process did not find lakebraid: it must be where a new Python looks.
    """
    option = "spark.python.daemon.module"
    defaults = [folder / "spark-defaults.conf" for folder in _spark_conf_folders()]
    if any(option in file.read_text("utf-8", "replace") for file in defaults if file.is_file()):
        return {}
    return {option: DAEMON} if _is_installed() else {}


def _is_installed() -> bool:
    """Whether lakebraid is installed with this Python, or named by PYTHONPATH, and not merely on this process's path."""
    folders = {*site.getsitepackages(), site.getusersitepackages(), *os.environ.get("PYTHONPATH", "").split(os.pathsep)}
    try:
        home = metadata.distribution("lakebraid").locate_file("")
    except metadata.PackageNotFoundError:
        return False
    return str(home) in folders


DAEMON: Final = "lakebraid.spark.start.daemon"


def _quiet_logging(settings: Mapping[str, str]) -> dict[str, str]:
    """Errors only, unless the user configured Spark's logging; other Java options are kept."""
    option = "spark.driver.extraJavaOptions"
    given = settings.get(option, "")
    if "log4j" in given or any((folder / "log4j2.properties").is_file() for folder in _spark_conf_folders()):
        return {}
    return {option: f"-Dlog4j2.configurationFile={LOGGING.as_uri()} {given}".strip()}


def _spark_conf_folders() -> list[Path]:
    given, home = os.environ.get("SPARK_CONF_DIR"), os.environ.get("SPARK_HOME")
    return ([Path(given)] if given else []) + ([Path(home, "conf")] if home else [])


def _build(settings: Mapping[str, str]) -> SparkSession:
    from pyspark.sql import SparkSession  # noqa: PLC0415 - pyspark may be missing

    return SparkSession.builder.config(map=dict(settings)).getOrCreate()


def _not_started(java: JavaHome, error: Exception) -> EnvironmentProblem:
    return EnvironmentProblem(
        f"Spark did not start on Java {java.version} in {java.home} (found by {java.source}): {error} "
        "Nothing was run. What Java said stands above this message; `lakebraid doctor --spark` tries it alone.",
        java_home=str(java.home),
        java_version=java.version,
    )


def driver_memory_bytes() -> int:
    """Half of the memory there is, within bounds: the other half is for Python workers."""
    return max(DRIVER_MEMORY_BYTES_MIN, min(DRIVER_MEMORY_BYTES_MAX, memory_bytes() // 2))


def memory_bytes() -> int:
    """Memory this process may use: the machine's, or the container's if that is less. 0 if it cannot be known."""
    try:
        machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return 0
    limits = [
        int(text)
        for file in CONTAINER_LIMITS
        if file.is_file() and (text := file.read_text("ascii", "replace").strip()).isdigit()
    ]
    return min([machine, *limits])


CONTAINER_LIMITS: Final = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
