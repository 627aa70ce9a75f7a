# SPDX-License-Identifier: Apache-2.0
"""Which groups a compaction takes, in which order and how many; and rows that are sorted on the way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import lakebraid as lb
from lakebraid import limits
from lakebraid.errors import InvalidArgument
from lakebraid.format.names import BaseFileName, LogFileName
from lakebraid.limits import MIB
from lakebraid.model.timeline.slicing import BaseFile, FileSlice, GroupId, LogFile
from lakebraid.services.merging.scope import (
    CompactionRequest,
    Scope,
    by_urgency,
    compaction_scope,
    is_due,
    within_budget,
)
from lakebraid.services.settings import ServiceSettings, parse_settings

pytestmark = pytest.mark.unit

HUDIS = "org.apache.hudi.table.action.compact.strategy."


def a_slice(partition: str, sizes: dict[int, int], base: tuple[int, int] | None = None) -> FileSlice:
    """A slice with logs by request time and size, over a base file with a request time and size."""
    logs = tuple(
        LogFile(
            f"{request_time}", LogFileName("f", f"{request_time:017}", 1, "0-0-0", ""), size, f"{request_time + 1:017}"
        )
        for request_time, size in sizes.items()
    )
    found = None if base is None else BaseFile("b", BaseFileName("f", "0", f"{base[0]:017}", ".parquet"), base[1], "9")
    return FileSlice(GroupId(partition, "f"), "0", found, logs)


SLICES = [
    a_slice("a", {5: 10, 6: 10, 7: 10}),
    a_slice("b", {3: 100}),
    a_slice("c", {1: 20, 9: 30}, base=(0, 1000)),
]


@pytest.mark.parametrize(
    ("order", "wanted"),
    [("groups", "abc"), ("log_bytes", "bca"), ("logs", "acb"), ("age", "cba"), ("partitions", "cba")],
)
def test_the_most_urgent_groups_come_first(order: str, wanted: str) -> None:
    assert "".join(s.group.partition for s in by_urgency(SLICES, Scope(order=order))) == wanted


@pytest.mark.parametrize(("budget", "wanted"), [(1, "a"), (60, "a"), (259, "a"), (260, "ab"), (10_000, "abc")])
def test_a_budget_takes_one_group_at_least_and_no_more_than_it_allows(budget: int, wanted: str) -> None:
    assert "".join(s.group.partition for s in within_budget(SLICES, Scope(io_bytes_max=budget))) == wanted


@pytest.mark.parametrize(
    ("scope", "wanted"),
    [
        (Scope(), "abc"),
        (Scope(logs_min=2), "ac"),
        (Scope(log_bytes_min=50), "bc"),
        (Scope(before=f"{4:017}"), "bc"),
        (Scope(logs_min=2, before=f"{4:017}"), "c"),
    ],
)
def test_groups_with_too_little_to_do_wait(scope: Scope, wanted: str) -> None:
    assert "".join(s.group.partition for s in SLICES if is_due(s, scope)) == wanted


def test_deletes_that_a_compaction_carried_are_nothing_new() -> None:
    assert not is_due(a_slice("a", {5: 10}, base=(5, 100)), Scope())


def test_only_so_many_partitions_are_taken() -> None:
    taken = by_urgency(SLICES, Scope(order="partitions", partitions_max=2))
    assert [s.group.partition for s in taken] == ["c", "b"]


@pytest.mark.parametrize(
    ("name", "properties", "wanted"),
    [
        (None, {}, Scope()),
        ("everything", {"hoodie.compaction.target.io": "5"}, Scope()),
        (f"{HUDIS}UnBoundedCompactionStrategy", {}, Scope()),
        (f"{HUDIS}BoundedIOCompactionStrategy", {"hoodie.compaction.target.io": "5"}, Scope(io_bytes_max=5 * MIB)),
        (
            f"{HUDIS}LogFileSizeBasedCompactionStrategy",
            {"hoodie.compaction.logfile.size.threshold": "7"},
            Scope(order="log_bytes", log_bytes_min=7),
        ),
        (
            "LogFileNumBasedCompactionStrategy",
            {"hoodie.compaction.logfile.num.threshold": "3"},
            Scope(order="logs", logs_min=3),
        ),
        ("DayBasedCompactionStrategy", {}, Scope(order="partitions", partitions_max=10)),
        (None, {"hoodie.compaction.strategy": f"{HUDIS}LogFileNumBasedCompactionStrategy"}, Scope(order="logs")),
        ("age", {}, Scope(order="age")),
    ],
)
def test_strategies_have_the_names_and_settings_of_hudi(
    name: str | None, properties: dict[str, str], wanted: Scope
) -> None:
    assert compaction_scope(parse_settings(properties), CompactionRequest(name)) == wanted


@pytest.mark.parametrize("name", ["CompositeCompactionStrategy", "com.example.Mine", "", "log size"])
def test_an_unknown_strategy_is_refused_by_its_name(name: str) -> None:
    if not name:
        assert compaction_scope(ServiceSettings(), CompactionRequest(name)) == Scope()
        return
    with pytest.raises(InvalidArgument, match="is not known"):
        compaction_scope(ServiceSettings(), CompactionRequest(name))


@pytest.mark.parametrize("wrong", [{"target_io_mb": -1}, {"logs_min": -2}, {"log_mb_min": -0.5}])
def test_senseless_limits_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument, match="must be positive"):
        compaction_scope(ServiceSettings(), CompactionRequest(**wrong))


def test_a_threshold_that_is_no_number_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="must be a number"):
        compaction_scope(
            parse_settings({"hoodie.compaction.logfile.size.threshold": "ten"}), CompactionRequest("log_size")
        )


def rows(*ids: int, part: str = "p", v: str = "v") -> list[dict[str, Any]]:
    return [{"id": n, "ts": 1, "part": part, "v": f"{v}{n}"} for n in ids]


def partitioned(path: Path) -> lb.Table:
    ddl = "id bigint, ts bigint, part string, v string"
    table = lb.Table.create(path, ddl, record_keys="id", ordering_fields="ts", partition_by="part", buckets=1)
    for part in "xyz":
        table.upsert(rows(1, 2, part=part))
    table.upsert(rows(2, 3, part="y"))
    return table


def bases(table: lb.Table) -> set[str]:
    return {p.parent.name for p in Path(table.path).rglob("*.parquet")}


def test_only_the_named_partitions_are_compacted(tmp_path: Path) -> None:
    table = partitioned(tmp_path / "t")
    before = table.to_arrow().to_pylist()
    assert [done.groups for done in table.compact(partitions=["x", "z"])] == [2]
    assert bases(table) == {"x", "z"}
    assert sorted(map(str, table.to_arrow().to_pylist())) == sorted(map(str, before))


def test_each_run_within_a_budget_takes_the_next_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakebraid.services.merging.scope.MIB", 1)
    table = partitioned(tmp_path / "t")
    found = []
    while done := table.compact(strategy="log_count", target_io_mb=1):
        found.append((done[0].groups, sorted(bases(table))))
    assert found == [(1, ["y"]), (1, ["x", "y"]), (1, ["x", "y", "z"])]


def test_a_dry_run_tells_the_plan_and_changes_nothing(tmp_path: Path) -> None:
    table = partitioned(tmp_path / "t")
    before = sorted(p.name for p in (tmp_path / "t").rglob("*"))
    plan = table.compact(dry_run=True, logs_min=2)
    assert plan is not None and plan.instant is None and "1 file group" in plan.what
    assert table.plan_log_compaction(dry_run=True, logs_min=2) is not None
    assert sorted(p.name for p in (tmp_path / "t").rglob("*")) == before
    assert table.compact(dry_run=True, older_than_seconds=3600) is None


def test_the_strategy_of_the_table_counts_where_none_is_given(tmp_path: Path) -> None:
    ddl = "id bigint, ts bigint, v string"
    settings = {
        "hoodie.compaction.strategy": f"{HUDIS}LogFileNumBasedCompactionStrategy",
        "hoodie.compaction.logfile.num.threshold": "2",
    }
    table = lb.Table.create(tmp_path / "t", ddl, record_keys="id", ordering_fields="ts", buckets=1, properties=settings)
    table.upsert([{"id": 1, "ts": 1, "v": "a"}])
    assert table.compact() == []
    table.upsert([{"id": 1, "ts": 2, "v": "b"}])
    assert len(table.compact()) == 1


# --- sorted base files -----------------------------------------------------------------------------------------------


def sortable(path: Path, count: int = 1000) -> lb.Table:
    ddl = "id bigint, ts bigint, v bigint, tags array<string>"
    table = lb.Table.create(path, ddl, record_keys="id", ordering_fields="ts", buckets=1)
    table.upsert([{"id": n, "ts": 1, "v": n * 7919 % count, "tags": []} for n in range(count)])
    table.upsert([{"id": n, "ts": 2, "v": -n, "tags": ["new"]} for n in range(10)])
    table.delete([{"id": n, "ts": 3} for n in range(10, 20)])
    return table


@pytest.mark.parametrize("stretch", [1 << 30, 1])
def test_sorted_base_files_hold_the_same_rows_and_their_row_groups_can_be_passed_over(
    stretch: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "BASE_ROW_GROUP_ROWS", 100)
    monkeypatch.setattr(limits, "COMPACT_SORT_BYTES", stretch)
    table = sortable(tmp_path / "t")
    before = sorted(map(str, table.to_arrow(meta_columns=True).drop_columns(["_hoodie_file_name"]).to_pylist()))
    assert len(table.compact(sort_by=["v", "id"])) == 1
    after = table.to_arrow(meta_columns=True).drop_columns(["_hoodie_file_name"]).to_pylist()
    assert sorted(map(str, after)) == before
    path = max((tmp_path / "t").glob("*.parquet"), key=lambda found: found.stem.rpartition("_")[2])
    file = pq.ParquetFile(path)
    values = file.read(["v"]).column("v").to_pylist()
    if stretch > 1:
        assert values == sorted(values)
        groups = [file.metadata.row_group(n) for n in range(file.metadata.num_row_groups)]
        at = file.schema_arrow.get_field_index("v")
        assert len(groups) == 10
        assert sum(g.column(at).statistics.min <= 500 <= g.column(at).statistics.max for g in groups) == 1
    assert table.count("v = -5") == 1
    table.upsert([{"id": 5, "ts": 9, "v": 1, "tags": []}])
    assert table.count("v = -5") == 0
    assert len(table.compact(sort_by=["v"])) == 1
    assert table.count() == 990


@pytest.mark.parametrize(("columns", "why"), [(["nope"], "is not one of"), (["tags"], "has no order"), ("v", "A list")])
def test_what_cannot_be_sorted_by_is_refused_and_nothing_is_planned(columns: Any, why: str, tmp_path: Path) -> None:
    table = sortable(tmp_path / "t", 20)
    with pytest.raises(InvalidArgument, match=why):
        table.compact(sort_by=columns)
    assert table.compact(dry_run=True) is not None
