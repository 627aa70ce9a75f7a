# SPDX-License-Identifier: Apache-2.0
"""Random histories of overlapping writers and services: every reading equals what a naive model says."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import lakebraid as lb
from tests.histories import histories
from tests.oracle import AT, History, Oracle, Row, Settings
from tests.table_builder import build_table, open_table, t

pytestmark = pytest.mark.unit

EXAMPLES = int(os.environ.get("LAKEBRAID_ORACLE_EXAMPLES", "40"))
thorough = settings(
    max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate, Phase.shrink]
)


def moments(history: History, now: int) -> list[int]:
    return sorted(i.completion for i in history.instants if i.completion is not None and i.completion <= now)


def shown(table: pa.Table, *, with_times: bool = True) -> list[Any]:
    left_out = {"_hoodie_commit_seqno", "_hoodie_file_name", "_hoodie_record_key", "_hoodie_partition_path"}
    rows = [{k: v for k, v in row.items() if k not in left_out} for row in table.to_pylist()]
    return sorted((sorted(r.items()) for r in rows), key=repr)


def expected(rows: list[Row]) -> list[Any]:
    return sorted((sorted((r | {AT: t(r[AT])}).items()) for r in rows), key=repr)


def check_snapshots(table: lb.Table, history: History, now: int) -> None:
    oracle = Oracle(history)
    for moment in moments(history, now):
        if oracle.is_cleaned(moment, now):
            with pytest.raises(lb.SnapshotExpired):
                table.to_arrow(as_of=t(moment))
            continue
        snapshot = table.snapshot(t(moment))
        assert shown(snapshot.to_arrow(meta_columns=True)) == expected([*oracle.rows(moment).values()]), moment
        assert snapshot.count() == len(oracle.rows(moment)), moment
        base_rows = snapshot.to_arrow(meta_columns=True, mode="read_optimized")
        assert shown(base_rows) == expected(oracle.base_rows(moment)), moment


@thorough
@given(histories(), st.data())
def test_a_snapshot_at_every_completion_time_has_the_rows_of_the_model(history: History, data: st.DataObject) -> None:
    end = max(i.completion or i.start for i in history.instants)
    now = end - data.draw(st.integers(0, end - 2), label="moments before the end")
    archived = data.draw(st.integers(0, 4), label="archived")
    table = open_table(build_table(history, now=now, archived=archived))
    check_snapshots(table, history, now)
    latest = table.snapshot().to_arrow(meta_columns=True)
    assert shown(latest) == expected([*Oracle(history).rows(now).values()])


@thorough
@given(
    histories(
        deletes=False,
        partial=False,
        services=("compact", "clean"),
        settings=st.builds(
            Settings,
            by_event=st.booleans(),
            partitioned=st.booleans(),
            ordering=st.sampled_from([("ts",), ("ts", "ts2")]),
        ),
    )
)
def test_compaction_never_changes_an_answer(history: History) -> None:
    now = max(i.completion or i.start for i in history.instants)
    table = open_table(build_table(history))
    oracle = Oracle(history)
    for moment in moments(history, now):
        if not oracle.is_cleaned(moment, now):
            rows = table.to_arrow(as_of=t(moment), meta_columns=True)
            assert shown(rows) == expected([*oracle.rows_without_services(moment).values()]), moment


@thorough
@given(histories(), st.data())
def test_changes_between_any_two_moments_are_exactly_the_difference(history: History, data: st.DataObject) -> None:
    end = max(i.completion or i.start for i in history.instants)
    now = end - data.draw(st.integers(0, end - 2), label="moments before the end")
    table = open_table(build_table(history, now=now, archived=data.draw(st.integers(0, 4), label="archived")))
    times = moments(history, now)
    pairs = [*zip(times, times[1:], strict=False), *((times[0], m) for m in times)]
    pairs += data.draw(st.lists(st.tuples(st.sampled_from(times), st.sampled_from(times)), max_size=4), label="pairs")
    for after, until in [(None, times[-1]), *pairs]:
        if after is None or after <= until:
            check_changes(table, history, after, until, now)


def check_changes(table: lb.Table, history: History, after: int | None, until: int, now: int) -> None:
    oracle = Oracle(history)
    asked = {"after": None if after is None else t(after), "until": t(until)}
    if oracle.is_cleaned(until, now) or (after is not None and oracle.is_cleaned(after, now)):
        with pytest.raises(lb.SnapshotExpired):
            table.changes(**asked)
        return
    wanted = oracle.changes(after, until)
    images = table.changes(**asked, images=True)
    assert images.next_position == t(until)
    found = _told(images.to_arrow())
    assert len(found) == len(set(found)), (after, until)
    assert {*found} == wanted, (after, until)
    plain = table.changes(**asked).to_arrow()
    renamed = {(("update" if k == "update_postimage" else k), r) for k, r in wanted if k != "update_preimage"}
    assert sorted(_told(plain), key=repr) == sorted(renamed, key=repr), (after, until)
    for row in plain.to_pylist():
        assert (t(after) if after else "") < row["_commit_completion_time"] <= t(until)


def _told(table: pa.Table) -> list[tuple[str, Any]]:
    found = []
    for row in table.to_pylist():
        kind = row.pop("_change_type")
        row.pop("_commit_completion_time")
        found.append((kind, tuple(sorted(row.items()))))
    return found


def _at_least(value: int | None, bound: int) -> bool:
    return value is not None and value >= bound


FILTERS: list[tuple[Any, Callable[[Row], bool]]] = [
    ("id = 'k1'", lambda r: r["id"] == "k1"),
    ("id in ('k0', 'k3') and w >= 1", lambda r: r["id"] in ("k0", "k3") and _at_least(r["w"], 1)),
    ("ts >= 1", lambda r: _at_least(r["ts"], 1)),
    ("v is null", lambda r: r["v"] is None),
    ("v = 'a' or w = 0", lambda r: r["v"] == "a" or r["w"] == 0),
    ("id > 'k2'", lambda r: r["id"] > "k2"),
    ("v = 'b' and id = 'k2'", lambda r: r["v"] == "b" and r["id"] == "k2"),
    ([("w", "=", 2)], lambda r: r["w"] == 2),
    ("part = 'p1' and ts = 2", lambda r: r["part"] == "p1" and r["ts"] == 2),
]


@thorough
@given(histories(), st.data())
def test_columns_and_where_give_what_filtering_afterwards_gives(history: History, data: st.DataObject) -> None:
    end = max(i.completion or i.start for i in history.instants)
    oracle = Oracle(history)
    table = open_table(build_table(history, archived=data.draw(st.integers(0, 2), label="archived")))
    names = oracle.columns(end)
    rows = [*oracle.rows(end).values()]
    chosen = data.draw(st.lists(st.sampled_from(names), min_size=1, unique=True), label="columns")
    for where, keeps in FILTERS if history.settings.partitioned else FILTERS[:-1]:
        kept = [r for r in rows if keeps(r)]
        assert shown(table.to_arrow(where=where, meta_columns=True)) == expected(kept), where
        narrow = table.to_arrow(columns=chosen, where=where)
        assert narrow.column_names == chosen
        assert shown(narrow) == sorted((sorted((k, r[k]) for k in chosen) for r in kept), key=repr), where
        assert table.count(where=where) == len(kept), where
