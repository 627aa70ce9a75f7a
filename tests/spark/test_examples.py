# SPDX-License-Identifier: Apache-2.0
"""The examples run, and show what they say."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from examples.backfill import backfill
from examples.gdpr_delete import forget
from examples.streaming_join import COUNT, join

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_three_streams_that_write_their_own_columns_make_the_batch_join(spark: SparkSession, tmp_path: Path) -> None:
    joined, expected = (frame.collect() for frame in join(spark, tmp_path))
    assert joined == expected
    assert len(joined) == COUNT
    assert {row["carrier"] for row in joined} > {None}


def test_a_person_who_is_forgotten_beside_a_stream_does_not_come_back(tmp_path: Path) -> None:
    assert forget(tmp_path) == {
        "deleted": 5,
        "done twice": False,
        "rows of eve": 0,
        "rows of others": 11,
        "files removed": 16,
        "can be looked back": False,
    }


def test_a_backfill_that_is_started_again_beside_a_stream_does_nothing_twice(tmp_path: Path) -> None:
    seen = backfill(tmp_path)
    assert (seen["months before"], seen["months after"]) == (7, 5)
    assert seen["writers"] == {"backfill": 11, "live": 5}
    assert seen["as expected"]
