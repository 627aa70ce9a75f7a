# SPDX-License-Identifier: Apache-2.0
"""What is done where a PySpark lacks something, as far as it can be seen without that PySpark; tests/versions has the real ones."""

from __future__ import annotations

import importlib.util

import pyarrow as pa
import pyspark
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import datasource
from pyspark.sql.pandas import types as arrow_types
from pyspark.sql.types import ArrayType, IntegerType, StructField, StructType

import lakebraid as lb
from lakebraid.spark import versions

pytestmark = [pytest.mark.unit, pytest.mark.slow]  # importing pyspark takes a second

HASHES = {0: 933211791, 1: -559580957, 2: 1765031574, 3: -1823081949, 4: -397064898}
"""Spark's own: `SELECT hash(0), hash(1), …`."""


@pytest.mark.parametrize("count", [1, 2, 3, 7, 200, 8999])
def test_the_integer_of_a_partition_is_the_first_that_sparks_hash_puts_there(count: int) -> None:
    found = versions.integers_for(count)
    assert len({*found}) == count
    for number, code in HASHES.items():
        assert found[code % count] <= number
    assert found[HASHES[0] % count] == 0


def test_two_fields_of_one_name_are_refused_where_spark_does_not_look(monkeypatch: pytest.MonkeyPatch) -> None:
    doubled = pa.struct([("a", pa.int32()), ("a", pa.int32())])
    monkeypatch.setattr(arrow_types, "to_arrow_schema", lambda schema: pa.schema([("v", pa.list_(doubled))]))
    inner = StructType([StructField("a", IntegerType()), StructField("a", IntegerType())])
    with pytest.raises(PySparkException, match="have one name"):
        versions.arrow_schema(StructType([StructField("v", ArrayType(inner))]))


def test_a_spark_without_formats_in_python_is_told_what_to_use_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec
    hidden = ("pyspark.sql.datasource", "pyspark.sql.streaming.datasource")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name in hidden else real(name))
    with pytest.raises(lb.EnvironmentProblem, match=r"lakebraid\.write\(df, path, mode=…, \*\*options\)"):
        versions.check_sources()
    assert not versions.limits_streams()


def test_a_spark_that_gives_streams_row_by_row_is_told_what_to_use_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    versions.check_stream_sinks()
    monkeypatch.delattr(datasource, "DataSourceStreamArrowWriter")
    with pytest.raises(lb.EnvironmentProblem, match=r"table\.stream\(df, writer=…\)"):
        versions.check_stream_sinks()


@pytest.mark.parametrize(
    ("version", "javas"),
    [
        ("3.5.1+amzn.0", (8, 11, 17)),
        ("4.0.2", (17, 21)),
        ("4.1.1", (17, 21)),
        ("4.2.0.dev1", (17, 21, 25)),
        ("4.10", (17, 21, 25)),
    ],
)
def test_each_spark_gets_a_java_that_its_documentation_names(
    monkeypatch: pytest.MonkeyPatch, version: str, javas: tuple[int, ...]
) -> None:
    monkeypatch.setattr(pyspark, "__version__", version)
    versions.check_version()
    assert versions.javas() == javas
