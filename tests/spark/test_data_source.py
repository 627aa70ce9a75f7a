# SPDX-License-Identifier: Apache-2.0
"""The format `lakebraid`: found by itself, reads what `to_spark` reads, writes what tasks can write, and refuses the rest."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import lakebraid as lb
from tests.kit.present import present

pytestmark = [pytest.mark.spark, pytest.mark.slow]
OPTIONS: dict[str, Any] = {
    "hoodie.table.name": "orders",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.bucket.index.num.buckets": "2",
}
TYPES = (
    "cast(id AS string) AS id",
    "id AS ts",
    "timestamp '2026-01-02 03:04:05.678901' AS at",
    "timestamp_ntz '2026-01-02 03:04:05' AS plain",
    "date '2026-01-02' AS day",
    "cast(1.5 AS decimal(10, 2)) AS price",
    "array(1, null, 3) AS numbers",
    "map('a', 1L) AS counts",
    "named_struct('x', 1, 'tags', array('p', null)) AS inner",
    "cast('abc' AS binary) AS bytes",
    "cast(null AS boolean) AS flag",
)
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


@pytest.fixture
def orders(spark: SparkSession, tmp_path: Path) -> str:
    """Twenty rows, then ten of them changed and one deleted."""
    path = f"{tmp_path}/orders"
    t = lb.Table.create(
        path, "id string, ts bigint, n int, x double", record_keys="id", ordering_fields="ts", buckets=4
    )
    t.bulk_insert([{"id": f"k{n}", "ts": 1, "n": n, "x": n / 2} for n in range(20)])
    t.upsert([{"id": f"k{n}", "ts": 2, "n": -n, "x": None} for n in range(10)])
    t.delete([{"id": "k3"}])
    return path


def load(spark: SparkSession, path: str, **options: Any) -> DataFrame:
    return spark.read.format("lakebraid").options(**options).load(path)


def same(ours: DataFrame, theirs: DataFrame) -> bool:
    return sorted(map(repr, ours.collect())) == sorted(map(repr, theirs.select(*ours.columns).collect()))


def values(path: str) -> dict[str, int]:
    return {row["id"]: row["n"] for row in lb.Table.open(path).to_arrow().to_pylist()}


def save(frame: DataFrame, path: str, mode: str | None = "append", **options: str) -> None:
    writer = frame.write.format("lakebraid").options(**(OPTIONS | options))
    (writer if mode is None else writer.mode(mode)).save(path)


def open_writes(path: str) -> list[Any]:
    return [
        entry for entry in lb.Table.open(path).timeline() if entry.action == "deltacommit" and not entry.completion_time
    ]


# --- reading ---------------------------------------------------------------------------------------------------------


def test_the_format_is_found_by_itself_and_reads_what_the_table_holds(spark: SparkSession, orders: str) -> None:
    t = lb.Table.open(orders)
    assert same(load(spark, orders), t.to_spark(meta_columns=True, spark=spark))
    assert same(load(spark, orders, **{"lakebraid.meta_columns": "false"}), t.to_spark(spark=spark))
    projected = spark.read.format("lakebraid").schema("n int, id string").load(orders)
    assert same(projected, t.to_spark(["n", "id"], spark=spark))
    lb.register(spark)  # by hand, once more: nothing changes
    assert load(spark, orders).count() == 19
    with pytest.raises(PySparkException, match=r"Did you mean hoodie\.datasource\.query\.type"):
        load(spark, orders, **{"hoodie.datasource.query.typ": "snapshot"})


def test_a_frame_stays_what_it_was_when_it_was_made(spark: SparkSession, orders: str) -> None:
    """With a schema of the user's Spark makes the source when the frame is first used; it is of that moment then."""
    before, given = load(spark, orders), spark.read.format("lakebraid").schema("id string").load(orders)
    assert given.count() == 19
    lb.Table.open(orders).upsert([{"id": "new", "ts": 1, "n": 1, "x": 1.0}])
    assert (before.count(), given.count(), load(spark, orders).count()) == (19, 19, 20)


@pytest.fixture
def pushing(spark: SparkSession) -> Iterator[SparkSession]:
    spark.conf.set(PUSHDOWN, "true")
    yield spark
    spark.conf.unset(PUSHDOWN)


def test_filters_are_pushed_down_where_the_session_allows_it(pushing: SparkSession, orders: str) -> None:
    frame = load(pushing, orders)
    for where in (
        "id = 'k4'",
        "n > 3 and n <= 12",
        "x is null",
        "id in ('k1', 'k15')",
        "id like 'k1%' and n = 15",
        "x > 5.5",
    ):
        rows = sorted(row.id for row in frame.where(where).collect())
        assert rows == sorted(lb.Table.open(orders).to_arrow(["id"], where).column("id").to_pylist()), where


def test_sql_reads_the_table_under_a_name(spark: SparkSession, orders: str) -> None:
    lb.Table.open(orders).view("orders_fast", where="n < 0", spark=spark)
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW orders_view USING lakebraid OPTIONS (path '{orders}')")
    joined = spark.sql("SELECT a.id FROM orders_view a JOIN orders_fast b ON a.id = b.id WHERE a.n < -5")
    assert sorted(row.id for row in joined.collect()) == ["k6", "k7", "k8", "k9"]
    spark.catalog.dropTempView("orders_fast")
    spark.catalog.dropTempView("orders_view")


def test_table_functions_read_a_past_moment_and_changes_with_all_types(spark: SparkSession, tmp_path: Path) -> None:
    path = f"{tmp_path}/types"
    frame = spark.range(3).selectExpr(*TYPES)
    lb.write(frame, path, **OPTIONS)
    t = lb.Table.open(path)
    then = t.snapshot().completion_time
    t.delete([{"id": "1"}])
    lb.register(spark)
    assert same(spark.sql(f"SELECT * FROM lakebraid_as_of('{path}', '{then}')"), frame)
    assert same(spark.sql(f"SELECT * FROM lakebraid_as_of(path => '{path}')"), frame.where("id <> '1'"))
    for options in ("map('as.of.instant', '{}')", """'{{"as.of.instant": "{}"}}'"""):
        found = spark.sql(f"SELECT * FROM lakebraid_as_of('{path}', options => {options.format(then)})")
        assert found.count() == 3
    with pytest.raises(PySparkException, match="must be a map of texts"):
        spark.sql(f"SELECT * FROM lakebraid_as_of('{path}', options => '[\"hunter2\"]')")
    changes = spark.sql(f"SELECT * FROM lakebraid_changes('{path}', '{then}')")
    assert same(changes, t.changes(then).to_spark(spark)) and present(changes.first())["_change_type"] == "delete"
    assert spark.sql(f"SELECT id FROM lakebraid_changes('{path}', until => '{then}')").count() == 3
    with pytest.raises(PySparkException, match=r"There is (nothing|no table) at"):
        spark.sql(f"SELECT * FROM lakebraid_as_of('{tmp_path}/nowhere')")


def test_a_query_reads_tables_changes_and_frames_and_leaves_no_view_behind(spark: SparkSession, orders: str) -> None:
    t = lb.Table.open(orders)
    found = lb.sql(
        "SELECT a.id, b._change_type AS kind FROM {t} a JOIN {changes} b USING (id) JOIN {some} c USING (id) WHERE a.n < {most}",
        spark,
        t=t,
        changes=t.changes(),
        some=spark.createDataFrame([("k8",), ("k9",), ("k19",)], "id string"),
        most=-8,
    )
    assert [tuple(row) for row in found.collect()] == [("k9", "insert")]
    assert spark.catalog.listTables() == []


def test_the_same_options_read_on_the_fast_plan(spark: SparkSession, orders: str) -> None:
    assert same(lb.read(orders, spark=spark), load(spark, orders))
    since: dict[str, Any] = {
        "hoodie.datasource.query.type": "incremental",
        "hoodie.datasource.read.begin.instanttime": "000",
    }
    assert same(lb.read(orders, spark=spark, **since), load(spark, orders, **since))
    assert lb.read(orders, columns=["n"], spark=spark).columns == ["n"]


# --- writing ---------------------------------------------------------------------------------------------------------


def test_a_frame_creates_the_table_and_rows_are_written_changed_and_deleted(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = f"{tmp_path}/new"
    # More rows than are handed back, so tasks write files of their own.
    frame = spark.range(0, 60_000, 1, 3).selectExpr("concat('k', id) AS id", "1L AS ts", "cast(id AS int) AS n")
    save(frame, path, "overwrite", **{"hoodie.datasource.write.operation": "bulk_insert"})
    save(frame.where("n < 3").selectExpr("id", "2L AS ts", "-n AS n"), path)
    save(load(spark, path).where("n > 4"), path, **{"hoodie.datasource.write.operation": "delete"})
    assert values(path) == {"k0": 0, "k1": -1, "k2": -2, "k3": 3, "k4": 4}
    t = lb.Table.open(path)
    assert [entry.operation for entry in t.timeline() if entry.operation][-3:] == ["BULK_INSERT", "UPSERT", "DELETE"]
    assert t.schema.names == ["id", "ts", "n"] and not open_writes(path)


def test_types_survive_the_way_through_the_format(spark: SparkSession, tmp_path: Path) -> None:
    path = f"{tmp_path}/types"
    frame = spark.range(3).selectExpr(*TYPES)
    save(frame, path)
    assert same(load(spark, path).select(*frame.columns), frame)


def test_save_modes_that_spark_does_not_allow_are_done_by_the_call(spark: SparkSession, orders: str) -> None:
    frame = spark.createDataFrame([("new", 1, 1)], "id string, ts bigint, n int")
    for mode in (None, "error", "ignore"):
        with pytest.raises(PySparkException, match="UNSUPPORTED_DATA_SOURCE_SAVE_MODE"):
            save(frame, orders, mode)
    bare: dict[str, Any] = {"hoodie.datasource.write.recordkey.field": "id"}
    with pytest.raises(PySparkException, match=r"mode\('overwrite'\) on a table that is there.*lakebraid.write"):
        frame.write.format("lakebraid").options(**bare).mode("overwrite").save(orders)
    assert lb.write(frame, orders, mode="ignore", **bare) is None
    lb.write(frame, orders, mode="overwrite", **bare)
    assert values(orders) == {"new": 1}


def test_a_task_that_fails_leaves_nothing_visible_and_nothing_open(spark: SparkSession, orders: str) -> None:
    before = values(orders)

    @F.udf("int")
    def fails(n: int) -> int:
        if n == 45_000:
            raise ValueError("as planned")
        return n

    many = spark.range(0, 60_000, 1, 3).select(
        F.concat(F.lit("k"), "id").alias("id"), F.expr("9L AS ts"), fails("id").alias("n")
    )
    with pytest.raises(PySparkException, match="as planned"):
        many.write.format("lakebraid").mode("append").save(orders)
    assert values(orders) == before and not open_writes(orders)
