# SPDX-License-Identifier: Apache-2.0
"""One run in several processes: which tests stay together, how a failure is played again, and what all of it took."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadScopeScheduling

from tests.kit import effort
from tests.kit.tally import TALLY
from tests.objects import versitygw

_FIRST = ("interop", "spark", "versions", "simulator", "objects", "browser", "hostile")
"""Folders whose tests take long, so that the short ones fill up the end."""
_ONE_JVM = {"interop", "spark"}
"""Folders whose tests share a JVM: another one costs half a minute, and is slow until it has warmed up."""

_MILLISECONDS: Counter[str] = Counter()
"""What tests took, by folder."""

# What a property test tries that does not say it itself. How long an example takes is not judged: that is a matter of
# what else the machine does.
settings.register_profile(
    "as always",
    max_examples=effort.times(30),
    derandomize=effort.SEED is None,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("as always")


class _Groups(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """Tests of one file stay in one process, and those that share a JVM."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        folder = _folder(file)
        return folder if folder in _ONE_JVM else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    return _Groups(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    if effort.SEED is not None:  # hypothesis asks for it when it is configured itself
        config.option.hypothesis_seed = str(effort.SEED)


def pytest_report_header() -> list[str]:
    seed = "the same each time" if effort.SEED is None else f"from {effort.SEED} on"
    return [
        f"S3 on loopback: {versitygw.expected()}",
        f"effort: {effort.EFFORT:g} (LAKEBRAID_EFFORT), seeds: {seed} (LAKEBRAID_SEED)",
    ]


def pytest_runtest_setup() -> None:
    effort.forget()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed and (command := effort.again(item.nodeid)):
        report.sections.append(("play it again", command))
    return report


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _MILLISECONDS[_folder(report.nodeid)] += round(report.duration * 1000)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With several processes the longest groups come first."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: {f: at for at, f in enumerate(_FIRST)}.get(_folder(item.nodeid), len(_FIRST)))


def _folder(nodeid: str) -> str:
    """The folder of `tests` that a test lies in, however deep."""
    return nodeid.partition("::")[0].removeprefix("tests/").partition("/")[0]


def pytest_sessionfinish(session: pytest.Session) -> None:
    output: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["tally"] = TALLY.as_plain()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    if "tally" in getattr(node, "workeroutput", {}):
        TALLY.add_plain(node.workeroutput["tally"])


def pytest_terminal_summary(terminalreporter: Any) -> None:
    taken = ", ".join(f"{folder} {took / 1000:,.0f}" for folder, took in _MILLISECONDS.most_common())
    terminalreporter.write_line(f"Seconds that the tests of each folder took, added up over all processes: {taken}")
    if not TALLY.total:
        return
    seconds, what = TALLY.slowest
    terminalreporter.section("hostile input")
    terminalreporter.write_line(
        f"{TALLY.total:,} hostile files and arguments were tried: {TALLY.refused:,} ended in a LakebraidError, the others "
        f"in rows. The slowest answer took {seconds:.2f} s ({what[:80]})."
    )
    if TALLY.peak_bytes[0]:
        terminalreporter.write_line(
            f"The most memory was {TALLY.peak_bytes[0] >> 20} MiB ({TALLY.peak_bytes[1][:80]})."
        )
    for kind, count in sorted(TALLY.tried.items()):
        terminalreporter.write_line(f"  {count:>7,}  {kind}")
