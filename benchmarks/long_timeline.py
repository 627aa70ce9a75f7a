# SPDX-License-Identifier: Apache-2.0
"""What a small write costs on a long active timeline, which nobody archives.

`uv run python -m benchmarks.long_timeline [--lengths 100,400,1600] [--kinds occ,cow,nbcc] [--reps 25]`. CPU milliseconds
of one upsert of 20 rows by this process, the median, and how many of them went into listing folders. The tables of one
kind take turns, so that whatever else runs on the machine burdens all of them.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lakebraid as lb
from benchmarks.meter import machine
from lakebraid.storage.local import LocalStorage

KINDS: dict[str, dict[str, Any]] = {
    "occ": {"buckets": 4, "concurrency": "occ"},
    "cow": {"table_type": "cow", "index": "simple", "concurrency": "occ"},
    "nbcc": {"buckets": 4},
}
LISTINGS = ("list", "list_folder", "list_names")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lengths", default="100,400,1600")
    parser.add_argument("--kinds", default="occ,cow,nbcc")
    parser.add_argument("--reps", type=int, default=25)
    asked = parser.parse_args()
    print(machine())
    for kind in asked.kinds.split(","):
        _measure(kind, [int(length) for length in asked.lengths.split(",")], asked.reps)


def _measure(kind: str, lengths: list[int], reps: int) -> None:
    with tempfile.TemporaryDirectory() as folder, _listing() as listed:
        tables = {length: _made(Path(folder, str(length)), kind, length) for length in lengths}
        spent: dict[int, list[tuple[float, float]]] = {length: [] for length in lengths}
        for turn in range(reps):
            for length, table in tables.items():
                listed[0], begun = 0.0, time.process_time()
                _write(table, length + turn)
                spent[length].append((time.process_time() - begun, listed[0]))
    for length, figures in spent.items():
        whole, listing = (statistics.median(f[at] for f in figures) * 1000 for at in (0, 1))
        rest = statistics.median(f[0] - f[1] for f in figures) * 1000
        print(f"{kind:5} {length:6,} writes: {whole:6.1f} ms, listing {listing:5.1f}, the rest {rest:5.1f}", flush=True)


def _made(path: Path, kind: str, length: int) -> lb.Table:
    table = lb.Table.create(
        str(path), "id string, ts bigint, v string", record_keys="id", ordering_fields="ts", **KINDS[kind]
    )
    for number in range(length):
        _write(table, number)
    return table


def _write(table: lb.Table, number: int) -> None:
    table.upsert([{"id": f"k{key}", "ts": number, "v": "x"} for key in range(20)])


@contextmanager
def _listing() -> Iterator[list[float]]:
    """The CPU seconds that go into listings from now on."""
    spent, real = [0.0], {name: getattr(LocalStorage, name) for name in LISTINGS}

    def watched(call: Any) -> Any:
        def listing(*given: Any, **named: Any) -> Any:
            begun = time.thread_time()
            try:
                return call(*given, **named)
            finally:
                spent[0] += time.thread_time() - begun

        return listing

    for name, call in real.items():
        setattr(LocalStorage, name, watched(call))
    try:
        yield spent
    finally:
        for name, call in real.items():
            setattr(LocalStorage, name, call)


if __name__ == "__main__":
    main()
