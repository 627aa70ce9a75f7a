# SPDX-License-Identifier: Apache-2.0
"""The rows that all benchmarks read: one bulk load and some upserts, the same ones every time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Scale:
    rows: int
    upserts: int
    upsert_rows: int
    buckets: int
    new_share: float = 0.2
    """Of the rows of an upsert; the others update rows of the bulk load."""


SCALES = {
    "mid": Scale(rows=500_000, upserts=10, upsert_rows=5_000, buckets=8),
    "smoke": Scale(rows=20_000, upserts=2, upsert_rows=500, buckets=4),
}


@dataclass(frozen=True, slots=True)
class Workload:
    bulk: pa.Table
    upserts: tuple[pa.Table, ...]
    merged: pa.Table
    """What a reader must see after all upserts: the newest row of each key, by key."""
    point_key: str


def workload(scale: Scale) -> Workload:
    """The batches, and by the generator's own row numbers, not by any merge, what they come to."""
    random = np.random.default_rng(7)
    numbers = [np.arange(scale.rows)]
    added, first_new = int(scale.upsert_rows * scale.new_share), scale.rows
    for _ in range(scale.upserts):
        updated = random.choice(scale.rows, scale.upsert_rows - added, replace=False)
        numbers.append(np.concatenate([updated, np.arange(first_new, first_new + added)]))
        first_new += added
    batches = [_batch(found, version, random) for version, found in enumerate(numbers)]
    newest = np.zeros(first_new, np.int64)
    everything = np.concatenate(numbers)
    newest[everything] = np.arange(len(everything))  # of equal numbers the last one stays
    merged = pa.concat_tables(batches).take(pa.array(newest)).sort_by("id").combine_chunks()
    return Workload(batches[0], tuple(batches[1:]), merged, str(_keys(np.array([scale.rows // 3]))[0]))


def _batch(numbers: np.ndarray, version: int, random: np.random.Generator) -> pa.Table:
    """Twelve columns: key, ordering value, time, numbers, flag, texts of few, many and all different values."""
    count = len(numbers)
    second = 1_700_000_000_000_000 + version * 1_000_000
    cats = pa.array([f"cat-{i:02}" for i in range(16)])
    cities = pa.array([f"city-{i:04}-of-the-plain" for i in range(1000)])
    digits = random.bytes(12 * count).hex()
    columns = {
        "id": _keys(numbers),
        "ts": np.full(count, version, np.int64),
        "event_time": pa.array(second + random.integers(0, 1_000_000, count), pa.timestamp("us", tz="UTC")),
        "c_int": random.integers(0, 1_000_000, count, dtype=np.int32),
        "c_long": random.integers(0, 1 << 50, count),
        "c_double": random.normal(size=count),
        "c_price": np.round(random.random(count) * 1000, 2),
        "c_flag": random.random(count) < 0.3,
        "c_cat": cats.take(pa.array(random.integers(0, 16, count))),
        "c_city": cities.take(pa.array(random.integers(0, 1000, count))),
        "c_note": [digits[at : at + 24] for at in range(0, 24 * count, 24)],
        "c_seq": np.full(count, version, np.int32),
    }
    return pa.table(columns)


def _keys(numbers: np.ndarray) -> pa.Array:
    """A key for each row number: in another order than the numbers, and never the same for two."""
    mixed = numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return pa.array([f"{m:016x}-{n:08}" for m, n in zip(mixed.tolist(), numbers.tolist(), strict=True)])
