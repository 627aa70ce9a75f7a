# SPDX-License-Identifier: Apache-2.0
"""Clustering: small file groups become larger ones, and no answer changes, now or of the past."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from lakebraid import limits
from lakebraid.api.table import Table
from lakebraid.errors import CommitRefused, InvalidArgument, SnapshotExpired
from lakebraid.format.names import BaseFileName, claim_token, parse_data_file
from lakebraid.format.timeline.plans import RequestedReplace, format_requested_replace
from lakebraid.services.merging.choose_clusters import ClusteringScope
from lakebraid.services.merging.clustering import CLUSTERING, draft_clustering
from lakebraid.services.settings import Opened
from lakebraid.storage.memory import MemoryStorage
from lakebraid.table.at import TableAt
from lakebraid.table.loading import load_timeline
from lakebraid.tasks.merging.cluster import output_file_id
from lakebraid.tasks.new_files import place_file
from lakebraid.txn.actions.plans import claim, decide_plan
from lakebraid.txn.actions.rescue import sweep
from tests.kit.present import present
from tests.kit.reference import unpack
from tests.kit.tables.clustering import KINDS, Grove
from tests.kit.tables.scene import TickingClock, make_table, row

pytestmark = pytest.mark.unit

kinds = pytest.mark.parametrize("kind", KINDS)


def written(grove: Grove) -> dict[str, tuple[str, str]]:
    """Commit time and sequence number of each row."""
    found = grove.table.to_arrow(meta_columns=True).to_pylist()
    return {r["id"]: (r["_hoodie_commit_time"], r["_hoodie_commit_seqno"]) for r in found}


# --- what becomes of the rows -----------------------------------------------------------------------------------------


@kinds
def test_clustering_puts_small_groups_together_and_every_row_stays_as_it_was(kind: str) -> None:
    grove = Grove(kind, groups=4)
    grove.table.upsert([row("01", "new", 2)])
    grove.table.delete([{"id": "12", "ts": 5}])
    rows, stamps = grove.rows(), written(grove)
    (done,) = grove.table.cluster()
    assert (done.replaced, done.groups, done.rows) == (4, 1, len(rows))
    assert grove.rows() == rows
    assert written(grove) == stamps, "rows keep their commit time and sequence number"
    assert grove.groups_now() == 1
    assert [s.logs for s in grove.table.snapshot().slices] == [()]


@kinds
@pytest.mark.slow
def test_writers_go_on_in_the_new_groups(kind: str) -> None:
    grove = Grove(kind)
    grove.table.cluster(sort_by=["w"])
    grove.table.upsert([row("01", "new", 2), row("zz", "more")])
    grove.table.delete([{"id": "12", "ts": 5}])
    assert {k: v for k, v in grove.rows().items() if v != "old"} == {"01": "new", "zz": "more"}
    assert "12" not in grove.rows()


def test_rows_are_sorted_and_cut_into_files_of_the_wanted_size() -> None:
    grove = Grove(groups=4)
    size = grove.table.snapshot().slices[0].size
    (done,) = grove.table.cluster(sort_by=["w", "id"], target_size=2 * size)
    assert done.groups == 2
    ranges = []
    for part in grove.table.snapshot().slices:
        rows = pq.read_table(grove.storage.open_input(present(part.base).name)).select(["w", "id"]).to_pylist()
        pairs = [(r["w"], r["id"]) for r in rows]
        assert pairs == sorted(pairs)
        ranges.append((pairs[0], pairs[-1]))
    (_, end), (request_time, _) = sorted(ranges)
    assert end < request_time, "files do not overlap"


@pytest.mark.slow
def test_clustering_again_and_again_comes_to_rest() -> None:
    grove = Grove(groups=4)
    assert grove.table.cluster()
    assert grove.table.cluster() == [], "one file, nothing to put together"
    assert grove.table.cluster(sort_by=["w"]), "not sorted yet"
    assert grove.table.cluster(sort_by=["w"]) == []
    assert grove.table.cluster(sort_by=["v"]), "sorted by another column"
    grove.table.upsert([row("01", "new", 2)])
    assert grove.table.cluster(sort_by=["v"]), "not sorted any more"


def test_a_group_whose_rows_are_all_deleted_vanishes() -> None:
    grove = Grove("mor", groups=2)
    grove.table.delete([{"id": key, "ts": 5} for key in grove.rows()])
    (done,) = grove.table.cluster()
    assert (done.groups, done.rows, grove.rows(), grove.groups_now()) == (0, 0, {}, 0)


@pytest.mark.slow
def test_what_is_sorted_in_parts_is_what_is_sorted_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    for part_bytes in (limits.CLUSTER_PART_BYTES, 3000, 1):
        monkeypatch.setattr(limits, "CLUSTER_PART_BYTES", part_bytes)
        grove = Grove("mor", groups=5)
        grove.table.upsert([row("01", "new", 2), row("42", "new", 2)])
        grove.table.cluster(sort_by=["w"], target_size=3000)
        made.append({n: grove.storage.read(n, 1 << 20) for n in grove.files() if n.startswith("c")})
    assert made[0] == made[1] == made[2]
    assert len(made[0]) > 2


@pytest.mark.slow
def test_a_plan_without_order_may_ask_for_several_files() -> None:
    grove = Grove(groups=4)
    ledger = grove.ledger()
    draft = present(draft_clustering(ledger, ClusteringScope()))
    plan = replace(draft, groups=tuple(replace(g, output_file_groups=3) for g in draft.groups))
    content = format_requested_replace(RequestedReplace("CLUSTER", plan), grove.storage.url)
    request_time = present(decide_plan(ledger, "planner", "clustering", lambda *_: content))
    rows = grove.rows()
    assert CLUSTERING.run(Opened(grove.table._writing, ledger), request_time).groups == 3
    assert grove.rows() == rows


# --- which tables, which groups ---------------------------------------------------------------------------------------


def test_a_bucket_table_is_told_to_sort_at_compaction() -> None:
    clock = TickingClock()
    table = make_table(MemoryStorage("memory://buckets", clock), clock)
    for attempt in (table.cluster, table.plan_clustering):
        with pytest.raises(InvalidArgument, match=r"bucket index.*compact\(sort_by="):
            attempt(sort_by=["w"])


def test_a_bucket_table_of_hudi_that_does_not_say_so_is_recognised(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="bucket index"):
        reference_table("v9_mor_commit_time", tmp_path).cluster()


@pytest.mark.parametrize(
    ("wish", "why"),
    [
        ({"sort_by": ["nothing"]}, "not one of the table's"),
        ({"sort_by": "w"}, "a list of names"),
        ({"target_size": 0}, "positive"),
        ({"small_file_limit": -1}, "positive"),
        ({"max_groups": 0}, "positive"),
    ],
)
def test_a_wish_that_makes_no_sense_is_refused_and_nothing_is_planned(wish: dict[str, Any], why: str) -> None:
    grove = Grove(groups=2)
    with pytest.raises(InvalidArgument, match=why):
        grove.table.cluster(**wish)
    assert not load_timeline(TableAt(grove.storage, grove.table._config, grove.clock)).pending


def test_only_small_groups_of_the_wanted_partitions_are_clustered() -> None:
    grove = Grove(groups=3)
    size = max(part.size for part in grove.table.snapshot().slices)
    assert grove.table.cluster(small_file_limit=size // 2) == []
    assert grove.table.cluster(partitions=["elsewhere"]) == []
    assert grove.table.cluster(max_groups=1, partitions=[""])


def test_a_dry_run_tells_and_changes_nothing() -> None:
    grove = Grove(groups=3)
    names = sorted(info.name for info in grove.storage.list())
    plan = grove.table.cluster(sort_by=["w"], dry_run=True)
    assert str(plan) == "clustering not decided: put 3 file groups into 1, sorted by w"
    assert sorted(info.name for info in grove.storage.list()) == names


@pytest.mark.slow
def test_no_plan_is_made_on_groups_of_another_pending_plan() -> None:
    grove = Grove("mor", groups=3)
    assert grove.table.plan_clustering()
    assert grove.table.plan_clustering(sort_by=["w"]) is None
    other = Grove("mor", groups=2)
    other.table.upsert([row("01", "new", 2), row("11", "new", 2)])
    assert other.table.plan_compaction() is not None
    assert other.table.plan_clustering(sort_by=["w"]) is None
    grove.table.upsert([row("zz", "more")])
    assert grove.table.plan_compaction() is None, "nor a compaction on those of a clustering"


# --- plans ------------------------------------------------------------------------------------------------------------


def test_a_plan_is_run_by_anybody_once_and_everybody_gets_its_result() -> None:
    grove = Grove(groups=3)
    plan = present(grove.table.plan_clustering(sort_by=["w"]))
    assert str(plan).startswith(f"clustering {plan.instant}: put 3 file groups into 1")
    done = grove.other().run(plan)
    assert grove.table.run(plan) == done
    assert grove.table.run(present(plan.instant)) == done


def test_a_plan_can_be_taken_back_and_stops_nobody_any_more() -> None:
    grove = Grove(groups=3)
    plan = present(grove.table.plan_clustering())
    assert grove.other().rollback(plan=plan).plans == (plan.instant,)
    grove.table.upsert([row("01", "new", 2)])
    assert grove.rows()["01"] == "new"
    with pytest.raises(CommitRefused):
        grove.table.run(plan)
    with pytest.raises(InvalidArgument, match="no pending plan"):
        grove.table.rollback(plan=plan)


def test_a_plan_that_is_being_executed_is_not_taken_back() -> None:
    grove = Grove(groups=3)
    plan = present(grove.table.plan_clustering())
    claim(grove.ledger(), "somebody", present(plan.instant), seen=None)
    with pytest.raises(CommitRefused, match="being executed"):
        grove.table.rollback(plan=plan)


def test_a_late_file_of_an_earlier_executor_is_a_twin_that_nobody_reads_and_the_sweeper_removes() -> None:
    grove = Grove(groups=3)
    rows, plan = grove.rows(), present(grove.table.plan_clustering(sort_by=["w"]))
    instant = present(plan.instant)
    epoch = claim(grove.ledger(), "the slow one", instant, seen=None)
    grove.clock.ms += 10 * 60_000
    done = grove.table.run(plan)
    late = BaseFileName(output_file_id(instant, 0, 0), claim_token(epoch), instant, ".parquet").format()
    twin = next(n for n in grove.files() if instant in n)
    place_file(grove.storage, instant, "", late, grove.storage.read(twin, 1 << 20))
    assert present(parse_data_file(late)).file_id == present(parse_data_file(twin)).file_id, (
        "one of the two is enough for any reader"
    )
    assert grove.rows() == rows
    assert sweep(grove.ledger()) == (late,)
    assert twin in grove.files()
    assert done.rows == len(rows)


def test_what_a_dead_executor_left_is_removed_before_the_plan_is_executed_anew() -> None:
    grove = Grove(groups=3)
    plan = present(grove.table.plan_clustering())
    instant = present(plan.instant)
    epoch = claim(grove.ledger(), "the dead one", instant, seen=None)
    left = BaseFileName(output_file_id(instant, 0, 0), claim_token(epoch), instant, ".parquet").format()
    place_file(grove.storage, instant, "", left, b"half")
    with pytest.raises(CommitRefused, match="alive"):
        grove.other().run(plan)
    grove.clock.ms += 10 * 60_000
    assert [c.instant for c in grove.other().cluster()] == [plan.instant], "whoever comes executes what was left"
    assert left not in grove.files()


# --- the past ---------------------------------------------------------------------------------------------------------


@kinds
@pytest.mark.slow
def test_the_past_is_read_from_the_old_groups_and_a_clustering_is_no_change(kind: str) -> None:
    grove = Grove(kind, groups=2)
    grove.table.upsert([row("01", "new", 2)])
    before, rows = grove.table.snapshot().completion_time, grove.rows()
    (done,) = grove.table.cluster(sort_by=["w"])
    assert grove.table.changes(after=before).to_arrow().num_rows == 0
    grove.table.upsert([row("01", "newer", 3)])
    changes = grove.table.changes(after=before).to_arrow().to_pylist()
    assert [(c["id"], c["v"], c["_change_type"]) for c in changes] == [("01", "newer", "update")]
    for moment in (before, done.completion_time):
        assert {r["id"]: r["v"] for r in grove.table.to_arrow(as_of=moment).to_pylist()} == rows


@kinds
@pytest.mark.slow
def test_cleaning_takes_the_replaced_groups_when_nobody_needs_them(kind: str) -> None:
    grove = Grove(kind, groups=3)
    before = grove.table.snapshot().completion_time
    old = {*grove.files()}
    (done,) = grove.table.cluster()
    with grove.table.snapshot(as_of=before) as held:
        assert grove.table.clean(commits=1).files == (), "a reader needs them"
        assert held.to_arrow().num_rows == 9
    assert {*grove.table.clean(commits=1).files} == old
    assert grove.rows().keys() == {f"{n}{m}" for n in range(3) for m in range(3)}
    with pytest.raises(SnapshotExpired):
        grove.table.to_arrow(as_of=before)
    assert grove.table.to_arrow(as_of=done.completion_time).num_rows == 9


@pytest.mark.slow
def test_cleaning_leaves_the_inputs_of_a_pending_plan() -> None:
    grove = Grove(groups=3)
    plan = present(grove.table.plan_clustering())
    for number in range(4):
        grove.table.insert([row(f"more{number}", "x")])
    assert grove.table.clean(commits=1).files == ()
    assert grove.table.run(plan).rows == 9


@pytest.mark.slow
def test_archiving_keeps_a_replacement_while_the_files_that_it_replaced_are_there() -> None:
    grove = Grove(groups=3)
    (done,) = grove.table.cluster()
    for number in range(6):
        grove.table.insert([row(f"more{number}", "x")])
    kept = grove.table.archive(keep_min=2, keep_max=3)
    assert done.instant in kept.held_back_by
    assert load_timeline(TableAt(grove.storage, grove.table._config, grove.clock)).write(done.instant) is not None
    grove.table.clean(commits=2)
    rows = grove.rows()
    assert grove.table.archive(keep_min=2, keep_max=3).held_back_by == ""
    assert grove.rows() == rows
    assert grove.table.run(done.instant) == done, "its result is still known"


@kinds
@pytest.mark.slow
def test_a_restore_brings_the_old_groups_back(kind: str) -> None:
    grove = Grove(kind, groups=3)
    pinned, rows, old = grove.table.savepoint(), grove.rows(), {*grove.files()}
    grove.table.cluster(sort_by=["w"])
    grove.table.upsert([row("01", "new", 2)])
    assert old.isdisjoint(grove.table.clean(commits=1).files), "the savepoint needs them"
    grove.table.restore(pinned.instant)
    assert (grove.rows(), grove.groups_now()) == (rows, 3)
    grove.table.upsert([row("01", "again", 2)])
    assert grove.table.cluster()
    assert grove.rows() == rows | {"01": "again"}


@pytest.mark.slow
def test_a_restore_takes_a_pending_plan_back() -> None:
    grove = Grove(groups=3)
    moment = present(grove.table.snapshot().completion_time)
    grove.table.insert([row("zz", "more")])
    plan = present(grove.table.plan_clustering())
    grove.table.restore(moment)
    with pytest.raises(CommitRefused):
        grove.table.run(plan)
    assert "zz" not in grove.rows()


# --- tables and plans of Apache Hudi ----------------------------------------------------------------------------------


def reference_table(name: str, folder: Path) -> Table:
    return Table.open(str(unpack(name, folder).path))


@pytest.mark.parametrize("name", ["v9_cow_clustering", "v9_mor_clustering_logs", "v9_mor_bloom_positions"])
@pytest.mark.slow
def test_tables_of_hudi_are_clustered_and_read_the_same(name: str, tmp_path: Path) -> None:
    table = reference_table(name, tmp_path)
    before = table.to_arrow(meta_columns=True).drop_columns(["_hoodie_file_name"]).sort_by("id")
    assert table.cluster(sort_by=["ts"])
    assert table.to_arrow(meta_columns=True).drop_columns(["_hoodie_file_name"]).sort_by("id") == before


@pytest.mark.slow
def test_a_plan_that_hudi_made_is_executed(tmp_path: Path) -> None:
    table = reference_table("v9_cow_clustering", tmp_path)
    (plan,) = table.status().plans
    rows = table.to_arrow().sort_by("id")
    done = table.run(plan.instant)
    assert (done.replaced, done.groups, done.rows) == (2, 1, 5)
    assert table.to_arrow().sort_by("id") == rows
    assert table.status().plans == ()
