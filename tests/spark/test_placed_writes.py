# SPDX-License-Identifier: Apache-2.0
"""Data frames in copy-on-write tables and tables with looked-up keys: every row finds its file group, on both roads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import lakebraid as lb
from lakebraid import limits
from lakebraid.storage import open_storage
from lakebraid.tasks.new_files import place_file
from lakebraid.txn.checks.file_groups import EARLY
from lakebraid.writing.gate import Gate
from lakebraid.writing.transaction import Transaction

pytestmark = pytest.mark.spark

COLUMNS = "id bigint not null, p string, ts bigint, v string"
KINDS = [("cow", "bucket"), ("cow", "simple"), ("mor", "simple")]


@pytest.fixture(params=["driver", "tasks"])
def road(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "tasks":
        monkeypatch.setattr(limits, "SPARK_DRIVER_BYTES", -1)
    return str(request.param)


@pytest.fixture
def by_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SPARK_DRIVER_BYTES", -1)


def make(path: Path, table_type: str, index: str, **more: Any) -> lb.Table:
    given: dict[str, Any] = {"ordering_fields": "ts", "partition_by": "p", "buckets": 2, **more}
    return lb.Table.create(path, COLUMNS, record_keys="id", table_type=table_type, index=index, **given)


def frame(spark: SparkSession, first: int, last: int, v: str, ts: int = 1) -> DataFrame:
    half = F.when(F.col("id") % 2 == 0, "even").otherwise("odd")
    return spark.range(first, last).select(
        "id", half.alias("p"), F.lit(ts).cast("bigint").alias("ts"), F.lit(v).alias("v")
    )


def seen(table: lb.Table) -> dict[int, str]:
    rows = table.to_arrow(columns=["id", "v"]).to_pylist()
    assert len({row["id"] for row in rows}) == len(rows), "a key appears twice"
    return {row["id"]: row["v"] for row in rows}


@pytest.mark.parametrize(("table_type", "index"), KINDS)
def test_inserts_updates_and_deletes_of_a_frame_find_their_rows(
    table_type: str, index: str, road: str, spark: SparkSession, tmp_path: Path
) -> None:
    table = make(tmp_path / "t", table_type, index)
    assert table.insert(frame(spark, 0, 200, "old")).rows_written == 200
    done = table.upsert(frame(spark, 150, 250, "new", 2))
    assert done.rows_written == 100
    assert (
        table.delete(frame(spark, 0, 10, "").select("id", "p", F.lit(9).cast("bigint").alias("ts"))).rows_deleted == 10
    )
    expected = {n: "old" if n < 150 else "new" for n in range(10, 250)}
    assert seen(table) == expected
    table.upsert(frame(spark, 100, 200, "stale", 0))
    assert seen(table) == expected
    assert {row["id"]: row["v"] for row in table.to_spark(columns=["id", "v"]).collect()} == expected


def test_several_writes_of_one_transaction_are_placed_together_and_later_ones_win(
    by_tasks: None, spark: SparkSession, tmp_path: Path
) -> None:
    table = make(tmp_path / "t", "cow", "simple")
    table.insert(frame(spark, 0, 20, "old"))
    with table.begin() as txn:
        txn.write(frame(spark, 0, 10, "first", 2))
        txn.write([{"id": 5, "p": "odd", "ts": 2, "v": "second"}, {"id": 30, "p": "even", "ts": 1, "v": "row"}])
        txn.write(frame(spark, 30, 32, "frame"))
        txn.write_deletes(frame(spark, 7, 8, "").select("id", "p", F.lit(2).cast("bigint").alias("ts")))
        txn.commit()
    expected = {n: "first" if n < 10 else "old" for n in range(20) if n != 7} | {5: "second", 30: "frame", 31: "frame"}
    assert seen(table) == expected
    groups = [(file.partition, file.file_id) for file in txn.staging.files]
    assert len(set(groups)) == len(groups), "a group has two base files"


@pytest.mark.parametrize("table_type", ["cow", "mor"])
def test_a_global_index_moves_rows_of_a_frame_between_partitions(
    table_type: str, by_tasks: None, spark: SparkSession, tmp_path: Path
) -> None:
    table = make(tmp_path / "t", table_type, "global_simple")
    table.insert(frame(spark, 0, 10, "old", 5))
    moved = frame(spark, 0, 4, "moved", 6).withColumn("p", F.lit("third"))
    table.upsert(moved.union(frame(spark, 4, 6, "stale", 1).withColumn("p", F.lit("third"))))
    assert seen(table) == {n: "moved" if n < 4 else "old" for n in range(10)}
    table.upsert(frame(spark, 0, 2, "back", 7))
    assert seen(table) == {n: "back" if n < 2 else "moved" if n < 4 else "old" for n in range(10)}
    assert table.to_arrow(where="p = 'third'").num_rows == 2


def test_partial_updates_of_a_frame_keep_the_other_columns(by_tasks: None, spark: SparkSession, tmp_path: Path) -> None:
    for table_type in ("cow", "mor"):
        table = make(tmp_path / table_type, table_type, "simple")
        table.insert(frame(spark, 0, 10, "old"))
        later = frame(spark, 5, 12, "", 3).select("id", "p", "ts")
        table.upsert(later, columns=["id", "p", "ts"])
        assert seen(table) == {n: "old" if n < 10 else None for n in range(12)}
        assert table.to_arrow(where="ts = 3").num_rows == 7


def test_small_files_are_filled_first_and_full_ones_are_left_alone(
    by_tasks: None, spark: SparkSession, tmp_path: Path
) -> None:
    table = make(tmp_path / "t", "cow", "simple", partition_by=None)
    table.insert(frame(spark, 0, 100, "a"))
    table.insert(frame(spark, 100, 200, "b"))
    assert len(table.snapshot().slices) == 1
    table.bulk_insert(frame(spark, 200, 300, "c"))
    assert len(table.snapshot().slices) == 2
    assert len(seen(table)) == 300


def test_changes_that_depend_on_rows_work_on_every_kind(spark: SparkSession, tmp_path: Path) -> None:
    for table_type, index in KINDS:
        table = make(tmp_path / f"{table_type} {index}", table_type, index)
        table.insert(frame(spark, 0, 10, "old"))
        table.update({"v": "concat(v, '!')", "ts": "ts + 1"}, where="id < 3", spark=spark)
        table.delete(where="id = 9")
        table.merge(frame(spark, 8, 12, "merged", 4), spark=spark)
        expected = {n: "old!" if n < 3 else "old" for n in range(8)} | dict.fromkeys(range(8, 12), "merged")
        assert seen(table) == expected, (table_type, index)


def test_rows_that_do_not_fit_are_told_when_they_are_written(
    by_tasks: None, spark: SparkSession, tmp_path: Path
) -> None:
    table = make(tmp_path / "t", "cow", "simple")
    txn = table.begin()
    with pytest.raises(lb.InvalidArgument, match="has no record key"):
        txn.write(frame(spark, 0, 10, "x").withColumn("id", F.expr("if(id = 7, null, id)")))
    txn.abort()
    assert seen(table) == {}


def test_a_task_that_runs_again_meets_its_own_files(by_tasks: None, spark: SparkSession, tmp_path: Path) -> None:
    table = make(tmp_path / "t", "cow", "simple")
    table.insert(frame(spark, 0, 50, "old"))
    storage = open_storage(table.path)
    txn = table.begin()
    txn.write(frame(spark, 0, 60, "new", 2))
    txn._stage()
    for file in txn.staging.files:
        place_file(storage, txn.instant, file.partition, file.name, storage.read(file.path, 1 << 20))
        with pytest.raises(lb.InvalidArgument, match="ran twice"):
            place_file(storage, txn.instant, file.partition, file.name, b"other rows")
    txn.commit()
    assert seen(table) == dict.fromkeys(range(60), "new")


@pytest.mark.parametrize(("table_type", "index"), KINDS)
def test_a_frame_that_is_certain_to_be_refused_is_not_written(
    table_type: str, index: str, by_tasks: None, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another writer was faster while Spark found out where the rows go."""
    table = make(tmp_path / "t", table_type, index, concurrency="occ", properties={EARLY: "true"})
    table.insert(frame(spark, 0, 50, "old"))
    check, abort = Gate.check, Transaction.abort
    left: list[Path] = []

    def check_and_then(self: Gate, seen: Any) -> None:
        check(self, seen)
        monkeypatch.setattr(Gate, "check", check)
        lb.Table.open(table.path).upsert([{"id": 7, "p": "odd", "ts": 3, "v": "rival"}], retries=0)

    def count_and_abort(self: Transaction) -> None:
        if self is doomed:
            left.extend(path for path in (tmp_path / "t").rglob(f"*{self.instant}*") if ".hoodie" not in str(path))
        abort(self)

    monkeypatch.setattr(Gate, "check", check_and_then)
    monkeypatch.setattr(Transaction, "abort", count_and_abort)
    doomed = table.begin()
    doomed.write(frame(spark, 0, 60, "new", 2))
    with pytest.raises(lb.WriteConflict):
        doomed.commit()
    assert left == []
    assert seen(table) == dict.fromkeys(range(50), "old") | {7: "rival"}
