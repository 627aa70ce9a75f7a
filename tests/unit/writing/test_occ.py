# SPDX-License-Identifier: Apache-2.0
"""Optimistic tables: of two writers that met in a file group the second is refused, told why, and tries again by itself."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebraid.errors import InvalidArgument, WriteConflict
from lakebraid.format.names import State
from lakebraid.model.conflicts import PENDING, Begun, Candidacy, Strategy, WriteKind, candidates
from lakebraid.model.timeline.instant import Instant
from lakebraid.model.timeline.timeline import Timeline
from lakebraid.services.merging.compaction import plan_compaction
from lakebraid.txn.checks.file_groups import EARLY, STRATEGY
from lakebraid.txn.checks.rivalry import strategy_of
from tests.kit.tables.scene import Scene

pytestmark = pytest.mark.unit

PACKAGE = "org.apache.hudi.client.transaction."
REQUEST_TIMES = "SimpleConcurrentFileWritesConflictResolutionStrategy"
ENDS = "EndTimestampBasedConcurrentFileWritesConflictResolutionStrategy"


def scene_of(strategy: str = REQUEST_TIMES, buckets: int = 4, **properties: str) -> Scene:
    lines = {STRATEGY: PACKAGE + strategy} | {k.replace("__", "."): v for k, v in properties.items()}
    return Scene(arguments={"concurrency": "occ", "buckets": buckets, "properties": lines})


def row(key: str, ts: int = 1) -> dict[str, Any]:
    return {"id": key, "ts": ts, "v": key, "w": ts}


def keys(scene: Scene) -> list[str]:
    return sorted(scene.table.to_arrow(columns=["id"]).column("id").to_pylist())


both_ways = pytest.mark.parametrize("strategy", [REQUEST_TIMES, ENDS], ids=["by request time", "by completion"])


@both_ways
@pytest.mark.parametrize("is_older", [True, False], ids=["began first", "began last"])
def test_of_two_writers_of_one_bucket_the_second_to_commit_is_refused(strategy: str, *, is_older: bool) -> None:
    scene = scene_of(strategy, buckets=1)
    loser, winner = scene.table.begin(), scene.other().begin()
    if not is_older:
        loser, winner = winner, loser
    for transaction, key in ((loser, "lost"), (winner, "won")):
        transaction.write([row(key)])
    winner.commit()
    with pytest.raises(WriteConflict, match="touches the same file groups") as caught:
        loser.commit()
    facts = caught.value.facts
    assert (facts["instant"], facts["other"]) == (loser.instant, winner.instant)
    assert "process" in facts["writer"]
    assert "process" in facts["other_writer"]
    assert facts["groups"] == [("", "00000000-0000-0000-0000-000000000000-0")]
    assert scene.table.status(loser.instant) == "refused"
    assert keys(scene) == ["won"]


@both_ways
def test_writers_of_different_buckets_do_not_meet(strategy: str) -> None:
    scene = scene_of(strategy)
    one, two = scene.table.begin(), scene.other().begin()
    one.write([row("a")])
    two.write([row("b")])
    assert {f.file_id for f in one.staging.files}.isdisjoint(f.file_id for f in two.staging.files)
    two.commit()
    one.commit()
    assert keys(scene) == ["a", "b"]


@both_ways
def test_who_begins_after_the_other_completed_does_not_meet_it(strategy: str) -> None:
    scene = scene_of(strategy, buckets=1)
    scene.table.upsert([row("first")])
    scene.other().upsert([row("second")], retries=0)
    assert keys(scene) == ["first", "second"]


@both_ways
def test_a_refused_upsert_is_done_again_by_itself(strategy: str) -> None:
    scene = scene_of(strategy, buckets=1)
    winners = itertools.count()

    def meddle(call: Any) -> None:
        # A log file of the writer is on its way: twice, another one commits right before it does.
        if call.name == "create" and ".log." in call.target and ".hoodie" not in call.target and next(winners) < 2:
            scene.table.upsert([row(f"winner {len(scene.table.timeline())}"), row("patient")])

    result = scene.other(before=meddle).upsert([row("patient")])
    assert result.attempts == 3
    assert "patient" in keys(scene)
    assert len(keys(scene)) == 3


def test_without_retries_the_conflict_is_told() -> None:
    scene = scene_of(buckets=1)
    done = iter([True])

    def meddle(call: Any) -> None:
        if call.name == "create" and ".log." in call.target and ".hoodie" not in call.target and next(done, False):
            scene.table.upsert([row("winner")])

    with pytest.raises(WriteConflict):
        scene.other(before=meddle).upsert([row("a")], retries=0)
    assert keys(scene) == ["winner"]


def test_a_delete_by_key_is_done_again_as_often_as_it_was_told_to_be() -> None:
    scene = scene_of(buckets=1)
    scene.table.upsert([row("a")])
    done = iter([True])

    def meddle(call: Any) -> None:
        if call.name == "create" and ".log." in call.target and ".hoodie" not in call.target and next(done, False):
            scene.table.upsert([row("winner")])

    with pytest.raises(WriteConflict):
        scene.other(before=meddle).delete([{"id": "a", "ts": 2}], retries=0)
    assert keys(scene) == ["a", "winner"]


@both_ways
@pytest.mark.parametrize("is_later", [True, False], ids=["planned since", "planned before"])
def test_a_compaction_that_was_planned_since_is_a_conflict_and_one_before_is_none(
    strategy: str, *, is_later: bool
) -> None:
    scene = scene_of(strategy, buckets=1)
    scene.table.upsert([row("a")])
    ledger = scene.table._writing.ledger(scene.table._config)
    if not is_later:
        assert plan_compaction(ledger)
    writer = scene.other().begin()
    if is_later:
        assert plan_compaction(ledger)
    writer.write([row("b")])
    if is_later:
        with pytest.raises(WriteConflict, match="pending compaction against ingestion: yes"):
            writer.commit()
    else:
        writer.commit()
    assert keys(scene) == (["a"] if is_later else ["a", "b"])


@both_ways
def test_a_rival_that_was_archived_meanwhile_is_still_met(strategy: str) -> None:
    scene = scene_of(strategy, buckets=1)
    rival = scene.other().begin()
    rival.write([row("rival")])
    for number in range(40):
        scene.other().alter().add(f"c{number}", "int").commit()
    writer = scene.table.begin()
    writer.write([row("writer")])
    rival.commit()
    scene.other().archive()
    assert rival.instant not in {entry.instant.request_time for entry in scene.table.timeline()}
    with pytest.raises(WriteConflict) as caught:
        writer.commit()
    assert caught.value.facts["other"] == rival.instant


def test_a_writer_that_is_bound_to_lose_stops_early() -> None:
    scene = scene_of(buckets=1, **{EARLY: "true"})
    loser = scene.table.begin()
    loser.write([row("lost")])
    scene.other().upsert([row("won")], retries=0)
    assert not loser._has_its_place()
    loser._lose()
    with pytest.raises(WriteConflict, match="touches the same file groups"):
        loser.write([row("more")])
    assert scene.table.status(loser.instant) == "refused"
    assert keys(scene) == ["won"]


def test_early_detection_never_refuses_whom_the_commit_would_not() -> None:
    scene = scene_of(buckets=4, **{EARLY: "true"})
    writer = scene.table.begin()
    writer.write([row("a")])
    scene.other().upsert([row("b")], retries=0)
    assert writer._has_its_place()
    writer.commit()
    assert keys(scene) == ["a", "b"]


def test_a_strategy_of_somebody_elses_is_refused_by_name() -> None:
    with pytest.raises(InvalidArgument, match="'Mine', which is Java code"):
        strategy_of({STRATEGY: "com.example.Mine"})


@pytest.mark.parametrize("allowed", [True, False], ids=["updates allowed", "updates refused"])
@pytest.mark.parametrize(("current", "pending"), [(c, p) for c in PENDING for p in WriteKind], ids=str)
def test_a_cell_of_the_matrix(current: WriteKind, pending: WriteKind, *, allowed: bool) -> None:
    action = {
        WriteKind.INGESTION: "deltacommit",
        WriteKind.CLUSTERING: "clustering",
        WriteKind.COMPACTION: "compaction",
    }[pending]
    other = Instant("5", action, State.INFLIGHT, planned=action)
    found = list(
        candidates(
            Timeline((other,)), Begun("3", frozenset()), current, Strategy.BY_REQUEST_TIME, updates_allowed=allowed
        )
    )
    wanted = {
        Candidacy.YES: True,
        Candidacy.NO: False,
        Candidacy.IF_UPDATES_ALLOWED: allowed,
        Candidacy.UNLESS_UPDATES_ALLOWED: not allowed,
    }[PENDING[current][pending]]
    assert [instant for instant, _ in found] == ([other] if wanted else [])


@given(st.permutations([(name, end) for name in "abcdefg" for end in (False, True)]))
def test_both_ways_find_the_same_completed_rivals(events: list[tuple[str, bool]]) -> None:
    """Seven writes begin and complete in any order; `d` is ours, judged when it is about to complete."""
    begun: dict[str, str] = {}
    completed: dict[str, str] = {}
    ours: Begun | None = None
    for at, (name, _) in enumerate(events):
        time = f"{at:02}"
        if name not in begun:
            if name == "d":
                ours = Begun(time, frozenset(begun[n] for n in begun if n not in completed))
            begun[name] = time
        elif name == "d":
            break
        else:
            completed[name] = time
    assert ours is not None
    instants = [
        Instant(
            request_time, "deltacommit", State.COMPLETED if name in completed else State.INFLIGHT, completed.get(name)
        )
        for name, request_time in begun.items()
    ]
    timeline = Timeline(tuple(sorted(instants)))
    by_request_time, by_completion = (
        {i.request_time for i, _ in candidates(timeline, ours, WriteKind.INGESTION, way, updates_allowed=True)}
        for way in Strategy
    )
    assert by_request_time == by_completion
