# SPDX-License-Identifier: Apache-2.0
"""Readers that hold files back: leases of snapshots, and named consumers of changes."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

import lakebraid as lb
from lakebraid import limits
from lakebraid.txn.ledger.entries import Lease
from lakebraid.txn.ledger.ledger import Ledger
from lakebraid.txn.liveness import leases
from lakebraid.txn.liveness.leases import LEASES, drop_lease, take_lease
from tests.kit.races.faults import Killed, killing, losing
from tests.kit.tables.scene import Call, Scene, WatchedStorage, answer, files, once, row, table_on
from tests.kit.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.unit


def at_call(number: int) -> Callable[[Call], bool]:
    return lambda call: call.number == number


def versions(count: int = 3) -> Scene:
    scene = Scene()
    for n in range(count):
        scene.write(row("a", f"v{n}", ts=n + 1))
        scene.compact()
    return scene


def ledger_of(table: lb.Table) -> Ledger:
    return table._writing.ledger(table._config)


def held(scene: Scene) -> dict[str, Lease]:
    return dict(ledger_of(scene.table).newest().state.leases)


def beats(scene: Scene) -> list[str]:
    return [info.name for info in scene.storage.list(LEASES)]


# --- leases ----------------------------------------------------------------------------------------------------------


def test_a_snapshot_in_a_with_block_is_read_after_a_clean_that_would_have_removed_it() -> None:
    scene = versions()
    moment = scene.completions()[1]
    with scene.table.snapshot(as_of=moment) as snapshot:
        done = scene.other().clean(commits=1)
        assert done.files and any("lease" in hold for hold in done.held_back)
        assert snapshot.to_arrow().to_pylist() == [row("a", "v0", ts=1)]
        assert answer(scene.table, moment) == {"a": "v0"}
    assert held(scene) == {} and beats(scene) == []
    assert scene.table.clean(commits=1).files
    with pytest.raises(lb.SnapshotExpired):
        answer(scene.table, moment)


def test_without_a_with_block_a_snapshot_takes_no_lease() -> None:
    scene = versions()
    entries = ledger_of(scene.table).newest().number
    snapshot = scene.table.snapshot()
    assert snapshot.to_arrow().num_rows == 1 and ledger_of(scene.table).newest().number == entries


def test_a_snapshot_of_a_table_without_rows_can_be_held_as_well() -> None:
    scene = Scene()
    with scene.table.snapshot() as snapshot:
        assert snapshot.count() == 0


def test_a_block_that_fails_gives_its_lease_back() -> None:
    scene = versions()
    with pytest.raises(ZeroDivisionError), scene.table.snapshot():
        raise ZeroDivisionError
    assert held(scene) == {}


def test_two_readers_hold_two_leases_and_the_second_one_stays_when_the_first_is_done() -> None:
    scene = versions()
    first, second = scene.completions()[1], scene.completions()[3]
    with scene.table.snapshot(as_of=second) as late:
        with scene.other().snapshot(as_of=first) as early:
            scene.table.clean(commits=1)
            assert early.to_arrow()["v"].to_pylist() == ["v0"]
        scene.table.clean(commits=1)
        assert late.to_arrow()["v"].to_pylist() == ["v1"]
    with pytest.raises(lb.SnapshotExpired):
        answer(scene.table, first)


def test_a_lease_on_what_a_decided_clean_is_about_to_remove_is_refused() -> None:
    scene = versions()
    snapshot = scene.table.snapshot(as_of=scene.completions()[0])
    plan = scene.table.plan_clean(commits=1)
    assert plan is not None and len(files(scene.storage)) == 7, "nothing is deleted yet"
    with pytest.raises(lb.SnapshotExpired, match=str(plan.instant)), snapshot:
        pass
    assert held(scene) == {} and beats(scene) == []


def test_a_lease_behind_the_horizon_is_given_if_another_one_has_kept_the_files() -> None:
    scene = versions()
    moment = scene.completions()[1]
    with scene.table.snapshot(as_of=moment) as first:
        scene.table.clean(commits=1)
        with scene.other().snapshot(as_of=moment) as second:
            assert second.to_arrow() == first.to_arrow()
            assert len(held(scene)) == 2


def test_the_lease_of_a_dead_reader_ends_and_a_living_one_goes_on() -> None:
    scene = versions()
    ledger = ledger_of(scene.table)
    for token in ("dead", "living"):
        take_lease(ledger, token, "somebody", scene.completions()[1])
    scene.clock.sleep(limits.LEASE_MS / 1000 - 1)
    scene.storage.replace(f"{LEASES}/living", b"")
    assert len(scene.table.clean(commits=1).held_back) == 2
    scene.clock.sleep(2)
    done = scene.table.clean(commits=1)
    assert len(done.held_back) == 1 and answer(scene.table, scene.completions()[1]) == {"a": "v0"}
    assert [*held(scene)] == ["living"] and beats(scene) == [f"{LEASES}/living"]
    drop_lease(ledger, "living")
    drop_lease(ledger, "living")
    assert scene.table.clean(commits=1).held_back == ()


def test_expired_leases_go_even_if_there_is_nothing_to_clean() -> None:
    scene = versions(1)
    take_lease(ledger_of(scene.table), "dead", "somebody", scene.completions()[0])
    scene.clock.sleep(limits.LEASE_MS / 1000 + 1)
    assert scene.table.clean().instants == ()
    assert held(scene) == {} and beats(scene) == []


def test_a_reader_beats_while_it_holds_its_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LEASE_INTERVAL_MS", 10)
    scene = versions(1)
    beaten = threading.Event()
    seen: list[str] = []

    def watch(call: Any) -> None:
        if call.name == "replace" and call.target.startswith(LEASES):
            seen.append(call.target)
            if len(seen) > 3:
                beaten.set()

    with scene.other(before=watch).snapshot():
        assert beaten.wait(PATIENCE_SECONDS), "no beat came"


def test_more_leases_than_the_ledger_should_carry_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LEASES_MAX", 1)
    scene = versions(1)
    with scene.table.snapshot(), pytest.raises(lb.InvalidArgument, match="leases"), scene.other().snapshot():
        pass


@pytest.mark.slow
def test_a_lease_taken_at_any_moment_of_a_clean_has_its_files_or_is_refused() -> None:
    taken = refused = number = 0
    while True:
        scene = versions()
        moment, other = scene.completions()[1], scene.other()
        outcome: list[str] = []

        def lease(moment: str = moment, other: lb.Table = other, outcome: list[str] = outcome) -> None:
            try:
                take_lease(ledger_of(other), "reader", "somebody", moment)
                outcome.append("taken")
            except lb.SnapshotExpired:
                outcome.append("refused")

        hook = once(at_call(number), lease)
        scene.other(before=hook).clean(commits=1)
        if not outcome:
            break
        if outcome == ["taken"]:
            assert answer(scene.table, moment) == {"a": "v0"}, f"before call {number}"
        taken, refused, number = taken + (outcome == ["taken"]), refused + (outcome == ["refused"]), number + 1
    assert taken and refused


@pytest.mark.slow
def test_a_clean_at_any_moment_of_taking_a_lease_leaves_its_files_or_it_is_refused() -> None:
    taken = refused = number = 0
    while True:
        scene = versions()
        moment, cleaner = scene.completions()[1], scene.other()
        hook = once(at_call(number), partial(cleaner.clean, commits=1))
        reader = scene.other(before=hook)
        try:
            with reader.snapshot(as_of=moment) as snapshot:
                assert snapshot.to_arrow()["v"].to_pylist() == ["v0"], f"before call {number}"
                taken += 1
        except lb.SnapshotExpired:
            refused += 1
        if not hook.done:
            break
        number += 1
    assert taken and refused


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["kill", "lose"])
@pytest.mark.parametrize("effect", ["done", "not done"])
def test_a_reader_that_dies_or_gets_no_answer_while_it_takes_its_lease_leaves_nothing_for_ever(
    fault: str, effect: str
) -> None:
    number = 0
    while True:
        scene = versions(2)
        hooks = killing(number, effect)[0] if fault == "kill" else losing(number, effect)
        watched = WatchedStorage(scene.storage, **hooks)
        with contextlib.suppress(Killed, lb.LakebraidError):
            ledger = ledger_of(table_on(watched, scene.clock))
            take_lease(ledger, "reader", "somebody", scene.completions()[0])
            drop_lease(ledger, "reader")
        if len(watched.calls) <= number:
            break
        scene.clock.sleep(limits.LEASE_MS / 1000 + 1)
        assert scene.table.clean(commits=1).held_back == ()
        assert held(scene) == {} and beats(scene) == [], number
        number += 1


# --- consumers -------------------------------------------------------------------------------------------------------


def told(changes: lb.Changes) -> list[tuple[str, str]]:
    return sorted((r["_change_type"], r["v"]) for r in changes.to_arrow().to_pylist())


def test_a_consumer_reads_each_change_once_over_restarts_and_cleans() -> None:
    scene = versions(1)
    consumer = scene.table.consumer("mirror")
    assert told(consumer.changes()) == []
    for n in range(1, 4):
        scene.write(row("a", f"n{n}", ts=10 + n))
        scene.compact()
        scene.table.clean(commits=1)
        again = scene.other().consumer("mirror")
        changes = again.changes()
        assert told(changes) == [("update", f"n{n}")]
        again.commit(changes)
        assert again.position == changes.next_position
        assert told(scene.other().consumer("mirror").changes()) == []


def test_what_a_consumer_has_not_read_stays_whatever_is_cleaned() -> None:
    scene = versions(1)
    scene.table.consumer("slow")
    position = scene.table.consumer("slow").position
    for n in range(4):
        scene.write(row("a", f"n{n}", ts=10 + n))
        scene.compact()
        done = scene.table.clean(commits=1)
        assert any("'slow'" in hold for hold in done.held_back)
    assert told(scene.table.consumer("slow").changes()) == [("update", "n3")]
    middle = scene.completions()[-3]
    assert told(scene.table.consumer("slow").changes(until=middle)) == [("update", "n2")]
    assert scene.table.drop_consumer("slow") and not scene.table.drop_consumer("slow")
    assert scene.table.clean(commits=1).files
    with pytest.raises(lb.SnapshotExpired):
        scene.table.changes(after=position)


def test_a_consumer_never_goes_back() -> None:
    scene = versions(2)
    old, new = scene.completions()[0], scene.completions()[-1]
    consumer = scene.table.consumer("c", after=old)
    other = scene.other().consumer("c")
    assert consumer.commit(new) == new
    assert other.commit(old) == new and other.position == new
    assert scene.table.consumer("c", after=old).position == new, "it was registered before"


def test_a_new_consumer_may_begin_at_a_time_or_at_the_beginning() -> None:
    scene = versions(2)
    assert told(scene.table.consumer("past", after=scene.completions()[1]).changes()) == [("update", "v1")]
    first = scene.table.consumer("all", after="beginning")
    assert first.position is None and told(first.changes()) == [("insert", "v1")]
    assert "beginning" in repr(first)
    done = scene.table.clean(commits=1, dry_run=True)
    assert not any("'all'" in hold for hold in done.held_back), "it needs no older version"


def test_a_consumer_cannot_begin_where_the_past_is_gone() -> None:
    scene = versions()
    moment = scene.completions()[0]
    scene.table.clean(commits=1)
    with pytest.raises(lb.SnapshotExpired, match="clean"):
        scene.table.consumer("late", after=moment)
    assert ledger_of(scene.table).newest().state.consumers == {}


def test_a_consumer_that_was_dropped_cannot_move_on() -> None:
    scene = versions(1)
    consumer = scene.table.consumer("c")
    scene.other().drop_consumer("c")
    scene.write(row("a", "new", ts=9))
    with pytest.raises(lb.InvalidArgument, match="dropped"):
        consumer.commit(consumer.changes())


@pytest.mark.parametrize("name", ["", "a\nb", "x" * 201, None])
def test_a_consumer_needs_a_proper_name(name: Any) -> None:
    scene = versions(1)
    with pytest.raises(lb.InvalidArgument, match="Nothing was changed"):
        scene.table.consumer(name)


def test_a_consumer_cannot_be_in_the_future() -> None:
    scene = versions(1)
    with pytest.raises(lb.InvalidArgument, match="not come yet"):
        scene.table.consumer("c", after="20990101000000000")
    with pytest.raises(lb.InvalidArgument, match="not come yet"):
        scene.table.consumer("d").commit("20990101000000000")


def test_more_consumers_than_the_ledger_should_carry_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CONSUMERS_MAX", 1)
    scene = versions(1)
    scene.table.consumer("one")
    with pytest.raises(lb.InvalidArgument, match="consumers"):
        scene.table.consumer("two")


@pytest.mark.slow
def test_a_consumer_registered_at_any_moment_of_a_clean_can_read_or_is_refused() -> None:
    registered = refused = number = 0
    while True:
        scene = versions()
        outcome: list[str] = []

        def register(scene: Scene = scene, outcome: list[str] = outcome) -> None:
            try:
                leases.register_consumer(ledger_of(scene.table), "c", scene.completions()[1])
                outcome.append("registered")
            except lb.SnapshotExpired:
                outcome.append("refused")

        scene.other(before=once(at_call(number), register)).clean(commits=1)
        if not outcome:
            break
        if outcome == ["registered"]:
            assert told(scene.table.consumer("c").changes()) == [("update", "v2")], number
        registered += outcome == ["registered"]
        refused, number = refused + (outcome == ["refused"]), number + 1
    assert registered and refused
