# SPDX-License-Identifier: Apache-2.0
"""Tables in an object store do all that tables on a disk do, by conditional creates alone."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from pyspark.sql import SparkSession

import lakebraid as lb
from lakebraid.errors import RolledBack, UnsupportedTable, WriteConflict
from lakebraid.spark import read as spark_read
from lakebraid.spark.start.session import active_session, session
from lakebraid.storage import ObjectStorage
from lakebraid.table.loading import PROPERTIES
from lakebraid.txn.liveness.heartbeat import beat
from tests.objects.conftest import BUCKET, client, options

pytestmark = [pytest.mark.objects, pytest.mark.slow]

COLUMNS = "id string, part string, ts bigint, v string"
_folders = itertools.count()


def row(key: str, ts: int = 1, v: str | None = None, part: str = "p") -> dict[str, Any]:
    return {"id": key, "part": part, "ts": ts, "v": key if v is None else v}


class Bucket:
    """A table in a bucket, and as many handles on it as there are processes in a story."""

    def __init__(self, endpoint: str, **arguments: Any) -> None:
        self.url, self.options = f"s3://{BUCKET}/tables/{next(_folders)} %20ü", options(endpoint)
        given: dict[str, Any] = {"record_keys": "id", "ordering_fields": "ts", "buckets": 2, **arguments}
        self.table = lb.Table.create(self.url, COLUMNS, storage_options=self.options, **given)
        self.client, self.prefix = client(endpoint), self.url.removeprefix(f"s3://{BUCKET}/")

    def other(self) -> lb.Table:
        return lb.Table.open(self.url, self.options)

    def values(self, **how: Any) -> dict[str, str]:
        return {found["id"]: found["v"] for found in self.other().to_arrow(**how).sort_by("id").to_pylist()}

    def names(self, part: str = "") -> list[str]:
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=f"{self.prefix}/")
        return [item["Key"] for page in pages for item in page.get("Contents", ()) if part in item["Key"]]

    def check_sound(self) -> None:
        assert [str(finding) for finding in self.other().audit(deep=True)] == []


def test_who_reads_a_table_on_s3_again_fetches_only_new_files(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fetched: list[str] = []
    reading = ObjectStorage.read_listed

    def noted(self: ObjectStorage, name: str, size_max: int) -> tuple[bytes, str]:
        fetched.append(name)
        return reading(self, name, size_max)

    monkeypatch.setattr(ObjectStorage, "read_listed", noted)
    bucket = Bucket(endpoint, buckets=1)
    bucket.table.bulk_insert([row("a")])
    bucket.table.upsert([row("b")])
    counts = []
    for ts in (2, 3):
        counts.append((len(bucket.values()), len(fetched)))
        fetched.clear()
        counts.append((len(bucket.values()), len(fetched)))
        bucket.table.upsert([row("c", ts)])
    assert counts == [(2, 2), (2, 0), (3, 1), (3, 0)]


def test_writers_on_s3_upsert_delete_and_change_single_columns_without_waiting_for_each_other(endpoint: str) -> None:
    bucket = Bucket(endpoint)
    first, second = bucket.table.begin("upsert"), bucket.other().begin("upsert")
    first.write([row("a", 1, "first"), row("b", 5, "first")])
    second.write([row("a", 2, "second"), row("b", 2, "second"), row("c", 2, "second")])
    second.commit()
    early = bucket.other().snapshot().completion_time
    first.commit()
    bucket.table.upsert([{"id": "c", "ts": 3, "v": "partial"}], columns=["id", "ts", "v"])
    bucket.other().delete([{"id": "a", "ts": 3}])
    assert bucket.values() == {"b": "first", "c": "partial"}
    assert bucket.values(as_of=early) == {"a": "second", "b": "second", "c": "second"}
    changes = bucket.table.changes(after=early).to_arrow().to_pylist()
    assert {(c["id"], c["_change_type"]) for c in changes} == {("a", "delete"), ("b", "update"), ("c", "update")}
    bucket.table.compact()
    assert bucket.values(mode="read_optimized") == {"b": "first", "c": "partial"}
    bucket.check_sound()


def test_a_table_on_s3_is_adopted_written_and_set_back(endpoint: str) -> None:
    bucket = Bucket(endpoint, buckets=3, concurrency="single")
    bucket.table.insert([row(f"k{n}") for n in range(40)])
    properties = f"{bucket.prefix}/{PROPERTIES}"
    ours = ("hoodie.index", "hoodie.bucket", "hoodie.write.concurrency", "hoodie.lakebraid")
    stated = bucket.client.get_object(Bucket=BUCKET, Key=properties)["Body"].read().splitlines(keepends=True)
    silent = b"".join(line for line in stated if not line.decode().startswith(ours))
    bucket.client.put_object(Bucket=BUCKET, Key=properties, Body=silent)
    with pytest.raises(UnsupportedTable, match="lakebraid adopt"):
        bucket.other().upsert([row("k1", 2, "new")])
    assert bucket.other().adopt().lines["hoodie.bucket.index.num.buckets"] == "3"
    bucket.other().upsert([row("k1", 2, "new")])
    assert bucket.values() == {f"k{n}": f"k{n}" for n in range(40)} | {"k1": "new"}
    bucket.check_sound()
    bucket.other().adopt(undo=True)
    assert bucket.client.get_object(Bucket=BUCKET, Key=properties)["Body"].read() == silent


def test_two_writers_and_a_compactor_on_s3_lose_nothing(endpoint: str) -> None:
    bucket = Bucket(endpoint)

    def write(writer: int) -> None:
        table = bucket.other()
        for step in range(6):
            rows = [row(f"{writer}/{step}"), row("both", 10 * step + writer, f"{writer}/{step}")]
            table.upsert(rows, writer=f"w{writer}", batch=step)

    def tend(_: int) -> None:
        table = bucket.other()
        for _ in range(3):
            table.compact()

    with ThreadPoolExecutor(3) as pool:
        done = [pool.submit(write, 1), pool.submit(write, 2), pool.submit(tend, 0)]
        for future in done:
            future.result()
    expected = {f"{writer}/{step}": f"{writer}/{step}" for writer in (1, 2) for step in range(6)}
    assert bucket.values() == expected | {"both": "2/5"}
    assert bucket.other().upsert([row("both", 99, "again")], writer="w1", batch=5).is_repeated
    assert bucket.other().writers() == {"w1": 5, "w2": 5}
    assert bucket.values() == expected | {"both": "2/5"}
    bucket.check_sound()


@pytest.mark.parametrize(
    "arguments",
    [
        {"concurrency": "occ", "buckets": 1},
        {"table_type": "cow", "index": "simple"},
        {"table_type": "cow", "buckets": 1},
    ],
    ids=["optimistic", "copy on write, looked up", "copy on write, buckets"],
)
def test_the_second_of_two_rivals_on_s3_is_refused_and_leaves_nothing(endpoint: str, arguments: Any) -> None:
    bucket = Bucket(endpoint, **arguments)
    bucket.table.insert([row("a"), row("b")])
    loser, winner = bucket.table.begin("upsert"), bucket.other().begin("upsert")
    loser.write([row("a", 2, "lost")])
    loser._stage()
    winner.write([row("b", 2, "won")])
    winner.commit()
    with pytest.raises(WriteConflict, match="same file groups"):
        loser.commit()
    assert bucket.values() == {"a": "a", "b": "won"}
    assert bucket.table.status(loser.instant) == "refused"
    assert not [name for name in bucket.names(loser.instant) if name.endswith(".parquet") or ".log." in name]
    bucket.other().upsert([row("a", 3, "again"), row("c")])
    assert bucket.values() == {"a": "again", "b": "won", "c": "c"}
    bucket.check_sound()


def test_a_dead_writer_on_s3_is_rolled_back_and_a_living_one_is_not(endpoint: str) -> None:
    bucket = Bucket(endpoint)
    bucket.table.upsert([row("a")])
    dead, alive = bucket.table.begin("upsert"), bucket.other().begin("upsert")
    dead.write([row("a", 9, "dead")])
    alive.write([row("b")])
    assert bucket.names(f".heartbeat/{dead.instant}") and bucket.names(f".heartbeat/{alive.instant}")
    dead._heartbeat.stop()
    assert bucket.other().rollback().rolled_back == (), "both have shown themselves within two minutes"
    time.sleep(
        33
    )  # nobody can make an object of S3 look older; between its beat and the rollback the living has half a minute
    beat(bucket.table._storage, alive.instant)
    assert bucket.other().rollback(timeout_seconds=30).rolled_back == (dead.instant,)
    with pytest.raises(RolledBack):
        dead.commit()
    alive.commit()
    assert bucket.values() == {"a": "a", "b": "b"}
    assert not [name for name in bucket.names(dead.instant) if ".log." in name]
    bucket.check_sound()


def test_a_table_on_s3_is_cleaned_archived_and_taken_back(endpoint: str) -> None:
    bucket = Bucket(endpoint)
    for step in range(6):
        bucket.table.upsert([row("a", step, f"{step}")])
        if step % 2:
            bucket.table.compact()
        if step == 3:
            kept = bucket.table.savepoint(comment="before the rest")
    with bucket.table.snapshot() as held:
        bucket.table.upsert([row("a", 7, "7")])
        bucket.table.compact()
        assert bucket.other().clean(commits=1).held_back
        assert held.to_arrow().column("v").to_pylist() == ["5"]
    bucket.table.delete_savepoint(kept.instant)
    kept = bucket.table.savepoint()
    cleaned = bucket.other().clean(commits=1)
    assert cleaned.files and not set(cleaned.files) & {n.removeprefix(f"{bucket.prefix}/") for n in bucket.names()}
    assert bucket.other().archive(keep_min=2, keep_max=3).instants
    bucket.table.upsert([row("a", 8, "wrong"), row("b", 8, "wrong")])
    bucket.other().restore(kept.instant)
    assert bucket.values() == {"a": "7"}
    bucket.table.upsert([row("b", 9, "right")])
    assert bucket.values() == {"a": "7", "b": "right"}
    bucket.check_sound()


def test_an_overwrite_on_s3_replaces_partitions_in_one_moment(endpoint: str) -> None:
    bucket = Bucket(endpoint, partition_by="part")
    bucket.table.upsert([row("a", part="x y"), row("b", part="q%2F")])
    before = bucket.table.snapshot().completion_time
    bucket.table.insert_overwrite([row("c", part="x y")])
    assert bucket.values() == {"b": "b", "c": "c"}
    bucket.table.delete_partitions(["q%2F"])
    assert bucket.values() == {"c": "c"}
    bucket.table.insert_overwrite_table([row("d", part="new")])
    assert (bucket.values(), bucket.values(as_of=before)) == ({"d": "d"}, {"a": "a", "b": "b"})
    bucket.check_sound()


@pytest.fixture
def spark() -> Iterator[SparkSession]:
    """The session of this process, or one that ends here: others want to start their own."""
    was_there = active_session() is not None
    found = session("lakebraid tests", master="local[2]", config={"spark.sql.shuffle.partitions": "4"})
    yield found
    if not was_there:
        found.stop()


@pytest.mark.spark
def test_a_spark_without_a_jar_for_s3_reads_and_writes_tables_on_s3(endpoint: str, spark: SparkSession) -> None:
    bucket = Bucket(endpoint)
    frame = spark.range(20).repartition(2).selectExpr("string(id) AS id", "'p' AS part", "1L AS ts", "'v' AS v")
    bucket.table.bulk_insert(frame)
    assert [name for name in bucket.names() if name.endswith(".parquet")]
    assert not spark_read.can_scan(spark, bucket.table._storage), "base files go through Arrow"
    assert bucket.table.to_spark(where="id >= '5'", spark=spark).count() == 5
    bucket.table.upsert(frame.where("id < 3").selectExpr("id", "part", "2L AS ts", "'new' AS v"))
    assert bucket.table.to_spark(spark=spark).where("v = 'new'").count() == 3
    assert bucket.table.changes().to_spark(spark).count() == 20
    lb.register(spark)
    said = ", ".join(f"'lakebraid.storage.{name}', '{value}'" for name, value in options(endpoint).items())
    by_sql = spark.sql(f"SELECT id FROM lakebraid_as_of('{bucket.url}', options => map({said}))")
    assert by_sql.count() == 20
    bucket.check_sound()
