# SPDX-License-Identifier: Apache-2.0
"""One run in several processes: which tests stay together, and the count of all hostile input at the end."""

from __future__ import annotations

from typing import Any

import pytest

from tests.tally import TALLY

_FIRST = ("interop", "spark", "simulator", "objects", "browser", "hostile")
"""Folders whose tests take long, so that the short ones fill up the end."""
_ONE_JVM = {"interop", "spark"}
"""Folders whose tests share a JVM: another one costs half a minute, and is slow until it has warmed up."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With `--dist loadgroup`: groups of tests for one process each, the longest first."""
    if config.getoption("dist", "no") != "loadgroup":
        return

    def folder(item: pytest.Item) -> str:
        return item.path.parent.name

    for item in items:
        group = folder(item) if folder(item) in _ONE_JVM else f"{folder(item)}/{item.path.stem}"
        item.add_marker(pytest.mark.xdist_group(group))
    items.sort(key=lambda item: _FIRST.index(folder(item)) if folder(item) in _FIRST else len(_FIRST))


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
