# SPDX-License-Identifier: Apache-2.0
"""The stream of changes and the stream into a table, called as Spark calls them, without a JVM."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import StructType

import lakebraid as lb
from lakebraid import limits
from lakebraid.errors import InvalidArgument
from lakebraid.source.planning import look
from lakebraid.source.stream_limits import LimitedStreamReader
from lakebraid.source.stream_sink import StreamSink, TaskRows, begin_stream
from lakebraid.source.stream_source import StreamReader
from lakebraid.spark.versions import spark_schema
from lakebraid.table.loading import load_timeline
from tests.kit.present import present
from tests.kit.publications import published

pytestmark = [pytest.mark.unit, pytest.mark.slow]

SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("v", pa.string())])
CHANGES: dict[str, Any] = {"hoodie.datasource.query.incremental.format": "changes", "lakebraid.meta_columns": "false"}
Row = dict[str, Any]


@pytest.fixture
def table(tmp_path: Path) -> lb.Table:
    return new_table(tmp_path / "table")


def new_table(path: Path, **how: Any) -> lb.Table:
    given: dict[str, Any] = {"record_keys": "id", "ordering_fields": "ts", "buckets": 1, **how}
    return lb.Table.create(path, SCHEMA, **given)


def row(key: str, ts: int) -> Row:
    return {"id": key, "ts": ts, "v": "v"}


def completions(table: lb.Table) -> list[str]:
    return [present(i.completion_time) for i in load_timeline(table._table).writes]


class Query:
    """What Spark does: asks for an offset, plans, reads in tasks, commits. Its checkpoint is its position."""

    def __init__(self, table: lb.Table, position: dict[str, str] | None = None, **options: Any) -> None:
        self._options = {"path": table.path, **{name: str(value) for name, value in options.items()}}
        self.position = position

    def run(self) -> list[list[tuple[Any, ...]]]:
        """The batches until nothing is left, as `availableNow` makes them; empty ones left out."""
        _, schema = look(self._options, None)
        reader = LimitedStreamReader(self._options, schema)
        if self.position is None:
            self.position = reader.initialOffset()
        reader.prepareForTriggerAvailableNow()
        found: list[list[tuple[Any, ...]]] = []
        while (end := reader.latestOffset(self.position, reader.getDefaultReadLimit())) != self.position:
            found.append(self._read(reader, schema, self.position, end))
            reader.commit(end)
            self.position = end
        return [batch for batch in found if batch]

    def _read(self, reader: StreamReader, schema: StructType, start: Any, end: Any) -> list[tuple[Any, ...]]:
        shown = [n for n in schema.names if n in ("_change_type", "id", "ts")]
        rows: list[tuple[Any, ...]] = []
        for part in reader.partitions(start, end):
            task = pickle.loads(pickle.dumps(reader))
            rows += [tuple(r[n] for n in shown) for batch in task.read(part) for r in batch.to_pylist()]
        return sorted(rows)


# --- out of a table ----------------------------------------------------------------------------------------------------


def test_batches_are_as_large_as_is_said_and_hold_whole_commits(table: lb.Table) -> None:
    for n in range(4):
        table.upsert([row(f"k{n}{m}", n) for m in range(n + 1)])
    table.compact()
    every = [[(f"k{n}{m}", n) for m in range(n + 1)] for n in range(4)]
    whole = [change for batch in every for change in batch]
    assert Query(table).run() == [whole]
    assert Query(table, maxCommitsPerTrigger=1).run() == every
    assert Query(table, maxCommitsPerTrigger=3).run() == [every[0] + every[1], every[2] + every[3]], "and the creation"
    assert Query(table, maxRowsPerTrigger=3).run() == [every[0] + every[1], every[2], every[3]]
    assert Query(table, maxRowsPerTrigger=1).run() == every, "one commit at least"
    assert Query(table, maxFilesPerTrigger=2).run() == [every[0], every[1] + every[2], every[3]], "the first has two"
    reader = LimitedStreamReader({"path": table.path, "maxCommitsPerTrigger": "1"}, look({"path": table.path}, None)[1])
    assert reader.latestOffset(reader.initialOffset(), ReadAllAvailable())["completion_time"] == completions(table)[-1]


def test_a_spark_without_bounds_takes_whatever_there_is_and_none_are_promised(table: lb.Table) -> None:
    for n in range(3):
        table.upsert([row(f"k{n}", n)])
    schema = look({"path": table.path}, None)[1]
    reader = StreamReader({"path": table.path}, schema)
    begin, end = reader.initialOffset(), reader.latestOffset()
    assert end["completion_time"] == completions(table)[-1]
    parts = reader.partitions(begin, end)
    found = [
        r["id"] for part in parts for batch in pickle.loads(pickle.dumps(reader)).read(part) for r in batch.to_pylist()
    ]
    assert sorted(found) == ["k0", "k1", "k2"]
    assert reader.partitions(end, reader.latestOffset()) == []
    to_come = StreamReader({"path": table.path, "startingFrom": "20990101000000000"}, schema)
    assert to_come.latestOffset() == to_come.initialOffset(), "a stream never goes back"
    with pytest.raises(InvalidArgument, match=r"bounds of a stream came with 4\.2"):
        StreamReader({"path": table.path, "maxCommitsPerTrigger": "1"}, schema).latestOffset()


def test_a_stream_begins_where_it_is_told_to(table: lb.Table) -> None:
    for n in range(3):
        table.upsert([row(f"k{n}", n)])
    assert Query(table, startingFrom="latest").run() == []
    assert Query(table, startingFrom="LATEST").run() == []
    assert Query(table, startingFrom=completions(table)[1]).run() == [[("k1", 1), ("k2", 2)]]
    assert (
        Query(table, **dict[str, Any]({"hoodie.datasource.streaming.startOffset": "earliest"})).run()
        == Query(table).run()
    )
    latest = Query(table, startingFrom="latest")
    latest.run()
    table.upsert([row("new", 9)])
    assert latest.run() == [[("new", 9)]]
    assert latest.run() == []
    with pytest.raises(lb.InvalidArgument, match="whole number"):
        Query(table, maxRowsPerTrigger=0).run()
    with pytest.raises(lb.InvalidArgument, match="maxRowsPerTrigger"):
        Query(table, maxRowPerTrigger=1).run()


def test_a_stream_that_is_told_to_take_what_is_there_takes_nothing_newer(table: lb.Table) -> None:
    table.upsert([row("a", 1)])
    reader = LimitedStreamReader({"path": table.path}, look({"path": table.path}, None)[1])
    reader.prepareForTriggerAvailableNow()
    table.upsert([row("b", 1)])
    end = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    assert end["completion_time"] == completions(table)[-2]


def test_a_late_finisher_is_delivered_once_whatever_services_do_in_between(table: lb.Table) -> None:
    query = Query(table, **CHANGES, consumer="mirror")
    late, last = table.begin(), table.begin()
    late.write([row("late", 1)])
    last.write([row("last", 1)])
    for n in range(6):
        table.upsert([row("a", n)])
    assert query.run() == [[("a", 5, "insert")]]
    table.compact()
    late.commit()
    table.clean(commits=1)
    assert query.run() == [[("late", 1, "insert")]]
    for n in range(6, 12):
        table.upsert([row("a", n)])
    last.commit()
    table.compact()
    table.clean(commits=1)
    table.archive(keep_min=2, keep_max=3)
    assert query.run() == [[("a", 11, "update"), ("last", 1, "insert")]]
    assert query.run() == []
    assert table.consumer("mirror").position == present(query.position)["completion_time"]


def test_a_late_finisher_that_was_archived_before_anybody_looked_is_delivered(table: lb.Table) -> None:
    query = Query(table, **CHANGES)
    late = table.begin()
    late.write([row("late", 1)])
    for n in range(6):
        table.upsert([row("a", n)])
    query.run()
    late.commit()
    table.archive(keep_min=1, keep_max=2)
    active = completions(table)
    assert late.instant not in {i.request_time for i in load_timeline(table._table)}
    assert query.position is not None
    assert query.position["completion_time"] >= active[-1], "nothing on the timeline tells of it any more"
    assert query.run() == [[("late", 1, "insert")]]
    assert query.run() == []


def test_a_position_that_was_cleaned_away_is_an_error_that_names_the_choices(table: lb.Table) -> None:
    table.upsert([row("a", 0)])
    query = Query(table)
    query.run()
    for n in range(1, 4):
        table.upsert([row("a", n)])
        table.compact()
    table.clean(commits=1)
    with pytest.raises(lb.SnapshotExpired, match=r"(?s)startingFrom=earliest.*startingFrom=latest.*consumer"):
        query.run()
    assert Query(table).run() == [[("a", 3)]]


def test_a_consumer_keeps_what_its_stream_has_not_read(table: lb.Table) -> None:
    table.upsert([row("a", 0)])
    query = Query(table, **CHANGES, consumer="mirror")
    assert query.run() == [[("a", 0, "insert")]]
    for n in range(1, 4):
        table.upsert([row("a", n), row(f"k{n}", n)])
        table.compact()
    table.delete([{"id": "k1"}])
    table.clean(commits=1)
    assert query.run() == [[("a", 3, "update"), ("k2", 2, "insert"), ("k3", 3, "insert")]]
    assert Query(table, **CHANGES, consumer="mirror").run() == [], "a new checkpoint goes on where the consumer is"


def test_a_stream_whose_position_a_restore_took_back_is_told_so(table: lb.Table) -> None:
    table.upsert([row("a", 0)])
    kept = completions(table)[-1]
    table.upsert([row("b", 1)])
    query = Query(table)
    query.run()
    table.restore(kept)
    table.upsert([row("c", 1)])
    with pytest.raises(lb.SnapshotExpired, match="restore"):
        query.run()


# --- into a table ------------------------------------------------------------------------------------------------------


def sink(path: str, options: dict[str, str] | None = None, *, overwrite: bool = False) -> StreamSink:
    schema = spark_schema(SCHEMA)
    given = {"path": path, "lakebraid.writer": "orders", **(options or {})}
    arrived: StreamSink = pickle.loads(pickle.dumps(begin_stream(given, schema, overwrite=overwrite)))
    return arrived


def task(made: StreamSink, *rows: Row) -> TaskRows:
    written = made.write(iter(pa.Table.from_pylist(list(rows), SCHEMA).to_batches()))
    arrived: TaskRows = pickle.loads(pickle.dumps(written))
    return arrived


def test_a_batch_of_the_sink_is_published_once_whoever_brings_it_again(table: lb.Table) -> None:
    first, again = sink(table.path), sink(table.path)
    messages = [task(first, row("a", 1), row("b", 1)), task(first), None, task(first, row("c", 1))]
    first.commit([*messages], 0)
    again.commit([task(again, row("a", 9))], 0)
    again.commit([task(again, row("a", 2))], 1)
    assert {r["id"]: r["ts"] for r in table.to_arrow().to_pylist()} == {"a": 2, "b": 1, "c": 1}
    assert published(table) == {("orders", 0): 1, ("orders", 1): 1}


def test_large_partitions_of_a_batch_lie_in_the_table_for_a_moment_only(
    table: lb.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "SOURCE_HANDED_BYTES", 100)
    made = sink(table.path)
    messages = [task(made, *(row(f"k{n}{m}", n) for m in range(20))) for n in range(3)]
    assert all(message.name is not None and not message.rows for message in messages)
    task(made, row("of a driver that died", 1))
    made.commit([*messages], 0)
    assert not table._storage.list(".hoodie/.lakebraid/streams"), "what the dead left behind is gone, too"
    aborted = [task(made, row("x", 1), row("y", 1))]
    assert table._storage.list(".hoodie/.lakebraid/streams")
    made.abort([*aborted], 1)
    assert not table._storage.list(".hoodie/.lakebraid/streams")
    assert table.count() == 60


def test_a_batch_without_rows_is_a_batch(table: lb.Table) -> None:
    made = sink(table.path)
    made.commit([task(made), None], 0)
    assert table.writers() == {"orders": 0}
    assert table.count() == 0


def test_the_sink_creates_its_table_and_needs_a_name(tmp_path: Path) -> None:
    options = {"hoodie.datasource.write.recordkey.field": "id"}
    with pytest.raises(lb.InvalidArgument, match=r"lakebraid\.writer"):
        begin_stream({"path": str(tmp_path / "new"), **options}, spark_schema(SCHEMA), overwrite=False)
    made = sink(str(tmp_path / "new"), options)
    made.commit([task(made, row("a", 1))], 0)
    assert lb.Table.open(tmp_path / "new").count() == 1


@pytest.mark.parametrize("how", [{}, {"table_type": "cow"}, {"index": "simple"}, {"concurrency": "occ"}])
def test_in_complete_mode_a_batch_replaces_all_rows_of_any_kind_of_table(tmp_path: Path, how: dict[str, Any]) -> None:
    table = new_table(tmp_path / "table", **how)
    made = sink(table.path, overwrite=True)
    for batch, keys in enumerate(("ab", "c")):
        made.commit([task(made, *(row(key, 1) for key in keys))], batch)
    plain = sink(table.path, {"lakebraid.writer": "other"})
    plain.commit([task(plain, row("d", 1))], 0)
    assert sorted(r["id"] for r in table.to_arrow().to_pylist()) == ["c", "d"]
    assert table.writers() == {"orders": 1, "other": 0}
