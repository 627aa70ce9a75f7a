# SPDX-License-Identifier: Apache-2.0
"""The public face of reading: what it takes, what it gives, what it refuses."""

from __future__ import annotations

import datetime as dt
import pickle
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakebraid as lb
from lakebraid.model.config import PartialMode
from lakebraid.model.keys.buckets import bucket_ids
from lakebraid.model.merge_rules import KeyForm, MergeRules
from lakebraid.model.predicate.parse import bind, parse_where
from lakebraid.model.timeline.timeline import Visibility
from lakebraid.storage import open_storage
from lakebraid.tasks.reading import key_filter
from lakebraid.tasks.reading.read import read_slice
from lakebraid.tasks.slice_task import ReadPlan, SliceTask
from tests.kit.present import present
from tests.kit.reference import our_rows, unpack

pytestmark = pytest.mark.unit


@pytest.fixture
def table(tmp_path: Path) -> lb.Table:
    return lb.Table.open(unpack("v9_mor_nbcc_overlap", tmp_path).path)


def test_a_table_tells_what_it_is(table: lb.Table) -> None:
    text = repr(table)
    for fact in ("v9_mor_nbcc_overlap", "merge on read, version 9", "record key", "part", "event time ordering"):
        assert fact in text
    assert table.schema.names == ["id", "name", "ts", "part"]
    assert table.properties["hoodie.table.name"] == "v9_mor_nbcc_overlap"
    with pytest.raises(TypeError):
        table.properties["x"] = "y"  # type: ignore[index]


def test_hudis_columns_are_left_out_unless_asked_for(table: lb.Table) -> None:
    assert table.to_arrow().column_names == ["id", "name", "ts", "part"]
    assert table.to_arrow(meta_columns=True).column_names[:5] == [
        "_hoodie_commit_time", "_hoodie_commit_seqno", "_hoodie_record_key", "_hoodie_partition_path", "_hoodie_file_name",
    ]  # fmt: skip
    assert table.to_arrow(columns=["_hoodie_record_key", "id"]).column_names == ["_hoodie_record_key", "id"]


def test_arrow_pandas_and_batches_have_the_same_rows(table: lb.Table) -> None:
    rows = our_rows(table.to_arrow())
    assert our_rows(pa.Table.from_pandas(table.to_pandas(), preserve_index=False)) == rows
    assert our_rows(pa.Table.from_batches(table.snapshot().to_batches())) == rows
    assert table.count() == len(rows) == 8
    assert table.count(where="id < 3") == 2


def test_a_moment_can_be_told_in_every_unambiguous_way(table: lb.Table) -> None:
    moment = dt.datetime(2026, 11, 15, 20, 25, 18, 990_000, tzinfo=table._config.zone)
    for time in (
        "20261115202518990",
        moment,
        moment.astimezone(dt.UTC).isoformat(),
        moment.timestamp(),
        int(moment.timestamp() * 1000),
    ):
        assert table.snapshot(as_of=time).completion_time == "20261115202518990", time
    for time in ("2026-11-15 20:25:18", dt.datetime(2026, 11, 15), "soon", True):
        with pytest.raises(lb.InvalidArgument, match="as_of"):
            table.snapshot(as_of=time)


def test_before_the_first_commit_there_is_nothing(table: lb.Table) -> None:
    assert table.count(as_of="20200101000000000") == 0
    assert table.snapshot(as_of="2999-01-01T00:00:00Z").completion_time == table.snapshot().completion_time


def test_mistaken_columns_and_modes_are_explained(table: lb.Table) -> None:
    with pytest.raises(lb.InvalidArgument, match="Did you mean 'name'"):
        table.to_arrow(columns=["nam"])
    with pytest.raises(lb.InvalidArgument, match="give a list"):
        table.to_arrow(columns="name")
    with pytest.raises(lb.InvalidArgument, match="read_optimized"):
        table.to_arrow(mode="fast")  # type: ignore[arg-type]
    with pytest.raises(lb.InvalidArgument, match="before"):
        table.changes(after="20261115202518990", until="20261115202502481")


def test_changes_without_a_start_are_the_whole_table_as_inserts(table: lb.Table) -> None:
    changes = table.changes()
    assert set(changes.to_arrow()["_change_type"].to_pylist()) == {"insert"}
    assert changes.to_arrow().num_rows == 8
    assert table.changes(after=changes.next_position).to_arrow().num_rows == 0


def test_images_give_both_sides_of_an_update(table: lb.Table) -> None:
    rows = table.changes(after="20261115202518989", until="20261115202518990", images=True).to_arrow().to_pylist()
    told = sorted((r["id"], r["_change_type"], r["name"], r["_commit_completion_time"]) for r in rows)
    done = "20261115202518990"
    assert told == [
        (1, "update_postimage", "slow1", done),
        (1, "update_preimage", "fast1", done),
        (7, "insert", "slow7", done),
    ]


def test_printing_shows_slices_changes_and_timeline_as_text_and_html(table: lb.Table) -> None:
    assert "2 file slices" in repr(table.snapshot())
    assert "<table" in table.snapshot()._repr_html_()
    assert "file slices to compare" in repr(table.changes())
    assert "20261115202518990" in table.timeline()._repr_html_()


def test_errors_keep_their_facts_across_processes() -> None:
    error = pickle.loads(pickle.dumps(lb.SnapshotExpired("gone", path="x", as_of="1")))
    assert (type(error), str(error), error.path, error.facts) == (
        lb.SnapshotExpired, "gone", "x", {"path": "x", "as_of": "1"},
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("witnesses", [1, 64])
def test_a_lookup_finds_every_key_whether_or_not_the_number_of_buckets_can_be_told(
    witnesses: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_filter, "WITNESSES", witnesses)
    for name in (
        "v9_mor_bucket_nbcc_avro",
        "v9_mor_archived",
        "v9_mor_order_string",
        "v9_mor_keys_composite",
        "v9_mor_keys_complex_single",
    ):
        table = lb.Table.open(unpack(name, tmp_path).path)
        keys = list(table._config.record_keys)
        for row in table.to_arrow(columns=keys).to_pylist():
            where = [(key, "=", value) for key, value in row.items()]
            if None not in row.values():
                assert table.to_arrow(where=where, columns=keys).num_rows == table.count(where=where) >= 1, (name, row)


def test_a_wrong_number_of_buckets_is_found_out_by_the_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_filter, "WITNESSES", 1)
    table = lb.Table.open(unpack("v9_mor_archived", tmp_path).path)
    wrong = lambda keys, fields, buckets: bucket_ids(keys, fields, buckets + 1) % buckets  # noqa: E731
    monkeypatch.setattr(key_filter, "bucket_ids", wrong)
    for row in table.to_arrow(columns=["id"]).to_pylist():
        assert table.to_arrow(where=f"id = {row['id']}").num_rows == 1


@pytest.mark.parametrize(
    ("stored", "shown", "where", "constants"),
    [
        (pa.array([0.1], pa.float32()), pa.float64(), "x = 0.1", ()),
        (pa.array([10], pa.int32()), pa.string(), "x = '10'", ()),
        (pa.array([""], pa.string()), pa.string(), "x is null", (("x", None),)),
        (pa.array([None], pa.string()), pa.string(), "x = 'p0'", (("x", "p0"),)),
    ],
)
def test_pruning_believes_no_statistics_of_values_that_are_shown_otherwise(
    stored: pa.Array, shown: pa.DataType, where: str, constants: tuple[tuple[str, str | None], ...], tmp_path: Path
) -> None:
    pq.write_table(pa.table({"id": pa.array(["k"]), "x": stored}), tmp_path / "base.parquet")
    schema = pa.schema([("id", pa.string()), ("x", shown)])
    rules = MergeRules(KeyForm.COLUMN, ("id",), ("id",), False, (), (), None, PartialMode.NONE, None)
    plan = ReadPlan(str(tmp_path), (), rules, schema, ("id",), bind(present(parse_where(where)), schema))
    size = (tmp_path / "base.parquet").stat().st_size
    task = SliceTask("", "base.parquet", size, "1", (), (), Visibility(frozenset(), "", "9"), constants=constants)
    rows = [row for part in read_slice(open_storage(tmp_path), plan, task) for row in part.to_pylist()]
    assert rows == [{"id": "k"}]
