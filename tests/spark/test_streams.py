# SPDX-License-Identifier: Apache-2.0
"""Streams into a table and out of it, on a real Spark: each batch once, each change once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

import lakebraid as lb
from tests.kit.publications import published

pytestmark = [pytest.mark.spark, pytest.mark.slow]

COLUMNS = "id string, ts bigint, v string"
CHANGES = {"hoodie.datasource.query.incremental.format": "changes"}
Row = dict[str, Any]


def new_table(path: Path, **how: Any) -> lb.Table:
    arguments: dict[str, Any] = {"record_keys": "id", "ordering_fields": "ts", "buckets": 2} | how
    return lb.Table.create(path / "table", COLUMNS, **arguments)


class Inbox:
    """A folder from which a stream reads, one file in a batch."""

    def __init__(self, path: Path, spark: SparkSession) -> None:
        self.path, self._spark, self._count = path, spark, 0
        path.mkdir(parents=True)

    def put(self, *rows: Row) -> None:
        made = self.path / f".{self._count:03}.tmp"
        made.write_text("\n".join(json.dumps(row) for row in rows))
        os.utime(made, (1_700_000_000 + self._count,) * 2)  # Spark takes them in the order of their times
        made.rename(self.path / f"{self._count:03}.json")
        self._count += 1

    @property
    def frame(self) -> DataFrame:
        stream = self._spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1)
        return stream.json(str(self.path))


def row(key: str, ts: int, v: str = "v") -> Row:
    return {"id": key, "ts": ts, "v": v}


def rows_of(table: lb.Table) -> dict[str, tuple[int, str]]:
    return {r["id"]: (r["ts"], r["v"]) for r in table.to_arrow().to_pylist()}


class Reader:
    """A stream of changes that is started again and again on one checkpoint, until nothing is left."""

    def __init__(self, spark: SparkSession, table: lb.Table, checkpoint: Path, **options: Any) -> None:
        self._spark, self._table, self._checkpoint, self._options = spark, table, checkpoint, options

    def batches(self, columns: Iterable[str] = ("id", "ts")) -> list[list[tuple[Any, ...]]]:
        """The batches that came with this start, without empty ones."""
        found: list[list[tuple[Any, ...]]] = []
        frame = self._spark.readStream.format("lakebraid").options(**self._options).load(self._table.path)

        def take(batch: DataFrame, _: int) -> None:
            found.append(sorted(tuple(r) for r in batch.select(*columns).collect()))

        query = frame.writeStream.foreachBatch(take).option("checkpointLocation", str(self._checkpoint))
        query.trigger(availableNow=True).start().awaitTermination()
        return [batch for batch in found if batch]


def test_several_streams_into_one_table_are_each_written_once_and_read_once_over_restarts(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = new_table(tmp_path)
    inboxes = {name: Inbox(tmp_path / name, spark) for name in ("orders", "payments / eu")}
    reader = Reader(spark, table, tmp_path / "mirror", **CHANGES)
    late = table.begin()
    late.write([row("late", 1)])
    for turn in range(2):
        for name, inbox in inboxes.items():
            inbox.put(row(f"{name} {turn}", 1), row("shared", turn, name))
            inbox.put(row(f"{name} {turn} more", 1))
        queries = [table.stream(i.frame, writer=name, trigger="available now") for name, i in inboxes.items()]
        for query in queries:
            query.awaitTermination()
        seen = [change for batch in reader.batches(("_change_type", "id")) for change in batch]
        if turn == 0:
            assert Counter(seen) == Counter(("insert", key) for key in rows_of(table))
            late.commit()
        else:
            inserted = [("insert", f"{name} 1{more}") for name in inboxes for more in ("", " more")]
            assert Counter(seen) == Counter([*inserted, ("update", "shared"), ("insert", "late")])
    assert table.writers() == dict.fromkeys(inboxes, 3)
    assert set(published(table).values()) == {1}
    assert len(published(table)) == 8
    assert len(rows_of(table)) == 10


def test_a_driver_that_is_killed_between_commit_and_checkpoint_leaves_its_batch_in_the_table_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = new_table(tmp_path, ordering_fields=None)
    inbox = Inbox(tmp_path / "in", spark)
    for batch in range(3):
        inbox.put(row("a", batch, f"batch {batch}"))
    driver = [sys.executable, "-m", "tests.spark.stream_driver", table.path, str(inbox.path), "1"]
    ended = subprocess.run(driver, cwd=Path(__file__).parents[2], capture_output=True, check=False)
    assert ended.returncode == -9, ended.stderr.decode()[-2000:]
    assert table.writers() == {"orders": 1}
    table.upsert([row("a", 0, "another writer's")])
    table.compact()
    table.archive(keep_min=1, keep_max=2)
    table.clean(commits=1)
    assert rows_of(table) == {"a": (0, "another writer's")}
    query = table.stream(inbox.frame, writer="orders", trigger="available now")
    query.awaitTermination()
    assert query.recentProgress[0]["batchId"] == 1, "Spark repeats the batch whose end it does not know"
    assert rows_of(table) == {"a": (2, "batch 2")}
    assert table.writers() == {"orders": 2}
    assert published(table) == {("orders", batch): 1 for batch in range(3)}
    how: dict[str, Any] = {"writer": "orders", "checkpoint": str(tmp_path / "another"), "trigger": {"once": True}}
    query = table.stream(inbox.frame, **how)
    with pytest.raises(StreamingQueryException, match="another stream"):
        query.awaitTermination()


def test_the_format_as_a_sink_writes_each_batch_once_and_creates_its_table(spark: SparkSession, tmp_path: Path) -> None:
    inbox, path = Inbox(tmp_path / "in", spark), str(tmp_path / "made")
    options = {
        "hoodie.table.name": "made",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.streaming.checkpoint.identifier": "orders",
        "checkpointLocation": str(tmp_path / "checkpoint"),
    }

    def run() -> None:
        stream = inbox.frame.writeStream.format("lakebraid").options(**options).trigger(availableNow=True)
        stream.start(path).awaitTermination()

    inbox.put(row("a", 1))
    inbox.put(*(row(f"k{n}", n, "x" * 1000) for n in range(6000)))
    run()
    table = lb.Table.open(path)
    assert table.writers() == {"orders": 1}
    assert table.count() == 6001
    left = [info.name for info in table._storage.list(".hoodie/.lakebraid/streams")]
    assert not left, "rows that lay there for a moment are gone"
    # The last batch comes again, as after a kill before its end was noted.
    last = max((tmp_path / "checkpoint/commits").glob("[0-9]*"))
    last.unlink()
    (last.parent / f".{last.name}.crc").unlink(missing_ok=True)
    run()
    assert published(table) == {("orders", 0): 1, ("orders", 1): 1}
