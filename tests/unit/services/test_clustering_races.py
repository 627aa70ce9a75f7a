# SPDX-License-Identifier: Apache-2.0
"""A clustering and a write of the same file group, in every interleaving of their storage calls, with deaths: both are
published only if the clustering was planned after the write, so that its rows are in it.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from lakebraid.errors import ClusteringYielded, WriteConflict
from lakebraid.format.names import BaseFileName, parse_data_file
from lakebraid.format.timeline.commit import CommitMetadata
from lakebraid.model.conflicts import Begun, Strategy
from lakebraid.model.timeline.slicing import GroupId
from lakebraid.services.merging.clustering import ClusteringResult, plan_clustering
from lakebraid.services.plans import run_plan
from lakebraid.table.at import TableAt
from lakebraid.table.loading import load_timeline
from lakebraid.table.view import load_view
from lakebraid.tasks.new_files import place_file
from lakebraid.tasks.staged_file import StagedFile, write_stats
from lakebraid.txn.actions.rollback import roll_back
from lakebraid.txn.actions.write import begin_write, publish_write
from lakebraid.txn.checks.file_groups import Rivals, begun
from tests.kit.effort import times
from tests.kit.present import present
from tests.kit.races.enumerating import Actor, Body, Played, every_schedule, objects_of
from tests.kit.tables.clustering import GIVES_WAY, Grove
from tests.unit.txn.test_rfc79 import TINY

pytestmark = [pytest.mark.unit, pytest.mark.slow]

SCHEDULES = times(200, least=200)
"""Of the schedules with a switch and a death the first ones."""


@cache
def scenery(mode: str) -> tuple[dict[str, bytes], int, GroupId]:
    grove = Grove(groups=2, properties=GIVES_WAY if mode == "gives way" else {})
    group = GroupId("", present(parse_data_file(min(grove.files()))).file_id)
    return objects_of(grove.storage), grove.clock.now_ms(), group


def clusterer(actor: Actor) -> ClusteringResult | None:
    request_time = plan_clustering(actor.ledger)
    return None if request_time is None else run_plan(actor.opened, request_time, TINY)


def writer(group: GroupId, strategy: Strategy, *, updates_allowed: bool, is_new: bool = False) -> Body:
    """What a placed write decides: begin, a new base file of the group, the check in the round that publishes."""

    def write(actor: Actor) -> str:
        noted: dict[str, Begun] = {}
        ledger = actor.ledger
        request_time = begin_write(
            ledger, "w", action="commit", seen=lambda now, s: noted.__setitem__(s, begun(now, s))
        )
        if not is_new and group not in load_view(TableAt(actor.storage, ledger.config, actor.process.clock)).groups:
            roll_back(ledger, "w", request_time)
            return "moved"  # its rows have another group now, and it would go on there
        name = BaseFileName(group.file_id, "0-1-1", request_time, ".parquet").format()
        place_file(actor.storage, request_time, "", name, b"new")
        metadata = CommitMetadata(
            write_stats([StagedFile("", group.file_id, name, 3, 1, 0, is_base=True)], request_time)
        )
        rivals = Rivals(noted[request_time], strategy, updates_allowed)

        def checked(now: Any) -> CommitMetadata:
            rivals.check(now, {group}, "w")
            return metadata

        try:
            return publish_write(ledger, "w", request_time, checked)
        except WriteConflict:
            roll_back(ledger, "w", request_time)
            raise

    return write


def replacement(played: Played) -> Any:
    """The clustering as it is after all."""

    def look(actor: Actor) -> Any:
        actor.ledger.settled()
        return [
            i
            for i in load_timeline(TableAt(actor.storage, actor.ledger.config, actor.process.clock))
            if i.kind == "clustering"
        ]

    found = played.afterwards(look)
    assert len(found) <= 1
    return found[0] if found else None


def published(played: Played) -> Any:
    def look(actor: Actor) -> Any:
        return [
            i
            for i in load_timeline(TableAt(actor.storage, actor.ledger.config, actor.process.clock)).writes
            if i.kind == "commit"
        ][-1]

    return played.afterwards(look)


@pytest.mark.parametrize("mode", ["protected", "gives way"])
def test_no_row_is_lost_if_a_writer_or_a_clusterer_dies(mode: str) -> None:
    """Without deaths: tests/simulator/test_clustering_worlds.py."""
    strategy = Strategy.BY_COMPLETION
    objects, now_ms, group = scenery(mode)
    bodies = {"c": clusterer, "w": writer(group, strategy, updates_allowed=mode == "gives way")}
    seen = set()
    for played in every_schedule(objects, now_ms, bodies, switches=1, kills=1, runs_max=SCHEDULES):
        c, w = played.ends.get("c"), played.ends.get("w")
        instant, write = replacement(played), published(played)
        is_written = f"0-1-1_{write.request_time}" in "".join(played.world.disk.names)
        if instant is not None and instant.is_completed and is_written:
            assert write.completion_time < instant.request_time, "it replaced a group with rows that it has not read"
        assert c is None or isinstance(c, ClusteringResult | ClusteringYielded), repr(c)
        assert w is None or isinstance(w, str | WriteConflict), repr(w)
        if mode == "protected":
            assert not isinstance(c, ClusteringYielded)
        elif isinstance(w, WriteConflict):
            assert instant.is_completed, "only what is published comes before a write"
        seen.add((type(c).__name__, type(w).__name__))
    assert ("ClusteringResult", "str") in seen, "one after the other"
