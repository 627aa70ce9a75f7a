# SPDX-License-Identifier: Apache-2.0
"""Changes are told without reading the rows that they replaced, where the base file's footer shows that they did."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakebraid as lb
from lakebraid.format.parquet.rows import open_parquet_file
from lakebraid.model.timeline.timeline import Visibility
from lakebraid.tasks.reading.base_rows import OpenBase, greatest
from lakebraid.tasks.slice_task import ReadPlan, SliceTask

pytestmark = pytest.mark.unit
Row = dict[str, Any]
Followed = tuple[lb.Table, str, list[tuple[str, ...]]]
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
ORDERS: dict[str, Callable[[int], Any]] = {
    "bigint": lambda n: n,
    "timestamp": lambda n: EPOCH + timedelta(seconds=n),
    "string": lambda n: f"{n + 50:03}",
}


def diff(before: list[Row], after: list[Row]) -> dict[str, list[Row]]:
    """What happened between two states, by brute force."""
    old, new = ({(row["a"], row["b"]): row for row in rows} for rows in (before, after))
    return {
        "insert": [row for key, row in new.items() if key not in old],
        "delete": [row for key, row in old.items() if key not in new],
        "update_preimage": [row for key, row in old.items() if key in new and new[key] != row],
        "update_postimage": [row for key, row in new.items() if key in old and old[key] != row],
    }


def told(changes: lb.Changes) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in changes.to_arrow().to_pylist():
        del row["_commit_completion_time"]
        found.setdefault(row.pop("_change_type"), []).append(row)
    return {kind: sorted(rows, key=repr) for kind, rows in found.items()}


def expected(kinds: dict[str, list[Row]], names: dict[str, str]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for kind, name in names.items():
        found[name] = found.get(name, []) + kinds[kind]
    return {name: sorted(rows, key=repr) for name, rows in found.items() if rows}


IMAGES = {kind: kind for kind in ("insert", "delete", "update_preimage", "update_postimage")}
KINDS = {"insert": "insert", "delete": "delete", "update_postimage": "update"}
UPSERTS = {"insert": "upsert", "delete": "delete", "update_postimage": "upsert"}


@pytest.mark.parametrize(
    ("order", "keys"),
    [
        ("bigint", ["a"]),
        pytest.param("timestamp", ["a", "b"], marks=pytest.mark.slow),
        pytest.param("string", ["a"], marks=pytest.mark.slow),
    ],
)
def test_changes_are_the_difference_of_two_snapshots_whatever_the_ordering_values_are(
    order: str, keys: list[str]
) -> None:
    """Ordering values below, at and above the greatest in the base file, negative ones, too; deletes of both kinds."""
    rng = random.Random(f"{order}{keys}")
    schema = f"a string not null, b string not null, ts {order}, n int"
    t = lb.Table.create(
        f"memory://beneath/{order}{len(keys)}", schema, record_keys=keys, ordering_fields="ts", buckets=2
    )

    def rows(low: int, high: int) -> list[Row]:
        return [
            {"a": a, "b": "x", "ts": ORDERS[order](rng.randint(low, high)), "n": rng.randint(1, 3)}
            for a in rng.sample("abcdefghij", 5)
        ]

    def step(kind: int) -> None:
        some = rows(-9, 9)
        match kind:
            case 0:
                t.delete([{k: row[k] for k in keys} for row in some[:2]])
            case 1:
                t.delete([{k: row[k] for k in (*keys, "ts")} for row in some[:2]])
            case _:
                t.upsert(some)

    t.bulk_insert(rows(-5, -2))
    positions = [t.changes().next_position]
    for number in range(9):
        step(rng.randint(0, 5))
        if number == 5:
            t.compact()
        positions.append(t.changes().next_position)
    states = [t.snapshot(at).to_arrow().to_pylist() for at in positions]
    spans = [*pairwise(range(len(positions))), (0, 5), (6, 9)]
    for first, last in spans:
        kinds = diff(states[first], states[last])
        after, until = positions[first], positions[last]
        assert told(t.changes(after, until)) == expected(kinds, KINDS), (first, last)
        assert told(t.changes(after, until, kinds=False)) == expected(kinds, UPSERTS), (first, last)
        assert told(t.changes(after, until, images=True)) == expected(kinds, IMAGES), (first, last)


def test_partial_updates_are_told_as_whole_rows() -> None:
    t = lb.Table.create(
        "memory://beneath/partial",
        "a string not null, ts bigint, n int, m int",
        record_keys="a",
        ordering_fields="ts",
        buckets=1,
    )
    t.bulk_insert([{"a": "a", "ts": 1, "n": 1, "m": 1}, {"a": "b", "ts": 1, "n": 2, "m": 2}])
    after = t.changes().next_position
    t.upsert([{"a": "a", "ts": 5, "n": 7}], columns=["a", "ts", "n"])
    for kinds in (True, False):
        found = told(t.changes(after, kinds=kinds))
        assert found == {"update" if kinds else "upsert": [{"a": "a", "ts": 5, "n": 7, "m": 1}]}


@pytest.fixture
def followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Followed:
    """A table of 1,000 rows, the second commit new rows and changed ones; and which columns of base files are read."""
    t = lb.Table.create(
        tmp_path / "t", "a string not null, ts bigint, n int", record_keys="a", ordering_fields="ts", buckets=1
    )
    t.bulk_insert([{"a": f"{n:04}", "ts": 10, "n": n} for n in range(1000)])
    after = t.changes().next_position
    t.upsert([{"a": "0007", "ts": 20, "n": -1}, {"a": "new", "ts": 20, "n": -2}])
    read: list[tuple[str, ...]] = []
    reading = OpenBase.read

    def noted(self: OpenBase, groups: Any, schema: pa.Schema, **how: Any) -> Any:
        read.append(tuple(schema.names))
        return reading(self, groups, schema, **how)

    monkeypatch.setattr(OpenBase, "read", noted)
    return t, after, read


def test_newer_rows_cost_no_more_of_the_base_file_than_its_keys_and_as_upserts_nothing(
    followed: Followed,
) -> None:
    t, after, read = followed
    changed, new = {"a": "0007", "ts": 20, "n": -1}, {"a": "new", "ts": 20, "n": -2}
    assert told(t.changes(after)) == {"insert": [new], "update": [changed]}
    assert read == [("a",)]
    read.clear()
    assert told(t.changes(after, kinds=False)) == {"upsert": [changed, new]}
    assert read == []


def test_a_row_that_is_written_again_as_it_was_is_no_change(followed: Followed) -> None:
    t = followed[0]
    after = t.changes().next_position
    t.upsert([{"a": "0008", "ts": 10, "n": 8}, {"a": "0009", "ts": 10, "n": 1}])
    for kinds in (True, False):
        assert told(t.changes(after, kinds=kinds)) == {
            "update" if kinds else "upsert": [{"a": "0009", "ts": 10, "n": 1}]
        }


def test_a_base_file_without_statistics_is_read(followed: Followed, monkeypatch: pytest.MonkeyPatch) -> None:
    t, after, read = followed
    monkeypatch.setattr("lakebraid.tasks.reading.base_rows._range", lambda _: None)
    assert told(t.changes(after, kinds=False))["upsert"][0]["n"] == -1
    assert len(read) == 2, "the keys, then the rows"


@pytest.mark.parametrize(
    ("values", "kind", "bound"),
    [
        ([-5, None, -3], pa.int64(), 0),  # a null number counts as 0
        ([-5, 7], pa.int64(), 7),
        ([EPOCH, None], pa.timestamp("us", tz="UTC"), EPOCH),
        ([1.0, float("nan")], pa.float64(), None),  # the footer leaves NaN out, which is above all
        (["a", "b"], pa.string(), None),  # other writers cut texts short
        ([1, 2], pa.int32(), None),  # not the table's type
        ([None, None], pa.timestamp("us", tz="UTC"), None),
    ],
)
def test_the_greatest_ordering_value_of_a_base_file_is_only_told_for_certain(
    values: list[Any], kind: pa.DataType, bound: Any
) -> None:
    declared = pa.schema([("ts", pa.int64() if kind == pa.int32() else kind)])
    plan = ReadPlan("memory://x", (), cast("Any", None), declared, ("ts",), None)
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"ts": pa.array(values, kind)}), sink, row_group_size=2)
    data = sink.getvalue()
    source = pa.BufferReader(data)
    base = OpenBase(open_parquet_file(source, data.size, "x"), source, "x", data.size)
    task = SliceTask("", "x", data.size, "", (), (), Visibility(frozenset(), "", ""))
    found = greatest(base, plan, task, "ts")
    assert (found and found.as_py()) == bound


def test_images_without_kinds_are_refused(followed: Followed) -> None:
    with pytest.raises(lb.InvalidArgument, match="tells that it is one"):
        followed[0].changes(images=True, kinds=False)
