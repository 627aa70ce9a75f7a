# SPDX-License-Identifier: Apache-2.0
"""VECTOR, BLOB and VARIANT columns of Apache Hudi on Spark: lists and structs, in every way of reading; no write."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import VariantVal

import lakebraid as lb
from lakebraid.spark.schemas import spark_rows
from tests.kit.reference import our_rows, unpack
from tests.unit.writing.test_hudi_types import TYPES, files, opened

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("name", sorted(TYPES))
def test_the_format_and_changes_give_the_rows_of_the_read_in_process(
    name: str, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = lb.Table.open(unpack(name, tmp_path).path)
    by_format = spark.read.format("lakebraid").option("lakebraid.meta_columns", "false").load(table.path)
    assert our_rows(by_format.toArrow()) == our_rows(table.to_arrow())
    expected = our_rows(table.changes().to_arrow())
    for limit in (10**9, -1):  # by the driver, by tasks
        monkeypatch.setattr("lakebraid.limits.SPARK_CHANGES_BYTES", limit)
        assert our_rows(table.changes().to_spark(spark).toArrow()) == expected


def test_a_vector_is_an_array_on_spark(tmp_path: Path, spark: SparkSession) -> None:
    frame = lb.Table.open(unpack("v9_mor_vector", tmp_path).path).to_spark(spark=spark)
    assert dict(frame.dtypes) | {"f": "array<float>", "d": "array<double>", "b": "array<tinyint>"} == dict(frame.dtypes)
    assert frame.where("f[0] > 9 and d[1] = 2").select("id").collect() == [(1,)]


def test_a_variant_is_the_value_that_spark_wrote(tmp_path: Path, spark: SparkSession) -> None:
    rows = lb.Table.open(unpack("v9_mor_variant", tmp_path).path).to_arrow(columns=["v"], where="id = 1").to_pylist()
    assert [VariantVal(**row["v"]).toPython() for row in rows] == [{"a": 2, "c": {"d": True}}]


@pytest.mark.parametrize("name", sorted(TYPES))
def test_every_write_on_spark_is_refused_and_changes_no_file(name: str, tmp_path: Path, spark: SparkSession) -> None:
    table = opened(name, tmp_path)
    before = files(table)
    rows = spark.createDataFrame(table.to_arrow(columns=["id", "ts", "part"]))
    writes: list[Callable[[], object]] = [
        lambda: table.upsert(rows),
        lambda: table.update({"ts": "ts + 1"}, where="id = 1"),
        lambda: table.delete(where="id = 1"),
    ]
    if "mor" in name:  # the format writes no other tables
        writes.append(lambda: rows.write.format("lakebraid").mode("append").save(table.path))
    for write in writes:
        with pytest.raises(Exception, match=TYPES[name].replace("(", r"\(").replace(")", r"\)")):
            write()
    assert files(table) == before


def test_rows_without_vectors_are_not_copied_for_spark() -> None:
    rows = pa.table({"a": [1, 2]})
    assert spark_rows(rows) is rows
