# SPDX-License-Identifier: Apache-2.0
"""Where we differ from Apache Hudi on purpose (docs/differences.md): each difference, exactly, on a table Hudi wrote."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebraid as lb
from lakebraid.format.names import LogFileName, parse_data_file
from tests.kit.present import present
from tests.kit.reference import our_rows, unpack

pytestmark = pytest.mark.unit


def brief(rows: list[dict[str, Any]]) -> set[tuple[int, str, int]]:
    return {(row["id"], row["name"], row["ts"]) for row in rows}


@pytest.mark.parametrize("name", ["v9_mor_late_writer", "v9_mor_late_writer_commit_time"])
def test_a_compaction_that_a_late_writer_spans_changes_hudis_answer_and_not_ours(name: str, tmp_path: Path) -> None:
    reference = unpack(name, tmp_path)
    table = lb.Table.open(reference.path)
    slow_done = sorted(c for _, c, action in reference.completed if action == "deltacommit")[2]
    ours = {time: brief(table.to_arrow(as_of=time).to_pylist()) for time in (slow_done, reference.times()[-1])}
    hudi_before = brief(reference.expected["snapshot_before_compaction"])
    assert ours[slow_done] == hudi_before
    # A last write touched ids 5, 8 and 10 afterwards; everything else must be as it was.
    untouched = {row for row in ours[reference.times()[-1]] if row in hudi_before}
    hudi_after = brief(reference.expected["snapshot"])
    assert untouched >= {row for row in hudi_before if row[0] in (2, 3, 4, 6, 7)}
    assert not hudi_after >= {row for row in hudi_before if row[0] in (2, 3, 4, 6, 7)}, "Hudi has mended its ways"


def test_a_dead_first_writer_hides_a_group_from_hudi_and_not_from_us(tmp_path: Path) -> None:
    reference = unpack("v9_mor_hidden_group", tmp_path)
    ours = brief(lb.Table.open(reference.path).to_arrow().to_pylist())
    hudis = brief(reference.expected["snapshot"])
    assert {row[1] for row in ours - hudis} == {"live"}
    assert hudis < ours


def test_time_travel_shows_what_had_finished_where_hudi_shows_what_had_started(tmp_path: Path) -> None:
    reference = unpack("v9_mor_nbcc_overlap", tmp_path)
    table = lb.Table.open(reference.path)
    slow_done = next(c for s, c, _ in reference.completed if s == "20261115202452023")
    early = []
    for time in (t for t in reference.times() if t < slow_done):
        ours = brief(table.to_arrow(as_of=time).to_pylist())
        assert not any(name.startswith("slow") for _, name, _ in ours)
        early.append(any(row["name"].startswith("slow") for row in reference.expected["as_of"][time]))
    assert any(early), "Hudi shows the slow writer's rows before it had finished"


def test_time_travel_works_beside_a_pending_write_where_hudi_refuses(tmp_path: Path) -> None:
    reference = unpack("v9_mor_pending_write_and_compaction", tmp_path)
    table = lb.Table.open(reference.path)
    refused = {t for t, answer in reference.expected["as_of"].items() if isinstance(answer, dict)}
    assert refused == set(reference.times()[1:])
    newest = reference.times()[-1]
    assert our_rows(table.to_arrow(as_of=newest)) == our_rows(table.to_arrow())


def test_a_savepoint_stays_readable_after_a_clean_where_hudi_refuses(tmp_path: Path) -> None:
    reference = unpack("v9_cow_clean_savepoint", tmp_path)
    table = lb.Table.open(reference.path)
    saved = next(s for s, _, action in reference.completed if action == "savepoint")
    time = next(c for s, c, action in reference.completed if s == saved and action == "commit")
    assert "error" in reference.expected["as_of"][time]
    assert table.count(as_of=time) == 7
    with pytest.raises(lb.SnapshotExpired, match="removed"):
        table.to_arrow(as_of=reference.times()[0])


def test_changes_have_deletes_and_no_losers_where_hudis_incremental_read_has_the_opposite(tmp_path: Path) -> None:
    reference = unpack("v9_mor_order_int", tmp_path)
    table = lb.Table.open(reference.path)
    times = reference.times()
    kinds: set[str] = set()
    for after, until in zip(times, times[1:], strict=False):
        kinds |= set(table.changes(after=after, until=until).to_arrow()["_change_type"].to_pylist())
    assert kinds == {"insert", "update", "delete"}
    losers, deletes = set(), set()
    for after in times[:-1]:
        incremental = {row["id"] for row in reference.expected["incremental_after"][after]}
        changed = {row["id"] for row in table.changes(after=after).to_arrow().to_pylist()}
        losers |= incremental - changed
        deletes |= changed - incremental
    assert losers, "a stale event that lost is in Hudi's answer only"
    assert deletes, "a delete is in ours only"


def test_a_timestamp_partition_column_keeps_its_type(tmp_path: Path) -> None:
    reference = unpack("v9_mor_partition_timestamp", tmp_path)
    table = lb.Table.open(reference.path)
    assert table.schema.field("at").type == pa.int64()
    hudis = {field["name"]: field["type"] for field in reference.expected["schema"]["fields"]}
    assert hudis["at"] == "string"
    assert {str(v) for v in table.to_arrow()["at"].to_pylist()} == {r["at"] for r in reference.expected["snapshot"]}


def unlike(name: str, folder: Path, columns: tuple[str, ...]) -> dict[tuple[Any, ...], list[tuple[Any, ...]]]:
    """By key and moment, Hudi's row and ours, where they differ; without moment it is the newest state."""
    reference = unpack(name, folder)
    table = lb.Table.open(reference.path)
    found: dict[tuple[Any, ...], list[tuple[Any, ...]]] = {}
    moments = {None: reference.expected["snapshot"]} | (reference.expected.get("as_of") or {})
    for number, (moment, expected) in enumerate(moments.items()):
        hudis = {row["id"]: tuple(row[c] for c in columns) for row in expected}
        ours = {row["id"]: tuple(row[c] for c in columns) for row in table.to_arrow(as_of=moment).to_pylist()}
        assert hudis.keys() == ours.keys()
        found |= {(key, number): [hudis[key], ours[key]] for key in hudis if hudis[key] != ours[key]}
    return found


def test_an_update_of_other_columns_never_takes_a_value_away_whatever_its_ordering_value(tmp_path: Path) -> None:
    """Hudi drops a column's newer value if the row has a greater ordering value by then, or takes an older one."""
    columns = ("ts", "a", "b", "c", "d")
    stale_c = [(40, "a1", "b1", "c2", "d3"), (40, "a1", "b1", "c3", "d3")]
    old_a = [(20, "a1", "b2", "c2", "d0"), (20, "a0", "b2", "c2", "d0")]
    old_a_and_d = [(20, "a1", "b2", "c2", "d3"), (20, "a0", "b2", "c2", "d0")]
    folded = unlike("v9_mor_partial_fold", tmp_path / "fold", columns)
    assert {key: rows for key, rows in folded.items() if key[1] == 0} == {(4, 0): stale_c, (8, 0): old_a_and_d}
    compacted = unlike("v9_mor_partial_compacted", tmp_path / "compacted", columns)
    assert {key[0] for key in compacted} == {4, 8}
    assert [*compacted.values()] == [old_a, stale_c, old_a_and_d]


def test_of_values_that_rows_leave_out_the_newest_by_ordering_value_counts(tmp_path: Path) -> None:
    found = unlike("v9_mor_ignore_defaults_event_time", tmp_path, ("ts", "a", "b", "c"))
    assert {key[0] for key in found} == {3}
    assert next(iter(found.values())) == [(10, "a2", 1, "c1"), (10, "a0", 1, "c1")]


def test_nothing_of_a_deleted_row_comes_back_out_of_its_base_file(tmp_path: Path) -> None:
    """In Hudi a row that is written after a delete without ordering value may bring the deleted one back, or parts of it."""
    back = unlike("v9_mor_cdc", tmp_path / "cdc", ("name", "ts"))
    assert {key[0] for key in back} == {1}
    assert back[1, 0] == [("u", 20), ("back", 1)]
    chain = unlike("v9_mor_log_compaction_chain", tmp_path / "chain", ("name", "ts"))
    assert [*chain.values()] == [[("base", 10), ("u2", 1)]]
    parts = unlike("v9_mor_fill_unavailable", tmp_path / "fill", ("a", "b", "c"))
    assert [*parts.values()] == [[("a0", 2, "c2"), ("__debezium_unavailable_value", 2, "c2")]]


def parted(folder: Path, **how: Any) -> lb.Table:
    """What Hudi makes of such tables, and of its own: tests/interop/test_hudi_and_partition_columns.py."""
    ddl = f"id int, ts bigint, p {how.pop('kind', 'string')}"
    return lb.Table.create(folder / "t", ddl, record_keys="id", ordering_fields="ts", partition_by="p", **how)


@pytest.mark.parametrize(
    ("index", "partitions"), [("bucket", ["a", "b"]), ("simple", ["a", "b"]), ("global_simple", ["b"])]
)
def test_a_key_that_comes_with_another_partition_is_twice_there_unless_the_index_is_global(
    index: str, partitions: list[str], tmp_path: Path
) -> None:
    table = parted(tmp_path, index=index)
    table.upsert([{"id": 1, "ts": 1, "p": "a"}])
    table.upsert([{"id": 1, "ts": 2, "p": "b"}])
    assert sorted(table.to_arrow()["p"].to_pylist()) == partitions


@pytest.mark.parametrize("hive_style", [False, True])
def test_partition_values_are_given_as_they_were_written_where_hudi_reads_them_off_the_folder(
    hive_style: bool, tmp_path: Path
) -> None:
    table = parted(tmp_path, hive_style_partitioning=hive_style)
    values = ["a%2Fb", "a/b", "a=b", "p=b"]
    table.upsert([{"id": n, "ts": 1, "p": value} for n, value in enumerate(values)])
    table.upsert([{"id": 0, "ts": 2, "p": "a%2Fb"}])
    assert sorted(table.to_arrow()["p"].to_pylist()) == values
    assert [table.count(where=f"p = '{value}'") for value in values] == [1, 1, 1, 1]


def test_a_timestamp_as_partition_is_given_as_a_time_where_hudi_reads_null(tmp_path: Path) -> None:
    table = parted(tmp_path, kind="timestamp")
    moment = dt.datetime(2024, 2, 29, 12, 34, 56, 123456, dt.UTC)
    table.upsert([{"id": 1, "ts": 1, "p": moment}])
    table.upsert([{"id": 1, "ts": 2, "p": moment}])
    assert table.to_arrow(meta_columns=True).select(["p", "_hoodie_partition_path"]).to_pylist() == [
        {"p": moment, "_hoodie_partition_path": "1709210096123456"}
    ]
    assert table.count(where="p = timestamp '2024-02-29 12:34:56.123456'") == 1


def test_log_files_of_one_write_all_have_version_one_and_tokens_that_rise_in_the_order_of_writing(
    tmp_path: Path,
) -> None:
    table = lb.Table.create(tmp_path / "t", "id bigint, v bigint", record_keys="id", buckets=1)
    with table.begin() as write:
        for number in range(12):
            write.write([{"id": 1, "v": number}, {"id": 100 + number, "v": number}])
    found = [parse_data_file(path.name) for path in (tmp_path / "t").iterdir()]
    logs = [name for name in found if isinstance(name, LogFileName)]
    assert {(log.version, log.request_time) for log in logs} == {(1, write.instant)}
    tokens = [f"{1000 + number}-0-0" for number in range(12)]
    assert sorted(present(log.write_token) for log in logs) == tokens == sorted(tokens), "Hudi compares them as text"
    assert table.to_arrow(where="id = 1").to_pylist() == [{"id": 1, "v": 11}]
