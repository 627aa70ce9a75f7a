# SPDX-License-Identifier: Apache-2.0
"""The public face of writing: begin, write, commit, abort, and what they tell."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebraid as lb
from lakebraid.errors import InvalidArgument, LakebraidError, SchemaConflict, StorageError
from lakebraid.format.times import is_instant_time
from lakebraid.txn.liveness.heartbeat import HEARTBEATS, heartbeat_name
from tests.kit.tables.scene import Call, Scene, answer, files, row

pytestmark = pytest.mark.unit


# --- results ---------------------------------------------------------------------------------------------------------


def test_a_result_tells_what_was_written_when_and_how_long_it_took() -> None:
    scene = Scene(arguments={"buckets": 2})
    result = scene.table.upsert([row(f"k{n}", "x") for n in range(20)])
    assert (result.operation, result.rows_written, result.rows_deleted, result.files) == ("upsert", 20, 0, 2)
    assert is_instant_time(result.instant) and result.instant < result.completion_time
    assert {*result.seconds} == {"begin", "write", "commit"}
    assert scene.table.status(result.instant) == "published"
    gone = scene.table.delete([{"id": "k1"}, {"id": "k2"}, {"id": "not there"}])
    assert (gone.operation, gone.rows_written, gone.rows_deleted) == ("delete", 0, 2)


@pytest.mark.parametrize("key", [{"id": "a", "p": None}, {"id": None, "k": "a", "p": "x"}], ids=["partition", "key"])
def test_a_row_with_a_null_in_its_partition_or_key_is_deleted_like_any_other(key: dict[str, Any]) -> None:
    keys = [name for name in key if name != "p"]
    columns = "id string, k string, ts bigint, p string"
    scene = Scene(arguments={"schema": columns, "record_keys": keys, "partition_by": "p"})
    other = dict.fromkeys(key, "other")
    scene.table.upsert([{**key, "ts": 1}, {**other, "ts": 1}])
    assert scene.table.delete([key]).rows_deleted == 1
    assert scene.table.to_arrow(columns=["p"]).to_pylist() == [{"p": "other"}]


def test_a_result_prints_what_matters_on_one_line() -> None:
    shown = repr(Scene().table.upsert([row("a", "1"), row("b", "2")]))
    assert "\n" not in shown
    for part in (
        "WriteResult(instant='2026",
        "completion_time='2026",
        "operation='upsert'",
        "rows_written=2",
        "files=1",
    ):
        assert part in shown


def test_equal_results_are_equal_however_long_they_took() -> None:
    result = Scene().table.upsert([row("a", "1")])
    other = type(result)(
        result.instant, result.completion_time, result.operation, result.rows_written, result.rows_deleted, result.files
    )
    assert other == result


@pytest.mark.parametrize("operation", ["upsert", "insert", "bulk_insert"])
def test_each_way_of_writing_says_its_name_and_its_rows_are_seen(operation: str) -> None:
    scene = Scene()
    result = getattr(scene.table, operation)([row("a", "1")])
    assert result.operation == operation
    assert answer(scene.table) == {"a": "1"}


def test_a_transaction_prints_its_instant_and_how_it_ended() -> None:
    scene = Scene()
    transaction = scene.table.begin()
    assert repr(transaction) == f"Transaction(upsert {transaction.instant}, open, 0 files)"
    transaction.write([row("a", "1")])
    transaction.commit()
    assert repr(transaction) == f"Transaction(upsert {transaction.instant}, committed, 1 files)"


# --- one use, one end ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["commit", "abort"])
@pytest.mark.parametrize("then", ["commit", "write"])
def test_a_transaction_is_for_one_use_and_says_so(end: str, then: str) -> None:
    scene = Scene()
    transaction = scene.table.begin()
    transaction.write([row("a", "1")])
    getattr(transaction, end)()
    again: Callable[[], Any] = transaction.commit if then == "commit" else lambda: transaction.write([row("b", "2")])
    with pytest.raises(InvalidArgument, match=rf"was {end}t?ed already and cannot {then}.*Begin another"):
        again()
    assert answer(scene.table) == ({"a": "1"} if end == "commit" else {})


def test_aborting_twice_or_after_the_commit_changes_nothing() -> None:
    scene = Scene()
    aborted, committed = scene.table.begin(), scene.table.begin()
    aborted.abort()
    aborted.abort()
    committed.write([row("a", "1")])
    committed.commit()
    committed.abort()
    assert answer(scene.table) == {"a": "1"}
    assert scene.table.status(committed.instant) == "published"


def test_an_aborted_write_is_refused_and_its_files_are_gone() -> None:
    scene = Scene()
    before = files(scene.storage)
    transaction = scene.table.begin()
    transaction.write([row("a", "1")])
    assert len(files(scene.storage)) == len(before) + 1
    transaction.abort()
    assert files(scene.storage) == before
    assert scene.table.status(transaction.instant) == "refused"
    assert [entry.instant.action for entry in scene.table.timeline()] == ["deltacommit", "rollback"]


def test_a_block_commits_at_its_end_and_aborts_if_it_raises() -> None:
    scene = Scene()
    with scene.table.begin() as transaction:
        transaction.write([row("a", "1")])
        assert answer(scene.table) == {}
    assert answer(scene.table) == {"a": "1"}
    failed = scene.table.begin()

    def fail() -> None:
        with failed:
            failed.write([row("a", "2")])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert answer(scene.table) == {"a": "1"}
    assert scene.table.status(failed.instant) == "refused"


def test_a_block_may_end_its_transaction_itself() -> None:
    scene = Scene()
    with scene.table.begin() as transaction:
        transaction.write([row("a", "1")])
        transaction.commit()
    with scene.table.begin() as given_up:
        given_up.write([row("a", "2")])
        given_up.abort()
    assert answer(scene.table) == {"a": "1"}


def test_the_status_of_a_write_is_open_until_it_is_decided() -> None:
    scene = Scene()
    published, refused, still_open = (scene.table.begin() for _ in range(3))
    assert {scene.table.status(t.instant) for t in (published, refused, still_open)} == {"open"}
    published.commit()
    refused.abort()
    for table in (scene.table, scene.other()):
        told = [table.status(t.instant) for t in (published, refused, still_open)]
        assert told == ["published", "refused", "open"]
    still_open.abort()


def test_the_status_of_an_instant_that_never_was_is_refused() -> None:
    assert Scene().table.status("20991231235959999") == "refused"


# --- several writes in one transaction -------------------------------------------------------------------------------


@pytest.mark.parametrize("by_event", [True, False])
@pytest.mark.parametrize("count", [2, 12])
def test_of_several_writes_in_one_transaction_the_later_wins_ties(by_event: bool, count: int) -> None:
    scene = Scene(by_event)
    with scene.table.begin() as transaction:
        for number in range(count):
            transaction.write([row("a", str(number)), row(f"k{number}", "x")])
    expected = {"a": str(count - 1), **{f"k{n}": "x" for n in range(count)}}
    assert answer(scene.table) == expected
    scene.table.compact()
    assert answer(scene.table) == expected


def test_by_event_time_an_earlier_write_of_a_transaction_with_a_greater_ordering_value_wins() -> None:
    scene = Scene()
    with scene.table.begin() as transaction:
        transaction.write([row("a", "newer event", ts=9)])
        transaction.write([row("a", "older event", ts=8)])
    assert answer(scene.table) == {"a": "newer event"}


@pytest.mark.parametrize("kind", ["upsert", "bulk_insert"])
def test_several_writes_of_a_bulk_load_lose_no_row_or_are_refused(kind: str) -> None:
    scene = Scene()
    transaction = scene.table.begin(kind)  # type: ignore[arg-type]
    try:
        transaction.write([row("a", "1")])
        transaction.write([row("b", "2")])
        transaction.commit()
    except LakebraidError as error:
        assert kind == "bulk_insert" and "Nothing was published" in error.message  # noqa: PT017
        assert answer(scene.table) == {}
    else:
        assert answer(scene.table) == {"a": "1", "b": "2"}


@pytest.mark.parametrize("data", [[], pa.table({"id": pa.array([], pa.string()), "ts": pa.array([], pa.int64())})])
def test_an_empty_write_is_a_commit_without_files(data: Any) -> None:
    scene = Scene()
    scene.table.upsert([row("a", "1")])
    for result in (scene.table.upsert(data), scene.table.delete(data)):
        assert (result.rows_written, result.rows_deleted, result.files) == (0, 0, 0)
        assert scene.table.status(result.instant) == "published"
    assert answer(scene.table) == {"a": "1"}


def test_an_empty_list_states_no_schema() -> None:
    scene = Scene(arguments={"schema": None})
    scene.table.upsert([])
    scene.table.upsert(pa.table({"id": ["a"], "ts": [1], "v": ["1"]}))
    assert answer(scene.table) == {"a": "1"}


def test_a_transaction_without_any_write_commits_nothing_and_changes_no_schema() -> None:
    scene = Scene()
    before = scene.table.schema
    result = scene.table.begin().commit()
    assert (result.rows_written, result.files) == (0, 0)
    assert scene.table.schema == before


# --- creating --------------------------------------------------------------------------------------------------------


def test_the_first_rows_state_the_schema_of_a_table_made_without_one() -> None:
    scene = Scene(arguments={"schema": None})
    scene.table.upsert(pa.table({"id": ["a"], "ts": pa.array([1], pa.int64()), "v": ["1"]}))
    assert scene.table.schema.names == ["id", "ts", "v"]
    with pytest.raises(InvalidArgument, match="'x'"):
        scene.table.upsert([{"id": "a", "ts": 2, "x": 1}], evolve=False)
    scene.table.upsert([{"id": "a", "ts": 2, "v": "2"}])
    assert answer(scene.table) == {"a": "2"}


def test_of_two_racing_first_commits_with_different_columns_one_is_refused_whole() -> None:
    scene = Scene(arguments={"schema": None})
    first, second = scene.table.begin(), scene.other().begin()
    first.write(pa.table({"id": ["a"], "ts": [1], "v": ["first"]}))
    second.write(pa.table({"id": ["b"], "ts": [1], "other": [7]}))
    first.commit()
    with pytest.raises(SchemaConflict, match=r"(?s)schema.*first.*Nothing was published.*other"):
        second.commit()
    assert scene.table.status(second.instant) == "refused"
    assert answer(scene.table) == {"a": "first"}
    assert not [name for name in files(scene.storage) if second.instant in name]


def test_of_two_racing_first_commits_with_the_same_columns_both_are_there() -> None:
    scene = Scene(arguments={"schema": None})
    first, second = scene.table.begin(), scene.other().begin()
    for transaction, key in ((first, "a"), (second, "b")):
        transaction.write(pa.table({"id": [key], "ts": [1], "v": [key]}))
    second.commit()
    first.commit()
    assert answer(scene.table) == {"a": "a", "b": "b"}


def test_creating_twice_is_an_error_unless_it_may_exist(tmp_path: Path) -> None:
    arguments: dict[str, Any] = {"record_keys": "id", "ordering_fields": "ts"}
    lb.Table.create(tmp_path / "t", "id string, ts bigint", **arguments).upsert([{"id": "a", "ts": 1}])
    with pytest.raises(InvalidArgument, match="exist_ok=True"):
        lb.Table.create(tmp_path / "t", "id string, ts bigint", **arguments)
    opened = lb.Table.create(tmp_path / "t", "id string, ts bigint", exist_ok=True, **arguments)
    assert opened.count() == 1
    with pytest.raises(InvalidArgument):
        lb.Table.create(tmp_path / "t", "id string, ts bigint", exist_ok=True, record_keys="ts")
    assert opened.count() == 1


def test_many_who_create_one_table_at_once_make_one_that_all_can_write(tmp_path: Path) -> None:
    count = 6
    start = threading.Barrier(count)

    def create(number: int) -> None:
        start.wait()
        table = lb.Table.create(
            tmp_path / "t", "id string, ts bigint", record_keys="id", ordering_fields="ts", exist_ok=True, buckets=2
        )
        table.upsert([{"id": str(number), "ts": 1}])

    with ThreadPoolExecutor(count) as pool:
        list(pool.map(create, range(count)))
    rows = lb.Table.open(tmp_path / "t").to_arrow().to_pylist()
    assert sorted(r["id"] for r in rows) == [str(n) for n in range(count)]


@pytest.mark.parametrize("bad", [None, 5, "text", [{"id": None}], [{"nope": 1}], [{"id": 1, "ts": "no number"}]])
def test_bad_input_leaves_no_trace_on_the_timeline(
    tmp_path: Path, bad: int | list[dict[str, Any]] | str | None
) -> None:
    table = lb.Table.create(tmp_path / "t", "id bigint, ts bigint", record_keys="id", ordering_fields="ts")
    with pytest.raises(lb.InvalidArgument):
        table.upsert(bad)
    assert len(table.timeline()) == 1
    assert not list((tmp_path / "t" / ".hoodie" / ".temp").rglob("*.marker.*"))


def test_a_write_shows_that_it_lives_before_others_see_it_though_the_store_says_no_once() -> None:
    """Apache Hudi rolls back whoever shows no heartbeat, however young it is."""
    scene = Scene()
    refused: list[Call] = []

    def refuse(call: Call) -> None:
        if call.name == "replace" and call.target.startswith(HEARTBEATS) and not refused:
            refused.append(call)
            raise StorageError("429")

    begun = scene.other(before=refuse).begin()
    assert refused and heartbeat_name(begun.instant) in [info.name for info in scene.storage.list()]
    begun.abort()
