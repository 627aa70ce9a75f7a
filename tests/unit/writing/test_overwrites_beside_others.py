# SPDX-License-Identifier: Apache-2.0
"""Overwrites beside writers, services and Hudi: whoever is published first, nobody's rows get lost."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from lakebraid.api.table import Table
from lakebraid.errors import CommitRefused, WriteConflict
from lakebraid.model.keys.buckets import replaced_file_id
from lakebraid.model.writable import FILE_LOCK
from lakebraid.txn.checks.overwrite_maps import MAPS
from lakebraid.txn.liveness.heartbeat import Heartbeat
from tests.kit.tables.overwriting import BEFORE, another, groups, maps, rows, seen, table
from tests.kit.tables.scene import Call, files, once

pytestmark = pytest.mark.unit


@pytest.fixture(autouse=True)
def _no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody here is slow enough to need a heartbeat."""
    monkeypatch.setattr(Heartbeat, "run", lambda self: None)


MODES = pytest.mark.parametrize("concurrency", ["nbcc", "occ"])


# --- beside other writers (F33) --------------------------------------------------------------------------------------


def overwrite(t: Table, kind: str) -> Any:
    txn = t.begin(kind)  # type: ignore[arg-type]
    txn.write(rows("p", a="over"))
    return txn


def append(t: Table, part: str = "p") -> Any:
    txn = t.begin()
    txn.write(rows(part, x="append"))
    return txn


@MODES
@pytest.mark.parametrize("kind", ["insert_overwrite", "insert_overwrite_table"])
@pytest.mark.parametrize("first", ["overwrite", "append"], ids="{} begins first".format)
@pytest.mark.parametrize("part", ["p", "new"])
def test_an_append_that_is_published_first_is_never_dropped(concurrency: str, kind: str, first: str, part: str) -> None:
    t = table(concurrency=concurrency)
    steps = [lambda: overwrite(another(t), kind), lambda: append(another(t), part)]
    made = [step() for step in (steps if first == "overwrite" else reversed(steps))]
    over, added = made if first == "overwrite" else reversed(made)
    added.commit()
    if part == "new" and kind == "insert_overwrite":
        over.commit()
        assert seen(t) == {"p/a": "over", "q/c": "1", "new/x": "append"}
        return
    with pytest.raises(WriteConflict, match="would be dropped unseen") as refused:
        over.commit()
    assert refused.value.other == added.instant and refused.value.partitions == (part,)
    assert seen(t) == BEFORE | {f"{part}/x": "append"}
    assert maps(t) == []


@MODES
@pytest.mark.parametrize("kind", ["insert_overwrite", "insert_overwrite_table"])
@pytest.mark.parametrize("first", ["overwrite", "append"], ids="{} begins first".format)
@pytest.mark.parametrize("part", ["p", "new"])
def test_an_append_that_comes_after_an_overwrite_never_lands_in_groups_that_nobody_reads(
    concurrency: str, kind: str, first: str, part: str
) -> None:
    t = table(concurrency=concurrency)
    steps = [lambda: overwrite(another(t), kind), lambda: append(another(t), part)]
    made = [step() for step in (steps if first == "overwrite" else reversed(steps))]
    over, added = made if first == "overwrite" else reversed(made)
    over.commit()
    rest = {"q/c": "1"} if kind == "insert_overwrite" else {}
    if part == "new" and kind == "insert_overwrite":
        added.commit()
        assert seen(t) == {"p/a": "over", "new/x": "append"} | rest
        return
    with pytest.raises(WriteConflict, match=r"overwr|same file groups"):
        added.commit()
    assert seen(t) == {"p/a": "over"} | rest
    t.upsert(rows(part, x="again"))
    t.upsert(rows(part, x="and again"))
    assert seen(t) == {"p/a": "over", f"{part}/x": "and again"} | rest


def is_publishing(call: Call) -> bool:
    """The last entry of a write of one's own: after its data files."""
    return call.name == "create" and "/.temp/" in call.target


@MODES
def test_an_append_that_meets_an_overwrite_is_done_again_by_itself(concurrency: str) -> None:
    t = table(concurrency=concurrency)
    busy = another(t, before=once(is_publishing, lambda: t.insert_overwrite(rows("p", b="over"))))
    assert busy.upsert(rows("p", a="append")).attempts == 2
    assert seen(t) == {"p/a": "append", "p/b": "over", "q/c": "1"}


@pytest.mark.parametrize("name", ["insert_overwrite", "insert_overwrite_table", "delete_partitions"])
def test_an_overwrite_that_meets_an_append_is_done_again_by_itself_and_replaces_it(name: str) -> None:
    t = table()
    publishing = once(
        lambda c: c.name == "create" and c.target.startswith(MAPS), lambda: t.upsert(rows("p", x="append"))
    )
    busy = another(t, before=publishing)
    done = getattr(busy, name)(["p"] if name == "delete_partitions" else rows("p", a="over"))
    assert done.attempts == 2
    assert (
        seen(t)
        == {
            "insert_overwrite": {"p/a": "over", "q/c": "1"},
            "insert_overwrite_table": {"p/a": "over"},
            "delete_partitions": {"q/c": "1"},
        }[name]
    )


def test_rows_that_can_be_taken_only_once_are_not_written_half_after_an_overwrite() -> None:
    t = table()
    busy = another(t, before=once(is_publishing, lambda: t.insert_overwrite(rows("p", b="over"))))
    batch = pa.RecordBatch.from_pylist(rows("p", a="append"))
    with pytest.raises(WriteConflict, match="overwritten the partition p"):
        busy.upsert(pa.RecordBatchReader.from_batches(batch.schema, [batch]))
    assert seen(t) == {"p/b": "over", "q/c": "1"}


def test_of_two_overwrites_of_one_partition_the_second_to_publish_is_refused() -> None:
    t = table()
    one, two = overwrite(another(t), "insert_overwrite"), overwrite(another(t), "insert_overwrite_table")
    two.commit()
    with pytest.raises(WriteConflict):
        one.commit()
    assert seen(t) == {"p/a": "over"}


def test_writers_of_other_partitions_are_not_disturbed() -> None:
    t = table()
    added = append(another(t), "q")
    t.insert_overwrite(rows("p", a="2"))
    t.delete_partitions(["p"])
    added.commit()
    assert seen(t) == {"q/c": "1", "q/x": "append"}


def test_a_write_costs_the_same_calls_after_an_overwrite_as_before_it() -> None:
    t = table()
    busy = another(t, before=lambda _: None)
    calls = busy._writing.storage.calls  # type: ignore[attr-defined]
    spent = []
    for v in "23456":
        before = len(calls)
        busy.upsert(rows("p", a=v))
        spent.append(len(calls) - before)
        if v == "3":
            t.insert_overwrite(rows("p", a="3"))
    assert spent[1] == spent[3] == spent[4]
    assert 0 < spent[2] - spent[1] <= 4, "one read of the map, and what an entry costs that another process made"


# --- tables whose rows are placed by looking -------------------------------------------------------------------------


PLACED = pytest.mark.parametrize(
    ("table_type", "index"), [("cow", "bucket"), ("cow", "simple"), ("mor", "simple")], ids="{}".format
)


@pytest.mark.slow
@PLACED
def test_every_overwrite_does_the_same_in_placed_tables(table_type: str, index: str) -> None:
    t = table(concurrency="occ", table_type=table_type, index=index)
    before = t.snapshot().completion_time
    t.insert_overwrite(rows("p", a="2", z="2"))
    t.upsert([*rows("p", a="3", b="3"), *rows("q", c="3")])
    assert seen(t) == {"p/a": "3", "p/b": "3", "p/z": "2", "q/c": "3"}
    with t.begin("insert_overwrite") as txn:
        txn.write(rows("p", a="4", y="4"))
        txn.write(rows("p", a="5", w="5"))
    assert seen(t) == {"p/a": "5", "p/w": "5", "p/y": "4", "q/c": "3"}
    t.delete_partitions(["p"])
    t.upsert(rows("p", a="6"))
    assert seen(t) == {"p/a": "6", "q/c": "3"}
    t.insert_overwrite_table(rows("r", n="7"))
    assert seen(t) == {"r/n": "7"}
    assert seen(t, before) == BEFORE


@pytest.mark.slow
@PLACED
@pytest.mark.parametrize("first", ["overwrite", "append"], ids="{} begins first".format)
@pytest.mark.parametrize("done", ["overwrite", "append"], ids="{} is published first".format)
def test_in_placed_tables_of_two_writers_of_a_partition_neither_drops_the_other(
    table_type: str, index: str, first: str, done: str
) -> None:
    t = table(concurrency="occ", table_type=table_type, index=index)
    steps = {"overwrite": lambda: overwrite(another(t), "insert_overwrite"), "append": lambda: append(another(t))}
    made = {name: steps[name]() for name in sorted(steps, key=lambda name: name != first)}
    made[done].commit()
    expected = {"p/a": "over", "q/c": "1"} if done == "overwrite" else BEFORE | {"p/x": "append"}
    assert seen(t) == expected
    try:
        made["append" if done == "overwrite" else "overwrite"].commit()
    except WriteConflict:
        assert seen(t) == expected
    else:
        assert done == "overwrite", "the append was dropped unseen"
        assert seen(t) == expected | {"p/x": "append"}
    t.upsert(rows("p", a="last", x="last"))
    assert {k: v for k, v in seen(t).items() if k in ("p/a", "p/x")} == {"p/a": "last", "p/x": "last"}


# --- services --------------------------------------------------------------------------------------------------------


def test_a_compaction_planned_before_an_overwrite_may_complete_after_it() -> None:
    t = table()
    plan = t.plan_compaction()
    t.insert_overwrite(rows("p", a="2"))
    t.upsert(rows("q", c="3"))
    assert plan is not None
    t.run(plan)
    assert seen(t) == {"p/a": "2", "q/c": "3"}
    t.upsert(rows("p", a="3", b="3"))
    assert [c.groups for c in t.compact()] == [3], "of replaced groups nobody makes plans"
    assert seen(t) == {"p/a": "3", "p/b": "3", "q/c": "3"}


def test_an_overwrite_is_refused_if_a_compaction_of_its_groups_was_planned_since() -> None:
    t = table()
    over = overwrite(another(t), "insert_overwrite")
    plan = t.plan_compaction()
    with pytest.raises(WriteConflict, match="pending"):
        over.commit()
    over = overwrite(another(t), "insert_overwrite")
    assert plan is not None
    t.run(plan)
    over.commit()
    assert seen(t) == {"p/a": "over", "q/c": "1"}


def clustered(**properties: str) -> tuple[Table, Any]:
    """A table with the simple index and a clustering that is planned."""
    t = table(concurrency="occ", table_type="cow", index="simple", properties=properties)
    t.bulk_insert(rows("p", o="1"))
    return t, t.plan_clustering(sort_by=["id"], partitions=["p"])


def test_an_overwrite_waits_for_a_pending_clustering() -> None:
    t, plan = clustered()
    with pytest.raises(WriteConflict, match="rollback"):
        t.insert_overwrite(rows("p", a="over"), retries=0)
    t.insert_overwrite(rows("q", c="over"), retries=0)
    t.run(plan)
    assert seen(t) == BEFORE | {"p/o": "1", "q/c": "over"}
    t.insert_overwrite(rows("p", a="over"))
    assert seen(t) == {"p/a": "over", "q/c": "over"}


def test_a_clustering_gives_way_to_an_overwrite_where_updates_are_allowed() -> None:
    allowing = "org.apache.hudi.client.clustering.update.strategy.SparkAllowUpdateStrategy"
    t, plan = clustered(**{"hoodie.clustering.updates.strategy": allowing})
    t.insert_overwrite(rows("p", a="over"), retries=0)
    with pytest.raises(CommitRefused, match="gave way"):
        t.run(plan)
    assert seen(t) == {"p/a": "over", "q/c": "1"}


def test_log_compaction_leaves_replaced_groups_alone() -> None:
    t = table()
    for v in "234567":
        t.upsert(rows("p", a=v))
    t.insert_overwrite(rows("p", a="over"))
    assert t.log_compact() == []
    assert seen(t) == {"p/a": "over", "q/c": "1"}


def test_a_clean_takes_replaced_groups_when_no_version_needs_them() -> None:
    t = table()
    old = {f for f in files(t._writing.storage) if f.startswith("p/")}
    t.insert_overwrite(rows("p", a="2"))
    assert not {*t.clean(commits=2).files} & old
    t.upsert(rows("q", c="2"))
    t.upsert(rows("q", c="3"))
    assert {*t.clean(commits=1).files} >= old
    assert seen(t) == {"p/a": "2", "q/c": "3"}


def test_archiving_forgets_the_maps_that_no_restore_can_reach() -> None:
    t = table()
    for v in "2345":
        t.insert_overwrite(rows("p", a=v))
        t.upsert(rows("q", c=v))
    assert len(maps(t)) == 4
    t.clean(commits=1)
    assert t.archive(keep_min=2, keep_max=3).instants > 4
    assert len(maps(t)) < 4
    t.upsert(rows("p", a="6", b="6"))
    assert seen(t) == {"p/a": "6", "p/b": "6", "q/c": "5"}


def test_a_restore_puts_the_file_ids_back() -> None:
    t = table()
    t.insert_overwrite(rows("p", a="2"))
    kept = t.savepoint()
    t.insert_overwrite_table(rows("p", a="3"))
    t.delete_partitions(["p"])
    t.upsert(rows("p", a="4"))
    t.restore(kept.instant)
    assert seen(t) == {"p/a": "2", "q/c": "1"}
    another(t).upsert([*rows("p", a="5", b="5"), *rows("q", c="5"), *rows("new", n="5")])
    t.upsert([*rows("p", a="6", b="6"), *rows("q", c="6"), *rows("new", n="6")])
    assert seen(t) == {"p/a": "6", "p/b": "6", "q/c": "6", "new/n": "6"}
    assert len(maps(t)) == 1


def test_a_restore_to_before_the_first_overwrite_gives_the_fixed_ids_again() -> None:
    t = table()
    kept = t.savepoint()
    t.insert_overwrite_table(rows("p", a="3"))
    t.restore(kept.instant)
    t.upsert([*rows("p", a="4", b="4"), *rows("q", c="4")])
    assert seen(t) == {"p/a": "4", "p/b": "4", "q/c": "4"}
    assert maps(t) == []


# --- tables that Hudi writes, too ------------------------------------------------------------------------------------


def test_on_a_shared_table_every_bucket_of_a_replaced_partition_has_a_file_that_shows_its_id() -> None:
    t = table(properties={"hoodie.write.lock.provider": FILE_LOCK}, buckets=3)
    request_time = t.insert_overwrite(rows("p", a="2")).instant
    wanted = {replaced_file_id(bucket, request_time) for bucket in range(3)}
    assert groups(t, "p") == wanted
    request_time = t.delete_partitions(["p"]).instant
    assert groups(t, "p") == {replaced_file_id(bucket, request_time) for bucket in range(3)}
    t.upsert(rows("p", a="3", b="3"))
    assert groups(t, "p") == {replaced_file_id(bucket, request_time) for bucket in range(3)}
    assert seen(t) == {"p/a": "3", "p/b": "3", "q/c": "1"}


def test_on_a_shared_table_a_late_append_is_refused_too() -> None:
    t = table(properties={"hoodie.write.lock.provider": FILE_LOCK})
    added = append(another(t))
    t.insert_overwrite(rows("p", a="2"))
    with pytest.raises(WriteConflict, match="overwritten the partition p"):
        added.commit()
    assert seen(t) == {"p/a": "2", "q/c": "1"}


# --- beside partial updates ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", ["p", "q", "new"])
def test_an_overwrite_refuses_an_update_that_opens_a_row_in_the_same_partition_and_no_other(part: str) -> None:
    t = table()
    slow = t.begin(columns=["part", "id", "ts", "v"])
    slow.write([{k: r[k] for k in ("part", "id", "ts", "v")} for r in rows("p", x="slow")])
    another(t).insert_overwrite(rows(part, x="over"))
    if part == "p":
        with pytest.raises(WriteConflict):
            slow.commit()
        return
    another(t).delete_partitions([{"part": part}])
    slow.commit()
    assert seen(t)["p/x"] == "slow"
