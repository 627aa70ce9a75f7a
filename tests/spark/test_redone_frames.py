# SPDX-License-Identifier: Apache-2.0
"""A data frame whose write was refused is not evaluated again, as long as its rows are still anywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyspark.sql.functions as F  # noqa: N812
import pytest
from pyspark.sql import DataFrame, SparkSession

import lakebraid as lb
from lakebraid.writing.transaction import Transaction

pytestmark = pytest.mark.spark

DDL = "id bigint, ts bigint, n int"
KINDS = {
    "merge-on-read": {"buckets": 2},
    "copy-on-write": {"buckets": 2, "table_type": "cow"},
    "simple index": {"index": "simple"},
}


class Counted:
    """Rows that Spark cannot know without computing them, and how many of them it has computed so far."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        folder.mkdir()
        self._folder, path = folder, str(folder)

        def count(key: int) -> int:
            import uuid
            from pathlib import Path

            (Path(path) / f"{key}-{uuid.uuid4()}").touch()
            return key

        number = F.udf(count, "int")
        self.frame: DataFrame = spark.range(0, 6, 1, 2).select(
            "id", F.lit(2).cast("bigint").alias("ts"), number("id").alias("n")
        )

    @property
    def computed(self) -> int:
        return len(list(self._folder.iterdir()))


def refused_once(monkeypatch: pytest.MonkeyPatch, rival: Any) -> None:
    """Before the first write is published, a later one of the same rows is."""
    publish = Transaction._publish

    def after_the_rival(self: Transaction) -> str:
        monkeypatch.setattr(Transaction, "_publish", publish)
        rival()
        return publish(self)

    monkeypatch.setattr(Transaction, "_publish", after_the_rival)


@pytest.mark.parametrize("arguments", [*KINDS.values()], ids=[*KINDS])
def test_a_refused_data_frame_is_evaluated_once(
    arguments: dict[str, Any], tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = lb.Table.create(tmp_path / "t", DDL, record_keys="id", ordering_fields="ts", concurrency="occ", **arguments)
    table.upsert([{"id": k, "ts": 1, "n": -k} for k in range(8)])
    counted = Counted(spark, tmp_path / "computed")
    refused_once(monkeypatch, lambda: lb.Table.open(tmp_path / "t").upsert([{"id": 5, "ts": 2, "n": 500}]))
    done = table.upsert(counted.frame)
    assert done.attempts == 2
    assert counted.computed == 6
    found = {r["id"]: r["n"] for r in table.to_arrow().to_pylist()}
    assert found == {k: k if k < 6 else -k for k in range(8)}
    assert not spark.sparkContext._jsc.sc().getPersistentRDDs().size()


def test_a_frame_is_evaluated_anew_where_the_table_has_other_columns_now(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = lb.Table.create(
        tmp_path / "t", DDL, record_keys="id", ordering_fields="ts", concurrency="occ", buckets=2, table_type="cow"
    )
    table.upsert([{"id": k, "ts": 1, "n": -k} for k in range(8)])
    counted = Counted(spark, tmp_path / "computed")

    def grow() -> None:
        other = lb.Table.open(tmp_path / "t")
        other.alter().add("note", "string").commit()
        other.upsert([{"id": 5, "ts": 2, "n": 500, "note": "x"}])

    refused_once(monkeypatch, grow)
    assert table.upsert(counted.frame).attempts == 2
    assert counted.computed == 12
    assert {r["id"]: r["note"] for r in table.to_arrow().to_pylist()} == dict.fromkeys(range(8))
    assert table.to_arrow(where="id = 5")["n"].to_pylist() == [5]
