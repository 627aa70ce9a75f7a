# SPDX-License-Identifier: Apache-2.0
"""Writers as processes of their own on one table, for so many commits each."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path
from typing import Any

import lakebraid as lb
from benchmarks.cloud.rig.calls import Sum, added, summed
from benchmarks.cloud.rig.grounds import Ground
from benchmarks.cloud.workloads import AHEAD_AFTER, COLUMNS, TABLE, some_rows
from benchmarks.contention import START_SECONDS_MAX, starting
from benchmarks.suite.row import Row, percentile

BUCKETS = 8
EACH, GROUP = "each", "group"
ORDER = "hoodie.lakebraid.publication.order"
"""In which order the commits of one entry of the ledger appear: one after the other, which is the default, or together."""
COMMITS = {1: 20, 4: 10, 16: 5, 64: 2}
"""Of each writer, by their number: fewer of many, for all wait for all."""
SECONDS_MAX = 150.0
"""After so long no writer begins another commit."""


def contention(
    ground: Ground,
    counts: Sequence[int],
    *,
    quick: bool,
    seed: int = 0,
    buckets: Sequence[int] = (BUCKETS,),
    orders: Sequence[str] = (EACH,),
    is_ahead: bool = False,
) -> Iterator[Row]:
    for order, count, writers in product(orders, buckets, counts):
        commits = max(1, COMMITS.get(writers, 3) // (4 if quick else 1))
        yield run(ground, writers, commits, seed, count, order, is_ahead=is_ahead)


def run(
    ground: Ground,
    writers: int,
    commits: int,
    seed: int = 0,
    buckets: int = BUCKETS,
    order: str = EACH,
    *,
    is_ahead: bool = False,
) -> Row:
    """All upsert 1,000 rows each time into the same 10,000 keys; a failed commit is counted, not repeated. Where they begin ahead,
    those commits of each are not counted after which it does so.
    """
    name = f"writers-{writers}-{buckets}-{order}-{is_ahead}"
    made = ground.make(name, COLUMNS, buckets=buckets, properties={ORDER: order}, **TABLE)
    made.upsert(some_rows(1000, 10_000, 1))
    ground.forget()
    with tempfile.TemporaryDirectory(prefix="lakebraid-cloud-") as folder:
        context = starting()
        context.set_forkserver_preload(["lakebraid.api.table", __name__])
        ready, go = context.Barrier(writers + 1), context.Event()
        told = [(ground, name, number, commits, folder, ready, go, seed, is_ahead) for number in range(writers)]
        processes = [context.Process(target=work, args=one) for one in told]
        for process in processes:
            process.start()
        ready.wait(START_SECONDS_MAX)
        ground.forget()
        go.set()
        for process in processes:
            process.join()
        notes = [json.loads((Path(folder) / f"{number}.json").read_text()) for number in range(writers)]
    _check(ground.direct(name), notes)
    sent = summed(ground.sent()) if ground.sees_all_processes else added(Sum(**note["sent"]) for note in notes)
    if ground.sees_all_processes and writers > 1:
        sent = replace(sent, round_trips=0)  # of requests of several processes in one heap nothing is in a row
    in_order = "" if order == EACH else f", {order}"
    title = f"commits of 1,000 rows, {buckets} buckets{in_order}{', begun ahead' if is_ahead else ''}"
    return {"workload": title, "writers": writers, "order": order, **_seen(notes, sent)}


def work(
    ground: Ground, name: str, number: int, commits: int, folder: str, ready: Any, go: Any, seed: int, is_ahead: bool
) -> None:
    """One writer; its first commit counts as every other, for the table is opened before."""
    with ground.slow(1000 * seed + number):
        table = ground.opened(name)
        some_rows(1, 10, 0)  # imports pandas, which takes a second of CPU, or many where others have it
        ready.wait(START_SECONDS_MAX)
        go.wait()
        if not ground.sees_all_processes:
            ground.forget()
        spans, failed, last = [], 0, 0
        writer = table.writer(f"writer {number}") if is_ahead else table
        first = AHEAD_AFTER if is_ahead else 0
        for _ in range(first):
            writer.upsert(some_rows(1000, 10_000, 2, number, seed=number))
        begun, cpu = time.monotonic(), time.process_time()
        for _ in range(commits):
            at, stamp = time.monotonic(), time.time_ns()
            if at > begun + SECONDS_MAX:
                break
            try:
                writer.upsert(some_rows(1000, 10_000, stamp, number, seed=number))
            except lb.LakebraidError as error:
                print(error, file=sys.stderr)
                failed += 1
            else:
                spans.append((at, time.monotonic()))
                last = stamp
        cpu = time.process_time() - cpu
        if isinstance(writer, lb.Writer):
            writer.close()
    sent = Sum({}, {}, 0) if ground.sees_all_processes else summed(ground.sent())
    note = {"spans": spans, "first": first, "failed": failed, "cpu": cpu, "last": last, "sent": asdict(sent)}
    (Path(folder) / f"{number}.json").write_text(json.dumps(note))


def _seen(notes: list[dict[str, Any]], sent: Sum) -> Row:
    spans = [span for note in notes for span in note["spans"]]
    begun = min(begin for begin, _ in spans)
    walls = [end - begin for begin, end in spans]
    return {
        "commits": len(spans),
        "commits_per_s": len(spans) / (max(end for _, end in spans) - begun),
        "p50_s": percentile(walls, 0.5),
        "p99_s": percentile(walls, 0.99),
        "slowest_s": max(walls),
        **sent.per(len(spans)),
        "cpu_s": sum(note["cpu"] for note in notes) / len(spans),
        "failed": sum(note["failed"] for note in notes),
    }


def _check(table: lb.Table, notes: list[dict[str, Any]]) -> None:
    """Every acknowledged commit is on the timeline, and the newest row has won."""
    commits = sum(len(note["spans"]) + note["first"] for note in notes)
    found = sum(entry.instant.is_completed and entry.instant.is_write for entry in table.timeline())
    if found < commits + 2 or found > commits + 2 + sum(note["failed"] for note in notes):
        raise SystemExit(f"{commits} commits were acknowledged, the timeline has {found - 2}.")
    newest = max(table.to_arrow(columns=["ts"])["ts"].to_pylist())
    if newest < max(note["last"] for note in notes):
        raise SystemExit("The last acknowledged rows are not there.")
