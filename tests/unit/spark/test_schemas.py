# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import types as spark

from lakebraid.errors import InvalidArgument
from lakebraid.limits import SCHEMA_DEPTH_WRITTEN_MAX
from lakebraid.model.schema.user_schema import fit_schema
from lakebraid.spark.schemas import from_spark
from lakebraid.spark.versions import spark_schema

pytestmark = pytest.mark.unit


def one(kind: spark.DataType) -> spark.StructType:
    return spark.StructType([spark.StructField("c", spark.StructType([spark.StructField("x", kind)]))])


def test_the_columns_of_a_spark_schema_become_those_of_a_table_and_back() -> None:
    given = spark.StructType(
        [
            spark.StructField("id", spark.LongType(), nullable=False),
            spark.StructField("small", spark.ByteType()),
            spark.StructField("price", spark.DecimalType(12, 3)),
            spark.StructField("code", spark.VarcharType(4)),
            spark.StructField("at", spark.TimestampType()),
            spark.StructField("local", spark.TimestampNTZType()),
            spark.StructField("tags", spark.ArrayType(spark.StringType(), containsNull=False)),
            spark.StructField("m", spark.MapType(spark.StringType(), one(spark.DateType()))),
        ]
    )
    fitted = fit_schema(from_spark(given))
    assert fitted.field("at").type == pa.timestamp("us", tz="UTC")
    assert spark_schema(fitted).simpleString() == (
        "struct<id:bigint,small:int,price:decimal(12,3),code:string,at:timestamp,local:timestamp_ntz,"
        "tags:array<string>,m:map<string,struct<c:struct<x:date>>>>"
    )


def test_a_name_that_no_sql_text_could_hold_stays_as_it_is() -> None:
    schema = spark.StructType([spark.StructField("a b,c`<", spark.IntegerType())])
    assert from_spark(schema).names == ["a b,c`<"]


@pytest.mark.parametrize(
    "kind",
    [
        spark.NullType(),
        spark.DayTimeIntervalType(),
        spark.YearMonthIntervalType(),
        spark.CalendarIntervalType(),
        spark.StringType("UTF8_LCASE"),
    ],
)
def test_a_spark_type_that_no_table_can_hold_is_refused_with_its_column(kind: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"'c\.x'.*Hudi table cannot"):
        from_spark(one(kind))


def test_a_variant_of_spark_is_refused_with_what_to_use_instead() -> None:
    with pytest.raises(InvalidArgument, match=r"'c\.x'.*read and not written: keep it as a string of JSON"):
        from_spark(one(spark.VariantType()))


def test_a_spark_schema_that_nests_too_deep_is_refused() -> None:
    kind: spark.DataType = spark.IntegerType()
    for _ in range(SCHEMA_DEPTH_WRITTEN_MAX + 1):
        kind = spark.ArrayType(kind)
    with pytest.raises(InvalidArgument, match="deeper"):
        from_spark(one(kind))
