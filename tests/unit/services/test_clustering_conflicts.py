# SPDX-License-Identifier: Apache-2.0
"""Clustering beside writers: RFC-71's matrix in all orders of plan, beginning and both publishings; no row is ever lost."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import pytest

import lakebraid as lb
from lakebraid.errors import ClaimLost, ClusteringYielded, WriteConflict
from lakebraid.model.operations import Operation
from lakebraid.table.at import TableAt
from lakebraid.table.loading import load_timeline
from lakebraid.txn.actions.rollback import decide_withdrawal
from lakebraid.writing.transaction import Transaction
from tests.kit.present import present
from tests.kit.tables.clustering import COLUMNS, GIVES_WAY, KINDS, NEW_GROUPS, Grove
from tests.kit.tables.scene import Call, WatchedStorage, answer, once, row, table_on

pytestmark = pytest.mark.unit

ORDERS = ["".join(o) for o in permutations("PBWC") if o.index("B") < o.index("W") and o.index("P") < o.index("C")]
"""P: the clustering is planned, C: it publishes. B: a write begins, W: it publishes."""
REFUSED, YIELDED = "the write is refused", "the clustering gives way"
ENDS = {
    "protected": {"PBWC": REFUSED, "PBCW": REFUSED, "BPWC": REFUSED, "BPCW": REFUSED, "PCBW": None, "BWPC": None},
    "gives way": {"PBWC": YIELDED, "PBCW": REFUSED, "BPWC": YIELDED, "BPCW": REFUSED, "PCBW": None, "BWPC": None},
}
STRATEGIES = ("SimpleConcurrentFileWritesConflictResolutionStrategy", "PreferWriterConflictResolutionStrategy")


def settings(mode: str, strategy: str = STRATEGIES[0]) -> dict[str, str]:
    chosen = {"hoodie.write.lock.conflict.resolution.strategy": strategy}
    return chosen | (GIVES_WAY if mode == "gives way" else {})


def play(grove: Grove, order: str, rows: list[dict[str, object]], kind: Operation = "upsert") -> str | None:
    """How it ended: who had to give way, if anybody."""
    plan: lb.Plan | None = None
    write: Transaction | None = None
    ended = None
    for step in order:
        try:
            match step:
                case "P":
                    plan = present(grove.other().plan_clustering(sort_by=["w"]))
                case "B":
                    write = grove.other().begin(kind)
                    write.write(rows)
                case "W":
                    present(write).commit()
                case "C":
                    grove.other().run(present(plan))
        except ClusteringYielded:
            ended = YIELDED
        except WriteConflict:
            ended = REFUSED
    return ended


def check_settled(grove: Grove) -> None:
    """Nothing is pending, and nothing lies there that nobody owns."""
    assert not load_timeline(TableAt(grove.storage, grove.table._config, grove.clock)).pending
    assert not grove.table.rollback().removed
    assert grove.ledger().newest().state.plans == {}


@pytest.mark.slow
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", ENDS)
@pytest.mark.parametrize("order", ORDERS)
def test_of_a_write_and_a_clustering_of_the_same_groups_one_gives_way_as_the_table_wants_it(
    order: str, mode: str, kind: str, strategy: str
) -> None:
    grove = Grove(kind, groups=2, properties=settings(mode, strategy))
    old = grove.rows()
    ended = play(grove, order, [row("01", "new", 2)])
    assert ended == ENDS[mode][order]
    assert grove.rows() == (old if ended == REFUSED else old | {"01": "new"})
    assert grove.groups_now() == (2 if ended == YIELDED else 1)
    check_settled(grove)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", ENDS)
@pytest.mark.parametrize("order", ORDERS)
def test_a_concurrent_append_is_never_lost_and_hinders_nobody(order: str, mode: str, kind: str) -> None:
    grove = Grove(kind, groups=2, properties=settings(mode))
    old = grove.rows()
    assert play(grove, order, [row("zz", "more")], "insert") is None, "scenario F33"
    assert grove.rows() == old | {"zz": "more"}
    check_settled(grove)


@pytest.mark.parametrize("order", ["PBWC", "BPCW"])
@pytest.mark.slow
def test_a_delete_is_a_write_like_any_other(order: str) -> None:
    grove = Grove("mor", groups=2, properties=settings("gives way"))
    ended = play(grove, order, [{"id": "01", "ts": 9}], "delete")
    assert ended == ENDS["gives way"][order]
    assert ("01" in grove.rows()) == (ended == REFUSED)


def test_a_writer_is_refused_before_it_has_written_anything_and_is_told_what_to_do() -> None:
    grove = Grove(groups=2)
    plan = present(grove.table.plan_clustering())
    watched = WatchedStorage(grove.storage)
    with pytest.raises(
        WriteConflict, match=rf"clustering {plan.instant} .*is pending.*rollback\(plan=.*Allow"
    ) as refused:
        table_on(watched, grove.clock).upsert([row("01", "new", 2)], retries=0)
    assert refused.value.other == plan.instant
    assert len(refused.value.groups) == 1, "the one that has the key"
    assert not [c for c in watched.calls if c.name == "create" and c.target.endswith(".parquet")]
    grove.table.run(plan)
    assert grove.table.upsert([row("01", "new", 2)]).attempts == 1


def test_a_refused_write_is_done_again_by_itself_once_the_clustering_is_through() -> None:
    grove = Grove(groups=2)
    plan = present(grove.table.plan_clustering())
    tried = []

    def run_after_some(call: object) -> None:
        tried.append(call)
        if len(tried) == 2:
            grove.other().run(plan)

    busy = WatchedStorage(grove.storage, before=lambda c: run_after_some(c) if c.is_entry() else None)
    result = table_on(busy, grove.clock).upsert([row("01", "new", 2)])
    assert result.attempts > 1
    assert grove.rows()["01"] == "new"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.slow
def test_a_plan_made_after_the_early_look_still_refuses_the_write_in_the_round_that_publishes(kind: str) -> None:
    grove = Grove(kind, groups=2)
    plan = once(lambda c: c.name == "create" and ".temp/" in c.target, lambda: grove.other().plan_clustering())
    slow = table_on(WatchedStorage(grove.storage, before=plan), grove.clock)
    with pytest.raises(WriteConflict, match="clustering"):
        slow.upsert([row("01", "new", 2)], retries=0)
    assert plan.done
    assert grove.rows()["01"] == "old"
    (planned,) = grove.table.status().plans
    assert grove.table.run(planned.instant).rows == 6


@pytest.mark.parametrize("kind", KINDS)
def test_a_clustering_gives_way_to_a_write_that_has_announced_files_of_its_groups(kind: str) -> None:
    grove = Grove(kind, groups=2, properties=GIVES_WAY)
    plan = present(grove.table.plan_clustering())
    ends = []

    def run() -> None:
        with pytest.raises(ClusteringYielded, match="by ingest, is under way"):
            grove.other().run(plan)
        ends.append("yielded")

    announced = once(lambda c: c.is_entry() and any(".temp/" in i.name for i in grove.storage.list()), run)
    table_on(WatchedStorage(grove.storage, before=announced), grove.clock).upsert(
        [row("01", "new", 2)], writer="ingest"
    )
    assert ends == ["yielded"]
    assert grove.rows()["01"] == "new"
    check_settled(grove)


@pytest.mark.parametrize("mode", ENDS)
@pytest.mark.slow
def test_a_clustering_gives_way_to_an_overwrite_of_its_groups(mode: str) -> None:
    grove = Grove(groups=2, properties=settings(mode))
    plan = present(grove.table.plan_clustering())
    try:
        grove.other().insert_overwrite_table([row("zz", "only")], retries=0)
    except WriteConflict:
        assert mode == "protected"
        grove.table.run(plan)
        assert len(grove.rows()) == 6
        return
    with pytest.raises(ClusteringYielded):
        grove.table.run(plan)
    assert grove.rows() == {"zz": "only"}


@pytest.mark.slow
def test_a_write_that_left_the_timeline_is_still_found() -> None:
    """It began before the plan and completed after it; archiving may then move it while the plan is pending."""
    grove = Grove(groups=2, properties=GIVES_WAY)
    late = grove.other().begin("upsert")
    late.write([row("01", "new", 2)])
    for number in range(3):
        grove.table.insert([row(f"more{number}", "x")])
    plan = present(grove.table.plan_clustering())
    late.commit()
    archived = grove.table.archive(keep_min=1, keep_max=1)
    assert archived.instants
    assert load_timeline(TableAt(grove.storage, grove.table._config, grove.clock)).write(late.instant) is None, (
        "it is in the history"
    )
    with pytest.raises(ClusteringYielded, match=late.instant):
        grove.table.run(plan)
    assert answer(grove.table)["01"] == "new"


def test_an_executor_that_finds_the_write_at_the_beginning_does_no_work() -> None:
    grove = Grove(groups=2, properties=GIVES_WAY)
    plan = present(grove.table.plan_clustering())
    grove.table.upsert([row("01", "new", 2)])
    watched = WatchedStorage(grove.storage)
    with pytest.raises(ClusteringYielded, match=r"gave way.*no row is lost.*withdrawn"):
        table_on(watched, grove.clock).run(plan)
    assert not [c for c in watched.calls if c.name == "create" and c.target.endswith(".parquet")]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.slow
def test_a_write_that_is_published_while_the_clustering_works_is_found_in_the_round_that_would_publish_it(
    kind: str,
) -> None:
    grove = Grove(kind, groups=2, properties=GIVES_WAY)
    plan = present(grove.table.plan_clustering())
    write = once(
        lambda c: c.name == "create" and ".temp/" in c.target, lambda: grove.other().upsert([row("01", "new", 2)])
    )
    with pytest.raises(ClusteringYielded):
        table_on(WatchedStorage(grove.storage, before=write), grove.clock).run(plan)
    assert write.done
    assert grove.rows()["01"] == "new"
    check_settled(grove)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ENDS)
def test_beside_apache_hudi_the_same_holds_under_its_lock(mode: str, tmp_path: Path) -> None:
    table = lb.Table.create(
        tmp_path / "t",
        COLUMNS,
        record_keys="id",
        ordering_fields="ts",
        index="simple",
        shared=True,
        properties=NEW_GROUPS | settings(mode, STRATEGIES[1]),
    )
    for number in range(2):
        table.insert([row(str(number), "old")])
    plan = present(table.plan_clustering())
    if mode == "protected":
        with pytest.raises(WriteConflict, match=present(plan.instant)):
            table.upsert([row("1", "new", 2)], retries=0)
        assert table.run(plan).rows == 2
        table.upsert([row("1", "new", 2)])
    else:
        table.upsert([row("1", "new", 2)])
        with pytest.raises(ClusteringYielded):
            table.run(plan)
        assert table.status().plans == ()
        assert table.cluster()
    assert answer(table) == {"0": "old", "1": "new"}


def test_an_executor_whose_plan_was_taken_back_while_it_slept_does_not_claim_to_have_given_way() -> None:
    """A writer came after that, as it may: the plan was no hindrance any more, protected or not."""
    grove = Grove(groups=2)
    plan = present(grove.table.plan_clustering(removable=True))

    def asleep(call: Call) -> None:
        if call.name == "copy" and call.target.endswith(".clustering.inflight") and not slept:
            slept.append(decide_withdrawal(grove.ledger(), "rescuer", present(plan.instant), lambda _: True))
            grove.other().upsert([row("01", "new", 2)], retries=0)

    slept: list[str | None] = []
    with pytest.raises(ClaimLost, match="withdrawn"):
        table_on(WatchedStorage(grove.storage, after=asleep), grove.clock).run(plan)
    assert slept != [None]
    assert grove.rows()["01"] == "new"
    assert grove.table.rollback(timeout_seconds=0).finished is not None
    assert not grove.table.audit().findings.counts
