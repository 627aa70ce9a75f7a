# SPDX-License-Identifier: Apache-2.0
"""Writing rows: what a task puts into data files is what readers find there, and bad input writes nothing."""

from __future__ import annotations

import datetime as dt
import pickle
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from lakebraid.errors import InvalidArgument, OutcomeUnknown
from lakebraid.format.avro.types import parse_avro_schema
from lakebraid.format.parquet.rows import read_parquet_block
from lakebraid.format.properties import parse_partition_metadata
from lakebraid.model.keys.buckets import bucket_file_id, bucket_of
from lakebraid.storage.memory import MemoryStorage
from lakebraid.tasks.new_files import place_file
from lakebraid.tasks.staged_file import staged_from_arrow, staged_to_arrow
from lakebraid.tasks.writing.rows import write_rows
from tests.kit.tables.builder import open_table
from tests.kit.tables.built_files import t
from tests.kit.tables.lake import PLAIN, Lake, commit_time, row
from tests.unit.tasks.test_base_files import EVERYTHING

pytestmark = pytest.mark.unit

UTC = dt.UTC


# --- rows --------------------------------------------------------------------------------------------------------------

FULL: dict[str, Any] = {
    "id": "k1",
    "ts": 5,
    "c_bool": True,
    "c_int": -7,
    "c_float": 1.5,
    "c_double": -0.1,
    "c_bytes": b"\x00\xff",
    "c_decimal": Decimal("-1234.5678"),
    "c_date": dt.date(1969, 7, 20),
    "c_time": dt.time(23, 59, 59, 999_999),
    "c_instant": dt.datetime(2026, 1, 2, 3, 4, 5, 678_901, UTC),
    "c_local": dt.datetime(1900, 1, 1),
    "c_list": [1, None, 3],
    "c_map": [("a", 1.0), ("b", None)],
    "c_struct": {"a": 1, "b": ["x", None]},
    "c_deep": [{"d": Decimal("1.25"), "w": None}, None],
}


@pytest.mark.parametrize("how", [{}, {"block_format": "avro"}, {"into_base": True, "operation": "bulk_insert"}])
def test_every_type_comes_back_as_it_was_written(how: dict[str, Any]) -> None:
    lake = Lake(EVERYTHING)
    empty = dict.fromkeys(EVERYTHING.names) | {"id": "k2", "ts": 1, "c_list": [], "c_map": []}
    lake.write([FULL, empty], **how)
    assert lake.rows() == [FULL, empty]


@pytest.mark.parametrize("how", [{}, {"into_base": True}])
def test_rows_lie_in_the_bucket_of_their_key_with_hudis_columns(how: dict[str, Any]) -> None:
    lake = Lake()
    files = lake.write([row(f"k{i}", i) for i in range(40)], task=3, **how)
    found = open_table(lake.storage).to_arrow(meta_columns=True).to_pylist()
    names = {bucket_file_id(int(f.file_id[:8])): f.name for f in files}
    assert len(files) == lake.buckets and len(found) == 40
    assert len({r["_hoodie_commit_seqno"] for r in found}) == 40
    for r in found:
        file_id = bucket_file_id(bucket_of(r["id"], ["id"], lake.buckets))
        assert r["_hoodie_file_name"] == (names[file_id] if how else file_id)
        assert r["_hoodie_record_key"] == r["id"] and r["_hoodie_partition_path"] == ""
        assert r["_hoodie_commit_time"] == t(1) and r["_hoodie_commit_seqno"].startswith(f"{t(1)}_3_")


def test_file_names_tell_group_write_and_task() -> None:
    log = Lake(buckets=1).write([row("a", 1)], task=7)
    base = Lake(buckets=1).write([row("a", 1)], task=7, into_base=True)
    assert [f.name for f in log] == [f".{bucket_file_id(0)}_{t(1)}.log.1_7-0-0"]
    assert [f.name for f in base] == [f"{bucket_file_id(0)}_7-0-0_{t(1)}.parquet"]


def test_a_bucket_that_has_a_file_id_keeps_it() -> None:
    lake = Lake(buckets=1)
    other = "00000000-7f3a-4c5d-8e9f-0123456789ab-0"
    assert [f.file_id for f in lake.write([row("a", 1)], file_ids={("", 0): other})] == [other]
    assert lake.rows() == [row("a", 1)]


def test_composite_keys_with_nulls_find_their_rows_again() -> None:
    schema = pa.schema([("a", pa.int64()), ("b", pa.string()), ("ts", pa.int64()), ("v", pa.string())])
    lake = Lake(schema, {"hoodie.table.recordkey.fields": "a,b"})
    lake.write([{"a": 1, "b": None, "ts": 1, "v": "x"}, {"a": 1, "b": "", "ts": 1, "v": "y"}])
    lake.write([{"a": 1, "b": None, "ts": 2, "v": "z"}])
    assert [(r["b"], r["v"]) for r in lake.rows("v")] == [("", "y"), (None, "z")]


@pytest.mark.parametrize(
    ("hive", "encode", "folders"),
    [
        (False, False, ["2026-05-17/__HIVE_DEFAULT_PARTITION__", "2026-05-17/a b"]),
        (True, False, ["day=2026-05-17/city=__HIVE_DEFAULT_PARTITION__", "day=2026-05-17/city=a b"]),
        (True, True, ["day=2026-05-17/city=__HIVE_DEFAULT_PARTITION__", "day=2026-05-17/city=a%3Ab"]),
    ],
)
def test_partitions_become_folders_that_hudi_finds(hive: bool, encode: bool, folders: list[str]) -> None:
    schema = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("day", pa.date32()), ("city", pa.string())])
    style = {
        "hoodie.table.partition.fields": "day,city",
        "hoodie.table.keygenerator.type": "COMPLEX",
        "hoodie.datasource.write.hive_style_partitioning": str(hive).lower(),
        "hoodie.datasource.write.partitionpath.urlencode": str(encode).lower(),
    }
    lake = Lake(schema, style, buckets=2)
    day, city = dt.date(2026, 5, 17), "a:b" if encode else "a b"
    rows = [{"id": f"k{i}", "ts": i, "day": day, "city": None if i % 2 else city} for i in range(10)]
    files = lake.write(rows)
    assert sorted({f.partition for f in files}) == folders
    assert lake.rows() == rows
    for folder in folders:
        mark = lake.storage.read(f"{folder}/.hoodie_partition_metadata", 1000)
        found = parse_partition_metadata(mark, folder)
        assert (found.commit_time, found.depth) == (t(1), 2)


def test_every_data_file_was_announced_by_a_marker() -> None:
    schema = pa.schema([*PLAIN, ("p", pa.string())])
    lake = Lake(schema, {"hoodie.table.partition.fields": "p"})
    files = lake.write([row(f"k{i}", 1) | {"p": "x"} for i in range(9)])
    made = [n.name for n in lake.storage.list(f".hoodie/.temp/{t(1)}")]
    assert made == sorted(f".hoodie/.temp/{t(1)}/{f.path}.marker.CREATE" for f in files)


def test_many_rows_make_several_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakebraid.limits.LOG_BLOCK_SMALL_BYTES", 0)
    monkeypatch.setattr("lakebraid.limits.LOG_BLOCK_ARROW_BYTES", 10_000)
    lake = Lake(buckets=1)
    rows = [row(f"k{i:04}", i) for i in range(1000)]
    (file,) = lake.write(rows)
    assert len(lake.blocks(file)) > 5
    assert lake.rows() == rows


def test_no_rows_make_no_files() -> None:
    lake = Lake()
    before = lake.storage.list()
    assert write_rows(lake.storage, lake.plan(), PLAIN.empty_table(), 0) == []
    assert lake.storage.list() == before


# --- which row stays ---------------------------------------------------------------------------------------------------


def test_of_equal_keys_the_greatest_ordering_value_is_written_and_of_equals_the_later_row() -> None:
    lake = Lake()
    files = lake.write([row("a", 3, "old"), row("a", 9, "first"), row("b", 1), row("a", 9, "last"), row("a", 4, "mid")])
    assert lake.rows() == [row("a", 9, "last"), row("b", 1)]
    assert sum(f.rows for f in files) == 2


def test_without_ordering_the_later_of_equal_keys_is_written() -> None:
    lake = commit_time()
    lake.write([row("a", 9, "first"), row("a", 1, "last")])
    assert lake.rows() == [row("a", 1, "last")]


@pytest.mark.parametrize("make", [Lake, commit_time])
def test_of_equal_rows_of_two_tasks_the_greater_task_number_wins(make: Any) -> None:
    lake = make()
    plan = lake.plan()
    later = write_rows(lake.storage, plan, lake.table([row("a", 1, "later")]), 101)
    first = write_rows(lake.storage, plan, lake.table([row("a", 1, "first")]), 100)
    lake.publish(plan, [*first, *later])
    assert lake.rows() == [row("a", 1, "later")]


def test_of_several_ordering_fields_the_first_decides() -> None:
    schema = pa.schema([("id", pa.string()), ("o1", pa.int64()), ("o2", pa.string())])
    lake = Lake(schema, {"hoodie.table.ordering.fields": "o1,o2"})
    versions = [(1, "z"), (2, "b"), (2, "a"), (0, "zz")]
    files = lake.write([{"id": "a", "o1": o1, "o2": o2} for o1, o2 in versions])
    assert lake.rows() == [{"id": "a", "o1": 2, "o2": "b"}]
    assert sum(f.rows for f in files) == 1


def test_equal_keys_in_different_partitions_are_different_rows() -> None:
    lake = Lake(pa.schema([*PLAIN, ("p", pa.string())]), {"hoodie.table.partition.fields": "p"}, buckets=1)
    rows = [row("a", 1, "x") | {"p": "one"}, row("a", 2, "y") | {"p": "two"}]
    lake.write(rows)
    assert lake.rows("p") == rows


# --- partial updates ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("block_format", ["parquet", "avro"])
@pytest.mark.parametrize("into_base", [True, False])
def test_a_partial_update_changes_its_columns_only(block_format: str, into_base: bool) -> None:
    lake = Lake(pa.schema([*PLAIN, ("w", pa.int64())]), buckets=1)
    lake.write([row("a", 1, "x") | {"w": 1}, row("b", 9, "y") | {"w": 2}], into_base=into_base)
    update = [{"id": "a", "ts": 2, "w": 10}, {"id": "b", "ts": 2, "w": 20}]
    (file,) = lake.write(update, columns=("id", "ts", "w"), block_format=block_format)
    assert lake.rows() == [row("a", 2, "x") | {"w": 10}, row("b", 9, "y") | {"w": 2}]
    (block,) = lake.blocks(file)
    assert block.is_partial
    assert parse_avro_schema(block.schema_text or "", "x").names[5:] == ["id", "ts", "w"]


def test_columns_that_a_partial_update_does_not_name_are_not_written() -> None:
    lake = Lake(buckets=1)
    lake.write([row("a", 1, "x")])
    (file,) = lake.write([row("a", 2, "ignored")], columns=("id", "ts"))
    assert lake.rows() == [row("a", 2, "x")]
    assert "v" not in read_parquet_block(lake.blocks(file)[0].content, None, "x").column_names


@pytest.mark.parametrize(("columns", "lacking"), [(("id", "v"), "ts"), (("ts", "v"), "id")])
def test_a_partial_update_without_key_or_ordering_column_is_refused(columns: tuple[str, ...], lacking: str) -> None:
    with pytest.raises(InvalidArgument, match=f"lacks '{lacking}'"):
        Lake().write([row("a", 1)], columns=columns)


# --- second attempts ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", [{}, {"into_base": True}, {"block_format": "avro"}, {"operation": "delete"}])
def test_a_second_attempt_in_another_order_and_other_chunks_gives_the_same_files(how: dict[str, Any]) -> None:
    lake = Lake()
    rows = lake.table([row(f"k{i}", i) for i in range(500)])
    first = write_rows(lake.storage, lake.plan(**how), rows, 0)
    objects = lake.storage.list()
    shuffled = pa.concat_tables([rows.slice(300), rows.slice(0, 300)])
    assert write_rows(lake.storage, lake.plan(**how), shuffled, 0) == first
    assert lake.storage.list() == objects


def test_a_second_attempt_with_other_rows_is_refused_and_changes_nothing() -> None:
    lake = Lake(buckets=1)
    (file,) = write_rows(lake.storage, lake.plan(), lake.table([row("a", 1, "x")]), 0)
    before = lake.storage.read(file.path, 1 << 20)
    with pytest.raises(InvalidArgument, match="cache") as caught:
        write_rows(lake.storage, lake.plan(), lake.table([row("a", 1, "y")]), 0)
    assert file.path in caught.value.path
    assert lake.storage.read(file.path, 1 << 20) == before


def test_another_task_or_another_write_makes_files_of_its_own() -> None:
    lake = Lake(buckets=1)
    rows = lake.table([row("a", 1)])
    found = [
        write_rows(lake.storage, plan, rows, task)[0].name
        for plan, task in ((lake.plan(), 0), (lake.plan(), 1), (lake.plan(request_time=t(7)), 0))
    ]
    assert len(set(found)) == 3


@dataclass(frozen=True)
class Mumbling:
    """A store that gives no answer to the first creates; `happens` says whether they took effect."""

    inner: MemoryStorage
    happens: bool
    unanswered: list[str]

    def create(self, name: str, data: bytes) -> None:
        if self.unanswered:
            self.unanswered.pop()
            if self.happens:
                self.inner.create(name, data)
            raise OutcomeUnknown("no answer")
        self.inner.create(name, data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


@pytest.mark.parametrize("happens", [True, False])
def test_a_lost_answer_does_not_lose_or_double_a_file(happens: bool) -> None:
    lake = Lake(buckets=1)
    storage = Mumbling(lake.storage, happens, ["x", "x"])
    place_file(storage, t(1), "p", f".{bucket_file_id(0)}_{t(1)}.log.1_0-0-0", b"data")
    assert [o.size for o in lake.storage.list("p")] == [4]
    assert len(lake.storage.list(f".hoodie/.temp/{t(1)}")) == 1


def test_a_store_that_never_answers_is_reported() -> None:
    storage = Mumbling(MemoryStorage(), False, ["x"] * 100)
    with pytest.raises(OutcomeUnknown):
        place_file(storage, t(1), "p", f".{bucket_file_id(0)}_{t(1)}.log.1_0-0-0", b"data")


# --- plans, stats, base files ------------------------------------------------------------------------------------------


def test_a_plan_travels_and_does_not_show_credentials() -> None:
    plan = replace(Lake().plan(), options=(("secret", "hunter2"),), file_ids={("p", 1): "x"})
    again = pickle.loads(pickle.dumps(plan))
    assert again == plan and again.schema.equals(plan.schema)
    assert "hunter2" not in repr(plan)


def test_staged_files_travel_as_arrow_rows() -> None:
    lake = Lake()
    files = lake.write([row(f"k{i}", i) for i in range(20)], into_base=True)
    assert staged_from_arrow(staged_to_arrow(files)) == files
    assert staged_from_arrow(staged_to_arrow([])) == []
