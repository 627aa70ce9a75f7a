# SPDX-License-Identifier: Apache-2.0
"""Random histories of overlapping writers and services: every reading equals what a naive model says."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import lakebraid as lb
from tests.kit.effort import times
from tests.kit.models.oracle import AT, History, Oracle, Row, Settings
from tests.kit.tables.builder import build_table, open_table
from tests.kit.tables.built_files import stored, t
from tests.kit.tables.histories import histories

pytestmark = [pytest.mark.unit, pytest.mark.slow]

EXAMPLES = 50


def thorough(share: float = 1.0) -> settings:
    return settings(
        max_examples=times(round(EXAMPLES * share)),
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.explicit, Phase.generate, Phase.shrink],
    )


PLAIN = st.builds(
    Settings,
    by_event=st.booleans(),
    partitioned=st.booleans(),
    ordering=st.sampled_from([("ts",), ("ts", "ts2")]),
    order_type=st.sampled_from(["long", "string", "double"]),
)


def comparable(row: Row) -> tuple[tuple[str, Any], ...]:
    """A row as a value that equals another one exactly if they are the same row."""
    hidden = {"_hoodie_commit_seqno", "_hoodie_file_name", "_hoodie_record_key", "_hoodie_partition_path"}
    plain: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, float) and math.isnan(value):
            plain[name] = "NaN"
        elif name not in hidden:
            plain[name] = value.timestamp() if isinstance(value, datetime) else value
    return tuple(sorted(plain.items()))


def found_rows(table: pa.Table) -> list[Any]:
    return sorted((comparable(row) for row in table.to_pylist()), key=repr)


def model_rows(rows: Iterable[Row], told: Settings) -> list[Any]:
    """The model's rows as they must be found, with their writers' request times."""
    return sorted((comparable(in_files(row, told)) for row in rows), key=repr)


def in_files(row: Row, told: Settings) -> Row:
    values = {name: stored(name, value, told) for name, value in row.items() if name != AT}
    return values | ({AT: t(row[AT])} if AT in row and told.meta else {})


def moments(history: History, now: int) -> list[int]:
    return sorted(i.completion for i in history.instants if i.completion is not None and i.completion <= now)


def end_of(history: History) -> int:
    return max(i.completion or i.request_time for i in history.instants)


@thorough()
@given(histories(), st.data())
def test_a_snapshot_at_every_completion_time_has_the_rows_of_the_model(history: History, data: st.DataObject) -> None:
    now = end_of(history) - data.draw(st.integers(0, end_of(history) - 2), label="moments before the end")
    archived = data.draw(st.integers(0, 4), label="archived")
    table = open_table(build_table(history, now=now, archived=archived))
    check_snapshots(table, history, now)
    latest = found_rows(table.to_arrow(meta_columns=True))
    assert latest == model_rows(Oracle(history).rows(now).values(), history.settings)


def check_snapshots(table: lb.Table, history: History, now: int) -> None:
    oracle = Oracle(history)
    for moment in moments(history, now):
        if oracle.is_cleaned(moment, now):
            with pytest.raises(lb.SnapshotExpired):
                table.to_arrow(as_of=t(moment))
            continue
        snapshot = table.snapshot(t(moment))
        rows = oracle.rows(moment)
        assert found_rows(snapshot.to_arrow(meta_columns=True)) == model_rows(rows.values(), history.settings), moment
        assert snapshot.count() == len(rows), moment
        base_rows = found_rows(snapshot.to_arrow(meta_columns=True, mode="read_optimized"))
        assert base_rows == model_rows(oracle.base_rows(moment), history.settings), moment


@thorough()
@given(histories(deletes=False, partial=False, services=("compact", "clean"), settings=PLAIN))
def test_compaction_never_changes_an_answer(history: History) -> None:
    table, oracle = open_table(build_table(history)), Oracle(history)
    for moment in moments(history, end_of(history)):
        if not oracle.is_cleaned(moment, end_of(history)):
            rows = found_rows(table.to_arrow(as_of=t(moment), meta_columns=True))
            assert rows == model_rows(oracle.rows_without_services(moment).values(), history.settings), moment


@thorough(share=0.6)
@given(histories(), st.data())
def test_changes_between_any_two_moments_are_exactly_the_difference(history: History, data: st.DataObject) -> None:
    now = end_of(history) - data.draw(st.integers(0, end_of(history) - 2), label="moments before the end")
    table = open_table(build_table(history, now=now, archived=data.draw(st.integers(0, 4), label="archived")))
    times = moments(history, now)
    pairs = [*zip(times, times[1:], strict=False), (times[0], times[-1])]
    pairs += data.draw(st.lists(st.tuples(st.sampled_from(times), st.sampled_from(times)), max_size=3), label="pairs")
    for after, until in [(None, times[-1]), *pairs]:
        if after is None or after <= until:
            check_changes(table, history, after, until, now)


def check_changes(table: lb.Table, history: History, after: int | None, until: int, now: int) -> None:
    oracle = Oracle(history)
    request_time, end = None if after is None else t(after), t(until)
    if oracle.is_cleaned(until, now) or (after is not None and oracle.is_cleaned(after, now)):
        with pytest.raises(lb.SnapshotExpired):
            table.changes(request_time, end)
        return
    wanted = [(kind, comparable(in_files(dict(row), history.settings))) for kind, row in oracle.changes(after, until)]
    images = table.changes(request_time, end, images=True)
    assert images.next_position == t(until)
    assert told_changes(images.to_arrow()) == sorted(wanted, key=repr), (after, until)
    plain = table.changes(request_time, end).to_arrow()
    renamed = [("update" if k == "update_postimage" else k, r) for k, r in wanted if k != "update_preimage"]
    assert told_changes(plain) == sorted(renamed, key=repr), (after, until)
    check_completions(plain, history, after, until)


def told_changes(table: pa.Table) -> list[tuple[str, Any]]:
    rows = table.drop_columns(["_commit_completion_time"]).to_pylist()
    return sorted(((row.pop("_change_type"), comparable(row)) for row in rows), key=repr)


def check_completions(changes: pa.Table, history: History, after: int | None, until: int) -> None:
    """A change bears the completion of the write that made the row, and in any case one in the range asked for."""
    rows = Oracle(history).rows(until)
    # A writer that is archived and whose files are cleaned away may be forgotten.
    forgotten = {f.request_time for i in history.instants for f in i.removed}
    for row in changes.to_pylist():
        completion = row["_commit_completion_time"]
        assert (t(after) if after else "") < completion <= t(until)
        if row["_change_type"] != "delete" and history.settings.meta:
            writer = history.instant(rows[row.get("part") or "", row["id"]][AT])
            if (after or 0) < (writer.completion or 0) and writer.request_time not in forgotten:
                assert completion == t(writer.completion or 0), row


def _at_least(value: int | None, bound: int) -> bool:
    return value is not None and value >= bound


Filter = tuple[Any, Callable[[Row], bool]]
FILTERS: list[Filter] = [
    ("id = 'k1'", lambda r: r["id"] == "k1"),
    ("id in ('k0', 'k3') and w >= 1", lambda r: r["id"] in ("k0", "k3") and _at_least(r["w"], 1)),
    ("v is null", lambda r: r["v"] is None),
    ("v = 'a' or w = 0", lambda r: r["v"] == "a" or r["w"] == 0),
    ("id > 'k2'", lambda r: r["id"] > "k2"),
    ("v = 'b' and id = 'k2'", lambda r: r["v"] == "b" and r["id"] == "k2"),
    ([("w", "=", 2)], lambda r: r["w"] == 2),
]
ORDER_FILTER: Filter = ("ts >= 1", lambda r: _at_least(r["ts"], 1))
PART_FILTER: Filter = (
    "part = 'p1' and w < 2",
    lambda r: r["part"] == "p1" and r["w"] in (0, 1),
)


@thorough()
@given(histories(), st.data())
def test_columns_and_where_give_what_filtering_afterwards_gives(history: History, data: st.DataObject) -> None:
    table = open_table(build_table(history, archived=data.draw(st.integers(0, 2), label="archived")))
    names = Oracle(history).columns(end_of(history))
    chosen = data.draw(st.lists(st.sampled_from(names), min_size=1, unique=True), label="columns")
    filters = data.draw(st.lists(st.sampled_from(filters_of(history)), min_size=1, max_size=3, unique_by=str))
    check_filters(table, history, end_of(history), filters, chosen)


def filters_of(history: History) -> list[Filter]:
    """The filters that fit the table's columns."""
    by_order = [ORDER_FILTER] if history.settings.order_type == "long" else []
    return [*FILTERS, *by_order, *([PART_FILTER] if history.settings.partitioned else [])]


def check_filters(
    table: lb.Table, history: History, now: int, filters: Iterable[Filter], chosen: Sequence[str] = ("v",)
) -> None:
    told, rows = history.settings, [*Oracle(history).rows(now).values()]
    for where, keeps in filters:
        kept = [r for r in rows if keeps(r)]
        assert found_rows(table.to_arrow(where=where, meta_columns=True)) == model_rows(kept, told), where
        narrow = table.to_arrow(columns=chosen, where=where)
        assert narrow.column_names == [*chosen]
        assert found_rows(narrow) == model_rows([{k: r[k] for k in chosen} for r in kept], told), where
        assert table.count(where=where) == len(kept), where
