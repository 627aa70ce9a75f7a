# SPDX-License-Identifier: Apache-2.0
"""Tables whose keys are looked up: rows find the group that has their key, and no key is ever there twice."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakebraid.errors import InvalidArgument, UnsupportedTable, WriteConflict
from lakebraid.format.names import State
from lakebraid.format.parquet.bloom import FILTER, FILTER_TYPE, BloomFilter, FilterOfKeys, parse_filter
from lakebraid.model.conflicts import find_clash
from lakebraid.model.file_sizing import Room, Share, Sizes, share_out, sizes_of
from lakebraid.model.timeline.instant import Instant
from lakebraid.model.timeline.slicing import GroupId
from lakebraid.tasks.lookup import find
from lakebraid.tasks.lookup.find import file_keys
from tests.kit.counting import calls_of
from tests.kit.effort import times
from tests.kit.reference import unpack
from tests.kit.tables.scene import Scene, answer, files, once, row

pytestmark = pytest.mark.unit

NO_SMALL_FILES = {"hoodie.parquet.small.file.limit": "0"}
PARTED = {"schema": "id string, ts bigint, v string, w bigint, p string", "partition_by": "p"}


def scene_of(table_type: str = "cow", index: str = "simple", **arguments: Any) -> Scene:
    return Scene(arguments={"table_type": table_type, "index": index} | arguments)


def in_p(partition: str, key: str, v: str, ts: int = 1) -> dict[str, Any]:
    return {**row(key, v, ts), "p": partition}


def places(scene: Scene) -> dict[str, str]:
    rows = scene.table.to_arrow(meta_columns=True).to_pylist()
    assert len({r["id"] for r in rows}) == len(rows), "a key appears twice"
    return {r["id"]: r["p"] for r in rows}


both_types = pytest.mark.parametrize("table_type", ["cow", "mor"])


# --- finding keys ----------------------------------------------------------------------------------------------------


@both_types
def test_a_key_is_updated_in_the_file_group_that_has_it(table_type: str) -> None:
    scene = scene_of(table_type, properties=NO_SMALL_FILES)
    for key in "abc":
        scene.table.insert([row(key, key)])
    done = scene.table.upsert([row("b", "new", 2), row("d", "d")])
    groups = {s.group.file_id for s in scene.table.snapshot().slices}
    assert len(groups) == 4
    assert (done.files, done.rows_written) == (2, 2)
    assert answer(scene.table) == {"a": "a", "b": "new", "c": "c", "d": "d"}


def test_updates_of_merge_on_read_tables_are_log_files_and_inserts_base_files() -> None:
    scene = scene_of("mor")
    scene.table.insert([row("a", "a")])
    before = set(files(scene.storage))
    scene.table.upsert([row("a", "new", 2), row("b", "b")])
    new = {name: ".log." in name for name in set(files(scene.storage)) - before}
    assert sorted(new.values()) == [False, True]
    scene.table.compact()
    assert answer(scene.table) == {"a": "new", "b": "b"}
    scene.table.upsert([row("a", "newer", 3)])
    assert answer(scene.table) == {"a": "newer", "b": "b"}


@pytest.mark.slow
@both_types
def test_a_deleted_key_may_come_back_and_is_there_once(table_type: str) -> None:
    scene = scene_of(table_type)
    scene.table.insert([row("a", "a"), row("b", "b")])
    assert scene.table.delete([{"id": "a"}, {"id": "nobody"}]).rows_deleted == 1
    assert answer(scene.table) == {"b": "b"}
    scene.table.upsert([row("a", "again", 5)])
    if table_type == "mor":
        scene.table.compact()
    scene.table.upsert([row("a", "newer", 6)])
    assert answer(scene.table) == {"a": "newer", "b": "b"}


@both_types
def test_a_partial_update_of_a_deleted_row_does_not_bring_back_what_was_deleted(table_type: str) -> None:
    scene = scene_of(table_type)
    scene.table.insert([row("a", "secret", 1, 7), row("b", "b", 1, 7)])
    scene.table.delete([{"id": "a"}])
    scene.table.upsert([{"id": k, "ts": 2, "v": "new"} for k in "ab"], columns=["id", "ts", "v"])
    rows = {r["id"]: (r["v"], r["w"]) for r in scene.table.to_arrow().to_pylist()}
    assert rows == {"a": ("new", None), "b": ("new", 7)}


@both_types
def test_deletes_of_keys_that_are_not_there_make_no_files(table_type: str) -> None:
    scene = scene_of(table_type)
    scene.table.insert([row("a", "a")])
    before = files(scene.storage)
    with scene.table.begin("delete") as txn:
        txn.write([{"id": "b"}])
    assert files(scene.storage) == before


@pytest.mark.slow
def test_key_ranges_and_filters_spare_the_key_columns_of_other_files(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = scene_of(properties=NO_SMALL_FILES)
    for first in (0, 100, 200):
        scene.table.insert([row(f"k{n:04d}", "x") for n in range(first, first + 100, 2)])
    spied = Mock(wraps=find.slice_keys)
    monkeypatch.setattr(find, "slice_keys", spied)
    scene.table.upsert([row("k0102", "new", 2), row("k0151", "new")])
    assert spied.call_count == 1
    assert scene.table.to_arrow().num_rows == 151


@pytest.mark.slow
@pytest.mark.parametrize("key", ["\U0001f600", "￿", "zz", "é"])
def test_keys_beyond_the_first_plane_are_found_although_java_sorts_them_elsewhere(key: str) -> None:
    scene = scene_of(properties=NO_SMALL_FILES)
    scene.table.insert([row(k, "old") for k in ("a", "￿", "\U0001f600", "é", "zz")])
    scene.table.upsert([row(key, "new", 2)])
    assert answer(scene.table)[key] == "new"


@settings(max_examples=times(10), deadline=None)
@given(st.sets(st.text(min_size=1, max_size=12).filter(lambda t: t.isprintable()), min_size=1, max_size=40))
def test_a_filter_never_denies_a_key_that_was_put_in(keys: set[str]) -> None:
    made = FilterOfKeys()
    array = pa.array(sorted(keys))
    made.add(array)
    parsed = parse_filter({k.encode(): v.encode() for k, v in made.entries().items()})
    assert parsed is not None
    assert parsed.may_hold(array).all()
    assert file_keys(len(keys), {k.encode(): v.encode() for k, v in made.entries().items()}).may_hold(array).all()


def test_filters_that_hudi_wrote_hold_its_keys_and_deny_others(tmp_path: Path) -> None:
    reference = unpack("v9_cow_clustering", tmp_path)
    strange = pa.array([f"nobody {n} é" for n in range(500)])
    kinds = set()
    for file in reference.path.rglob("*.parquet"):
        footer = pq.read_metadata(file).metadata or {}
        parsed = parse_filter(footer)
        keys = pq.read_table(file, columns=["_hoodie_record_key"]).column(0).combine_chunks()
        if parsed is not None and len(keys):
            kinds.add(footer[FILTER_TYPE.encode()])
            assert parsed.may_hold(keys.cast(pa.string())).all()
            assert not parsed.may_hold(strange).any()
    assert kinds == {b"DYNAMIC_V0"}


def test_a_filter_denies_nearly_all_others() -> None:
    made = FilterOfKeys()
    made.add(pa.array([f"key {n}" for n in range(5000)]))
    parsed = parse_filter({k.encode(): v.encode() for k, v in made.entries().items()})
    assert isinstance(parsed, BloomFilter)
    assert parsed.may_hold(pa.array([f"other {n}" for n in range(5000)])).mean() < 0.01


@pytest.mark.parametrize("text", [b"", b"!!", b"AAAA", b"//////8AAAAB", b"/////wAAAAoBf////w=="])
def test_a_filter_that_cannot_be_read_denies_nothing(text: bytes) -> None:
    assert parse_filter({FILTER.encode(): text}) is None


def test_base_files_say_what_hudis_indexes_ask_for() -> None:
    scene = scene_of()
    scene.table.insert([row(key, "x") for key in ("b", "a", "c")])
    (name,) = files(scene.storage)
    footer = pq.read_metadata(pa.BufferReader(scene.storage.read(name, 1 << 20))).metadata
    assert (footer[b"hoodie_min_record_key"], footer[b"hoodie_max_record_key"]) == (b"a", b"c")
    assert footer[b"hoodie_bloom_filter_type_code"] == b"SIMPLE"
    assert FILTER.encode() in footer


# --- one key, two writers (F26) --------------------------------------------------------------------------------------


def rivals(scene: Scene, one: list[dict[str, Any]], two: list[dict[str, Any]]) -> tuple[Any, Any]:
    first, second = scene.table.begin("insert"), scene.other().begin("insert")
    for transaction, rows in ((first, one), (second, two)):
        transaction.write(rows)
        transaction._stage()  # neither has seen the other's commit
    return first, second


@both_types
def test_of_two_inserts_of_one_key_the_second_is_refused(table_type: str) -> None:
    scene = scene_of(table_type, properties=NO_SMALL_FILES)
    first, second = rivals(scene, [row("a", "1"), row("b", "1")], [row("b", "2"), row("c", "2")])
    second.commit()
    with pytest.raises(WriteConflict, match="inserted the key 'b' as well") as caught:
        first.commit()
    assert caught.value.facts["other"] == second.instant
    assert answer(scene.table) == {"b": "2", "c": "2"}
    assert scene.table.status(first.instant) == "refused"


@pytest.mark.slow
@both_types
def test_two_inserts_of_different_keys_both_go_through(table_type: str) -> None:
    scene = scene_of(table_type, properties=NO_SMALL_FILES)
    first, second = rivals(scene, [row("a", "1"), row("c", "1")], [row("b", "2")])
    second.commit()
    first.commit()
    assert answer(scene.table) == {"a": "1", "b": "2", "c": "1"}


@both_types
def test_an_insert_that_lost_a_key_is_done_again_by_itself_and_updates_it(table_type: str) -> None:
    scene = scene_of(table_type, properties=NO_SMALL_FILES)
    meddling = once(
        lambda call: call.name == "create" and call.target.endswith(".parquet"),
        lambda: scene.table.insert([row("a", "theirs")]),
    )
    done = scene.other(before=meddling).insert([row("a", "ours", 2), row("b", "ours")])
    assert done.attempts == 2
    assert answer(scene.table) == {"a": "ours", "b": "ours"}


def test_a_key_put_into_a_small_file_is_held_against_new_files_of_others() -> None:
    scene = scene_of()
    scene.table.insert([row("m", "old")])
    small = scene.table.begin("insert")
    small.write([row("a", "small")])
    small._stage()
    bulk = scene.other().begin("bulk_insert")
    bulk.write([row("a", "bulk")])
    bulk.commit()
    with pytest.raises(WriteConflict, match="inserted the key 'a' as well"):
        small.commit()
    assert answer(scene.table) == {"m": "old", "a": "bulk"}


def test_a_key_put_into_a_small_file_by_another_is_seen_in_the_rewritten_file() -> None:
    scene = scene_of()
    scene.table.insert([row("m", "old")])
    small, bulk = scene.table.begin("insert"), scene.other().begin("bulk_insert")
    small.write([row("a", "small")])
    bulk.write([row("a", "bulk")])
    bulk._stage()
    small.commit()
    with pytest.raises(WriteConflict, match="inserted the key 'a' as well"):
        bulk.commit()
    assert answer(scene.table) == {"m": "old", "a": "small"}


def test_two_writers_that_fill_the_same_small_file_meet_in_it() -> None:
    scene = scene_of()
    scene.table.insert([row("m", "old")])
    first, second = rivals(scene, [row("a", "1")], [row("b", "2")])
    second.commit()
    with pytest.raises(WriteConflict, match="same file groups"):
        first.commit()


@pytest.mark.slow
def test_one_key_in_two_partitions_is_two_rows_unless_the_index_is_global() -> None:
    for index, is_refused in (("simple", False), ("global_simple", True)):
        scene = scene_of(index=index, **PARTED)
        first, second = rivals(scene, [in_p("x", "a", "1")], [in_p("y", "a", "2")])
        second.commit()
        if is_refused:
            with pytest.raises(WriteConflict, match="inserted the key 'a' as well"):
                first.commit()
        else:
            first.commit()
        assert scene.table.to_arrow().num_rows == (1 if is_refused else 2)


@pytest.mark.slow
def test_what_was_rewritten_and_cleaned_away_meanwhile_counts_as_the_same_key() -> None:
    scene = scene_of(properties=NO_SMALL_FILES)
    loser = scene.table.begin("insert")
    loser.write([row("a", "late")])
    loser._stage()
    scene.table.insert([row("b", "1")])
    gone = [name for name in files(scene.storage) if loser.instant not in name]
    scene.storage.delete(gone)
    with pytest.raises(WriteConflict, match="no longer known"):
        loser.commit()


# --- a global index --------------------------------------------------------------------------------------------------


@pytest.mark.slow
@both_types
def test_a_key_moves_to_the_partition_of_its_newest_row(table_type: str) -> None:
    scene = scene_of(table_type, "global_simple", **PARTED)
    scene.table.insert([in_p("x", "a", "1", 5), in_p("x", "b", "1", 5)])
    for partition, ts in (("y", 6), ("x", 7), ("y", 7), ("z", 8)):
        scene.table.upsert([in_p(partition, "a", partition, ts)])
        assert places(scene) == {"a": partition, "b": "x"}
    scene.table.upsert([in_p("x", "a", "stale", 1)])
    assert places(scene) == {"a": "z", "b": "x"}
    scene.table.delete([{"id": "a", "p": "x", "ts": 9}])
    assert places(scene) == {"b": "x"}


def test_a_partial_update_cannot_move_a_row() -> None:
    scene = scene_of(index="global_simple", **PARTED)
    scene.table.insert([in_p("x", "a", "1")])
    with pytest.raises(InvalidArgument, match="cannot move the key 'a' out of partition 'x'"):
        scene.table.upsert([{"id": "a", "ts": 2, "p": "y"}], columns=["id", "ts", "p"])
    assert places(scene) == {"a": "x"}


@both_types
def test_a_partial_update_opens_the_row_of_a_key_that_was_deleted_in_another_partition(table_type: str) -> None:
    scene = scene_of(table_type, "global_simple", **PARTED)
    scene.table.insert([in_p("x", "a", "1"), in_p("x", "b", "1")])
    scene.table.delete([{"id": "a", "p": "x"}])
    scene.table.upsert([{"id": "a", "ts": 2, "p": "y"}], columns=["id", "ts", "p"])
    assert places(scene) == {"a": "y", "b": "x"}


# --- where new rows go -----------------------------------------------------------------------------------------------


@pytest.mark.slow
@given(st.integers(0, 5000), st.lists(st.integers(0, 3000), max_size=6), st.integers(1, 200), st.integers(0, 2500))
def test_every_new_row_gets_one_place_and_no_file_grows_too_large(
    rows: int, sizes: list[int], row_bytes: int, small: int
) -> None:
    rooms = [Room(str(number), size) for number, size in enumerate(sizes)]
    shares = share_out(rows, rooms, row_bytes, Sizes(small, 2000))
    assert sum(share.rows for share in shares) == rows
    assert all(share.rows for share in shares)
    known = {room.file_id: room.size for room in rooms}
    for share in shares:
        before = known[share.file_id] if share.file_id else 0
        assert before < max(small, 1)
        assert before + share.rows * row_bytes <= 2000 or share == Share(None, 1)


def test_file_sizes_are_those_that_hudi_calls_so() -> None:
    assert sizes_of({}) == Sizes(104857600, 125829120)
    assert sizes_of({"hoodie.parquet.small.file.limit": "0", "hoodie.parquet.max.file.size": "7"}) == Sizes(0, 7)
    with pytest.raises(InvalidArgument, match=r"max\.file\.size"):
        sizes_of({"hoodie.parquet.max.file.size": "many"})


# --- what is refused, and how long a check takes ---------------------------------------------------------------------


@pytest.mark.parametrize(("table_type", "index"), [("cow", "bucket"), ("cow", "simple"), ("mor", "simple")])
def test_writers_that_never_wait_need_fixed_buckets(table_type: str, index: str) -> None:
    with pytest.raises(InvalidArgument, match="Only fixed buckets"):
        scene_of(table_type, index, concurrency="nbcc")


@pytest.mark.parametrize("mode", ["false", "FALSE"])
def test_a_global_index_that_leaves_rows_where_they_are_is_refused(mode: str) -> None:
    with pytest.raises((InvalidArgument, UnsupportedTable), match=r"update\.partition\.path"):
        scene_of(index="global_simple", properties={"hoodie.simple.index.update.partition.path": mode})


@pytest.mark.slow
@pytest.mark.parametrize(("table_type", "index"), [*itertools.product(("cow", "mor"), ("simple", "bucket"))])
def test_where_one_writer_was_promised_a_second_is_refused_and_a_dead_one_is_cleared(
    table_type: str, index: str
) -> None:
    scene = scene_of(table_type, index, concurrency="single")
    scene.table.insert([row("a", "a")])
    dead = scene.table.begin()
    dead.write([row("dead", "dead")])
    with pytest.raises(WriteConflict, match="one writer at a time") as caught:
        scene.other().upsert([row("b", "b")])
    assert caught.value.facts["other"] == dead.instant
    dead._heartbeat.stop()
    scene.clock.sleep(3600)
    scene.other().upsert([row("b", "b")])
    assert answer(scene.table) == {"a": "a", "b": "b"}
    assert scene.table.status(dead.instant) == "refused"


def test_holding_ten_thousand_file_groups_against_those_of_another_is_no_square_of_the_work() -> None:
    ids = [f"{n:08x}-1111-2222-3333-444444444444-0" for n in range(20_000)]
    ours = frozenset(GroupId(f"p={n % 100}", ids[n]) for n in range(10_000))
    theirs = frozenset(GroupId(f"p={n % 100}", ids[n]) for n in range(10_000, 20_000))
    other = Instant("20260101000000000", "commit", State.COMPLETED, "20260101000000001")
    clashes: list[object] = []
    calls = calls_of(lambda: clashes.append(find_clash([(other, "rule")], ours, lambda _: theirs, by_bucket=False)))
    assert clashes == [None]
    assert calls < 20 * len(ours), "eight of each when written"
