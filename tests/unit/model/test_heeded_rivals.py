# SPDX-License-Identifier: Apache-2.0
"""A write that does itself again is not refused where that would change nothing; everybody else is, as the RFC says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lakebraid import limits
from lakebraid.errors import WriteConflict
from lakebraid.services.merging.compaction import plan_compaction
from lakebraid.txn.checks.disjoint_keys import OtherKeys
from lakebraid.txn.checks.file_groups import EARLY, Rivals
from lakebraid.writing.request import WriteRequest
from lakebraid.writing.retry import Part, change_rows
from lakebraid.writing.transaction import Transaction
from tests.kit.tables.scene import Call, Scene, once, row

pytestmark = pytest.mark.unit

KINDS: dict[str, dict[str, Any]] = {
    "bucket, merge-on-read": {"buckets": 1},
    "bucket, copy-on-write": {"buckets": 1, "table_type": "cow"},
    "simple, merge-on-read": {"index": "simple"},
    "simple, copy-on-write": {"index": "simple", "table_type": "cow"},
}
every_kind = pytest.mark.parametrize("arguments", [*KINDS.values()], ids=[*KINDS])
placed = pytest.mark.parametrize("arguments", [*KINDS.values()][1:], ids=[*KINDS][1:])


def scene_of(*more: dict[str, Any], by_event: bool = True, **arguments: Any) -> Scene:
    """A table with a row that two writers want to write, and perhaps more of them in the same file group."""
    scene = Scene(by_event=by_event, arguments={"concurrency": "occ", **arguments})
    scene.table.upsert([row("k", "first", 1, 0), *more])
    return scene


def begins(call: Call) -> bool:
    return call.name == "copy" and call.target.endswith("commit.requested")


def is_data(call: Call) -> bool:
    return call.name == "create" and not call.target.startswith(".hoodie")


def the_row(scene: Scene) -> tuple[str, int]:
    (found,) = scene.table.to_arrow(["v", "ts"], where=[("id", "=", "k")]).to_pylist()
    return found["v"], found["ts"]


class Rival:
    """A rival that has begun, and commits at a given moment."""

    def __init__(self, scene: Scene) -> None:
        self.transaction = scene.table.begin()
        self.transaction.write([row("k", "rival", 2, 0)])

    def commit(self) -> None:
        self.transaction.commit()


def test_blind_rows_are_published_at_the_first_try_though_an_earlier_writer_was_faster() -> None:
    scene = scene_of(buckets=1)
    rival = Rival(scene)
    done = scene.other(before=once(is_data, rival.commit)).upsert([row("k", "ours", 2, 0)])
    assert done.attempts == 1
    assert done.instant > rival.transaction.instant
    assert the_row(scene) == ("ours", 2)
    assert not scene.table.audit().findings.counts


def test_blind_rows_are_written_again_after_a_writer_that_began_later() -> None:
    scene = scene_of(buckets=1)
    later = once(is_data, lambda: scene.table.upsert([row("k", "rival", 2, 0)]))
    done = scene.other(before=later).upsert([row("k", "ours", 2, 0)])
    assert done.attempts == 2
    assert the_row(scene) == ("ours", 2)


def test_blind_rows_of_other_keys_are_published_at_the_first_try_whoever_began_first() -> None:
    scene = scene_of(buckets=1)

    def rival() -> None:
        scene.table.delete([{"id": "k"}])
        scene.table.upsert([row("l", "rival", 2, 0)])

    done = scene.other(before=once(is_data, rival)).upsert([row("m", "ours", 2, 0), row("n", "ours", 2, 0)])
    assert done.attempts == 1
    assert sorted(scene.table.to_arrow(["id"]).column("id").to_pylist()) == ["l", "m", "n"]


@pytest.mark.parametrize("what", ["a delete of a key", "a key among others", "the last key"])
def test_one_common_key_is_enough_to_be_done_again(what: str) -> None:
    scene = scene_of(buckets=1)
    rivals = {
        "a delete of a key": lambda: scene.table.delete([{"id": "k", "ts": 2}]),
        "a key among others": lambda: scene.table.upsert([row("x", "rival", 2, 0), row("k", "rival", 2, 0)]),
        "the last key": lambda: scene.table.upsert([row("z", "rival", 2, 0)]),
    }
    other = scene.other(before=once(is_data, rivals[what]))
    done = other.upsert([row(k, "ours", 2, 0) for k in ("a", "k", "z")])
    assert done.attempts == 2
    assert {r["v"] for r in scene.table.to_arrow().to_pylist() if r["id"] in ("a", "k", "z")} == {"ours"}


@pytest.mark.parametrize("rival_ts", [1, 3], ids=["older event", "newer event"])
@pytest.mark.parametrize("what", ["upsert", "delete"])
@pytest.mark.parametrize("block_format", ["parquet", "avro"])
def test_where_ordering_values_differ_the_greater_wins_at_the_first_try(
    rival_ts: int, what: str, block_format: str
) -> None:
    scene = scene_of(buckets=1)

    def rival() -> None:
        if what == "delete":
            scene.table.delete([{"id": "k", "ts": rival_ts}])
        else:
            scene.table.upsert([row("k", "rival", rival_ts, 0)], block_format=block_format)

    assert scene.other(before=once(is_data, rival)).upsert([row("k", "ours", 2, 0)]).attempts == 1
    wanted = ["ours"] if rival_ts == 1 else ["rival"] if what == "upsert" else []
    for _ in range(2):
        assert scene.table.to_arrow(["v"]).column("v").to_pylist() == wanted
        scene.table.compact()


@pytest.mark.parametrize("why", ["commit time", "a partial update", "no ordering value"])
def test_where_ordering_values_do_not_tell_a_common_key_is_enough(why: str) -> None:
    scene = scene_of(buckets=1, by_event=why != "commit time")

    def rival() -> None:
        if why == "a partial update":
            scene.table.upsert([{"id": "k", "ts": 3, "w": 5}], columns=["id", "ts", "w"])
        elif why == "commit time":
            scene.table.upsert([row("k", "rival", 3, 0)])
        else:
            with scene.table.begin("delete") as transaction:
                transaction.write([{"id": "k"}])

    assert scene.other(before=once(is_data, rival)).upsert([row("k", "ours", 9, 0)]).attempts == 2
    assert the_row(scene) == ("ours", 9)


def test_keys_are_not_compared_where_that_is_much_to_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "KEYS_COMPARED_BYTES_MAX", 10)
    scene = scene_of(buckets=1)
    later = once(is_data, lambda: scene.table.upsert([row("l", "rival", 2, 0)]))
    assert scene.other(before=later).upsert([row("m", "ours", 2, 0)]).attempts == 2


@pytest.mark.parametrize("how", ["no retries", "in steps"])
def test_who_does_not_repeat_is_refused_as_the_rfc_says(how: str) -> None:
    scene = scene_of(buckets=1)
    rival = Rival(scene)
    other = scene.other(before=once(is_data, rival.commit))

    def in_steps() -> None:
        with other.begin() as transaction:
            transaction.write([row("k", "ours", 2, 0)])

    write = in_steps if how == "in steps" else lambda: other.upsert([row("k", "ours", 2, 0)], retries=0)
    with pytest.raises(WriteConflict, match="it was under way when this write began"):
        write()
    assert the_row(scene) == ("rival", 2)


def test_a_partial_update_is_not_blind() -> None:
    scene = scene_of(buckets=1)
    rival = Rival(scene)
    other = scene.other(before=once(is_data, rival.commit))
    done = other.upsert([{"id": "k", "ts": 3, "w": 9}], columns=["id", "ts", "w"])
    assert done.attempts == 2
    assert the_row(scene) == ("rival", 3)


@pytest.mark.parametrize("by_event", [True, False], ids=["event time", "commit time"])
@pytest.mark.parametrize("is_done", [True, False], ids=["and done", "and pending"])
def test_a_compaction_planned_since_costs_blind_rows_nothing(*, is_done: bool, by_event: bool) -> None:
    scene = scene_of(buckets=1, by_event=by_event)
    ledger = scene.table._writing.ledger(scene.table._config)
    meanwhile = scene.table.compact if is_done else lambda: plan_compaction(ledger)
    done = scene.other(before=once(is_data, meanwhile)).upsert([row("k", "ours", 2, 0)])
    assert done.attempts == 1
    for _ in range(2):
        assert the_row(scene) == ("ours", 2)
        assert scene.table.compact() is not None
    assert not scene.table.audit().findings.counts


def test_a_compaction_that_ends_meanwhile_costs_blind_rows_nothing() -> None:
    scene = scene_of(buckets=1)
    ledger = scene.table._writing.ledger(scene.table._config)
    assert plan_compaction(ledger)
    other = scene.other(before=once(is_data, scene.table.compact))
    assert other.upsert([row("k", "ours", 2, 0)]).attempts == 1
    assert the_row(scene) == ("ours", 2)
    scene.table.compact()
    assert the_row(scene) == ("ours", 2)


def test_rows_for_groups_that_an_earlier_overwrite_replaced_are_written_again() -> None:
    scene = scene_of(buckets=1)
    rival = scene.table.begin("insert_overwrite_table")
    rival.write([row("k", "rival", 2, 0), row("new", "rival", 2, 0)])
    done = scene.other(before=once(is_data, rival.commit)).upsert([row("k", "ours", 2, 0)])
    assert done.attempts == 2
    assert the_row(scene) == ("ours", 2)


@placed
def test_what_was_published_before_the_table_was_looked_at_is_no_conflict(arguments: dict[str, Any]) -> None:
    scene = scene_of(**arguments)
    rival = Rival(scene)
    done = scene.other(after=once(begins, rival.commit)).upsert([row("k", "ours", 2, 0), row("new", "ours", 2, 0)])
    assert done.attempts == 1
    assert the_row(scene) == ("ours", 2)
    assert not scene.table.audit().findings.counts


@placed
@pytest.mark.parametrize("moment", [begins, is_data], ids=["before the look", "after it"])
def test_a_key_that_an_earlier_writer_inserted_meanwhile_is_there_once(
    arguments: dict[str, Any], moment: Callable[[Call], bool]
) -> None:
    scene = scene_of(**arguments)
    rival = scene.table.begin()
    rival.write([row("new", "rival", 2, 0)])
    scene.other(after=once(moment, rival.commit)).upsert([row("new", "ours", 2, 0)])
    found = scene.table.to_arrow(["id", "v"]).to_pylist()
    assert sorted(found, key=str) == [{"id": "k", "v": "first"}, {"id": "new", "v": "ours"}]


@placed
def test_what_was_published_after_the_look_is_a_conflict(arguments: dict[str, Any]) -> None:
    scene = scene_of(row("other", "first", 1, 0), **arguments)
    rival = scene.table.begin()
    rival.write([row("other", "rival", 2, 0)])
    done = scene.other(before=once(is_data, rival.commit)).upsert([row("k", "ours", 2, 0)])
    assert done.attempts == 2
    assert {r["v"] for r in scene.table.to_arrow(["v"]).to_pylist()} == {"ours", "rival"}


@placed
def test_who_is_bound_to_be_refused_writes_nothing(arguments: dict[str, Any]) -> None:
    scene = scene_of(**arguments)
    written: list[str] = []
    later = once(begins, lambda: scene.table.upsert([row("k", "rival", 2, 0)]))
    other = scene.other(before=lambda call: written.append(call.target) if is_data(call) else None, after=later)
    done = other.upsert([row("k", "ours", 2, 0)])
    assert done.attempts == 2
    assert all(done.instant in name for name in written), "the first attempt knew before it wrote"
    assert the_row(scene) == ("ours", 2)


def change(scene: Scene, before: Callable[[], object], after: Callable[[], object]) -> int:
    """A conditional change, `w` counted up, with others at work before it reads and after; gives its attempts."""
    moments = [before, after]

    def compute(transaction: Transaction, part: Part) -> bool:
        rows = part.snapshot.to_arrow().to_pylist()
        transaction.write([{**r, "w": r["w"] + 1, "ts": r["ts"] + 1} for r in rows])
        if len(moments) == 1:
            moments.pop()()
        return False

    other = scene.other(after=once(begins, lambda: moments.pop(0)()))
    return change_rows(other._destination, WriteRequest("upsert"), compute, other.snapshot, None).attempts


def nothing() -> None:
    pass


@every_kind
def test_a_conditional_change_is_not_refused_for_what_it_has_read(arguments: dict[str, Any]) -> None:
    scene = scene_of(**arguments)
    rival = scene.table.begin()
    rival.write([row("k", "rival", 2, 10)])
    assert change(scene, rival.commit, nothing) == 1
    assert scene.table.to_arrow(["w"]).to_pylist() == [{"w": 11}]


@every_kind
def test_a_conditional_change_is_done_again_for_what_came_after(arguments: dict[str, Any]) -> None:
    scene = scene_of(**arguments)
    rival = scene.table.begin()
    rival.write([row("k", "rival", 2, 10)])
    assert change(scene, nothing, rival.commit) == 2
    assert scene.table.to_arrow(["w"]).to_pylist() == [{"w": 11}]


@pytest.mark.parametrize("is_earlier", [True, False], ids=["began before", "began since"])
def test_early_detection_stops_exactly_those_whom_the_commit_would_refuse(*, is_earlier: bool) -> None:
    scene = scene_of(buckets=1, properties={EARLY: "true"})
    rivals = [Rival(scene)] if is_earlier else []
    other = scene.other()
    ours = other._destination.begin(WriteRequest("upsert", repeats=True))
    ours.write([row("k", "ours", 2, 0)])
    (rivals or [Rival(scene)])[0].commit()
    assert ours._has_its_place() is is_earlier
    if is_earlier:
        ours.commit()
        assert the_row(scene) == ("ours", 2)
    else:
        with pytest.raises(WriteConflict):
            ours.commit()


def test_a_rival_that_was_apart_from_the_first_rows_is_looked_at_again_when_more_have_come() -> None:
    """Early detection had looked when only other keys were written: that says nothing of the rows that came later."""
    scene = scene_of(buckets=1, properties={EARLY: "true"})
    other = scene.other()
    ours = other._destination.begin(WriteRequest("upsert", repeats=True))
    ours.write([row("a", "ours", 2, 0)])
    Rival(scene).commit()
    assert ours._has_its_place()
    ours.write([row("k", "ours", 2, 0)])
    with pytest.raises(WriteConflict):
        ours.commit()
    assert the_row(scene) == ("rival", 2)


def test_a_rival_that_is_wrongly_heeded_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Rivals, "_is_accounted_for", lambda self, rival: rival.is_completed)
    with pytest.raises(AssertionError):
        test_blind_rows_are_written_again_after_a_writer_that_began_later()
    monkeypatch.setattr(OtherKeys, "are_apart", lambda *_, **__: True)
    with pytest.raises(AssertionError):
        test_one_common_key_is_enough_to_be_done_again("a key among others")
    with pytest.raises(AssertionError):
        test_what_was_published_after_the_look_is_a_conflict(KINDS["bucket, copy-on-write"])


@pytest.mark.parametrize("kind", ["bucket, merge-on-read", "bucket, copy-on-write"])
def test_a_delete_that_found_nothing_looks_again_if_a_row_of_that_bucket_came_meanwhile(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else both would have succeeded and the row had stayed, though the delete began later and ended later."""
    scene = Scene(arguments={"concurrency": "occ", **KINDS[kind]})
    rival = Rival(scene)
    publish = Transaction._publish

    def after_the_rival(self: Transaction) -> str:
        monkeypatch.setattr(Transaction, "_publish", publish)
        rival.commit()
        return publish(self)

    monkeypatch.setattr(Transaction, "_publish", after_the_rival)
    scene.other().delete([{"id": "k", "ts": 3}])
    assert scene.table.count() == 0
    assert not scene.table.audit().findings.counts
