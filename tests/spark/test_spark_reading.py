# SPDX-License-Identifier: Apache-2.0
"""The same rows on Spark as Hudi reads, and the data frame behaves as any other."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import lakebraid as lb
from lakebraid.spark import read as spark_read
from lakebraid.spark.versions import spark_schema
from tests.kit.present import present
from tests.kit.reference import Reference, hudi_rows, names, our_rows, unpack

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def references(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Reference]:
    folder = tmp_path_factory.mktemp("reference")
    return {name: unpack(name, folder) for name in names()}


def arrow(frame: DataFrame) -> pa.Table:
    return frame.toArrow()


@pytest.mark.parametrize("name", names())
def test_a_snapshot_on_spark_has_the_rows_and_types_of_the_one_in_process(
    name: str, references: dict[str, Reference], spark: SparkSession
) -> None:
    table = lb.Table.open(references[name].path)
    frame = table.to_spark(meta_columns=True, spark=spark)
    ours = table.to_arrow(meta_columns=True)
    assert frame.columns == ours.column_names
    assert our_rows(arrow(frame)) == our_rows(ours)


@pytest.mark.parametrize("name", ["v9_mor_nbcc_overlap", "v9_mor_clustering", "v9_cow_cdc", "v6_mor_bucket"])
def test_a_snapshot_on_spark_has_the_rows_that_hudi_reads(
    name: str, references: dict[str, Reference], spark: SparkSession
) -> None:
    frame = lb.Table.open(references[name].path).to_spark(meta_columns=True, spark=spark)
    assert our_rows(arrow(frame)) == hudi_rows(references[name].expected["snapshot"])


@pytest.mark.parametrize("name", ["v9_mor_bucket_nbcc_parquet", "v9_cow_clean_savepoint", "v9_mor_partial_merge_into"])
def test_changes_on_spark_are_those_in_process(
    name: str, references: dict[str, Reference], spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    reference = references[name]
    table = lb.Table.open(reference.path)
    after = reference.times()[-2]
    for images, read_by in ((False, "driver"), (False, "tasks"), (True, "driver")):
        if read_by == "tasks":
            monkeypatch.setattr("lakebraid.limits.SPARK_CHANGES_BYTES", -1)
        changes = table.changes(after=after, images=images)
        frame = changes.to_spark(spark)
        assert our_rows(arrow(frame)) == our_rows(changes.to_arrow())
        assert frame.schema == spark_schema(changes.schema)
        monkeypatch.undo()


def test_columns_and_where_prune_without_changing_the_rows(
    references: dict[str, Reference], spark: SparkSession
) -> None:
    for name in ("v9_mor_bucket_nbcc_avro", "v9_mor_clustering", "v9_cow_cdc"):
        table = lb.Table.open(references[name].path)
        whole = table.to_spark(spark=spark)
        for where in (
            "id = 3",
            "id in (1, 5) and part = 'p0'",
            "name like 'a%' or ts > 10",
            "part is null",
            "not id < 4",
        ):
            pruned = table.to_spark(columns=["name", "id"], where=where, spark=spark)
            assert our_rows(arrow(pruned)) == our_rows(arrow(whole.where(where).select("name", "id"))), (name, where)


@pytest.mark.parametrize("counted_by", ["driver", "tasks"])
def test_counting_needs_no_column(
    references: dict[str, Reference], spark: SparkSession, monkeypatch: pytest.MonkeyPatch, counted_by: str
) -> None:
    if counted_by == "tasks":
        monkeypatch.setattr(spark_read, "SPARK_COUNT_BYTES", -1)
    for name in ("v9_mor_bucket_nbcc_avro", "v9_cow_cdc"):
        table = lb.Table.open(references[name].path)
        counted = table.to_spark(columns=[], spark=spark)
        assert counted.columns == []
        assert counted.count() == len(references[name].expected["snapshot"])
        some = table.to_spark(columns=[], where="id > 3", spark=spark)
        assert some.count() == table.count(where="id > 3") < counted.count()


def test_the_frame_works_in_joins_views_and_caches(references: dict[str, Reference], spark: SparkSession) -> None:
    table = lb.Table.open(references["v9_mor_bucket_nbcc_parquet"].path)
    frame = table.to_spark(spark=spark)
    frame.createOrReplaceTempView("braided")
    assert present(spark.sql("select count(*) from braided").first())[0] == frame.count()
    joined = frame.alias("a").join(frame.alias("b"), F.col("a.id") == F.col("b.id"))
    assert joined.count() == frame.count()
    cached = frame.cache()
    assert cached.count() == cached.count() == len(references["v9_mor_bucket_nbcc_parquet"].expected["snapshot"])
    cached.unpersist()


def test_making_a_frame_runs_no_spark_job(references: dict[str, Reference], spark: SparkSession) -> None:
    tracker = spark.sparkContext.statusTracker()
    before = set(tracker.getJobIdsForGroup(None))
    for name in ("v9_mor_bucket_nbcc_avro", "v9_cow_cdc"):
        lb.Table.open(references[name].path).to_spark(spark=spark)
    assert set(tracker.getJobIdsForGroup(None)) == before


def test_slices_without_logs_go_through_sparks_own_scan(references: dict[str, Reference], spark: SparkSession) -> None:
    def plan(name: str) -> str:
        frame = lb.Table.open(references[name].path).to_spark(spark=spark)
        return str(frame._jdf.queryExecution().toString())

    assert "MapInArrow" not in plan("v9_cow_cdc")
    assert "FileScan parquet" in plan("v9_cow_cdc")
    assert "MapInArrow" in plan("v9_mor_bucket_nbcc_avro")


def test_a_frame_is_of_the_moment_it_was_made(
    references: dict[str, Reference], spark: SparkSession, tmp_path: Path
) -> None:
    reference = unpack("v9_mor_bucket_nbcc_parquet", tmp_path)
    newest = max((reference.path / ".hoodie/timeline").glob("*_*.deltacommit"))
    content = newest.read_bytes()
    newest.unlink()
    frame = lb.Table.open(reference.path).to_spark(spark=spark)
    newest.write_bytes(content)
    before = reference.expected["as_of"][reference.times()[-2]]
    assert frame.count() == len(before)
    assert lb.Table.open(reference.path).to_spark(spark=spark).count() == len(reference.expected["snapshot"])
