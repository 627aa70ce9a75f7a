# SPDX-License-Identifier: Apache-2.0
"""Overwrites: whole partitions are replaced in one moment, and what is found afterwards."""

from __future__ import annotations

from typing import Any

import pytest

from lakebraid.errors import CorruptFile, InvalidArgument
from lakebraid.format.names import parse_data_file
from lakebraid.format.timeline.commit import parse_commit
from lakebraid.format.timeline.plans import parse_requested_replace
from lakebraid.model.keys.buckets import Replaced, replaced_file_id
from lakebraid.storage.memory import MemoryStorage
from lakebraid.txn.checks.overwrite_maps import MAPS, ReplacedMap, format_map, load_map, parse_map
from lakebraid.txn.liveness.heartbeat import Heartbeat
from tests.kit.tables.overwriting import BEFORE, another, groups, maps, rows, seen, table
from tests.kit.tables.scene import TickingClock, files, make_table

pytestmark = pytest.mark.unit


@pytest.fixture(autouse=True)
def _no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody here is slow enough to need a heartbeat."""
    monkeypatch.setattr(Heartbeat, "run", lambda self: None)


MODES = pytest.mark.parametrize("concurrency", ["nbcc", "occ"])


# --- what is seen ----------------------------------------------------------------------------------------------------


@MODES
def test_an_overwrite_replaces_the_partitions_of_its_rows_and_no_other(concurrency: str) -> None:
    t = table(concurrency=concurrency)
    before = t.snapshot().completion_time
    done = t.insert_overwrite(rows("p", a="2", z="2"))
    assert (done.operation, done.rows_written, done.groups_replaced) == ("insert_overwrite", 2, 2)
    assert seen(t) == {"p/a": "2", "p/z": "2", "q/c": "1"}
    assert seen(t, before) == BEFORE


def test_an_overwrite_of_the_table_replaces_all_of_it_and_no_rows_empty_it() -> None:
    t = table()
    assert t.insert_overwrite_table(rows("r", n="2")).groups_replaced == 3
    assert seen(t) == {"r/n": "2"}
    t.insert_overwrite_table([])
    assert seen(t) == {}
    t.upsert(rows("p", a="3"))
    assert seen(t) == {"p/a": "3"}


def test_where_a_key_is_there_once_in_all_partitions_some_of_them_are_not_overwritten() -> None:
    """The key may live in a partition that stays; a write that does not look there would put it into a second one."""
    clock = TickingClock()
    storage = MemoryStorage("memory://g", clock)
    whole = make_table(storage, clock, "id string, ts bigint, p string", partition_by="p", index="global_simple")
    whole.insert([{"id": "a", "ts": 1, "p": "x"}])
    with pytest.raises(InvalidArgument, match=r"Nothing was written\. Give all rows to insert_overwrite_table"):
        whole.insert_overwrite([{"id": "a", "ts": 2, "p": "y"}])
    assert whole.to_arrow(["p"]).to_pylist() == [{"p": "x"}]
    whole.insert_overwrite_table([{"id": "a", "ts": 2, "p": "y"}])
    assert whole.to_arrow(["p"]).to_pylist() == [{"p": "y"}]


def test_an_overwrite_without_rows_replaces_nothing() -> None:
    t = table()
    assert t.insert_overwrite([]).groups_replaced == 0
    assert seen(t) == BEFORE


def test_changes_across_an_overwrite_lead_from_the_old_rows_to_the_new_ones() -> None:
    t = table()
    before = t.snapshot().completion_time
    t.insert_overwrite([*rows("p", a="1", z="2")])
    t.upsert(rows("p", z="3"))
    t.delete_partitions(["q"])
    found = {(r["id"], r["v"], r["_change_type"]) for r in t.changes(after=before).to_arrow().to_pylist()}
    assert found == {("b", "1", "delete"), ("z", "3", "insert"), ("c", "1", "delete")}


def test_rows_after_an_overwrite_meet_those_of_the_overwrite_in_new_file_groups() -> None:
    t = table()
    old = groups(t, "p")
    request_time = t.insert_overwrite(rows("p", a="2", b="2")).instant
    t.upsert(rows("p", a="3"))
    another(t).upsert(rows("p", b="3", d="3"))
    assert groups(t, "p") == {replaced_file_id(0, request_time), replaced_file_id(1, request_time)}
    assert not groups(t, "p") & old
    assert seen(t) == {"p/a": "3", "p/b": "3", "p/d": "3", "q/c": "1"}
    t.insert_overwrite(rows("p", a="4"))
    t.upsert(rows("p", a="5", b="5"))
    assert seen(t) == {"p/a": "5", "p/b": "5", "q/c": "1"}


def test_deletes_and_partial_updates_find_the_rows_of_an_overwrite() -> None:
    t = table()
    t.insert_overwrite(rows("p", a="2", b="2"))
    t.delete([{"id": "b", "part": "p"}])
    t.upsert([{"id": "a", "ts": 2, "v": "3", "part": "p"}], columns=["id", "ts", "v", "part"])
    assert seen(t) == {"p/a": "3", "q/c": "1"}


def test_the_timeline_files_are_those_that_hudi_expects() -> None:
    t = table()
    done = t.insert_overwrite(rows("p", a="2"))
    folder, storage = ".hoodie/timeline", t._writing.storage
    requested = storage.read(f"{folder}/{done.instant}.replacecommit.requested", 10**6)
    assert parse_requested_replace(requested, "requested").plan is None
    assert storage.read(f"{folder}/{done.instant}.replacecommit.inflight", 10**6)
    data = storage.read(f"{folder}/{done.instant}_{done.completion_time}.replacecommit", 10**6)
    metadata = parse_commit(data, "completed")
    assert metadata.operation == "INSERT_OVERWRITE" and {*metadata.replaced} == {"p"}
    new = {s.file_id for s in metadata.write_stats["p"]}
    assert new and not new & {*metadata.replaced["p"]}, "the new rows would be hidden by their own commit (F8)"


def test_every_bucket_of_a_table_without_partitions_has_a_base_file_after_an_overwrite() -> None:
    t = table(partition_by=None, buckets=4)
    t.insert_overwrite(rows("p", a="2"))
    assert len(groups(t, "")) == 4
    assert {s.base is not None for s in t.snapshot().slices} == {True}
    t.upsert(rows("p", a="3", b="3"))
    assert seen(t) == {"p/a": "3", "p/b": "3"}


# --- in steps --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("operation", ["insert_overwrite", "insert_overwrite_table"])
def test_an_overwrite_in_steps_is_seen_at_its_commit_and_later_rows_win(operation: Any) -> None:
    t = table()
    with t.begin(operation) as txn:
        txn.write(rows("p", a="2", z="2"))
        txn.write(rows("p", a="3", y="3"))
        assert seen(t) == BEFORE
        txn.commit()
    rest = {"q/c": "1"} if operation == "insert_overwrite" else {}
    assert seen(t) == {"p/a": "3", "p/z": "2", "p/y": "3"} | rest


def test_an_aborted_overwrite_leaves_nothing_behind() -> None:
    t = table()
    kept = {*files(t._writing.storage)}
    txn = t.begin("insert_overwrite")
    txn.write(rows("p", a="2"))
    txn.abort()
    assert seen(t) == BEFORE
    assert {*files(t._writing.storage)} == kept and maps(t) == []


def test_an_overwrite_of_some_columns_is_refused_before_it_begins() -> None:
    t = table()
    with pytest.raises(InvalidArgument, match="whole rows"):
        t.begin("insert_overwrite", columns=["id", "ts", "v", "part"])


def test_a_new_column_may_come_with_an_overwrite() -> None:
    t = table()
    t.insert_overwrite([r | {"note": "new"} for r in rows("p", a="2")])
    assert {r["id"]: r["note"] for r in t.to_arrow().to_pylist()} == {"a": "new", "c": None}


def test_a_new_column_that_comes_late_is_the_tables_all_the_same() -> None:
    t = table()
    with another(t).begin("insert_overwrite") as late:
        late.write([r | {"note": "new"} for r in rows("p", a="2")])
        t.upsert(rows("q", c="2"))
    assert {r["id"]: (r["v"], r["note"]) for r in t.to_arrow().to_pylist()} == {"a": ("2", "new"), "c": ("2", None)}
    t.upsert(rows("q", c="3"))
    assert "note" in t.schema.names


# --- deleting partitions ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", [["p"], "p", [("p",)], [{"part": "p"}], {"part": "p"}])
def test_a_partition_is_named_by_its_path_or_its_values(given: Any) -> None:
    t = table()
    before = t.snapshot().completion_time
    assert t.delete_partitions(given).groups_replaced == 2
    assert seen(t) == {"q/c": "1"}
    assert seen(t, before) == BEFORE
    t.upsert(rows("p", a="9"))
    assert seen(t) == {"p/a": "9", "q/c": "1"}


def test_values_of_several_partition_columns_have_the_types_of_the_table() -> None:
    t = table(partition_by=["part", "w"], hive_style_partitioning=True)
    t.delete_partitions([{"w": 0, "part": "p"}])
    assert seen(t) == {"q/c": "1"}
    t.delete_partitions(["part=q/w=0"])
    assert seen(t) == {}
    with pytest.raises(InvalidArgument, match="has 2 values"):
        t.delete_partitions([("p",)])
    with pytest.raises(InvalidArgument, match=r"Column 'w' .* cannot take"):
        t.delete_partitions([("p", "many")])


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ([], "at least one"),
        (["x"], "no partition 'x'"),
        (["../p"], "level"),
        ([{"town": "p"}], "all of part"),
        ([""], "empty"),
    ],
)
def test_what_is_no_partition_of_the_table_is_refused_and_deletes_nothing(given: Any, says: str) -> None:
    t = table()
    with pytest.raises(InvalidArgument, match=says):
        t.delete_partitions(given)
    assert seen(t) == BEFORE


def test_a_partition_that_is_not_there_may_be_passed_over() -> None:
    t = table()
    t.delete_partitions(["x", "p"], missing_ok=True)
    t.upsert(rows("x", n="2"))
    assert seen(t) == {"q/c": "1", "x/n": "2"}


def test_a_table_without_partitions_says_how_to_empty_it() -> None:
    t = table(partition_by=None)
    with pytest.raises(InvalidArgument, match="insert_overwrite_table"):
        t.delete_partitions(["p"])


def test_all_partitions_may_be_deleted_and_written_again() -> None:
    t = table()
    t.delete_partitions(["p", "q"])
    assert seen(t) == {}
    t.upsert(rows("q", c="2"))
    assert seen(t) == {"q/c": "2"}


# --- the map ---------------------------------------------------------------------------------------------------------


def test_a_map_is_read_as_it_was_written() -> None:
    given = ReplacedMap(
        "m",
        Replaced({"p": "20260101000000001", "": "20260101000000003"}, "20260101000000002"),
        ("20260101000000001.ab",),
    )
    assert parse_map(format_map(given), "m", "here") == given
    assert given.replaced.file_id("x", 1) == replaced_file_id(1, "20260101000000002")
    assert given.replaced.after("20260101000000009", None) == Replaced(whole="20260101000000009")


@pytest.mark.parametrize(
    "data",
    [b"", b"[]", b'{"version":2}', b'{"version":1,"whole":"x","partitions":{},"before":[]}',
     b'{"version":1,"whole":null,"partitions":{"../p":"20260101000000001"},"before":[]}',
     b'{"version":1,"whole":null,"partitions":{},"before":["../../x"]}'],
)  # fmt: skip
def test_a_damaged_map_stops_a_writer_before_it_gives_a_bucket_a_second_id(data: bytes) -> None:
    t = table()
    t.insert_overwrite(rows("p", a="2"))
    (name,) = maps(t)
    t._writing.storage.replace(f"{MAPS}/{name}", data)
    with pytest.raises(CorruptFile):
        another(t).upsert(rows("p", a="3"))
    with pytest.raises(CorruptFile):
        load_map(t._writing.storage, name)


def test_all_file_names_of_an_overwrite_are_read_back() -> None:
    t = table()
    t.insert_overwrite(rows("p", a="2", b="2"))
    assert all(parse_data_file(name.rpartition("/")[2]) is not None for name in files(t._writing.storage))
