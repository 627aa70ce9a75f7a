# SPDX-License-Identifier: Apache-2.0
"""Log compactions that Spark's executors execute, and tasks that fail."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import lakebraid as lb
from lakebraid import limits
from lakebraid.errors import EnvironmentProblem
from lakebraid.services.merging import log_compaction
from lakebraid.spark import merge
from lakebraid.storage import Storage
from lakebraid.tasks.merging.compact import CompactPlan, CompactTask, run_compaction_task
from lakebraid.tasks.staged_file import StagedFile

pytestmark = pytest.mark.spark


def rows(first: int, count: int, ts: int) -> pa.Table:
    keys = range(first, first + count)
    return pa.table({"id": [f"k{i}" for i in keys], "ts": [ts] * count, "v": [f"{ts}/{i}" for i in keys]})


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> lb.Table:
    monkeypatch.setattr(limits, "COMPACT_ON_SPARK_BYTES", 0)
    table = lb.Table.create(tmp_path / "t", rows(0, 1, 1).schema, record_keys="id", ordering_fields="ts", buckets=4)
    table.upsert(rows(0, 400, 1))
    table.upsert(rows(100, 200, 2))
    table.delete(rows(0, 10, 3).select(["id", "ts"]))
    return table


def shown(table: lb.Table) -> pa.Table:
    return table.to_arrow(meta_columns=True).drop_columns(["_hoodie_file_name"]).sort_by("id")


def test_executors_put_log_files_together(spark: SparkSession, table: lb.Table) -> None:
    before = shown(table)
    (done,) = table.log_compact(logs_min=2, spark=spark)
    assert (done.groups, done.rows, done.deletes) == (4, 390, 10)
    assert shown(table) == before
    assert log_compaction.load_log_plan(table._writing.ledger(table._config), done.instant).operations
    table.upsert(rows(0, 10, 2))
    assert shown(table) == before, "older than their deletes"


def fails_once(storage: Storage, plan: CompactPlan, task: CompactTask) -> list[StagedFile]:
    """The first of all tasks fails when its work is done; it says so by a file beside the table."""
    done = run_compaction_task(storage, plan, task)
    mark = Path(storage.url.removeprefix("file://")).parent / "failed"
    if not mark.exists():
        mark.touch()
        raise OSError("the machine went away")
    return done


def fails(storage: Storage, plan: CompactPlan, task: CompactTask) -> list[StagedFile]:
    run_compaction_task(storage, plan, task)
    raise OSError(f"no space left for {task.file_id[:8]}")


def test_a_task_that_fails_once_does_not_fail_the_compaction(
    spark: SparkSession, table: lb.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merge, "run_compaction_task", fails_once)
    before = shown(table)
    (done,) = table.compact(spark=spark)
    assert (Path(table.path).parent / "failed").exists()
    assert (done.groups, done.rows) == (4, 390)
    assert shown(table) == before


def test_a_task_that_always_fails_leaves_the_plan_and_the_table_as_it_was(
    spark: SparkSession, table: lb.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = shown(table)
    with monkeypatch.context() as patch:
        patch.setattr(merge, "run_compaction_task", fails)
        with pytest.raises(EnvironmentProblem, match="no space left") as caught:
            table.compact(spark=spark)
    assert shown(table) == before
    again = lb.Table.open(table.path)
    (done,) = again.compact()
    assert done.instant == caught.value.facts["instant"], "the plan that had failed"
    assert shown(again) == before
