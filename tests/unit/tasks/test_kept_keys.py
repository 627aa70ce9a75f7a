# SPDX-License-Identifier: Apache-2.0
"""Who follows a table's changes decodes the keys of its base files once, and is never told of other bytes' keys."""

from __future__ import annotations

import gc
import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import lakebraid as lb
from lakebraid import limits
from lakebraid.format.parquet import rows as parquet_rows
from lakebraid.source.format import LakebraidSource
from lakebraid.tasks.reading import base_rows, blocks, cache
from lakebraid.tasks.reading.cache import KeptBlocks, KeptKeys, KeyRows, key_rows

pytestmark = pytest.mark.unit


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> KeptKeys:
    """What the process keeps, empty at first."""
    fresh = KeptKeys(limits.KEPT_KEYS_BYTES)
    monkeypatch.setattr(base_rows, "KEPT_KEYS", fresh)
    monkeypatch.setattr(blocks, "KEPT", KeptBlocks(limits.KEPT_BLOCKS_BYTES))
    return fresh


def orders(path: Path) -> lb.Table:
    """A base file with a, m and z, and above it b and m, newer."""
    t = lb.Table.create(path, "id string not null, ts bigint, v int", record_keys="id", ordering_fields="ts", buckets=1)
    t.bulk_insert([{"id": key, "ts": 1, "v": 0} for key in "amz"])
    t.upsert([{"id": "z", "ts": 2, "v": 1}])
    t.upsert([{"id": key, "ts": 3, "v": 1} for key in "bm"])
    return t


def told(t: lb.Table) -> dict[str, str]:
    """The kinds of the last commit's changes."""
    after = [entry.completion_time for entry in t.timeline() if entry.operation == "UPSERT"][-2]
    rows = t.changes(after).to_arrow().to_pylist()
    return {row["id"]: row["_change_type"] for row in rows}


def decoded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Grows by the name of each base file or block whose rows are decoded."""
    seen: list[str] = []
    real = parquet_rows.read_parquet_rows

    def noted(*arguments: Any) -> Any:
        seen.append(arguments[-1])
        return real(*arguments)

    for module in (parquet_rows, base_rows):
        monkeypatch.setattr(module, "read_parquet_rows", noted)
    return seen


def test_a_second_look_at_changes_decodes_neither_keys_nor_log_blocks_again(
    tmp_path: Path, kept: KeptKeys, monkeypatch: pytest.MonkeyPatch
) -> None:
    t, seen = orders(tmp_path), decoded(monkeypatch)
    assert told(t) == {"b": "insert", "m": "update"}
    assert sum(name.endswith(".parquet") for name in seen) == 1
    assert kept.taken > 0
    seen.clear()
    assert told(t) == {"b": "insert", "m": "update"}
    assert seen == []


def test_keys_are_known_by_their_bytes_and_not_by_the_name_or_the_footer_of_their_file(
    tmp_path: Path, kept: KeptKeys
) -> None:
    """The same name, size, least and greatest key: only the pages differ."""
    t = orders(tmp_path)
    assert told(t) == {"b": "insert", "m": "update"}
    base = next(path for path in tmp_path.glob("*.parquet") if pq.read_metadata(path).num_rows)
    _rewrite(base, {})
    assert told(t) == {"b": "insert", "m": "update"}
    size, footer, taken = base.stat().st_size, _footer(base), kept.taken
    _rewrite(base, {"m": "b"})
    assert (base.stat().st_size, _footer(base)) == (size, footer)
    assert told(t) == {"b": "update", "m": "insert"}
    assert kept.taken > taken > 0


def _rewrite(base: Path, names: dict[str, str]) -> None:
    rows = pq.read_table(base)
    for at, name in enumerate(rows.column_names):
        if name in ("id", "_hoodie_record_key"):
            changed = pa.array([names.get(key, key) for key in rows.column(at).to_pylist()], pa.string())
            rows = rows.set_column(at, rows.schema.field(at), changed)
    pq.write_table(rows, base, compression="none", use_dictionary=False)


def _footer(base: Path) -> bytes:
    data = base.read_bytes()
    return data[-8 - int.from_bytes(data[-8:-4], "little") :]


@pytest.mark.parametrize("order", ["sorted", "shuffled", "with one key twice", "with nulls"])
def test_keys_are_found_where_they_stand_in_whatever_order(order: str) -> None:
    rng = random.Random(order)
    for _ in range(30):
        numbers: list[int | None] = [*sorted(rng.sample(range(60), 30))]
        if order == "shuffled":
            rng.shuffle(numbers)
        elif order == "with one key twice":
            numbers[1] = numbers[0]
        elif order == "with nulls":
            numbers[3] = None
        keys = pa.array([None if n is None else f"{n:02}" for n in numbers])
        wanted = pa.array([f"{n:02}" for n in rng.sample(range(60), rng.randint(0, 20))], pa.string())
        found = key_rows(pa.table({"id": keys}), keys).places(wanted)
        assert found.tolist() == np.flatnonzero(np.asarray(pc.is_in(keys, value_set=wanted))).tolist()


def test_without_arrows_search_keys_are_found_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "_search_sorted", None)
    keys = pa.array(["a", "b", "c"])
    assert key_rows(pa.table({"id": keys}), keys).places(pa.array(["c", "x"])).tolist() == [2]


def test_keys_that_take_too_much_room_are_passed_on_and_not_kept() -> None:
    keys = pa.array([f"{n:020}" for n in range(1000)])
    parts = [key_rows(pa.table({"id": keys}), keys)] * 3
    small, large = KeptKeys(2 * 3 * keys.nbytes), KeptKeys(5 * 3 * keys.nbytes)
    calls: list[int] = []

    def read() -> list[KeyRows]:
        calls.append(1)
        return parts

    for kept in (small, large):
        for _ in range(2):
            assert list(kept.rows(("one",), read)) == parts
    assert (len(calls), small.taken, large.taken > 0) == (3, 0, True)


def test_who_stops_reading_keys_leaves_no_half_of_them_behind() -> None:
    keys = pa.array(["a"])
    parts = [key_rows(pa.table({"id": keys}), keys)] * 2
    kept = KeptKeys(limits.KEPT_KEYS_BYTES)
    next(kept.rows(("one",), lambda: parts))
    assert kept.taken == 0
    assert len(list(kept.rows(("one",), lambda: parts))) == 2


def test_a_process_that_plans_a_read_for_spark_spares_its_garbage_collector_the_modules(tmp_path: Path) -> None:
    orders(tmp_path)
    try:
        source = LakebraidSource({"path": str(tmp_path)})
        source.schema()
        assert gc.get_freeze_count() > 0
        gc.unfreeze()
        source.reader(source.schema()).partitions()
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()
