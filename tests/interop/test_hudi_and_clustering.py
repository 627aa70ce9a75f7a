# SPDX-License-Identifier: Apache-2.0
"""Clustering beside Apache Hudi: it reads the same rows afterwards and writes on; each executes the other's plans, and
minds them.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import lakebraid as lb
from lakebraid.txn.checks.file_groups import STRATEGY, UPDATES
from tests.interop.our_tables import rows
from tests.interop.referee import HudiRefused, Referee
from tests.interop.shared_table import SharedTable
from tests.kit.present import present
from tests.kit.reference import hudi_rows, our_rows, unpack

pytestmark = pytest.mark.interop

NEW_GROUPS = {"hoodie.parquet.small.file.limit": "0"}
kinds = pytest.mark.parametrize("kind", ["cow", "mor"])


def small_groups(referee: Referee, path: Path, kind: str) -> SharedTable:
    """A table of both pens with three small file groups; one row was updated since."""
    shared = SharedTable.create(referee, path, table_type=kind, index="simple", properties=NEW_GROUPS)
    for turn in range(3):
        shared.table.insert(rows(f"t{turn}_", {10 * turn + 1: 1, 10 * turn + 2: 2}))
    shared.table.upsert(rows("u", {1: 5}))
    return shared


def check(shared: SharedTable, *names: str) -> None:
    """Both readers see just these rows, each key once."""
    ours = our_rows(shared.table.to_arrow(meta_columns=True))
    assert sorted(str(dict(row)["name"]) for row in ours) == sorted(names)
    assert ours == hudi_rows(shared.referee.ask("read", path=str(shared.path))["rows"])
    assert max(Counter(dict(row)["_hoodie_record_key"] for row in ours).values()) == 1


ALL = ("u1", "t0_2", "t1_11", "t1_12", "t2_21", "t2_22")


def clusterings(shared: SharedTable) -> list[str]:
    """Request times of the completed ones, by their pending files."""
    done = {name[:17] for name in shared.timeline() if name.endswith(".replacecommit")}
    return sorted(
        name[:17] for name in shared.timeline() if name.endswith(".clustering.requested") and name[:17] in done
    )


@kinds
def test_hudi_reads_the_same_after_our_clustering_and_both_write_on(
    referee: Referee, tmp_path: Path, kind: str
) -> None:
    shared = small_groups(referee, tmp_path / "t", kind)
    before = shared.table.snapshot().completion_time
    (done,) = shared.table.cluster(sort_by=["ts"])
    assert (done.replaced, done.groups) == (3, 1)
    check(shared, *ALL)
    past = referee.ask("read", path=str(shared.path), mode="as_of", options={"as.of.instant": before})["rows"]
    assert hudi_rows(past) == our_rows(shared.table.to_arrow(as_of=before, meta_columns=True)), "from the old groups"
    shared.hudi_writes(rows("h", {1: 7, 40: 1}))
    check(shared, "h1", "h40", *ALL[1:])
    shared.table.upsert(rows("o", {12: 9, 40: 2, 50: 1}))
    left = ("h1", "t0_2", "t1_11", "o12", "t2_21", "t2_22", "o40", "o50")
    check(shared, *left)
    assert shared.table.cluster(sort_by=["name"])
    check(shared, *left)
    assert shared.table.clean(commits=1).files
    check(shared, *left)


def test_hudi_executes_our_plan(referee: Referee, tmp_path: Path) -> None:
    shared = small_groups(referee, tmp_path / "t", "mor")
    plan = shared.table.plan_clustering(sort_by=["ts"])
    assert plan is not None and plan.instant is not None
    shared.call("run_clustering", "op => 'execute'", f"instants => '{plan.instant}'")
    assert clusterings(shared) == [plan.instant], "Hudi did not execute our plan"
    check(shared, *ALL)
    done = shared.table.run(plan)
    assert (done.instant, done.replaced, done.rows) == (plan.instant, 3, 6)
    shared.table.upsert(rows("o", {1: 9}))
    check(shared, "o1", *ALL[1:])


def test_we_execute_a_plan_of_hudi_and_nobody_writes_into_its_groups_before(referee: Referee, tmp_path: Path) -> None:
    shared = small_groups(referee, tmp_path / "t", "mor")
    shared.call("run_clustering", "op => 'schedule'", "order => 'ts'")
    (plan,) = shared.table.status().plans
    assert (plan.kind, plan.groups) == ("clustering", 3)
    with pytest.raises(lb.WriteConflict, match=plan.instant):
        shared.table.upsert(rows("o", {1: 9}), retries=0)
    shared.table.insert(rows("n", {60: 1}))
    done = shared.table.run(plan.instant)
    assert (done.replaced, done.rows) == (3, 6)
    check(shared, *ALL, "n60")
    shared.hudi_writes(rows("h", {1: 9}))
    check(shared, "h1", *ALL[1:], "n60")


def test_hudi_does_not_write_into_groups_of_our_pending_plan(referee: Referee, tmp_path: Path) -> None:
    shared = small_groups(referee, tmp_path / "t", "cow")
    plan = present(shared.table.plan_clustering())
    with pytest.raises(HudiRefused, match=r"(?i)clustering"):
        shared.hudi_writes(rows("h", {1: 9}))
    check(shared, *ALL)
    shared.table.run(plan)
    shared.hudi_writes(rows("h", {1: 9}))
    check(shared, "h1", *ALL[1:])


PREFERS_WRITERS = {STRATEGY: "org.apache.hudi.client.transaction.PreferWriterConflictResolutionStrategy"}


@pytest.mark.parametrize("strategy", [PREFERS_WRITERS, {}], ids=["prefers writers", "does not look"])
def test_a_clustering_of_hudi_gives_way_to_our_write_only_if_it_prefers_writers(
    referee: Referee, tmp_path: Path, strategy: dict[str, str]
) -> None:
    """Why SparkAllowUpdateStrategy is taken beside Hudi only with that setting: without it Hudi's clustering drops the row."""
    shared = small_groups(referee, tmp_path / "t", "cow")
    plan = shared.table.plan_clustering()
    assert plan is not None and plan.instant is not None
    allow: dict[str, Any] = {UPDATES: "org.apache.hudi.client.clustering.update.strategy.SparkAllowUpdateStrategy"}
    lb.write(rows("o", {1: 9}), shared.path, **allow | PREFERS_WRITERS)
    given = [f"options => '{','.join(f'{name}={value}' for name, value in strategy.items())}'"] if strategy else []
    execute = partial(shared.call, "run_clustering", "op => 'execute'", f"instants => '{plan.instant}'", *given)
    if strategy:
        with pytest.raises(HudiRefused, match=r"(?i)conflict"):
            execute()
        shared.table.rollback(plan=plan)
        check(shared, "o1", *ALL[1:])
    else:
        execute()
        assert "o1" not in {str(dict(row)["name"]) for row in our_rows(shared.table.to_arrow())}, "Hudi looks now"


@pytest.mark.parametrize("name", ["v9_cow_clustering", "v9_mor_clustering_logs"])
def test_hudi_reads_its_own_tables_the_same_after_we_clustered_them(
    referee: Referee, tmp_path: Path, name: str
) -> None:
    path = unpack(name, tmp_path).path
    before = referee.ask("read", path=str(path))
    assert lb.Table.open(path).cluster(sort_by=["ts"])
    after = referee.ask("read", path=str(path))
    assert hudi_rows(after["rows"]) == hudi_rows(before["rows"])
    assert after["schema"] == before["schema"]
