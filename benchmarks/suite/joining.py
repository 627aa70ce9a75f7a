# SPDX-License-Identifier: Apache-2.0
"""N streams joined by partial updates of one table, beside a batch join that is done again whenever it must be fresh."""

from __future__ import annotations

import time
from functools import reduce
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import lakebraid as lb
from benchmarks.suite.row import Rows

COMPACT_EVERY = 5
FIRST_SHARE = 0.8
"""What the streams have brought before the first look; the rest comes bit by bit."""


def join(folder: Path, *, quick: bool) -> Rows:
    """In each round every stream brings its column of some more keys, and somebody wants to see the joined rows."""
    counts, keys, rounds = ((2, 4), 50_000, 5) if quick else ((2, 4, 8), 200_000, 10)
    return [row for streams in counts for row in _joined(folder / f"{streams} streams", streams, keys, rounds)]


def _joined(folder: Path, streams: int, keys: int, rounds: int) -> Rows:
    fields = ", ".join(f"c{n} double" for n in range(streams))
    table = lb.Table.create(folder / "table", f"id bigint, {fields}", record_keys="id", ordering_fields=None, buckets=4)
    random = np.random.default_rng(13)
    orders = [random.permutation(keys) for _ in range(streams)]  # no stream knows what the others have already seen
    files: list[list[Path]] = [[] for _ in range(streams)]
    partial = batch = 0.0
    rows: Rows = []
    edges = [0, *np.linspace(keys * FIRST_SHARE, keys, rounds + 1).astype(int)]
    for turn, (low, high) in enumerate(pairwise(edges)):
        news = [pa.table({"id": ids[low:high], f"c{n}": random.random(high - low)}) for n, ids in enumerate(orders)]
        began = time.process_time()
        for new in news:
            table.upsert(new, columns=new.column_names)
        if turn % COMPACT_EVERY == 0:  # the first load, too
            table.compact()
        written = time.process_time()
        ours = table.to_arrow()
        read = time.process_time()
        theirs = _batch_join(folder, news, files, turn)
        ended = time.process_time()
        partial, batch = partial + read - began, batch + ended - read
        rows.append(
            {
                "streams": streams,
                "round": turn,
                "new_rows": int(high - low) * streams,
                "keys": len(ours),
                "write_cpu_s": written - began,
                "read_cpu_s": read - written,
                "partial_updates_cpu_s_sum": partial,
                "batch_join_cpu_s": ended - read,
                "batch_join_cpu_s_sum": batch,
            }
        )
        _check(ours, theirs)
    return rows


def _batch_join(folder: Path, news: list[pa.Table], files: list[list[Path]], turn: int) -> pa.Table:
    """Keeps what is new as Parquet files, reads all of it, joins it and writes the result."""
    for n, new in enumerate(news):
        files[n].append(folder / f"stream-{n}-{turn}.parquet")
        pq.write_table(new, files[n][-1], compression="zstd")
    parts = [pa.concat_tables(pq.read_table(path) for path in each) for each in files]
    joined = reduce(lambda left, right: left.join(right, "id", join_type="full outer"), parts)
    pq.write_table(joined, folder / "joined.parquet", compression="zstd")
    return joined


def _check(ours: pa.Table, theirs: pa.Table) -> None:
    if not ours.sort_by("id").equals(theirs.select(ours.column_names).sort_by("id").cast(ours.schema)):
        raise SystemExit("The table is not what the batch join gives.")
