# SPDX-License-Identifier: Apache-2.0
"""The tables of benchmarks/README.md that hold figures of the rig: between two markers stands what `cloud.json` says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from benchmarks.suite.page import updated
from benchmarks.suite.row import Row, Rows

CONSTANT, LOGNORMAL, S3 = "injected latencies, constant", "injected latencies, lognormal", "versitygw behind the proxy"
BEFORE: Final = ", without asks"
"""Ends the names of what was measured with the version before decision 28."""
MANY: Final = "commits of 1,000 rows, 8 buckets"
_WRITERS: Final[Mapping[str, tuple[tuple[str, str], ...]]] = {
    "cloud writers": (
        ("injected, without asks", f"{CONSTANT}|{MANY}{BEFORE}"),
        ("injected, `each`", f"{CONSTANT}|{MANY}"),
        ("injected, `group`", f"{CONSTANT}|{MANY}, group"),
        ("lognormal, `each`", f"{LOGNORMAL}|{MANY}"),
        ("S3, without asks", f"{S3}|{MANY}{BEFORE}"),
        ("S3, `each`", f"{S3}|{MANY}"),
    ),
    "cloud model": (
        ("without asks", "model, lognormal|without asks, 8 buckets"),
        ("`each`", "model, lognormal|asks, each, 8 buckets"),
        ("`each`, begun ahead", "model, lognormal|asks, each, begun ahead, 8 buckets"),
        ("`group`", "model, lognormal|asks, group, 8 buckets"),
        ("`group`, begun ahead", "model, lognormal|asks, group, begun ahead, 8 buckets"),
    ),
    "cloud model constant": (
        ("without asks", "model, constant|without asks, 8 buckets"),
        ("`each`", "model, constant|asks, each, 8 buckets"),
        ("`each`, begun ahead", "model, constant|asks, each, begun ahead, 8 buckets"),
        ("`group`", "model, constant|asks, group, 8 buckets"),
        ("`group`, begun ahead", "model, constant|asks, group, begun ahead, 8 buckets"),
    ),
}


def tables(rows: Rows) -> dict[str, str]:
    """The tables by the names of their places in the page."""
    return {"cloud lone": lone(rows)} | {name: by_writers(rows, columns) for name, columns in _WRITERS.items()}


def filled(page: str, rows: Rows) -> str:
    """The page with all tables as the rows have them."""
    for name, table in tables(rows).items():
        page = updated(page, name, table)
    return page


def lone(rows: Rows) -> str:
    """What one process waits for, with injected latencies."""
    found = [r for r in rows if r["ground"] == CONSTANT and not r["workload"].startswith("commits ")]
    found.sort(key=lambda row: (row["workload"].removesuffix(BEFORE), not row["workload"].endswith(BEFORE)))
    cells = [
        (
            row["workload"],
            f"{row['requests']:,.0f}",
            f"{row['round_trips']:,.0f}",
            _seconds(row["p50_s"]),
            _seconds(row["slept_s"]),
            _seconds(row["cpu_s"]),
            f"{row['load']:.0f}",
        )
        for row in found
    ]
    return _table(("work", "requests", "in a row", "p50, s", "sleeps, s", "CPU, s", "load"), cells)


def by_writers(rows: Rows, columns: Sequence[tuple[str, str]]) -> str:
    """A line for each number of writers: commits/s, p50, p99 and requests per commit of each column."""
    found = {(f"{row['ground']}|{row['workload']}", row["writers"]): row for row in rows}
    shown = [(title, key) for title, key in columns if any(known == key for known, _ in found)]
    counts = sorted({writers for key, writers in found if key in {key for _, key in shown}})
    cells = [(str(count), *(_cell(found.get((key, count))) for _, key in shown)) for count in counts]
    return _table(("writers", *(title for title, _ in shown)), cells)


def _cell(row: Row | None) -> str:
    """commits/s · p50 · p99 · requests, as far as they were measured."""
    if row is None:
        return ""
    failed = f" · {row['failed']} failed" if row.get("failed") else ""
    return f"{row['commits_per_s']:.1f} · {_seconds(row['p50_s'])} · {_seconds(row['p99_s'])} · {row['requests']:.0f}{failed}"


def _seconds(value: float) -> str:
    """Two digits that mean something from ten seconds on, hundredths below.

    >>> _seconds(0.391), _seconds(12.34)
    ('0.39', '12')
    """
    return f"{value:.0f}" if value >= 10 else f"{value:.2f}"


def _table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *lines))
