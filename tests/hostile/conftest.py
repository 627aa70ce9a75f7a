# SPDX-License-Identifier: Apache-2.0
"""The count of all that was tried, at the end of the run."""

from __future__ import annotations

from typing import Any

import pytest

from tests.hostile.attack import TALLY, Target, target


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


@pytest.fixture
def cow() -> Target:
    """A table of one partition with a base file and no logs."""
    return target("v9_cow_no_meta")


@pytest.fixture
def mor() -> Target:
    """A table with base files, logs of Avro rows and delete lists, and two partitions."""
    return target("v9_mor_bucket_nbcc_avro")
