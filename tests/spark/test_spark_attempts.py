# SPDX-License-Identifier: Apache-2.0
"""Tasks that run twice, fail or are cancelled: a data frame is written once, to the same files."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

import lakebraid as lb
from lakebraid.model.keys.buckets import bucket_of
from lakebraid.spark import write as spark_write
from lakebraid.spark.write import cancel_spark, write_spark
from lakebraid.spark.write_tasks import reports
from lakebraid.storage import open_storage
from tests.kit.waiting import PATIENCE_SECONDS
from tests.spark.roads import (
    files_below,
    frame_of,
    known,
    make_table,
    plan_for,
    take_road,
    write,
)

pytestmark = pytest.mark.spark


def test_a_write_whose_tasks_run_twice_meets_its_own_files(tmp_path: Path, spark: SparkSession, road: str) -> None:
    plan = plan_for(make_table(tmp_path / "t"))
    frame = frame_of(spark, [(f"k{i % 30}", "p", i % 3, f"v{i}") for i in range(90)], 4)
    frame = known(frame) if road == "driver" else frame
    first, next_task = write(plan, frame)
    before = {file: (tmp_path / "t" / file).read_bytes() for file in files_below(tmp_path / "t")}
    assert (first, next_task) == write(plan, frame)
    assert before == {file: (tmp_path / "t" / file).read_bytes() for file in files_below(tmp_path / "t")}
    assert {file.name for file in first} == set(before)


def test_two_attempts_at_the_same_time_make_the_same_files(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_road("tasks", monkeypatch)
    plan = plan_for(make_table(tmp_path / "t"))
    frame = frame_of(spark, [(f"k{i}", "p", i, f"v{i}") for i in range(60)], 4)
    results: list[Any] = []
    threads = [threading.Thread(target=lambda: results.append(write(plan, frame))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 2 and results[0] == results[1]


@pytest.mark.parametrize("road", ["handed back", "tasks", "shuffle"])
def test_a_second_attempt_that_gets_other_rows_is_refused(
    tmp_path: Path, spark: SparkSession, road: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_road(road, monkeypatch)
    plan = plan_for(make_table(tmp_path / "t"))
    frame = frame_of(spark, [(f"k{i}", "p", i, "v") for i in range(30)]).withColumn("v", F.expr("uuid()"))
    write(plan, frame.withColumn("v", F.lit("first")))
    with pytest.raises(lb.InvalidArgument, match="other rows the second time"):
        write(plan, frame)


def test_a_file_that_only_a_failed_attempt_wrote_is_noticed(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_road("tasks", monkeypatch)
    plan = plan_for(make_table(tmp_path / "t"))
    keys = sorted((f"k{i}" for i in range(3)), key=lambda key: bucket_of(key, ["id"], 3))
    write(plan, frame_of(spark, [(key, "p", 1, "v") for key in keys], 1))
    again = frame_of(spark, [(keys[0], "p", 1, "v")], 1)
    assert len(write(plan, again)[0]) == 1  # Spark said that no task ran before
    monkeypatch.setattr(spark_write, "reports", lambda rows: [replace(report, attempt=1) for report in reports(rows)])
    with pytest.raises(lb.InvalidArgument, match="whose next attempt did not write it"):
        write(plan, again)
    # Files of an earlier write of the same transaction are none of its own.
    assert len(write(plan, again, first_task=1001)[0]) == 1


def test_a_cancelled_write_ends_at_once_and_others_go_on(tmp_path: Path, spark: SparkSession) -> None:
    plan = plan_for(make_table(tmp_path / "t"))
    begun = threading.Event()

    def slow(batches: Any) -> Any:
        import time

        (tmp_path / "begun").touch()
        time.sleep(2 * PATIENCE_SECONDS)
        yield from batches

    frame = frame_of(spark, [("a", "p", 1, "v")], 1)
    failures: list[Exception] = []

    def run() -> None:
        try:
            write_spark(
                open_storage(plan.url), plan, frame.mapInArrow(slow, frame.schema), first_task=1000, tag="doomed"
            )
        except Exception as error:  # noqa: BLE001
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    while not (tmp_path / "begun").exists():
        begun.wait(0.1)
    cancel_spark(spark, "doomed")
    thread.join(PATIENCE_SECONDS)
    assert not thread.is_alive() and "cancel" in str(failures[0]).lower()
    assert len(write(plan, frame)[0]) == 1
    assert not spark.sparkContext.getJobTags()


def test_errors_of_a_users_function_stay_sparks_own(tmp_path: Path, spark: SparkSession) -> None:
    plan = plan_for(make_table(tmp_path / "t"))
    frame = frame_of(spark, [("a", "p", 1, "v")], 1)

    def broken(batches: Any) -> Any:
        raise ZeroDivisionError("mine")

    with pytest.raises(Exception, match="ZeroDivisionError: mine") as caught:
        write(plan, frame.mapInArrow(broken, frame.schema))
    assert not isinstance(caught.value, lb.LakebraidError)


def test_an_error_of_the_store_in_a_task_is_told_as_one(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_road("tasks", monkeypatch)
    plan = plan_for(make_table(tmp_path / "t"))
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(lb.StorageError) as caught:
        write(replace(plan, url=str(tmp_path / "file" / "t")), frame_of(spark, [("a", "p", 1, "v")], 1))
    assert "org.apache" not in str(caught.value)
