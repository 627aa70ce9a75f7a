# SPDX-License-Identifier: Apache-2.0
"""The format `lakebraid`, called as Spark calls it, process by process, but without Spark."""

from __future__ import annotations

import json
import pickle
import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql import datasource as ds
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

import lakebraid as lb
from lakebraid.errors import InvalidArgument, NotATable, RolledBack
from lakebraid.source import reader
from lakebraid.source.filters import where_of
from lakebraid.source.format import LakebraidSource
from lakebraid.spark.versions import spark_schema
from tests.kit.present import present

pytestmark = [pytest.mark.unit, pytest.mark.slow]  # importing pyspark takes a second
COLUMNS = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("n", pa.int32()), ("x", pa.float64())])
NONE: Mapping[str, str] = {}
INCREMENTAL = {"hoodie.datasource.query.type": "incremental"}
BEGIN, END = "hoodie.datasource.read.begin.instanttime", "hoodie.datasource.read.end.instanttime"
FORM = "hoodie.datasource.query.incremental.format"


@pytest.fixture
def orders(tmp_path: Path) -> lb.Table:
    """Twenty rows, then ten of them changed and one deleted."""
    t = lb.Table.create(tmp_path / "orders", COLUMNS, record_keys="id", ordering_fields="ts", buckets=4)
    t.bulk_insert([{"id": f"k{n}", "ts": 1, "n": n, "x": n / 2} for n in range(20)])
    t.upsert([{"id": f"k{n}", "ts": 2, "n": -n, "x": None} for n in range(10)])
    t.delete([{"id": "k3"}])
    return t


def times(t: lb.Table) -> list[str]:
    writes = [entry for entry in t.timeline() if entry.operation in ("BULK_INSERT", "UPSERT", "DELETE")]
    return [present(entry.completion_time) for entry in writes[-3:]]


def travelled(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


def read(t: lb.Table, options: Mapping[str, str] = NONE, schema: StructType | None = None) -> pa.Table:
    source = LakebraidSource({"path": t.path, **options})
    schema = source.schema() if schema is None else schema
    found = travelled(source).reader(schema)
    batches = [b for part in travelled(found.partitions()) for b in travelled(found).read(part)]
    assert all(batch.schema.equals(to_arrow_schema(schema, timezone="UTC")) for batch in batches), "Spark compares them"
    return pa.Table.from_batches(batches, to_arrow_schema(schema, timezone="UTC"))


def rows(table: pa.Table) -> list[str]:
    return sorted(map(repr, table.to_pylist()))


# --- reading ---------------------------------------------------------------------------------------------------------


def test_each_kind_of_query_gives_what_the_table_gives(orders: lb.Table) -> None:
    assert rows(read(orders)) == rows(orders.to_arrow(meta_columns=True))
    assert rows(read(orders, {"lakebraid.meta_columns": "false"})) == rows(orders.to_arrow())
    optimised = read(orders, {"hoodie.datasource.query.type": "read_optimized"})
    assert rows(optimised) == rows(orders.to_arrow(mode="read_optimized", meta_columns=True))
    first = times(orders)[0]
    assert rows(read(orders, {"as.of.instant": first})) == rows(orders.to_arrow(as_of=first, meta_columns=True))
    where = read(orders, {"lakebraid.where": "n > 12", "lakebraid.meta_columns": "false"})
    assert rows(where) == rows(orders.to_arrow(where="n > 12"))


def test_a_given_schema_is_all_that_is_read(orders: lb.Table) -> None:
    wanted = spark_schema(pa.schema([COLUMNS.field("n"), COLUMNS.field("id")]))
    assert rows(read(orders, schema=wanted)) == rows(orders.to_arrow(["n", "id"]))
    part: Any = LakebraidSource({"path": orders.path}).reader(wanted).partitions()[0]
    assert part.shared.plan.columns == ("n", "id")
    with pytest.raises(InvalidArgument, match="the column 'n' is int64, but it is int32"):
        read(orders, schema=spark_schema(pa.schema([("n", pa.int64())])))
    with pytest.raises(InvalidArgument, match="There is no column 'nn'"):
        read(orders, schema=spark_schema(pa.schema([("nn", pa.int64())])))


def test_a_source_that_travelled_looks_at_the_moment_it_was_made(orders: lb.Table) -> None:
    asked, given = LakebraidSource({"path": orders.path}), LakebraidSource({"path": orders.path})
    schema = asked.schema()
    asked, given = travelled(asked), travelled(given)
    orders.upsert([{"id": "new", "ts": 1, "n": 1, "x": 1.0}])
    for source in (asked, given):
        found = source.reader(schema)
        assert sum(b.num_rows for part in found.partitions() for b in found.read(part)) == 19


def test_a_table_without_rows_has_its_columns_and_stays_empty_for_who_looked(tmp_path: Path) -> None:
    t = lb.Table.create(tmp_path / "t", COLUMNS, record_keys="id", seed_base=False)
    source = LakebraidSource({"path": t.path})
    schema = source.schema()
    assert schema.names[-4:] == COLUMNS.names
    t.upsert([{"id": "a", "ts": 1, "n": 1, "x": 1.0}])
    found: Any = source.reader(schema)
    assert sum(b.num_rows for part in found.partitions() for b in found.read(part)) == 0


def test_incremental_rows_are_those_that_are_new_or_changed(orders: lb.Table) -> None:
    loaded = times(orders)[0]
    found = read(orders, INCREMENTAL | {BEGIN: loaded})
    assert {(row["id"], row["n"]) for row in found.to_pylist()} == {(f"k{n}", -n) for n in range(10) if n != 3}
    assert found.column_names[0] == "_hoodie_commit_time"
    assert read(orders, INCREMENTAL | {BEGIN: "000"}).num_rows == 19
    assert read(orders, INCREMENTAL | {BEGIN: times(orders)[2]}).num_rows == 0
    wanted = spark_schema(pa.schema([COLUMNS.field("n")]))
    assert read(orders, INCREMENTAL | {BEGIN: loaded}, wanted).column_names == ["n"]


def test_changes_come_in_our_form_with_deletes(orders: lb.Table) -> None:
    loaded = times(orders)[0]
    ours = read(orders, INCREMENTAL | {BEGIN: loaded, FORM: "changes", "lakebraid.meta_columns": "false"})
    assert rows(ours) == rows(orders.changes(loaded).to_arrow())
    assert "delete" in ours.column("_change_type").to_pylist()


def test_changes_come_in_hudis_form_with_the_rows_before_and_after(orders: lb.Table) -> None:
    loaded, changed, deleted = times(orders)
    found = read(orders, INCREMENTAL | {BEGIN: loaded, END: changed, FORM: "cdc"}).to_pylist()
    assert {(r["op"], json.loads(r["before"])["n"], json.loads(r["after"])["n"], r["ts_ms"]) for r in found} == {
        ("u", n, -n, changed) for n in range(10) if n
    } | {("u", 0, 0, changed)}
    (gone,) = read(orders, INCREMENTAL | {BEGIN: changed, FORM: "cdc"}).to_pylist()
    assert (gone["op"], json.loads(gone["before"]), gone["after"]) == (
        "d",
        {"id": "k3", "ts": 2, "n": -3, "x": None},
        None,
    )
    assert gone["ts_ms"] == deleted
    born = read(orders, INCREMENTAL | {END: loaded, FORM: "cdc"}).to_pylist()
    assert {(row["op"], row["before"]) for row in born} == {("i", None)} and len(born) == 20


def test_what_is_missing_or_contradicts_itself_is_told(orders: lb.Table, tmp_path: Path) -> None:
    with pytest.raises(NotATable, match="There is no table at"):
        LakebraidSource({"path": f"{tmp_path}/none"}).schema()
    with pytest.raises(InvalidArgument, match="No path was given"):
        LakebraidSource({}).schema()
    with pytest.raises(InvalidArgument, match="exclude each other"):
        read(orders, INCREMENTAL | {"as.of.instant": times(orders)[0]})


# --- filters ---------------------------------------------------------------------------------------------------------


def test_only_filters_that_compare_alike_here_and_there_are_taken_over() -> None:
    schema = spark_schema(COLUMNS)
    taken = [ds.EqualTo(("id",), "k1"), ds.GreaterThan(("n",), 3), ds.In(("n",), (1, 2)), ds.IsNull(("x",))]
    left = [
        ds.GreaterThan(("x",), 3.0),
        ds.EqualTo(("n",), "3"),
        ds.EqualTo(("a", "b"), 1),
        ds.StringContains(("id",), "k"),
    ]
    assert all(where_of([one], schema) is not None for one in taken)
    assert all(where_of([one], schema) is None for one in left)


def test_filters_spare_slices_and_are_all_handed_back_spark_schema(orders: lb.Table) -> None:
    schema = spark_schema(COLUMNS)
    found = reader.FilteringReader({"path": orders.path}, schema, None)
    given = [ds.EqualTo(("id",), "k4"), ds.GreaterThan(("x",), 3.0)]
    assert list(found.pushFilters(given)) == given
    assert [row["id"] for part in found.partitions() for b in found.read(part) for row in b.to_pylist()] == ["k4"]


def test_a_reader_has_no_filters_where_spark_would_refuse_it(orders: lb.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    source, schema = LakebraidSource({"path": orders.path}), spark_schema(COLUMNS)
    assert type(source.reader(schema)).pushFilters is ds.DataSourceReader.pushFilters
    monkeypatch.setitem(sys.modules, "pyspark.sql.worker.data_source_pushdown_filters", SimpleNamespace())
    assert type(source.reader(schema)).pushFilters is not ds.DataSourceReader.pushFilters


# --- writing ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def task(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The task that Spark says it is."""
    context = SimpleNamespace(number=0, attemptNumber=lambda: 0)
    context.partitionId = lambda: context.number
    monkeypatch.setattr(TaskContext, "get", lambda: context)
    return context


def begin(path: str, options: Mapping[str, str], *, overwrite: bool = False) -> Any:
    return LakebraidSource({"path": path, **options}).writer(spark_schema(COLUMNS), overwrite)


def batch(*keys: str, ts: int = 5, n: int = 7) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"id": key, "ts": ts, "n": n, "x": 0.5} for key in keys], COLUMNS)


def values(t: lb.Table) -> dict[str, int]:
    return {row["id"]: row["n"] for row in t.to_arrow().to_pylist()}


def test_tasks_write_and_another_process_publishes(orders: lb.Table, task: SimpleNamespace) -> None:
    before = values(orders)
    writer = begin(orders.path, {})
    messages = []
    for task.number, keys in enumerate((["k1", "a"], ["k2"], [])):
        messages.append(travelled(writer).write(iter([batch(*keys)] if keys else [])))
    assert values(orders) == before
    travelled(writer).commit(travelled(messages))
    assert values(orders) == before | {"k1": 7, "a": 7, "k2": 7}
    travelled(writer).abort([])  # as Spark does if the answer of the commit is lost
    assert values(orders) == before | {"k1": 7, "a": 7, "k2": 7}


def test_large_parts_become_files_of_their_tasks(orders: lb.Table, task: SimpleNamespace) -> None:
    writer = begin(orders.path, {"hoodie.datasource.write.operation": "bulk_insert"})
    many = batch(*(f"m{n}" for n in range(20_000)))
    messages = [writer.write(iter([many]))]
    request_time = writer._carried.plan.request_time
    assert list(Path(orders.path).glob(f".*_{request_time}.log.*_1000-0-0")), "written before the commit, by task 1000"
    writer.commit(messages)
    assert len(values(orders)) == 20_019


def test_an_aborted_write_leaves_nothing_and_cannot_be_published(orders: lb.Table, task: SimpleNamespace) -> None:
    before = values(orders)
    writer = begin(orders.path, {})
    message = writer.write(iter([batch(*(f"m{n}" for n in range(20_000)))]))
    travelled(writer).abort([None, message])
    assert values(orders) == before
    with pytest.raises(RolledBack):
        travelled(writer).commit([message])


def test_a_row_that_does_not_fit_is_told_by_the_commit(orders: lb.Table, task: SimpleNamespace) -> None:
    writer = begin(orders.path, {})
    bad = pa.RecordBatch.from_pylist([{"id": None, "ts": 1, "n": 1, "x": None}], COLUMNS)
    message = writer.write(iter([bad]))
    with pytest.raises(InvalidArgument):
        writer.commit([message])
    writer.abort([message])
    assert len(values(orders)) == 19


def test_a_delete_by_the_format_needs_ordering_values(orders: lb.Table, task: SimpleNamespace) -> None:
    delete = {"hoodie.datasource.write.operation": "delete"}
    writer = begin(orders.path, delete)
    writer.commit([writer.write(iter([batch("k1")]))])
    assert "k1" not in values(orders)
    with pytest.raises(InvalidArgument, match="needs their ordering column ts"):
        LakebraidSource({"path": orders.path, **delete}).writer(spark_schema(pa.schema([("id", pa.string())])), False)


def test_overwriting_is_for_tables_that_are_not_there(orders: lb.Table, task: SimpleNamespace, tmp_path: Path) -> None:
    keys = {"hoodie.datasource.write.recordkey.field": "id"}
    writer = begin(f"{tmp_path}/new", keys, overwrite=True)
    writer.commit([writer.write(iter([batch("a")]))])
    assert values(lb.Table.open(tmp_path / "new")) == {"a": 7}
    with pytest.raises(InvalidArgument, match=r"mode\('overwrite'\) on a table that is there needs a shuffle"):
        begin(orders.path, keys, overwrite=True)
    with pytest.raises(InvalidArgument, match=r"insert_overwrite_table needs a shuffle.*lakebraid.write\(df"):
        begin(orders.path, {"hoodie.datasource.write.operation": "insert_overwrite_table"}, overwrite=True)
