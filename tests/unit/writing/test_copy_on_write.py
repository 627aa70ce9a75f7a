# SPDX-License-Identifier: Apache-2.0
"""Copy-on-write tables: base files are rewritten, old ones stay for those who read them, and services tend them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakebraid.errors import InvalidArgument, RolledBack, SchemaConflict, UnsupportedTable, WriteConflict
from lakebraid.format.names import parse_timeline_file
from lakebraid.format.timeline.commit import parse_commit
from lakebraid.model.config import parse_config
from lakebraid.model.creation.plan import plan_table
from lakebraid.table.loading import load_config
from tests.kit.effort import times
from tests.kit.tables.scene import Scene, answer, files, once, row

pytestmark = pytest.mark.unit

KINDS = [("cow", "bucket"), ("cow", "simple"), ("mor", "simple")]
every_kind = pytest.mark.parametrize(("table_type", "index"), KINDS, ids=[" ".join(kind) for kind in KINDS])
both_indexes = pytest.mark.parametrize("index", ["bucket", "simple"])


def scene_of(table_type: str = "cow", index: str = "simple", **arguments: Any) -> Scene:
    return Scene(arguments={"table_type": table_type, "index": index, "buckets": 2} | arguments)


# --- writing ---------------------------------------------------------------------------------------------------------


@every_kind
def test_the_newest_row_of_a_key_is_kept_whatever_comes_in_which_call(table_type: str, index: str) -> None:
    scene = scene_of(table_type, index)
    scene.table.insert([row("a", "old", 5), row("b", "old", 5)])
    with scene.table.begin() as txn:
        txn.write([row("a", "stale", 4), row("b", "first", 6), row("c", "first", 1)])
        txn.write([row("b", "second", 6), row("c", "second", 1), row("d", "gone", 1)])
        txn.write_deletes([{"id": "d", "ts": 1}])
        assert answer(scene.table) == {"a": "old", "b": "old"}
    assert answer(scene.table) == {"a": "old", "b": "second", "c": "second"}


@pytest.mark.slow
@every_kind
def test_a_partial_update_changes_its_columns_and_opens_rows_of_new_keys(table_type: str, index: str) -> None:
    scene = scene_of(table_type, index)
    scene.table.insert([row("a", "old", 1, 7)])
    scene.table.upsert([{"id": "a", "ts": 2, "v": "new"}, {"id": "b", "ts": 2, "v": "new"}], columns=["id", "ts", "v"])
    rows = {r["id"]: (r["v"], r["w"]) for r in scene.table.to_arrow().to_pylist()}
    assert rows == {"a": ("new", 7), "b": ("new", None)}
    with pytest.raises(InvalidArgument):
        scene.table.upsert([{"id": "a", "v": "new"}], columns=["id", "v"])


@both_indexes
def test_a_commit_says_what_it_did_to_each_file(index: str) -> None:
    scene = scene_of("cow", index, buckets=1)
    first = scene.table.insert([row(key, "old") for key in "abc"])
    done = scene.table.upsert([row("a", "new", 2), row("d", "new")])
    assert (done.rows_written, done.files) == (2, 1)
    (stat,) = _stats(scene, done.instant)
    assert (stat.prev_commit, stat.num_writes, stat.num_inserts, stat.num_update_writes) == (first.instant, 4, 1, 1)
    gone = scene.table.delete([{"id": "b", "ts": 9}, {"id": "nobody", "ts": 9}])
    (stat,) = _stats(scene, gone.instant)
    assert (stat.num_writes, stat.num_inserts, stat.num_update_writes, stat.num_deletes) == (3, 0, 0, 1)
    assert gone.rows_deleted == 1


def _stats(scene: Scene, request_time: str) -> list[Any]:
    for info in scene.storage.list(".hoodie/timeline"):
        name = parse_timeline_file(info.name.rpartition("/")[2])
        if name is not None and name.request_time == request_time and name.completion_time:
            assert name.action == "commit"
            stats = parse_commit(scene.storage.read(info.name, 1 << 20), info.name).write_stats
            return [stat for found in stats.values() for stat in found]
    raise AssertionError(request_time)


@pytest.mark.slow
@both_indexes
def test_a_group_that_loses_all_rows_takes_new_ones(index: str) -> None:
    scene = scene_of("cow", index, buckets=1)
    scene.table.insert([row("a", "a"), row("b", "b")])
    scene.table.delete([{"id": "a"}, {"id": "b"}])
    assert answer(scene.table) == {}
    scene.table.upsert([row("b", "again", 3), row("c", "c")])
    assert answer(scene.table) == {"b": "again", "c": "c"}


_CHANGES = st.lists(
    st.tuples(st.sampled_from("abcdef"), st.sampled_from(["put", "gone"]), st.integers(0, 3)), min_size=1, max_size=5
)


@pytest.mark.slow
@settings(max_examples=times(15), deadline=None)
@given(st.lists(_CHANGES, min_size=1, max_size=4), st.sampled_from(KINDS), st.booleans())
def test_any_sequence_of_writes_gives_what_a_dictionary_gives(
    writes: list[list[tuple[str, str, int]]], kind: tuple[str, str], by_event: bool
) -> None:
    table_type, index = kind
    scene = Scene(by_event=by_event, arguments={"table_type": table_type, "index": index, "buckets": 2})
    model: dict[str, tuple[int, str | None]] = {}
    for at, changes in enumerate(writes):
        there = set(model)
        with scene.table.begin() as txn:
            for key, what, ts in changes:
                before = model.get(key)
                if what == "put":
                    txn.write([row(key, f"{at} {ts}", ts)])
                else:
                    txn.write_deletes([{"id": key, "ts": ts}] if by_event else [{"id": key}])
                if before is None or not by_event or ts >= before[0]:
                    model[key] = (ts, f"{at} {ts}" if what == "put" else None)
        # A delete is remembered in a log, and only a key that is in a base file has a log to go to.
        kept = there if table_type == "mor" else set()
        model = {key: value for key, value in model.items() if value[1] is not None or key in kept}
        assert answer(scene.table) == {key: v for key, (_, v) in model.items() if v is not None}


# --- other writers ---------------------------------------------------------------------------------------------------


@both_indexes
def test_an_upsert_that_met_another_one_is_done_again_by_itself(index: str) -> None:
    scene = scene_of("cow", index, buckets=1)
    scene.table.insert([row("a", "old"), row("b", "old")])
    meddling = once(
        lambda call: call.name == "create" and call.target.endswith(".parquet"),
        lambda: scene.table.upsert([row("a", "theirs", 2)]),
    )
    done = scene.other(before=meddling).upsert([row("b", "ours", 2)])
    assert done.attempts == 2
    assert answer(scene.table) == {"a": "theirs", "b": "ours"}


@both_indexes
def test_nobody_overwrites_a_base_file_that_was_rewritten_since_it_was_read(index: str) -> None:
    scene = scene_of("cow", index, buckets=1)
    scene.table.insert([row("a", "old"), row("b", "old")])
    loser, winner = scene.table.begin(), scene.other().begin()
    loser.write([row("a", "lost", 2)])
    winner.write([row("b", "won", 2)])
    loser._stage()
    winner.commit()
    with pytest.raises(WriteConflict, match="same file groups"):
        loser.commit()
    assert answer(scene.table) == {"a": "old", "b": "won"}
    assert not [name for name in files(scene.storage) if loser.instant in name]


@pytest.mark.slow
@both_indexes
def test_the_files_of_a_dead_writer_are_never_read_and_are_removed(index: str) -> None:
    scene = scene_of("cow", index, buckets=1)
    scene.table.insert([row("a", "old")])
    dead = scene.other().begin()
    dead.write([row("a", "dead", 9), row("b", "dead")])
    dead._stage()
    dead._heartbeat.stop()
    assert [name for name in files(scene.storage) if dead.instant in name]
    assert answer(scene.table) == {"a": "old"}
    scene.clock.sleep(3600)
    assert scene.table.rollback().rolled_back == (dead.instant,)
    assert not [name for name in files(scene.storage) if dead.instant in name]
    with pytest.raises(RolledBack):
        dead.commit()
    scene.table.upsert([row("a", "alive", 2)])
    assert answer(scene.table) == {"a": "alive"}


@pytest.mark.slow
@both_indexes
def test_columns_added_by_two_writers_at_once_are_joined_or_refused(index: str) -> None:
    for way in ("abort", "merge"):
        scene = scene_of("cow", index, buckets=64)
        scene.table.insert([row("a", "old")])
        first, second = (t.begin(schema_conflict=way) for t in (scene.table, scene.other()))
        first.write([row("x1", "1") | {"one": 1}])
        second.write([row("y22", "2") | {"two": 2}])
        first._stage()
        second._stage()
        if {f.file_id for f in first.staging.files} & {f.file_id for f in second.staging.files}:
            second.abort()  # with looked-up keys both fill the small file, and meet there first
            first.commit()
            continue
        first.commit()
        if way == "abort":
            with pytest.raises(SchemaConflict):
                second.commit()
        else:
            second.commit()
            assert {"one", "two"} <= {*scene.table.schema.names}


def test_a_new_column_is_there_in_rewritten_and_in_untouched_rows() -> None:
    scene = scene_of()
    scene.table.insert([row("a", "old"), row("b", "old")])
    scene.table.upsert([row("b", "new", 2) | {"more": 5}])
    rows = {r["id"]: (r["v"], r["more"]) for r in scene.table.to_arrow().to_pylist()}
    assert rows == {"a": ("old", None), "b": ("new", 5)}


# --- reading and services --------------------------------------------------------------------------------------------


@pytest.mark.slow
@both_indexes
def test_earlier_versions_and_changes_between_them_are_exact(index: str) -> None:
    scene = scene_of("cow", index)
    first = scene.table.insert([row("a", "1"), row("b", "1"), row("c", "1")])
    scene.table.upsert([row("a", "2", 2), row("d", "2")])
    scene.table.delete([{"id": "b"}])
    assert answer(scene.table, first.completion_time) == {"a": "1", "b": "1", "c": "1"}
    found = scene.table.changes(after=first.completion_time, images=True).to_arrow().to_pylist()
    assert sorted((change["_change_type"], change["id"], change["v"]) for change in found) == [
        ("delete", "b", "1"),
        ("insert", "d", "2"),
        ("update_postimage", "a", "2"),
        ("update_preimage", "a", "1"),
    ]


@pytest.mark.slow
@both_indexes
def test_cleaning_removes_base_files_that_nobody_may_still_read_and_no_others(index: str) -> None:
    scene = scene_of("cow", index, buckets=1)
    for number in range(6):
        scene.table.upsert([row("a", str(number), number)])
    before = len(files(scene.storage))
    last = scene.table.upsert([row("a", "last", 9)])
    scene.table.clean(commits=2)
    assert len(files(scene.storage)) < before
    assert answer(scene.table) == {"a": "last"}
    assert answer(scene.table, last.completion_time) == {"a": "last"}


@pytest.mark.slow
@both_indexes
def test_a_restore_takes_rewritten_base_files_back(index: str) -> None:
    scene = scene_of("cow", index)
    scene.table.insert([row("a", "1"), row("b", "1")])
    kept = scene.table.savepoint()
    scene.table.upsert([row("a", "2", 2), row("c", "2")])
    scene.table.delete([{"id": "b"}])
    scene.table.restore(kept.instant)
    assert answer(scene.table) == {"a": "1", "b": "1"}
    scene.table.upsert([row("c", "3")])
    assert answer(scene.table) == {"a": "1", "b": "1", "c": "3"}


@pytest.mark.slow
def test_archiving_changes_no_answer_and_writers_go_on() -> None:
    scene = scene_of()
    for number in range(7):
        scene.table.upsert([row("a", str(number), number), row(str(number), "x")])
    before = answer(scene.table)
    assert scene.table.archive(keep_min=2, keep_max=4).instants
    assert answer(scene.table) == before
    scene.table.upsert([row("a", "new", 9)])
    assert answer(scene.table) == before | {"a": "new"}


def test_there_is_nothing_to_compact_where_there_are_no_log_files() -> None:
    scene = scene_of()
    scene.table.insert([row("a", "1")])
    scene.table.upsert([row("a", "2", 2)])
    assert not scene.table.compact()
    assert answer(scene.table) == {"a": "2"}


# --- making ----------------------------------------------------------------------------------------------------------


def test_properties_are_those_that_hudi_would_write() -> None:
    lines = plan_table("/t", "id string", record_keys="id", table_type="cow", index="simple").properties
    assert lines["hoodie.table.type"] == "COPY_ON_WRITE"
    assert lines["hoodie.index.type"] == "SIMPLE"
    assert lines["hoodie.write.concurrency.mode"] == "OPTIMISTIC_CONCURRENCY_CONTROL"
    assert not [key for key in lines if "bucket" in key]
    assert plan_table("/t", "id string", record_keys="id").config.concurrency == "nbcc"


def test_a_first_commit_of_a_copy_on_write_table_is_no_delta_commit() -> None:
    scene = scene_of()
    names = [info.name for info in scene.storage.list(".hoodie/timeline")]
    assert not [name for name in names if "deltacommit" in name]


def test_groups_that_look_like_buckets_are_not_written_without_a_word_about_the_index() -> None:
    scene = scene_of("cow", "bucket")
    scene.table.insert([row("a", "a")])
    config, properties = load_config(scene.storage)
    silent = {k: v for k, v in properties.items() if k not in ("hoodie.index.type", "hoodie.bucket.index.num.buckets")}
    table = scene.other()
    table._writing.settings = lambda: (parse_config(silent, "t"), silent)  # type: ignore[method-assign]
    with pytest.raises(UnsupportedTable, match="look like buckets"):
        table.upsert([row("b", "b")])
    assert answer(scene.table) == {"a": "a"}
    assert config.buckets == 2
