# SPDX-License-Identifier: Apache-2.0
"""Batches: whatever is repeated, by whomever, each is published once."""

from __future__ import annotations

import contextlib
from collections import Counter
from typing import Any

import pytest

from lakebraid import limits
from lakebraid.errors import BatchRepeated, InvalidArgument, LakebraidError
from lakebraid.format.properties import format_properties
from lakebraid.format.timeline.commit import CommitMetadata
from lakebraid.storage.memory import MemoryStorage
from lakebraid.table.at import TableAt
from lakebraid.table.loading import load_commit, load_timeline
from lakebraid.txn.actions import write as write_module
from lakebraid.txn.actions.batches import BATCH, BEFORE
from lakebraid.txn.actions.write import begin_write, publish_write
from lakebraid.txn.checks.file_groups import WRITER
from lakebraid.txn.ledger.entries import Batch
from lakebraid.txn.writer import Writing
from lakebraid.writing.request import WriteRequest
from lakebraid.writing.result import WriteResult
from lakebraid.writing.retry import write_rows
from tests.kit.models.hudi_model import PROPERTIES, Hudi, decided_but_dead, shared
from tests.kit.publications import published
from tests.kit.races.enumerating import Actor, NoHeartbeat, every_schedule, objects_of
from tests.kit.races.faults import Killed, killing, losing, not_owned
from tests.kit.tables.scene import Call, Scene, TickingClock, WatchedStorage, answer, make_table, once, row, table_on
from tests.unit.txn.test_ledger import Clock

pytestmark = pytest.mark.unit

LAST_WINS: dict[str, Any] = {"ordering_fields": None}


def test_a_repeated_batch_writes_nothing_and_tells_of_the_first_time() -> None:
    scene = Scene(by_event=False)
    first = scene.table.upsert([row("a", "17")], writer="orders", batch=17)
    scene.table.upsert([row("a", "later")])
    again = scene.other().upsert([row("a", "17")], writer="orders", batch=17)
    assert (again.instant, again.completion_time) == (first.instant, first.completion_time)
    assert (first.is_repeated, again.is_repeated, again.files) == (False, True, 0)
    assert answer(scene.table) == {"a": "later"}
    assert scene.table.upsert([row("b", "16")], writer="orders", batch=16).is_repeated, "an older one is done, too"
    assert not scene.table.upsert([row("b", "18")], writer="orders", batch=18).is_repeated
    assert not scene.table.upsert([row("c", "0")], writer="payments", batch=0).is_repeated
    assert scene.table.writers() == {"orders": 18, "payments": 0}
    assert set(published(scene.table).values()) == {1}
    assert not_owned(scene.storage, scene.table) == []


def test_a_write_in_steps_of_a_repeated_batch_does_nothing() -> None:
    scene = Scene()
    scene.table.upsert([row("a", "1")], writer="orders", batch=1)
    before = [info.name for info in scene.storage.list()]
    with scene.table.begin(writer="orders", batch=1) as repeated:
        repeated.write([row("a", "other", 9)])
        assert repeated.is_repeated
        assert repeated.commit().is_repeated
    aborted = scene.table.begin(writer="orders", batch=0)
    aborted.abort()
    with pytest.raises(InvalidArgument, match="aborted already"):
        aborted.commit()
    assert [info.name for info in scene.storage.list()] == before


@pytest.mark.parametrize("operation", ["insert", "bulk_insert", "insert_overwrite", "insert_overwrite_table", "delete"])
def test_every_kind_of_write_is_done_once_for_each_batch(operation: str) -> None:
    scene = Scene(by_event=False)
    write = getattr(scene.table, operation)
    results = [write([row("a", "1")], writer="orders", batch=0) for _ in range(2)]
    assert [result.is_repeated for result in results] == [False, True]


def test_a_repeated_deletion_of_partitions_does_not_ask_for_those_that_it_has_deleted() -> None:
    scene = Scene(arguments={"schema": "id string, ts bigint, part string", "partition_by": "part"})
    scene.table.upsert([{"id": "a", "ts": 1, "part": "p"}, {"id": "b", "ts": 1, "part": "q"}])
    results = [scene.table.delete_partitions(["p"], writer="w", batch=0) for _ in range(2)]
    assert [result.is_repeated for result in results] == [False, True]
    with pytest.raises(InvalidArgument, match="has no partition"):
        scene.table.delete_partitions(["p"], writer="w", batch=1)


def test_a_driver_that_lost_the_race_for_its_batch_is_told_of_the_winner_and_leaves_nothing_behind() -> None:
    scene = Scene(by_event=False)
    zombie = scene.table.begin(writer="orders", batch=3)
    zombie.write([row("a", "3")])
    winner = scene.other().upsert([row("a", "3")], writer="orders", batch=3)
    scene.other().upsert([row("a", "4")], writer="orders", batch=4)
    result = zombie.commit()
    assert (result.is_repeated, result.instant > winner.instant) == (True, True), "its newest is told"
    assert answer(scene.table) == {"a": "4"}
    assert scene.table.status(zombie.instant) == "refused"
    assert set(published(scene.table).values()) == {1}
    assert not_owned(scene.storage, scene.table) == []


def test_a_zombie_that_was_rolled_back_by_others_meanwhile_still_hears_that_its_batch_is_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = Scene()
    zombie = scene.table.begin(writer="orders", batch=3)
    zombie.write([row("a", "3")])
    done = scene.other().upsert([row("a", "3")], writer="orders", batch=3)
    rescuer = scene.other()
    withdraw = write_module.roll_back_refused

    def withdraw_late(*arguments: Any) -> str | None:
        rescuer.rollback(timeout_seconds=0)
        return withdraw(*arguments)

    monkeypatch.setattr(write_module, "roll_back_refused", withdraw_late)
    result = zombie.commit()
    assert (result.is_repeated, result.instant) == (True, done.instant)


def test_a_conflict_that_is_tried_again_does_not_publish_a_batch_that_came_meanwhile() -> None:
    scene = Scene(arguments={"concurrency": "occ"})
    hook = once(Call.is_entry, lambda: scene.other().upsert([row("a", "twin")], writer="orders", batch=1))
    result = scene.other(before=hook).upsert([row("a", "own")], writer="orders", batch=1)
    assert result.is_repeated
    assert answer(scene.table) == {"a": "twin"}


# --- killed, lost, archived, restored --------------------------------------------------------------------------------


def fresh() -> MemoryStorage:
    storage = MemoryStorage("memory://batches", TickingClock())
    make_table(storage, storage.clock, **LAST_WINS).upsert([row("a", "0")], writer="orders", batch=0)
    return storage


def write_batch(storage: Any, clock: Any) -> WriteResult:
    return table_on(storage, clock).upsert([row("a", "1"), row("b", "1")], writer="orders", batch=1)


def calls_of_a_batch() -> int:
    storage = fresh()
    watched = WatchedStorage(storage)
    write_batch(watched, storage.clock)
    return len(watched.calls)


CALLS = range(calls_of_a_batch())


@pytest.mark.slow
@pytest.mark.parametrize("effect", ["done", "not done"])
def test_a_batch_whose_driver_is_killed_at_any_call_and_comes_again_is_there_once(effect: str) -> None:
    for number in CALLS:
        storage = fresh()
        hooks, dead = killing(number, effect)
        with contextlib.suppress(Killed):  # not told if the last call is made, or a call of its heartbeat
            write_batch(WatchedStorage(storage, **hooks), storage.clock)
        assert dead or effect == "done", "a call that found nothing has no effect"
        table = table_on(storage, storage.clock)
        is_there = table.writers() == {"orders": 1}
        table.upsert([row("a", "of another writer")]) if is_there else None
        assert write_batch(storage, storage.clock).is_repeated == is_there, number
        assert answer(table) == {"a": "of another writer" if is_there else "1", "b": "1"}, number
        assert published(table) == {("orders", 0): 1, ("orders", 1): 1}, number
        table.rollback(timeout_seconds=0)
        assert write_batch(storage, storage.clock).is_repeated
        assert not_owned(storage, table) == [], number


@pytest.mark.slow
@pytest.mark.parametrize("effect", ["done", "not done"])
def test_a_batch_of_which_an_answer_got_lost_and_that_is_repeated_is_there_once(effect: str) -> None:
    for number in CALLS:
        storage = fresh()
        with contextlib.suppress(LakebraidError):
            write_batch(WatchedStorage(storage, **losing(number, effect)), storage.clock)
        assert table_on(storage, storage.clock).writers() in ({"orders": 0}, {"orders": 1})
        write_batch(storage, storage.clock)
        table = table_on(storage, storage.clock)
        assert published(table) == {("orders", 0): 1, ("orders", 1): 1}, number
        assert answer(table) == {"a": "1", "b": "1"}


def test_a_batch_is_not_written_again_after_its_commit_was_archived() -> None:
    scene = Scene(by_event=False)
    scene.table.upsert([row("a", "first")], writer="orders", batch=0)
    scene.clock.ms += 100_000_000
    for n in range(6):
        scene.table.upsert([row("a", str(n))])
    assert scene.table.archive(keep_min=2, keep_max=3).instants
    assert scene.table.upsert([row("a", "first")], writer="orders", batch=0).is_repeated
    assert answer(scene.table) == {"a": "5"}
    assert published(scene.table) == {("orders", 0): 1}


def test_a_batch_that_a_restore_took_back_is_written_again_and_those_before_it_are_not() -> None:
    scene = Scene(by_event=False)
    for batch in range(5):
        result = scene.table.upsert([row("a", str(batch))], writer="orders", batch=batch)
        if batch == 1:
            kept = result
    scene.table.upsert([row("b", "only")], writer="payments", batch=7)
    scene.table.restore(kept.completion_time)
    assert scene.table.writers() == {"orders": 1}
    assert scene.table.upsert([row("a", "1")], writer="orders", batch=1).instant == kept.instant
    for batch in range(2, 5):
        assert not scene.table.upsert([row("a", f"{batch} again")], writer="orders", batch=batch).is_repeated
    assert not scene.table.upsert([row("b", "again")], writer="payments", batch=7).is_repeated
    assert answer(scene.table) == {"a": "4 again", "b": "again"}
    assert set(published(scene.table).values()) == {1}


def test_a_restore_leaves_writers_alone_whose_batches_it_does_not_take_back() -> None:
    scene = Scene(by_event=False)
    scene.table.upsert([row("a", "0")], writer="orders", batch=0)
    result = scene.table.upsert([row("a", "1")], writer="orders", batch=1)
    scene.table.upsert([row("a", "x")])
    scene.table.restore(result.completion_time)
    assert scene.table.writers() == {"orders": 1}


@pytest.mark.parametrize("hudi_went_on", [True, False])
def test_a_batch_whose_publication_became_void_beside_hudi_is_published_again_and_no_other_is(
    *, hudi_went_on: bool
) -> None:
    storage = MemoryStorage(clock=Clock())
    storage.create(".hoodie/hoodie.properties", format_properties(PROPERTIES))
    batch = Batch("orders", 1)
    request_time = begin_write(shared(storage), "a", batch=batch)
    decided_but_dead(storage, request_time)
    assert shared(storage).newest().state.batches["orders"].number == 1, "as if it were"
    if hudi_went_on:
        Hudi(storage, storage.clock).commit()
        again = begin_write(shared(storage), "b", batch=batch)
        publish_write(shared(storage), "b", again, lambda _: CommitMetadata())
    else:
        with pytest.raises(BatchRepeated):
            begin_write(shared(storage), "b", batch=batch)
    if hudi_went_on:
        with pytest.raises(BatchRepeated):
            publish_write(shared(storage), "a", request_time, lambda _: CommitMetadata())


# --- two at the same moment --------------------------------------------------------------------------------------------


def zombie(actor: Actor) -> WriteResult:
    return table_on(actor.storage, actor.process.clock).upsert([row("a", "1")], writer="orders", batch=1)


@pytest.mark.parametrize(
    ("switches", "kills", "runs_max"),
    [
        pytest.param(1, 0, 1_000_000, id="one switch"),
        pytest.param(1, 1, 400, id="one switch, one death", marks=pytest.mark.slow),
        pytest.param(2, 0, 400, id="two switches", marks=pytest.mark.slow),
    ],
)
def test_two_drivers_with_the_same_batch_publish_it_once_in_every_interleaving(
    switches: int, kills: int, runs_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Writing, "heartbeat", NoHeartbeat)
    storage = fresh()
    bodies = {"one": zombie, "other": zombie}
    bounds: dict[str, Any] = {"switches": switches, "kills": kills, "runs_max": runs_max}
    ways: Counter[tuple[bool, ...]] = Counter()
    for played in every_schedule(objects_of(storage), storage.clock.now_ms(), bodies, **bounds):
        assert all(isinstance(end, WriteResult) for end in played.ends.values()), played.ends
        repeated = [end.is_repeated for end in played.ends.values()]
        ways[tuple(repeated)] += 1
        assert repeated.count(False) <= 1
        assert kills or repeated.count(False) == 1
        assert len({end.instant for end in played.ends.values()}) <= 1, "both are told of the same commit"
        found = played.afterwards(lambda actor: published(table_on(actor.storage, actor.process.clock)))
        assert found[("orders", 0)] == 1
        assert found[("orders", 1)] == 1 or (kills and not played.ends)
    assert sum(ways.values()) > 20


# --- names and numbers -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("named", "told"),
    [
        ({"batch": 1}, "name of its writer"),
        ({"batch": -1, "writer": "w"}, "no whole number"),
        ({"batch": True, "writer": "w"}, "no whole number"),
        ({"batch": 2**63, "writer": "w"}, "no whole number"),
        ({"batch": 1, "writer": ""}, "printable name"),
        ({"batch": 1, "writer": "a\nb"}, "printable name"),
        ({"batch": 1, "writer": "w" * 201}, "printable name"),
    ],
)
def test_a_batch_that_has_no_proper_name_or_number_is_refused_before_anything_begins(
    named: dict[str, Any], told: str
) -> None:
    scene = Scene()
    before = [info.name for info in scene.storage.list()]
    with pytest.raises(InvalidArgument, match=told):
        scene.table.upsert([row("a", "1")], **named)
    assert [info.name for info in scene.storage.list()] == before


def test_too_many_writers_are_refused_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "BATCH_WRITERS_MAX", 2)
    scene = Scene()
    for name in ("a", "b"):
        scene.table.upsert([row(name, "1")], writer=name, batch=0)
    with pytest.raises(InvalidArgument, match=r"forget_writer\(name\)"):
        scene.table.upsert([row("c", "1")], writer="c", batch=0)
    assert not scene.table.upsert([row("a", "2")], writer="a", batch=1).is_repeated
    assert (scene.table.forget_writer("b"), scene.table.forget_writer("b")) == (True, False)
    assert not scene.table.upsert([row("c", "1")], writer="c", batch=0).is_repeated
    assert scene.table.writers() == {"a": 1, "c": 0}


def test_batches_of_another_stream_under_the_same_name_are_refused_and_not_taken_for_done() -> None:
    scene = Scene()

    def write(key: str, batch: int, stream: str) -> WriteResult:
        request = WriteRequest("upsert", writer="orders", batch=batch, stream=stream)
        return write_rows(scene.table._destination, request, [row(key, "1")], None)

    write("a", 5, "one")
    for batch in (0, 5, 6):
        with pytest.raises(InvalidArgument, match="another stream"):
            write("b", batch, "two")
    assert write("a", 5, "one").is_repeated
    assert scene.table.forget_writer("orders")
    assert not write("b", 0, "two").is_repeated


def test_a_batch_costs_no_storage_call_more_than_a_plain_write() -> None:
    storage = fresh()
    watched = WatchedStorage(storage)
    table = table_on(watched, storage.clock)
    counts = []
    hows: list[dict[str, Any]] = [{}, {}, {"writer": "orders", "batch": 1}, {"writer": "orders", "batch": 2}]
    for how in hows:
        watched.calls.clear()
        table.upsert([row("a", "1")], **how)
        counts.append(len(watched.calls))
    assert len({*counts[1:]}) == 1, counts


def test_a_commit_says_which_batch_it_brings_and_which_came_before() -> None:
    scene = Scene()
    for batch in (3, 4):
        scene.table.upsert([row("a", "1")], writer="orders", batch=batch)
    timeline = load_timeline(TableAt(scene.storage, scene.table._config, scene.clock))
    first, second = [
        load_commit(TableAt(scene.storage, scene.table._config, scene.clock), i) for i in timeline.writes[-2:]
    ]
    assert (first.extra[BATCH], first.extra.get(BEFORE), first.extra[WRITER]) == ("3", None, "orders")
    assert second.extra[BATCH] == "4"
    assert second.extra[BEFORE].startswith("[3,")
