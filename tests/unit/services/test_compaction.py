# SPDX-License-Identifier: Apache-2.0
"""Planning, claiming and executing compactions, step by step."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lakebraid.format.log.blocks import BlockType, read_blocks
from tests.kit.models.oracle import Block, Gone, Instant, Put, Settings
from tests.kit.tables.builder import open_table
from tests.kit.tables.built_files import t
from tests.kit.tables.compacting import Bench
from tests.kit.tables.small_histories import BY_COMMIT, BY_EVENT, COLUMNS, G, log, put, shown

pytestmark = pytest.mark.unit


def bench(settings: Settings = BY_EVENT) -> Bench:
    return Bench(settings, COLUMNS)


def begin(table: Bench, *entries: Put | Gone, columns: tuple[str, ...] | None = None) -> Instant:
    blocks = log(1, *entries).blocks
    if columns is not None:
        blocks = tuple(replace(b, columns=columns, partial=True) for b in blocks)
    return table.begin({G: blocks}, columns)


def write(table: Bench, *entries: Put | Gone) -> Instant:
    instant = begin(table, *entries)
    table.publish(instant)
    return instant


def seen(table: Bench) -> dict[str, str]:
    return shown(open_table(table.storage))


# --- deletes ---------------------------------------------------------------------------------------------------------


def test_a_row_stays_deleted_when_an_older_event_arrives_after_the_compaction() -> None:
    table = bench()
    write(table, put("a", "old", ts=1))
    write(table, Gone("a", (5,)))
    done = table.compact()
    assert done is not None and done.tombstones == 1 and done.rows == 0
    write(table, put("a", "late", ts=4))
    assert seen(table) == {}
    write(table, put("a", "newer", ts=5))
    assert seen(table) == {"a": "newer"}


def test_a_carried_delete_is_carried_again_and_keeps_its_own_request_time() -> None:
    table = bench()
    slow = begin(table, put("a", "slow", ts=5))
    delete = write(table, Gone("a", (5,)))
    between = begin(table, put("a", "between", ts=5))
    for _ in range(3):
        write(table, put("b", "b"))
        assert table.compact() is not None
    table.publish(slow)
    assert seen(table) == {"b": "b"}, "it began before the delete, and ties go to the later request time"
    table.publish(between)
    assert seen(table) == {"b": "b", "a": "between"}
    logs = [n for n in table.names() if n.startswith(".") and t(delete.request_time) not in n and "_0-00-" in n]
    blocks = [b for name in logs for b in read_blocks(table.storage.read(name, 10**6), name).blocks]
    assert len(logs) == 3
    assert {(b.type, b.instant_time) for b in blocks} == {(BlockType.DELETE, t(delete.request_time))}


def test_a_delete_that_a_row_outranks_is_not_carried() -> None:
    table = bench()
    late = begin(table, Gone("a", (1,)))
    write(table, put("a", "row", ts=1))
    table.compact()
    table.publish(late)
    assert seen(table) == {"a": "row"}
    done = table.compact()
    assert done is not None and done.tombstones == 0
    assert seen(table) == {"a": "row"}


def test_a_slice_with_nothing_but_carried_deletes_is_not_compacted_again() -> None:
    table = bench()
    write(table, put("a", "a"), Gone("b", (1,)))
    assert table.compact() is not None
    assert table.plan() is None


FORGOTTEN = pytest.mark.parametrize(("settings", "gone"), [(BY_COMMIT, Gone("a", (9,))), (BY_EVENT, Gone("a"))])


@FORGOTTEN
def test_a_delete_that_would_be_forgotten_is_carried_on_while_an_older_write_is_open(
    settings: Settings, gone: Gone
) -> None:
    table = bench(settings)
    write(table, put("a", "first"), put("b", "b"))
    slow = begin(table, put("a", "slow"))
    delete = write(table, gone)
    done = table.compact()
    assert done is not None and done.rows == 2, "the delete is not merged yet"
    (name,) = [n for n in table.names() if f"_{done.instant}.log" in n]
    assert [b.instant_time for b in read_blocks(table.storage.read(name, 10**6), name).blocks] == [
        t(delete.request_time)
    ]
    assert seen(table) == {"b": "b"}
    table.publish(slow)
    assert seen(table) == {"b": "b"}
    again = table.compact()
    assert again is not None and again.rows == 1
    assert seen(table) == {"b": "b"}


@FORGOTTEN
def test_a_group_whose_delete_would_be_forgotten_waits_if_writes_on_both_sides_of_it_are_open(
    settings: Settings, gone: Gone
) -> None:
    table = bench(settings)
    write(table, put("a", "first"))
    slow = begin(table, put("a", "slow"))
    write(table, gone)
    other = begin(table, put("b", "other"))
    assert table.plan() is None
    table.publish(other)
    assert table.compact() is not None
    table.publish(slow)
    assert seen(table) == {"b": "other"}
    assert table.compact() is not None
    assert seen(table) == {"b": "other"}


def test_a_delete_that_is_older_than_all_open_writes_does_not_hold_up_its_group() -> None:
    table = bench(BY_COMMIT)
    write(table, put("a", "first"), put("b", "b"))
    write(table, Gone("a"))
    slow = begin(table, put("a", "slow"))
    assert table.compact() is not None
    assert seen(table) == {"b": "b"}
    table.publish(slow)
    assert seen(table) == {"a": "slow", "b": "b"}


def test_a_row_that_marks_itself_deleted_by_commit_time_holds_up_its_group_too() -> None:
    columns = (*COLUMNS, "_hoodie_is_deleted")
    table = Bench(BY_COMMIT, columns)
    flagged = Block("parquet", (Put("a", {"id": "a", "ts": 1, "v": "x", "w": 0, "_hoodie_is_deleted": True}),), columns)
    slow = begin(table, put("a", "slow"))
    table.publish(table.begin({G: (flagged,)}))
    assert table.plan() is None
    table.publish(slow)
    assert table.compact() is not None
    assert seen(table) == {}


@pytest.mark.parametrize("order_type", ["long", "int", "string"])
def test_deletes_that_no_delete_block_can_tell_are_carried_as_the_rows_they_were(order_type: str) -> None:
    columns = (*COLUMNS, "_hoodie_is_deleted")
    table = Bench(replace(BY_EVENT, order_type=order_type), columns)
    row: dict[str, Any] = {"id": "a", "ts": None, "v": "x", "w": 0, "_hoodie_is_deleted": True}
    slow = table.begin({G: (Block("avro", (Put("a", row | {"v": "slow", "_hoodie_is_deleted": False}),), columns),)})
    table.publish(table.begin({G: (Block("avro", (Put("a", row),), columns),)}))
    done = table.compact()
    assert done is not None and done.tombstones == 1
    table.publish(slow)
    assert seen(table) == {}, "both have no ordering value, and the delete began later"
    write(table, put("a", "fresh", ts=1))
    assert seen(table) == {"a": "fresh"}


# --- partial updates -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [BY_COMMIT, BY_EVENT])
@pytest.mark.parametrize("theirs", [None, ("id", "ts", "w"), ("id", "ts", "v", "w")])
@pytest.mark.parametrize("waits", [True, False])
def test_columns_that_an_older_open_write_may_change_are_not_merged_before_it_ends(
    settings: Settings, theirs: tuple[str, ...] | None, waits: bool
) -> None:
    """A compacted row has one rank, that of its newest column: the older write would lose all of its own."""
    table = bench(settings)
    write(table, put("a", "first"))
    slow = begin(table, Put("a", {"id": "a", "ts": 1, "v": "slow", "w": 7}), columns=theirs)
    table.publish(begin(table, Put("a", {"id": "a", "ts": 1, "v": "part"}), columns=("id", "ts", "v")))
    waits &= settings is BY_COMMIT  # by event time the base file keeps the rank of each column
    if waits:
        other = begin(table, put("b", "other"))
        assert table.plan() is None
        table.give_up(other)
    else:
        assert table.compact() is not None
    table.publish(slow)
    wanted = [{"id": "a", "ts": 1, "v": "part", "w": 7}]
    assert open_table(table.storage).to_arrow().to_pylist() == wanted
    if not waits:
        write(table, put("z", "z"))
        wanted.append({"id": "z", "ts": 1, "v": "z", "w": 0})
    assert table.compact() is not None
    assert open_table(table.storage).to_arrow().sort_by("id").to_pylist() == wanted


def test_an_older_write_of_the_same_columns_by_commit_time_is_not_waited_for() -> None:
    table = bench(BY_COMMIT)
    write(table, put("a", "first"))
    columns = ("id", "ts", "v")
    slow = begin(table, Put("a", {"id": "a", "ts": 1, "v": "slow"}), columns=columns)
    table.publish(begin(table, Put("a", {"id": "a", "ts": 1, "v": "part"}), columns=columns))
    assert table.compact() is not None
    table.publish(slow)
    assert seen(table) == {"a": "part"}


@pytest.mark.parametrize("settings", [BY_COMMIT, BY_EVENT])
def test_a_partial_update_does_not_carry_columns_of_a_late_finisher_over_newer_ones(settings: Settings) -> None:
    """Only when the compaction is over somebody updates partially; nobody could have waited for that."""
    table = bench(settings)
    slow = begin(table, put("a", "slow", ts=1))
    write(table, put("a", "newer", ts=2))
    assert table.compact() is not None
    table.publish(slow)
    table.publish(begin(table, Put("a", {"id": "a", "ts": 3, "w": 7}), columns=("id", "ts", "w")))
    for _ in range(2):
        rows = open_table(table.storage).to_arrow().to_pylist()
        assert rows == [{"id": "a", "ts": 3, "v": "newer", "w": 7}]
        table.compact()


def test_a_late_delete_that_outranks_a_base_row_leaves_nothing_for_a_partial_update() -> None:
    table = bench()
    slow = begin(table, Gone("a", (5,)))
    write(table, put("a", "older", ts=2))
    assert table.compact() is not None
    table.publish(slow)
    table.publish(begin(table, Put("a", {"id": "a", "ts": 4, "w": 7}), columns=("id", "ts", "w")))
    assert seen(table) == {}
    table.publish(begin(table, Put("a", {"id": "a", "ts": 6, "w": 8}), columns=("id", "ts", "w")))
    for _ in range(2):
        rows = open_table(table.storage).to_arrow().to_pylist()
        assert rows == [{"id": "a", "ts": 6, "v": None, "w": 8}]
        table.compact()
