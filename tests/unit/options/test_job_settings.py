# SPDX-License-Identifier: Apache-2.0
"""RFC-71's settings as a job gives them: they count for its own writes, are refused in a sentence, or told."""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import LongType, StringType, StructType

import lakebraid as lb
from lakebraid import limits
from lakebraid.api.inflow import Inflow
from lakebraid.api.table import told_table
from lakebraid.errors import ClusteringYielded, InvalidArgument, WriteConflict
from lakebraid.model.conflicts import STRATEGIES, UPDATES_ALLOWED, Strategy
from lakebraid.options import OptionNotice, write_options
from lakebraid.options.parsing import find_option
from lakebraid.source.stream_sink import begin_stream
from lakebraid.source.writer import begin_write
from lakebraid.txn.checks.file_groups import EARLY, STRATEGY, UPDATES
from tests.kit.present import present
from tests.kit.tables.clustering import COLUMNS, NEW_GROUPS
from tests.kit.tables.scene import answer, row

pytestmark = pytest.mark.unit

ALLOW = "org.apache.hudi.client.clustering.update.strategy.SparkAllowUpdateStrategy"
REJECT = "org.apache.hudi.client.clustering.update.strategy.SparkRejectUpdateStrategy"
PREFER = "org.apache.hudi.client.transaction.PreferWriterConflictResolutionStrategy"
FRAME = StructType().add("id", StringType(), nullable=False).add("ts", LongType()).add("v", StringType())
every_kind = pytest.mark.parametrize("kind", ["cow", "mor"])


@pytest.fixture(autouse=True)
def _once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is refused is told at once, and not done again."""
    monkeypatch.setattr(limits, "CONFLICT_RETRIES", 0)


def grove(path: Path, kind: str = "cow", *, shared: bool = False, properties: dict[str, str] | None = None) -> lb.Table:
    """A table with two small file groups, of one row each."""
    table = lb.Table.create(
        path,
        COLUMNS,
        record_keys="id",
        ordering_fields="ts",
        table_type=kind,
        index="simple",
        shared=shared,
        properties=NEW_GROUPS | (properties or {}),
    )
    for number in range(2):
        table.insert([row(str(number), "old")])
    return table


@every_kind
def test_a_job_that_allows_updates_writes_beside_a_pending_clustering_which_gives_way(
    kind: str, tmp_path: Path
) -> None:
    table = grove(tmp_path / "t", kind)
    plan = present(table.plan_clustering())
    lb.write([row("1", "new", 2)], tmp_path / "t", **dict[str, Any]({UPDATES: ALLOW}))
    with pytest.raises(ClusteringYielded):
        table.run(plan)
    assert answer(table) == {"0": "old", "1": "new"}
    assert table.cluster()[0].rows == 2
    assert answer(table) == {"0": "old", "1": "new"}


@every_kind
def test_a_job_that_rejects_updates_is_refused_whatever_the_table_says(kind: str, tmp_path: Path) -> None:
    table = grove(tmp_path / "t", kind, properties={UPDATES: ALLOW})
    plan = present(table.plan_clustering())
    with pytest.raises(WriteConflict, match="a pending clustering against ingestion"):
        lb.write([row("1", "new", 2)], tmp_path / "t", **dict[str, Any]({UPDATES: REJECT}))
    assert table.run(plan).rows == 2
    assert answer(table) == {"0": "old", "1": "old"}


def test_a_write_that_a_clustering_overtook_is_refused_also_if_it_may_touch_its_groups(tmp_path: Path) -> None:
    """Nothing is lost in this order either: the groups that the write has read are gone."""
    table = grove(tmp_path / "t")
    write = told_table(table, {UPDATES: ALLOW}).begin()
    write.write([row("1", "new", 2)])
    assert table.cluster()[0].rows == 2
    with pytest.raises(WriteConflict):
        write.commit()
    assert answer(table) == {"0": "old", "1": "old"}


def test_overwrites_and_deletes_of_a_job_go_by_its_settings_as_well(tmp_path: Path) -> None:
    table = grove(tmp_path / "t")
    plan = present(table.plan_clustering())
    lb.write(
        [row("1", "x", 2)],
        tmp_path / "t",
        **dict[str, Any]({UPDATES: ALLOW, "hoodie.datasource.write.operation": "delete"}),
    )
    lb.write([row("2", "new")], tmp_path / "t", mode="overwrite", **dict[str, Any]({UPDATES: ALLOW}))
    with pytest.raises(ClusteringYielded):
        table.run(plan)
    assert answer(table) == {"2": "new"}


def test_each_batch_of_a_stream_goes_by_the_settings_of_its_query(tmp_path: Path) -> None:
    table = grove(tmp_path / "t")
    options = {"path": str(tmp_path / "t"), "lakebraid.writer": "orders", UPDATES: ALLOW}
    inflow: Inflow = pickle.loads(pickle.dumps(begin_stream(options, FRAME, overwrite=False)))._inflow
    plan = present(table.plan_clustering())
    inflow.write([{"id": "1", "ts": 2, "v": "new"}], 0)
    with pytest.raises(ClusteringYielded):
        table.run(plan)
    assert answer(table) == {"0": "old", "1": "new"}


def test_the_data_source_takes_the_settings_along_to_the_process_that_commits(tmp_path: Path) -> None:
    lb.Table.create(tmp_path / "t", COLUMNS, record_keys="id", concurrency="occ", buckets=1)
    writer = begin_write({"path": str(tmp_path / "t"), STRATEGY: PREFER, EARLY: "true"}, FRAME, overwrite=False)
    try:
        rivalry = pickle.loads(pickle.dumps(writer))._carried.begun.rivalry
        assert (rivalry._strategy, rivalry._looks_early) == (Strategy.BY_COMPLETION, True)
    finally:
        writer.abort([])


@pytest.mark.parametrize(
    ("option", "name"),
    [
        (STRATEGY, "com.example.Mine"),
        (STRATEGY, "com.example.PreferWriterConflictResolutionStrategy"),
        (UPDATES, "com.example.Mine"),
        (UPDATES, "org.apache.hudi.client.clustering.update.strategy.SparkConsistentBucketDuplicateUpdateStrategy"),
    ],
)
def test_a_class_that_cannot_run_here_is_refused_by_name(option: str, name: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match=f"The option {option} names the Java class '{name}'"):
        lb.write(
            [row("a", "x")],
            tmp_path / "t",
            **dict[str, Any]({"hoodie.datasource.write.recordkey.field": "id", option: name}),
        )
    assert not (tmp_path / "t").exists()


def test_every_class_that_an_option_takes_is_one_that_writers_know() -> None:
    for option, known in ((STRATEGY, STRATEGIES), (UPDATES, UPDATES_ALLOWED)):
        found = find_option(option)
        assert found is not None
        assert {name.rpartition(".")[2] for name in found.values} == {*known}
        for name in found.values:
            assert write_options({option: name}).told == ((option, name),)
            assert write_options({option: name.rpartition(".")[2]}).told


def test_a_class_of_the_users_own_in_the_table_is_refused_by_name(tmp_path: Path) -> None:
    table = grove(tmp_path / "t")
    for setting in (STRATEGY, UPDATES):
        with pytest.raises(InvalidArgument, match=f"{setting} names 'Mine', which is Java code"):
            told_table(table, {setting: "com.example.Mine"}).begin()


def test_beside_hudi_updates_are_allowed_only_where_its_clusterings_look_for_them(tmp_path: Path) -> None:
    """Apache Hudi 1.2.0 looks for writes that came meanwhile only with PreferWriterConflictResolutionStrategy."""
    table = grove(tmp_path / "t", shared=True)
    plan = present(table.plan_clustering())
    with pytest.raises(InvalidArgument, match="its clusterings drop rows that were written after they began"):
        lb.write([row("1", "new", 2)], tmp_path / "t", **dict[str, Any]({UPDATES: ALLOW}))
    lb.write([row("1", "new", 2)], tmp_path / "t", **dict[str, Any]({UPDATES: ALLOW, STRATEGY: PREFER}))
    with pytest.raises(ClusteringYielded):
        table.run(plan)
    assert answer(table) == {"0": "old", "1": "new"}


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("hoodie.payload.delete.field", "v"),
        ("hoodie.payload.delete.marker", "gone"),
        ("hoodie.datasource.write.partitionpath.urlencode", "true"),
        ("hoodie.bucket.index.hash.field", "v"),
        ("hoodie.table.cdc.enabled", "true"),
    ],
)
def test_what_says_what_rows_are_must_agree_with_a_table_that_is_there(option: str, value: str, tmp_path: Path) -> None:
    lb.Table.create(tmp_path / "t", COLUMNS, record_keys="id", buckets=1)
    with pytest.raises(InvalidArgument, match=f"The option {option} says '{value}', but the table"):
        lb.write([row("a", "gone")], tmp_path / "t", **dict[str, Any]({option: value}))


def test_what_a_table_that_is_there_does_not_take_over_is_told_once(tmp_path: Path) -> None:
    given: dict[str, Any] = {
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.cleaner.commits.retained": 3,
        "hoodie.log.compaction.inline": False,
        "lakebraid.table_service_rollback_delay": 5,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lb.write([row("a", "x")], tmp_path / "t", **given)
        lb.write([row("b", "x")], tmp_path / "t", **given)
    with pytest.warns(
        OptionNotice, match=r"hoodie.clean.commits.retained='4' has no effect: the table at .* has '3'"
    ) as told:
        lb.write([row("c", "x")], tmp_path / "t", **given | {"hoodie.cleaner.commits.retained": 4})
    assert len(told) == 1
