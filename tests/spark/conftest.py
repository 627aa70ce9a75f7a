# SPDX-License-Identifier: Apache-2.0
"""One local Spark for all tests in this folder: starting it costs more than most of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from lakebraid.spark.start.session import session
from tests.spark.roads import ROADS, take_road


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    spark = session("lakebraid tests", master="local[2]", config={"spark.sql.shuffle.partitions": "4"})
    yield spark
    spark.stop()


@pytest.fixture(params=ROADS)
def road(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    take_road(request.param, monkeypatch)
    return str(request.param)
