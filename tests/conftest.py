# SPDX-License-Identifier: Apache-2.0
"""One run in several processes: which tests stay together, and the count of all hostile input at the end."""

from __future__ import annotations

from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

from tests.kit.tally import TALLY
from tests.objects import versitygw

_FIRST = ("interop", "spark", "simulator", "objects", "browser", "hostile")
"""Folders whose tests take long, so that the short ones fill up the end."""
_ONE_JVM = {"interop", "spark"}
"""Folders whose tests share a JVM: another one costs half a minute, and is slow until it has warmed up."""


class _Groups(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """Tests of one file stay in one process, and those that share a JVM."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        folder = _folder(file)
        return folder if folder in _ONE_JVM else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    return _Groups(config, log)


def pytest_report_header() -> str:
    return f"S3 on loopback: {versitygw.expected()}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With several processes the longest groups come first."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: {f: at for at, f in enumerate(_FIRST)}.get(_folder(item.nodeid), len(_FIRST)))


def _folder(nodeid: str) -> str:
    return nodeid.partition("::")[0].split("/")[1]


def pytest_sessionfinish(session: pytest.Session) -> None:
    output: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["tally"] = TALLY.as_plain()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    if "tally" in getattr(node, "workeroutput", {}):
        TALLY.add_plain(node.workeroutput["tally"])


def pytest_terminal_summary(terminalreporter: Any) -> None:
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
