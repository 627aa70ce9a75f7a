# SPDX-License-Identifier: Apache-2.0
"""What one process does on a ground: a lone commit, queries over logs that are not compacted, their compaction."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa

import lakebraid as lb
from benchmarks.cloud.rig.calls import summed
from benchmarks.cloud.rig.grounds import Ground
from benchmarks.suite.row import Row, percentile
from lakebraid.tasks.reading.cache import forget_all

COLUMNS = "id bigint, ts bigint, writer int, note string"
AHEAD_AFTER = 2
"""A writer whose writes follow on one another begins its third one ahead."""
TABLE: dict[str, Any] = {"record_keys": "id", "ordering_fields": "ts"}


def some_rows(count: int, keys: int, stamp: int, writer: int = 0, seed: int = 0) -> pa.Table:
    """So many different keys below `keys`."""
    ids = np.random.default_rng(seed).choice(keys, count, replace=False)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "ts": pa.array(np.full(count, stamp), pa.int64()),
            "writer": pa.array(np.full(count, writer), pa.int32()),
            "note": pa.array([f"note {key}" for key in ids]),
        }
    )


def lone_commits(ground: Ground, *, quick: bool) -> Iterator[Row]:
    """One process, one commit of 1,000 rows after the other: opened before, as a job that goes on has it. Each by itself, then each
    begun while the one before is published.
    """
    sizes = ((8, 3), (64, 1)) if quick else ((8, 10), (64, 4))
    for (buckets, times), is_ahead in product(sizes, (False, True)):
        name = f"lone-{buckets}-{is_ahead}"
        ground.make(name, COLUMNS, buckets=buckets, **TABLE).upsert(some_rows(1000, 10_000, 1))
        with ground.slow():
            table = ground.opened(name)
            writer = table.writer("lone") if is_ahead else table
            for _ in range(AHEAD_AFTER):  # what the process has to learn once is no part of a commit
                writer.upsert(some_rows(1000, 10_000, 2))
            batches = [some_rows(1000, 10_000, 3 + turn, seed=turn) for turn in range(times)]
            row = _measured(ground, [partial(writer.upsert, batch) for batch in batches])
            if isinstance(writer, lb.Writer):
                writer.close()
        newest = ground.direct(name).to_arrow(columns=["ts"])["ts"].to_pylist()
        if max(newest) != 2 + times:
            raise SystemExit("The last acknowledged rows are not there.")
        how = ", begun ahead" if is_ahead else ""
        yield {"workload": f"commit of 1,000 rows, {buckets} buckets{how}", "writers": 1, **row}


def reads(ground: Ground, *, quick: bool) -> Iterator[Row]:
    """A table of which every bucket has a base file and so many log files; by a new process, again, and as it grows."""
    buckets, logs, times = (16, 3, 1) if quick else (64, 10, 3)
    keys, changed = 20_000, max(1000, 32 * buckets)
    name = "logs"
    table = ground.make(name, COLUMNS, buckets=buckets, **TABLE)
    table.bulk_insert(some_rows(keys, keys, 0))
    position, followed = "", []
    for turn in range(logs):
        before, position = position, table.upsert(some_rows(changed, keys, 1 + turn, seed=turn)).completion_time
        last = partial(_changes_since, before)
        if turn >= logs - times - 1:
            with ground.slow():
                followed.append(_measured(ground, [partial(_query, ground, name, last, changed)]))
    what = f"{buckets} buckets, {logs} logs each"
    wanted: dict[str, tuple[int, Callable[[lb.Table], int]]] = {
        "scan": (keys, lambda table: table.to_arrow().num_rows),
        "count": (keys, lambda table: table.count()),
        "key lookup": (1, lambda table: table.to_arrow(where="id = 4711").num_rows),
        "changes of the last commit": (changed, last),
        "changes, kinds=False": (
            changed,
            lambda table: table.changes(after=before, kinds=False).to_arrow().num_rows,
        ),
    }
    middle = sorted(followed[1:], key=lambda row: row["p50_s"])[times // 2]  # the first one fetches all files
    yield {"workload": f"changes of each new commit, {buckets} buckets, up to {logs} logs each", "writers": 1, **middle}
    with ground.slow():
        for query, (expected, ask) in wanted.items():
            work = [partial(_query, ground, name, ask, expected)] * times
            yield {"workload": f"{query}, {what}", "writers": 1, **_measured(ground, work, forget_all)}
            yield {"workload": f"{query}, {what}, again", "writers": 1, **_measured(ground, work)}
        row = _measured(ground, [lambda: ground.opened(name).compact()])
    _check(keys, ground.direct(name).count())
    yield {"workload": f"compaction, {what}", "writers": 1, **row}


def _query(ground: Ground, name: str, ask: Callable[[lb.Table], int], expected: int) -> None:
    _check(expected, ask(ground.opened(name)))


def _changes_since(position: str, table: lb.Table) -> int:
    return int(table.changes(after=position).to_arrow().num_rows)


def _check(expected: int, found: int) -> None:
    if found != expected:
        raise SystemExit(f"{found:,} rows were found instead of {expected:,}.")


def _measured(
    ground: Ground, work: Sequence[Callable[[], object]], before_each: Callable[[], object] = lambda: None
) -> Row:
    ground.forget()
    walls, cpu, began = [], time.process_time(), time.monotonic()
    for one in work:
        before_each()
        at = time.monotonic()
        one()
        walls.append(time.monotonic() - at)
    seconds, cpu = time.monotonic() - began, time.process_time() - cpu
    return {
        "commits": len(work),
        "commits_per_s": len(work) / seconds,
        "p50_s": percentile(walls, 0.5),
        "p99_s": percentile(walls, 0.99),
        **summed(ground.sent()).per(len(work)),
        "cpu_s": cpu / len(work),
    }
