# SPDX-License-Identifier: Apache-2.0
"""Clustering's row and column of RFC-71's matrix: small worlds of two processes, in every order of the storage calls that do
not commute, with so many switches. What is judged is what was published, without the product's rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from itertools import combinations
from typing import Any

import pytest

from lakebraid.errors import ClusteringYielded, WriteConflict
from lakebraid.model.conflicts import Strategy
from lakebraid.model.timeline.slicing import GroupId
from lakebraid.services.merging.clustering import ClusteringResult
from lakebraid.services.merging.compaction import plan_compaction
from lakebraid.services.plans import run_plan
from lakebraid.table.at import TableAt
from lakebraid.table.loading import load_timeline
from lakebraid.txn.checks.pending_plans import load_planned
from simulator.mutants import MUTANTS
from simulator.mutants.planting import planted
from tests.kit.races.enumerating import Actor, Body, Played, every_schedule, objects_of
from tests.kit.tables.clustering import Grove
from tests.kit.tables.scene import row
from tests.unit.services.test_clustering_races import clusterer, published, replacement, scenery, writer
from tests.unit.txn.test_rfc79 import TINY

pytestmark = pytest.mark.simulator
SWITCHES = [pytest.param(1, id="one switch"), pytest.param(2, id="two switches", marks=pytest.mark.slow)]
MODES = ("protected", "gives way")
both_ways = pytest.mark.parametrize(
    "strategy", [Strategy.BY_REQUEST_TIME, Strategy.BY_COMPLETION], ids=["request time", "completion"]
)


def play(scene: Any, bodies: dict[str, Body], switches: int) -> Iterator[Played]:
    objects, now_ms = scene[:2]
    yield from every_schedule(objects, now_ms, bodies, switches=switches)


# --- ingestion against clustering, clustering against ingestion -----------------------------------------------------------


def judge_a_write(played: Played, mode: str) -> tuple[str, str]:
    """No row is lost, and nobody gives way for nothing. How both ended."""
    c, w = played.ends["c"], played.ends["w"]
    instant, write = replacement(played), published(played)
    is_written = f"0-1-1_{write.request_time}" in "".join(played.world.disk.names)
    assert is_written == (isinstance(w, str) and w != "moved"), "whoever was told so is there, and nobody else"
    assert isinstance(c, ClusteringResult | ClusteringYielded), repr(c)
    if isinstance(c, ClusteringResult) and is_written:
        assert write.completion_time < instant.request_time, "it replaced a group with rows that it has not read"
    if isinstance(w, WriteConflict):
        assert isinstance(c, ClusteringResult), "one of the two gets through"
        assert instant.completion_time > w.facts["instant"], "it was refused for what it could have seen"
    if isinstance(c, ClusteringYielded):
        assert mode == "gives way", "no writer comes before a protected plan's end"
        assert is_written, "it gave way to a write that nobody sees"
        assert write.completion_time > c.facts["instant"], "it gave way to what it had read"
    return type(c).__name__, type(w).__name__


def play_a_write(mode: str, strategy: Strategy, switches: int) -> set[tuple[str, str]]:
    scene = scenery(mode)
    bodies = {"c": clusterer, "w": writer(scene[2], strategy, updates_allowed=mode == "gives way")}
    return {judge_a_write(played, mode) for played in play(scene, bodies, switches)}


@both_ways
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("switches", SWITCHES)
def test_of_a_write_and_a_clustering_of_its_group_one_gives_way_exactly_when_it_must(
    mode: str, strategy: Strategy, switches: int
) -> None:
    seen = play_a_write(mode, strategy, switches)
    assert ("ClusteringResult", "str") in seen, "one after the other"
    assert ("ClusteringResult", "WriteConflict") in seen
    assert (("ClusteringYielded", "str") in seen) == (mode == "gives way")


@pytest.mark.parametrize(
    ("mode", "switches"),
    [("protected", 1), ("gives way", 1), pytest.param("gives way", 2, marks=pytest.mark.slow)],
)
def test_a_write_of_another_group_and_a_clustering_do_not_hinder_each_other(mode: str, switches: int) -> None:
    objects, now_ms, _ = scenery(mode)
    scene, group = (objects, now_ms), GroupId("", "abc00000-0000-0000-0000-000000000000-0")
    seen = set()
    bodies = {
        "c": clusterer,
        "w": writer(group, Strategy.BY_REQUEST_TIME, updates_allowed=mode == "gives way", is_new=True),
    }
    for played in play(scene, bodies, switches):
        seen.add((type(played.ends["c"]).__name__, type(played.ends["w"]).__name__))
    assert seen == {("ClusteringResult", "str")}


# --- clustering against clustering and compaction ---------------------------------------------------------------------------


@cache
def grove_with_logs() -> tuple[dict[str, bytes], int]:
    grove = Grove("mor", groups=2)
    grove.table.upsert([row("01", "new", 2), row("11", "new", 2)])
    return objects_of(grove.storage), grove.clock.now_ms()


def compactor(actor: Actor) -> Any:
    request_time = plan_compaction(actor.ledger)
    return None if request_time is None else run_plan(actor.opened, request_time, TINY)


def judge_plans(played: Played) -> None:
    """No two plans have a group at the same time: what the one makes of it the other would not have."""

    def look(actor: Actor) -> Any:
        actor.ledger.settled()
        found = [
            i
            for i in load_timeline(TableAt(actor.storage, actor.ledger.config, actor.process.clock))
            if i.kind in ("clustering", "compaction")
        ]
        return [
            (
                i,
                {
                    part.group
                    for part in load_planned(TableAt(actor.storage, actor.ledger.config, actor.process.clock), i)
                },
            )
            for i in found
        ]

    for (one, own), (other, others) in combinations(played.afterwards(look), 2):
        first, second = sorted((one, other), key=lambda i: i.request_time)
        is_over = first.completion_time is not None and first.completion_time < second.request_time
        assert is_over or not own & others, f"{first} and {second} have the same groups"
    for end in played.ends.values():
        assert not isinstance(end, Exception), repr(end)


def play_plans(second: Callable[[Actor], Any], switches: int) -> None:
    for played in play(grove_with_logs(), {"one": clusterer, "two": second}, switches):
        judge_plans(played)
        assert played.ends["one"] is not None or played.ends["two"] is not None, "one of them has something to do"


@pytest.mark.parametrize("switches", SWITCHES)
@pytest.mark.parametrize("second", [clusterer, compactor], ids=["clustering", "compaction"])
def test_two_plans_never_have_a_group_at_the_same_time(second: Callable[..., Any], switches: int) -> None:
    play_plans(second, switches)


# --- the judges are awake ---------------------------------------------------------------------------------------------------

BY_NAME = {mutant.name: mutant for mutant in MUTANTS}


@both_ways
def test_a_writer_that_does_not_mind_a_protected_plan_is_found(strategy: Strategy) -> None:
    with (
        planted(BY_NAME["a writer is not refused by a protected plan"]),
        pytest.raises(AssertionError, match="protected"),
    ):
        play_a_write("protected", strategy, 1)


@both_ways
def test_a_clustering_that_does_not_give_way_is_found(strategy: Strategy) -> None:
    with planted(BY_NAME["a clustering does not give way"]), pytest.raises(AssertionError, match="not read"):
        play_a_write("gives way", strategy, 1)


@both_ways
def test_a_writer_that_does_not_mind_replaced_groups_is_found(strategy: Strategy) -> None:
    name = "a writer does not mind the groups that a clustering replaced"
    with planted(BY_NAME[name]), pytest.raises(AssertionError, match="not read"):
        play_a_write("gives way", strategy, 1)


@pytest.mark.parametrize(
    ("name", "second"),
    [("two clusterings of the same groups", clusterer), ("a compaction of groups that are clustered", compactor)],
)
def test_plans_of_the_same_groups_are_found(name: str, second: Callable[..., Any]) -> None:
    with planted(BY_NAME[name]), pytest.raises(AssertionError, match=r"have the same groups|gave way"):
        play_plans(second, 1)
