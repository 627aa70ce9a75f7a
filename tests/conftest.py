# SPDX-License-Identifier: Apache-2.0
"""The count of all hostile input that was tried, at the end of the run, whether it ran in one process or several."""

from __future__ import annotations

from typing import Any

import pytest

from tests.tally import TALLY


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
