# SPDX-License-Identifier: Apache-2.0
"""Tables that capture changes, written by Spark's tasks: what a reader of the changes gets is what was done."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

import lakebraid as lb
from lakebraid import limits
from lakebraid.writing.result import WriteResult
from tests.kit.models.cdc_reader import Event, Row, cdc_events, commit_of, differences

pytestmark = pytest.mark.spark

COLUMNS = "id bigint not null, p string, ts bigint, v string"
CDC = {"hoodie.table.cdc.enabled": "true"}
Oracle = dict[int, Row]


def frame(spark: SparkSession, first: int, last: int, v: str, ts: int = 1) -> DataFrame:
    half = F.when(F.col("id") % 2 == 0, "even").otherwise("odd")
    columns = ("id", half.alias("p"), F.lit(ts).cast("bigint").alias("ts"), F.lit(v).alias("v"))
    return spark.range(first, last, 1, 3).select(*columns)


def row(key: int, v: str, ts: int) -> Row:
    return {"id": key, "p": "odd" if key % 2 else "even", "ts": ts, "v": v}


class Told:
    """A table and what must be in it; after each write its commit must tell exactly what became of it."""

    def __init__(self, table: lb.Table) -> None:
        self.table, self.rows = table, dict[int, Row]()
        self.moment = table.snapshot().completion_time

    def after(self, done: WriteResult, *changes: Row | int) -> None:
        """These rows were written, and rows with these keys deleted."""
        rows = dict(self.rows)
        for change in changes:
            if isinstance(change, int):
                del rows[change]
            else:
                rows[change["id"]] = change
        expected = differences(self.rows, rows)
        assert by_name(cdc_events(self.table, done.instant, key_of)) == by_name(expected)
        assert {r["id"]: r for r in self.table.to_arrow().to_pylist()} == rows
        self.rows, self.moment = rows, done.completion_time


def images(table: lb.Table, after: str) -> list[Event]:
    """What our own changes tell, read by Spark's tasks."""
    kinds: dict[str, dict[int, Row]] = {}
    for told in table.changes(after, images=True).to_spark().toArrow().to_pylist():
        del told["_commit_completion_time"]
        kinds.setdefault(told.pop("_change_type"), {})[told["id"]] = told
    old = kinds.get("update_preimage", {}) | kinds.get("delete", {})
    return differences(old, kinds.get("update_postimage", {}) | kinds.get("insert", {}))


def of_the_format(table: lb.Table, after: str) -> list[Event]:
    """What the Spark format tells in Hudi's form."""
    options = {
        "hoodie.datasource.query.type": "incremental",
        "hoodie.datasource.query.incremental.format": "cdc",
        "hoodie.datasource.read.begin.instanttime": after,
    }
    found = lb.session().read.format("lakebraid").options(**options).load(table.path).collect()
    return [(told["op"], json.loads(told["before"] or "null"), json.loads(told["after"] or "null")) for told in found]


def key_of(found: Row) -> Any:
    return found["id"]


def by_name(events: list[Event]) -> list[str]:
    return sorted(map(str, events))


@pytest.mark.parametrize(("table_type", "index"), [("mor", "bucket"), ("cow", "bucket"), ("cow", "simple")])
def test_changes_that_spark_s_tasks_write_are_captured_as_they_happened(
    table_type: str, index: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "SPARK_DRIVER_BYTES", -1)
    monkeypatch.setattr(limits, "SPARK_HANDED_BYTES", 0)
    given: dict[str, Any] = {"ordering_fields": "ts", "partition_by": "p", "buckets": 2, "properties": CDC}
    table = lb.Table.create(tmp_path / "t", COLUMNS, record_keys="id", table_type=table_type, index=index, **given)
    told = Told(table)
    told.after(table.upsert(frame(spark, 0, 40, "old")), *(row(k, "old", 1) for k in range(40)))
    loaded, first = dict(told.rows), told.moment
    done = table.upsert(frame(spark, 30, 50, "new", 2))
    told.after(done, *(row(k, "new", 2) for k in range(30, 50)))
    stats = [stat for found in commit_of(table, done.instant).write_stats.values() for stat in found]
    assert all(stat.cdc_stats if table_type == "cow" else stat.base_file for stat in stats)
    told.after(table.upsert(frame(spark, 35, 38, "stale", 0)))
    told.after(table.delete(frame(spark, 0, 5, "").select("id", "p")), *range(5))
    changed = [row(k, "new!", 2) for k in range(40, 50)]
    told.after(table.update({"v": "concat(v, '!')"}, where="id % 100 >= 40"), *changed)
    told.after(table.delete(where="id % 7 = 0"), *(k for k in range(5, 50) if k % 7 == 0))
    source = frame(spark, 45, 55, "merged", 3)
    inserted = [row(k, "merged", 3) for k in range(45, 55) if k not in (45, 46)]
    told.after(table.merge(source, matched_delete="t.id < 47"), *inserted, 45, 46)
    assert len(table.audit(deep=True)) == 0
    monkeypatch.setattr(limits, "SPARK_CHANGES_BYTES", -1)
    changed_since = by_name(differences(loaded, told.rows))
    assert by_name(images(table, first or "")) == changed_since
    assert by_name(of_the_format(table, first or "")) == changed_since
