# SPDX-License-Identifier: Apache-2.0
"""update, delete where and merge: the rows of one moment in, the right rows out, and never a lost change."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pyspark.sql.functions as F  # noqa: N812
import pytest
from pyspark.sql import SparkSession, Window

import lakebraid as lb
from lakebraid.errors import InvalidArgument, WriteConflict
from lakebraid.reading.snapshot import Snapshot
from lakebraid.spark.plan_facts import is_row_by_row
from lakebraid.writing.retry import Part, Redoing
from lakebraid.writing.transaction import Transaction

pytestmark = pytest.mark.spark

DDL = "id bigint, ts bigint, town string, n int"
ROWS = [{"id": k, "ts": 1, "town": "here" if k % 2 else "there", "n": k} for k in range(6)]


@pytest.fixture(params=["nbcc", "occ"])
def table(request: pytest.FixtureRequest, tmp_path: Path, spark: SparkSession) -> lb.Table:
    made = lb.Table.create(
        tmp_path / "t", DDL, record_keys="id", ordering_fields="ts", buckets=2, concurrency=request.param
    )
    made.upsert(ROWS)
    return made


def by_key(table: lb.Table, column: str = "n") -> dict[int, Any]:
    return {row["id"]: row[column] for row in table.to_arrow().to_pylist()}


def test_update_changes_the_matching_rows_and_sees_them_as_they_were(table: lb.Table) -> None:
    table.update({"n": "n * 10 + ts", "ts": "ts + n"}, where="town = 'here'")
    assert by_key(table) == {0: 0, 1: 11, 2: 2, 3: 31, 4: 4, 5: 51}
    assert by_key(table, "ts") == {0: 1, 1: 2, 2: 1, 3: 4, 4: 1, 5: 6}
    table.update({"town": F.upper("town"), "n": 7})
    assert set(by_key(table).values()) == {7}
    assert set(by_key(table, "town").values()) == {"HERE", "THERE"}


def test_a_condition_that_only_spark_knows_is_spark_s(table: lb.Table) -> None:
    table.update({"n": 0}, where="id % 3 = 0 and length(town) = 4")
    assert by_key(table) == {0: 0, 1: 1, 2: 2, 3: 0, 4: 4, 5: 5}
    table.delete(where="id % 2 = 0")
    assert sorted(by_key(table)) == [1, 3, 5]


def test_merge_updates_deletes_and_inserts_in_one_commit(table: lb.Table, spark: SparkSession) -> None:
    source = spark.createDataFrame([(1, 2, 100), (2, 2, 0), (9, 2, 900)], "id bigint, ts bigint, n int")
    before = len(table.timeline())
    result = table.merge(source, matched_delete="s.n = 0")
    assert by_key(table) == {0: 0, 1: 100, 3: 3, 4: 4, 5: 5, 9: 900}
    assert by_key(table, "town")[1] == "here", "columns that the source lacks stay"
    assert by_key(table, "town")[9] is None
    assert len(table.timeline()) == before + 1
    assert (result.rows_written, result.rows_deleted) == (2, 1)


def test_merge_by_keys_meets_rows_whose_partition_is_null(tmp_path: Path, spark: SparkSession) -> None:
    table = lb.Table.create(tmp_path / "t", DDL, record_keys="id", partition_by="town", ordering_fields="ts", buckets=1)
    table.upsert([{"id": 1, "ts": 1, "town": None, "n": 1}, {"id": 2, "ts": 1, "town": None, "n": 2}])
    source = spark.createDataFrame([(1, 2, None), (2, 2, None)], "id bigint, ts bigint, town string")
    table.merge(source, matched_delete="s.id = 2")
    assert by_key(table) == {1: 1}


def test_merge_by_a_condition_with_given_values(table: lb.Table, spark: SparkSession) -> None:
    source = spark.createDataFrame([("here", 5), ("nowhere", 6)], "place string, more int")
    table.merge(
        source, on="t.town = s.place", matched_update={"n": "t.n + s.more"},
        not_matched_insert={"id": "-1", "ts": "1", "town": "s.place"},
    )  # fmt: skip
    assert by_key(table) == {-1: None, 0: 0, 1: 6, 2: 2, 3: 8, 4: 4, 5: 10}


def test_a_merge_by_something_else_than_keys_updates_the_rows_that_it_met_and_no_others(
    table: lb.Table, spark: SparkSession
) -> None:
    """The source's column of the name of the key made it write another row, and leave the one that it met as it was."""
    source = spark.createDataFrame([(5, 0, 2, 50), (77, 2, 2, 70)], "id bigint, meets bigint, ts bigint, n int")
    table.merge(source, on="t.id = s.meets", not_matched_insert=None)
    assert by_key(table) == {0: 50, 1: 1, 2: 70, 3: 3, 4: 4, 5: 5}


def test_a_merge_by_the_key_alone_leaves_rows_in_their_partitions(tmp_path: Path, spark: SparkSession) -> None:
    """A second row of the key came into the source's partition."""
    table = lb.Table.create(tmp_path / "t", DDL, record_keys="id", partition_by="town", ordering_fields="ts", buckets=1)
    table.upsert(ROWS[:2])
    table.merge([{"id": 1, "ts": 2, "town": "there", "n": 10}], on="id")
    found = table.to_arrow().to_pylist()
    assert sorted((row["id"], row["town"], row["n"]) for row in found) == [(0, "there", 0), (1, "here", 10)]


def test_merge_takes_rows_of_any_kind(table: lb.Table) -> None:
    table.merge([{"id": 1, "ts": 2, "n": 50}], not_matched_insert=None)
    assert by_key(table)[1] == 50


def test_merge_of_rows_keeps_times_without_a_zone_as_they_are(tmp_path: Path, spark: SparkSession) -> None:
    """They became times of the session's zone on their way through Spark, and were refused."""
    table = lb.Table.create(tmp_path / "t", "id bigint, at timestamp_ntz", record_keys="id", buckets=1)
    table.upsert([{"id": 1, "at": datetime(2026, 1, 1, 12)}])
    table.merge([{"id": 1, "at": datetime(2026, 1, 2, 12)}, {"id": 2, "at": datetime(2026, 1, 3, 12)}])
    assert by_key(table, "at") == {1: datetime(2026, 1, 2, 12), 2: datetime(2026, 1, 3, 12)}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda t: t.update({"id": 1}), "'id' is a key"),
        (lambda t: t.update({"nope": 1}), "no column 'nope'"),
        (lambda t: t.update({}), "No column is given"),
        (lambda t: t.delete(), "either keys or `where`"),
        (lambda t: t.merge([{"key": 1}]), "no column 'id' to be joined by"),
        (lambda t: t.merge([{"id": 1, "ts": 2}, {"id": 1, "ts": 3}]), "meets 2 rows of the source"),
    ],
    ids=["key", "unknown", "nothing", "neither", "no key", "twice"],
)
def test_what_makes_no_sense_is_refused_and_changes_nothing(table: lb.Table, change: Any, says: str) -> None:
    before = table.to_arrow().to_pylist()
    with pytest.raises(InvalidArgument, match=says):
        change(table)
    assert table.to_arrow().to_pylist() == before
    assert not [entry for entry in table.timeline() if not entry.instant.is_completed]


def test_a_change_that_another_writer_got_ahead_of_is_done_again(
    table: lb.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both add one to the same counter: neither addition is lost."""
    commit = Transaction.commit
    rivals = iter([1, 2])

    def meddled(self: Transaction) -> Any:
        if self.begun.rivalry.matters and next(rivals, None) is not None:
            monkeypatch.setattr(Transaction, "commit", commit)
            table.update({"n": "n + 1"}, where="id = 1")
            monkeypatch.setattr(Transaction, "commit", meddled)
        return commit(self)

    monkeypatch.setattr(Transaction, "commit", meddled)
    result = table.update({"n": "n + 1"}, where="id = 1")
    assert by_key(table)[1] == 4
    assert result.attempts == 3
    monkeypatch.setattr(Transaction, "commit", meddled)


def test_without_retries_the_conflict_is_told(table: lb.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = Transaction.commit

    def meddled(self: Transaction) -> Any:
        monkeypatch.setattr(Transaction, "commit", commit)
        table.upsert([{"id": 1, "ts": 1, "town": "here", "n": 77}])
        return commit(self)

    monkeypatch.setattr(Transaction, "commit", meddled)
    with pytest.raises(WriteConflict):
        table.update({"n": "n + 1"}, where="id = 1", retries=0)
    assert by_key(table)[1] == 77


def test_where_nobody_waits_only_a_change_of_the_same_rows_is_in_the_way(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stream into the same bucket does not hold up a delete by condition."""
    table = lb.Table.create(tmp_path / "t", DDL, record_keys="id", ordering_fields="ts", buckets=1)
    table.upsert(ROWS)
    commit = Transaction.commit

    def meddled(self: Transaction) -> Any:
        monkeypatch.setattr(Transaction, "commit", commit)
        table.upsert([{"id": 100, "ts": 1, "town": "here", "n": 1}])
        return commit(self)

    monkeypatch.setattr(Transaction, "commit", meddled)
    assert table.delete(where="town = 'here'").attempts == 1
    assert sorted(by_key(table)) == [0, 2, 4, 100]


NEW = [{"id": k, "ts": 3, "town": "new", "n": 1000 + k} for k in (1, 2, 30, 31, 32, 33)]
CHANGES: dict[str, Any] = {
    "update": lambda t: t.update({"n": "n + 10", "town": F.upper("town")}, where="id % 2 = 1"),
    "delete": lambda t: t.delete(where="n < 3"),
    "merge": lambda t: t.merge(NEW, matched_delete="t.n = 2"),
    "merge of a data frame": lambda t: t.merge(lb.session().createDataFrame(NEW, DDL), matched_delete="t.n = 2"),
}


@pytest.mark.parametrize(("name", "again"), [("update", 1), ("delete", 1), ("merge", 1), ("merge of a data frame", 8)])
def test_a_refused_change_reads_again_what_was_touched_and_no_more(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, name: str, again: int
) -> None:
    """Another writer gets ahead in one of eight buckets; the outcome is as if the change had come after it."""
    made: dict[str, Any] = {"record_keys": "id", "ordering_fields": "ts", "buckets": 8, "concurrency": "occ"}
    tables = [lb.Table.create(tmp_path / at, DDL, **made) for at in ("a", "b")]
    rows, rival = [{**ROWS[k % 6], "id": k, "n": k} for k in range(24)], [{"id": 1, "ts": 2, "town": "rival", "n": 5}]
    for table in tables:
        table.upsert(rows)
    change, read = CHANGES[name], []
    part, commit = Redoing.part, Transaction.commit

    def watched(self: Redoing, snapshot: Snapshot) -> Part:
        chosen = part(self, snapshot)
        read.append(len(chosen.snapshot.slices))
        return chosen

    def meddled(self: Transaction) -> Any:
        monkeypatch.setattr(Transaction, "commit", commit)
        tables[0].upsert(rival)
        return commit(self)

    tables[1].upsert(rival)
    change(tables[1])
    monkeypatch.setattr(Redoing, "part", watched)
    monkeypatch.setattr(Transaction, "commit", meddled)
    assert change(tables[0]).attempts == 2
    assert read == [8, again]
    first, second = (sorted(table.to_arrow().to_pylist(), key=lambda r: r["id"]) for table in tables)
    assert first == second


def test_rows_that_depend_on_others_are_told_from_those_that_do_not(table: lb.Table) -> None:
    frame = table.to_spark()
    assert is_row_by_row(frame.where("id % 2 = 1").select("id", F.upper("town"), F.expr("n + 1")))
    assert is_row_by_row(frame.unionByName(frame.where("n > 1")))
    others = [
        frame.select("id", F.sum("n").over(Window.partitionBy("town"))),
        frame.select("id", F.expr("n + (SELECT count(*) FROM range(3))")),
        frame.where("id IN (SELECT id FROM range(3))"),
        frame.groupBy("id").agg(F.max("n")),
        frame.dropDuplicates(["town"]),
        frame.join(frame.alias("o"), "id"),
    ]
    assert not any(map(is_row_by_row, others))
    assert is_row_by_row(others[-1], joined=True)
