# SPDX-License-Identifier: Apache-2.0
"""Clustering as a service: when it runs by itself, what the status says of it, and the command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import lakebraid as lb
from lakebraid.cli.main import main
from lakebraid.errors import InvalidArgument
from lakebraid.txn.actions.plans import claim
from tests.kit.present import present
from tests.kit.tables.clustering import COLUMNS, GIVES_WAY, NEW_GROUPS, Grove
from tests.kit.tables.scene import row

pytestmark = pytest.mark.unit


def ran(grove: Grove, **how: Any) -> list[Any]:
    """What the clusterings of a round did."""
    done = grove.other().services.run(once=True, **how)
    assert not done.errors, done
    return next(one.result for one in done.ran if one.service == "cluster")


@pytest.mark.slow
def test_nobody_is_clustered_who_has_not_asked_for_it() -> None:
    grove = Grove(groups=5)
    assert ran(grove) == []
    assert [c.replaced for c in ran(grove, only="cluster")] == [5]


@pytest.mark.slow
def test_a_table_that_asks_for_it_is_clustered_after_so_many_writes() -> None:
    inline = {"hoodie.clustering.inline": "true", "hoodie.clustering.inline.max.commits": "4"}
    grove = Grove(groups=2, properties=inline | {"hoodie.clustering.plan.strategy.sort.columns": "w"})
    assert ran(grove) == []
    grove.table.insert([row("zz", "more")])
    assert [c.replaced for c in ran(grove)] == [3]
    grove.table.insert([row("yy", "more")])
    assert ran(grove) == []


def test_whoever_serves_a_table_executes_a_clustering_that_was_left() -> None:
    grove = Grove(groups=2)
    plan = present(grove.table.plan_clustering())
    claim(grove.ledger(), "the dead one", present(plan.instant), seen=None)
    assert ran(grove) == [], "it may live"
    grove.clock.ms += 130_000
    assert [c.instant for c in ran(grove)] == [plan.instant]


def test_a_setting_that_is_no_number_is_an_error_of_the_round() -> None:
    grove = Grove(
        groups=1, properties={"hoodie.clustering.inline": "true", "hoodie.clustering.inline.max.commits": "x"}
    )
    done = grove.table.services.run(once=True)
    assert [e.service for e in done.errors] == ["cluster"]
    assert "max.commits" in str(done)


def test_the_status_tells_whom_a_clustering_plan_stops_and_what_to_run() -> None:
    grove = Grove(groups=3)
    plan = present(grove.table.plan_clustering())
    (seen,) = grove.table.status().plans
    assert (seen.instant, seen.kind, seen.groups) == (plan.instant, "clustering", 3)
    assert "stops writers of its groups" in repr(grove.table.status())
    grove.clock.ms += 130_000
    (advice,) = grove.table.status().advice
    assert advice.command.startswith("lakebraid cluster ")
    assert advice.reason == "1 plan without an executor, for which writers of its groups wait"
    polite = Grove(groups=2, properties=GIVES_WAY)
    polite.table.plan_clustering()
    assert polite.table.status().plans[0].blocks == ""


# --- the command ------------------------------------------------------------------------------------------------------


@pytest.fixture
def table(tmp_path: Path) -> lb.Table:
    made = lb.Table.create(
        tmp_path / "t", COLUMNS, record_keys="id", ordering_fields="ts", index="simple", properties=NEW_GROUPS
    )
    for n in range(3):
        made.insert([row(str(n), "x")])
    return made


def said(capsys: Any, *arguments: str) -> tuple[int, str, str]:
    code = main([str(a) for a in arguments])
    return (code, *capsys.readouterr())


def test_cluster_tells_what_it_would_do_does_it_and_then_has_nothing_to_do(
    table: lb.Table, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = said(capsys, "cluster", table.path, "--sort-by", "w, id", "--dry-run")
    assert code == 0 and "put 3 file groups into 1, sorted by w, id" in out
    code, out, _ = said(capsys, "cluster", table.path, "--sort-by", "w, id")
    assert code == 0 and "3 file groups put into 1, 3 rows" in out
    assert said(capsys, "cluster", table.path, "--sort-by", "w, id")[1] == "nothing to cluster\n"
    assert said(capsys, "cluster", table.path, "--sort-by", "nothing")[0] == 2


@pytest.mark.slow
def test_a_plan_of_the_command_is_run_or_taken_back(table: lb.Table, capsys: pytest.CaptureFixture[str]) -> None:
    plan = json.loads(said(capsys, "cluster", table.path, "--plan-only", "--removable", "--json")[1])
    assert plan["is_removable"] is True
    assert "withdrew 1 plan" in said(capsys, "rollback", table.path, "--plan", plan["instant"])[1]
    plan = json.loads(said(capsys, "cluster", table.path, "--plan-only", "--json")[1])
    first = said(capsys, "cluster", table.path, "--run", plan["instant"], "--json")
    assert json.loads(first[1])["replaced"] == 3
    assert said(capsys, "cluster", table.path, "--run", plan["instant"], "--json") == first


def test_only_wanted_partitions_and_sizes(table: lb.Table, capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, "cluster", table.path, "--partition", "elsewhere")[1] == "nothing to cluster\n"
    assert said(capsys, "cluster", table.path, "--small-file-limit", "1")[1] == "nothing to cluster\n"
    with pytest.raises(InvalidArgument):
        table.rollback(plan="20200101000000000")
