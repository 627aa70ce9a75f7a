# SPDX-License-Identifier: Apache-2.0
"""The filter's text in the hands of Spark's own parser: names and values stay names and values."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import lakebraid as lb
from lakebraid.model.predicate.parse import And, Compare, In, Not, Or, Predicate, StartsWith, bind, to_text
from lakebraid.spark.start.session import session
from tests.hostile.attack import Target, refusal
from tests.hostile.test_arguments import EVIL
from tests.hostile.test_table_schema import commit_with, record
from tests.kit.tally import TALLY

pytestmark = [pytest.mark.hostile, pytest.mark.spark, pytest.mark.slow]


@pytest.fixture(scope="module")
def spark() -> SparkSession:
    return session("lakebraid tests", master="local[2]", config={"spark.sql.shuffle.partitions": "4"})


def _saying(column: str, value: str) -> list[Predicate]:
    """Filters that are true of exactly this value."""
    return [
        Compare(column, "=", value),
        In(column, (value, "nothing")),
        Not(Or((Compare(column, "!=", value), Compare("id", "<", 0)))),
        And((StartsWith(column, value), Compare(column, "=", value))),
    ]


@pytest.mark.parametrize("name", [name for name in EVIL if "$" not in name])
def test_no_name_and_no_value_can_say_more_than_they_are(spark: SparkSession, name: str) -> None:
    """Every row holds its own value; a filter that was broken out of would keep others, or none, or fail."""
    frame = spark.createDataFrame([(value, number) for number, value in enumerate(EVIL)], ["text", "id"])
    frame = frame.withColumnRenamed("text", name)
    schema = pa.schema([pa.field(name, pa.string()), pa.field("id", pa.int64())])
    column = "`" + name.replace("`", "``") + "`"
    cases = [(value, predicate) for value in EVIL for predicate in _saying(column, value)]
    texts = [to_text(bind(predicate, schema)) for _, predicate in cases]
    TALLY.tried["Spark text"] += len(texts)
    rows = frame.selectExpr(*[f"({text}) AS c{number}" for number, text in enumerate(texts)]).collect()
    for held, row in zip(EVIL, rows, strict=True):
        assert list(row) == [value == held for value, _ in cases], (name, held)


def test_spark_gives_the_rows_of_columns_whose_names_it_would_rewrite(
    spark: SparkSession, cow: Target, tmp_path: Path
) -> None:
    names = ["id", "ID", "${x}", "${spark.app.name}"]
    commit_with(cow, record([{"name": name, "type": ["null", "string"]} for name in names]))
    table = lb.Table.open(cow.saved(tmp_path))
    assert refusal("Spark text", lambda: table.to_arrow(where="`${x}` is null")) is None
    found = table.to_spark(where="`${x}` is null", spark=spark)
    assert found.columns == names
    assert found.count() == table.count()
