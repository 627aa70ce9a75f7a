# SPDX-License-Identifier: Apache-2.0
"""Any sequence of batches, however they are cut and written, reads as the rules of the table say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakebraid.model.grouping import group_rows, sort_keys
from lakebraid.model.keys.buckets import bucket_of
from lakebraid.model.ordering import order_keys
from lakebraid.model.values.arrow_casts import can_become, exact_cast
from lakebraid.tasks.writing.base_file import key_range
from lakebraid.tasks.writing.rows import write_rows
from tests.kit.effort import times
from tests.kit.tables.lake import Lake

pytestmark = [pytest.mark.unit, pytest.mark.slow]

SCHEMA = pa.schema(
    [("id", pa.string()), ("p", pa.string()), ("ts", pa.int32()), ("v", pa.int64()), ("_hoodie_is_deleted", pa.bool_())]
)
KEYS = st.sampled_from(["a", "b", "ä", "😀", "x:1,y:2", " ", "\uffee"])


@dataclass(frozen=True)
class Write:
    rows: list[dict[str, Any]]
    block_format: str
    cut: int
    """The rows before it are one task, those behind it another."""


@st.composite
def writes(draw: st.DrawFn) -> Write:
    row = st.fixed_dictionaries(
        {
            "id": KEYS,
            "p": st.sampled_from(["one", "two/deep", None]),
            "ts": st.integers(-1, 3),
            "v": st.integers(0, 9),
            "_hoodie_is_deleted": st.sampled_from([None, False, True]),
        }
    )
    rows = draw(st.lists(row, min_size=1, max_size=12))
    return Write(rows, draw(st.sampled_from(["parquet", "avro"])), draw(st.integers(0, len(rows))))


def expected(history: list[Write], by_event: bool) -> dict[tuple[Any, ...], dict[str, Any]]:
    """What a reader must see, row by row: the newest version of each key, unless that is a delete."""
    newest: dict[tuple[Any, ...], dict[str, Any]] = {}
    for write in history:
        for row in write.rows:
            key = (row["p"], row["id"])
            if not by_event or key not in newest or row["ts"] >= newest[key]["ts"]:
                newest[key] = row
    return {key: row for key, row in newest.items() if not row["_hoodie_is_deleted"]}


@settings(max_examples=times(60), deadline=None)
@given(history=st.lists(writes(), min_size=1, max_size=4), by_event=st.booleans(), bulk=st.booleans())
def test_any_history_of_writes_reads_as_the_rules_say(history: list[Write], by_event: bool, bulk: bool) -> None:
    mode = "EVENT_TIME_ORDERING" if by_event else "COMMIT_TIME_ORDERING"
    lake = Lake(SCHEMA, {"hoodie.table.partition.fields": "p", "hoodie.record.merge.mode": mode}, buckets=2)
    for number, write in enumerate(history):
        plan = lake.plan(block_format=write.block_format)
        if bulk and number == 0:
            # One task: two base files of a group in one write are two truths.
            plan = lake.plan(into_base=True, operation="bulk_insert")
            files = write_rows(lake.storage, plan, lake.table(write.rows), 0)
        else:
            parts = [(task, p) for task, p in enumerate((write.rows[: write.cut], write.rows[write.cut :])) if p]
            files = [f for task, p in parts for f in write_rows(lake.storage, plan, lake.table(p), task)]
        lake.publish(plan, files)
    found = {(r["p"], r["id"]): r for r in lake.rows()}
    assert found == expected(history, by_event)
    assert len(lake.rows()) == len(found)


@settings(max_examples=times(100), deadline=None)
@given(
    rows=st.lists(st.tuples(KEYS, st.sampled_from(["p", "q"]), st.integers(0, 3)), max_size=30),
    buckets=st.integers(1, 3),
    data=st.data(),
)
def test_the_order_of_the_input_does_not_show_in_what_is_written(
    rows: list[tuple[str, str, int]], buckets: int, data: st.DataObject
) -> None:
    rows = list(dict.fromkeys(rows))  # rows that differ in nothing are the same row
    shuffled = data.draw(st.permutations(rows))

    def written(given_rows: list[tuple[str, str, int]]) -> list[tuple[str, int, list[tuple[str, str, int]]]]:
        keys, parts, times = ([r[0] for r in given_rows], [r[1] for r in given_rows], [r[2] for r in given_rows])
        codes = pa.array([bucket_of(k, ["id"], buckets) for k in keys], pa.int64()).to_numpy()
        order = order_keys([pa.array(times, pa.int64())], len(given_rows))
        found = group_rows(pa.array(keys, pa.string()), pa.array(parts, pa.string()), codes, order)
        return [(g.partition, g.bucket, [given_rows[i] for i in found.rows[g.start : g.stop]]) for g in found.groups]

    assert written(rows) == written(shuffled)
    kept = [row for _, _, group in written(rows) for row in group]
    best = {(k, p): max(r[2] for r in rows if r[:2] == (k, p)) for k, p, _ in rows}
    assert {(k, p): n for k, p, n in kept} == best
    assert len(kept) == len(best)


@settings(max_examples=times(200), deadline=None)
@given(keys=st.lists(st.text(st.characters(codec="utf-8"), min_size=1, max_size=4), min_size=1))
def test_the_range_of_keys_is_javas(keys: list[str]) -> None:
    ordered = sorted(keys, key=lambda text: text.encode("utf-16-be"))
    assert key_range(pa.array(keys)) == (ordered[0], ordered[-1])


FLAT = [
    pa.bool_(), pa.int8(), pa.int32(), pa.int64(), pa.uint64(), pa.float16(), pa.float32(), pa.float64(), pa.string(),
    pa.large_string(), pa.binary(), pa.binary(3), pa.date32(), pa.date64(), pa.time32("ms"), pa.time64("us"),
    pa.timestamp("ms"), pa.timestamp("us", tz="UTC"), pa.decimal128(9, 2), pa.decimal128(20, 4), pa.null(),
]  # fmt: skip


@pytest.mark.parametrize("target", FLAT[:-1], ids=str)
@pytest.mark.parametrize("source", FLAT, ids=str)
def test_a_type_that_can_become_another_really_can(source: pa.DataType, target: pa.DataType) -> None:
    if can_become(source, target):
        nothing = exact_cast(pa.nulls(2, source), target)
        assert nothing.type == target
        assert nothing.null_count == 2
        assert pa.list_(source) == source or can_become(pa.list_(source), pa.list_(target))
    else:
        assert not can_become(pa.struct([("a", source)]), pa.struct([("a", target), ("b", target)]))


PREFIXED = st.builds(
    str.__add__, st.sampled_from(["", "user-", "user-0000000"]), st.text(st.sampled_from("ab\0ä😀\uffee"), max_size=12)
)


@settings(max_examples=times(300), deadline=None)
@given(keys=st.lists(PREFIXED, max_size=20), skipped=st.integers(0, 2))
def test_keys_are_sorted_by_their_bytes_and_equal_ones_by_their_place(keys: list[str], skipped: int) -> None:
    order, numbers = sort_keys(pa.array(["zz"] * skipped + keys, pa.string())[skipped:])
    assert list(order) == sorted(range(len(keys)), key=lambda row: (keys[row].encode(), row))
    distinct = sorted(set(keys), key=str.encode)
    assert [distinct[number] for number in numbers] == [keys[row] for row in order]
