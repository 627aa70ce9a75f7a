# SPDX-License-Identifier: Apache-2.0
"""The rows of a run on the terminal, and as ratios beside an earlier run."""

from __future__ import annotations

from collections.abc import Iterable

from benchmarks.cloud.rig.latency import KINDS
from benchmarks.suite.row import Row, Rows

HEAD = (
    f"{'workload':52} {'writers':>7} {'commits/s':>9} {'p50':>8} {'p99':>8} {'requests':>8} {'in a row':>8} "
    f"{' '.join(f'{kind:>6}' for kind in KINDS)} {'slept':>7} {'CPU':>6}"
)
COMPARED = ("commits_per_s", "p50_s", "p99_s", "requests", "round_trips", "cpu_s")


def line(row: Row) -> str:
    trips = f"{row['round_trips']:8.0f}" if row.get("round_trips") else " " * 8
    kinds = " ".join(f"{row.get(f'{kind}_requests', 0):6.1f}" for kind in KINDS)
    cpu = f"{row['cpu_s']:5.2f}s" if "cpu_s" in row else " " * 6
    slept = f"{row['slept_s']:6.2f}s" if row.get("slept_s") else " " * 7
    failed = f"  {row['failed']} failed" if row.get("failed") else ""
    return (
        f"{row['workload']:52} {row['writers']:7} {row['commits_per_s']:9.2f} {row['p50_s']:7.2f}s {row['p99_s']:7.2f}s "
        f"{row['requests']:8.1f} {trips} {kinds} {slept} {cpu}{failed}"
    )


def compared(rows: Rows, before: Rows) -> Iterable[str]:
    """For every row that both runs have: the figures now, as multiples of those before."""
    old = {_key(row): row for row in before}
    yield f"{'as multiples of the earlier run':82} {'writers':>7} {' '.join(f'{name:>13}' for name in COMPARED)}"
    for row in rows:
        then = old.get(_key(row))
        if then is not None:
            cells = " ".join(f"{_ratio(row.get(name), then.get(name)):>13}" for name in COMPARED)
            yield f"{row['ground'] + ': ' + row['workload']:82.82} {row['writers']:7} {cells}"


def with_rows(kept: Rows, rows: Rows) -> Rows:
    """Those that were there before and are not measured anew, then the new ones."""
    new = {_key(row) for row in rows}
    return [*(row for row in kept if _key(row) not in new), *rows]


def _key(row: Row) -> tuple[str, str, int]:
    return row["ground"], row["workload"], row["writers"]


def _ratio(now: float | None, then: float | None) -> str:
    return f"{now / then:.2f}" if now and then else ""
