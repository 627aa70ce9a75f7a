# SPDX-License-Identifier: Apache-2.0
"""The tour of Hudi's PySpark guides runs with the format's name changed, and shows what it should."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from examples.quickstart import tour

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_a_hudi_tour_runs_with_the_name_of_the_format_changed(spark: SparkSession, tmp_path: Path) -> None:
    seen = {step: [row.asDict() for row in frame.collect()] for step, frame in tour(spark, f"{tmp_path}/trips").items()}
    assert {(row["_hoodie_record_key"], row["fare"]) for row in seen["snapshot"]} == {
        ("e96c4396", 27.7),
        ("9909a8b1", 33.9),
        ("e3cf430c", 34.15),
    }
    assert seen["updated"] == [{"uuid": "9909a8b1", "fare": 339.0}]
    assert {(row["uuid"], row["fare"]) for row in seen["as_of"]} >= {("9909a8b1", 33.9)} and len(seen["as_of"]) == 5
    assert seen["incremental"] == [{"uuid": "9909a8b1", "fare": 339.0}]
    (change,) = seen["cdc"]
    assert change["op"] == "u"
    assert (json.loads(change["before"])["fare"], json.loads(change["after"])["fare"]) == (33.9, 339.0)
    assert {row["rider"] for row in seen["deleted"]} == {"rider-A", "rider-C", "rider-D", "rider-J"}
    assert {(row["rider"], row["city"]) for row in seen["overwritten"]} == {
        ("rider-X", "san_francisco"),
        ("rider-J", "chennai"),
    }
    kinds = sorted((row["rider"], row["_change_type"]) for row in seen["changes"])
    assert kinds == [
        ("rider-A", "delete"),
        ("rider-C", "delete"),
        ("rider-D", "delete"),
        ("rider-F", "delete"),
        ("rider-X", "insert"),
    ]
