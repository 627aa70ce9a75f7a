# SPDX-License-Identifier: Apache-2.0
"""Rows are never written by hashes into a table whose file groups are no buckets, whatever its properties say."""

from __future__ import annotations

from pathlib import Path

import pytest

import lakebraid as lb
from lakebraid.errors import UnsupportedTable
from lakebraid.format.properties import format_properties
from lakebraid.model.writable import FIXED_IDS
from lakebraid.table.loading import PROPERTIES, load_properties
from tests.kit.adopting import state
from tests.kit.reference import Reference, our_rows, unpack
from tests.kit.tables.scene import Call, Scene, row

pytestmark = pytest.mark.unit

ROWS = [{"id": f"new{n}", "part": "p0", "ts": 99} for n in range(2)]


def stating_buckets(name: str, buckets: int, folder: Path) -> Reference:
    reference = unpack(name, folder)
    state(reference.path, hoodie__index__type="BUCKET", hoodie__bucket__index__num__buckets=str(buckets))
    return reference


@pytest.mark.parametrize("name", ["v9_mor_bulk_insert", "v9_mor_clustering_logs", "v9_cow_overwrite"])
def test_keys_do_not_double_in_a_table_without_buckets_that_was_told_to_have_some(name: str, tmp_path: Path) -> None:
    reference = stating_buckets(name, 2, tmp_path)
    table = lb.Table.open(reference.path)
    before = table.to_arrow()
    for write in (table.upsert, table.bulk_insert, table.delete, table.insert_overwrite):
        with pytest.raises(
            UnsupportedTable, match=r"is (no )?bucket.*second rows.*Nothing was changed.*lakebraid adopt"
        ):
            write(before)
    assert table.to_arrow().equals(before)


def test_a_table_without_buckets_gets_some_when_all_of_it_is_rewritten(tmp_path: Path) -> None:
    reference = stating_buckets("v9_mor_overwrite", 2, tmp_path)
    table = lb.Table.open(reference.path)
    before = table.to_arrow()
    table.insert_overwrite_table(before)
    table.upsert(before)
    assert our_rows(table.to_arrow()) == our_rows(before)
    assert {one.group.file_id[:8] for one in table.snapshot().slices} <= {"00000000", "00000001"}


def test_a_number_of_buckets_that_is_too_small_for_the_file_ids_is_refused(tmp_path: Path) -> None:
    reference = stating_buckets("v9_mor_keys_complex_single", 2, tmp_path)
    table = lb.Table.open(reference.path)
    before = table.to_arrow()
    with pytest.raises(UnsupportedTable, match=r"2 buckets.*is bucket [23]"):
        table.upsert(before)
    assert table.to_arrow().equals(before)


@pytest.mark.parametrize("index", ["bucket", "simple"])
def test_a_table_that_was_made_here_keeps_its_number_of_buckets(index: str, tmp_path: Path) -> None:
    table = lb.Table.create(tmp_path / "t", "id string, part string, ts bigint", record_keys="id", index=index)
    table.upsert(ROWS)
    state(tmp_path / "t", hoodie__index__type="BUCKET", hoodie__bucket__index__num__buckets="16")
    for again in (table, lb.Table.open(tmp_path / "t")):
        with pytest.raises(UnsupportedTable, match=r"16 buckets, and was made with (8|none)"):
            again.upsert(ROWS)
    assert table.count() == len(ROWS)


def test_of_an_older_table_that_does_not_state_the_number_the_file_ids_are_looked_at(tmp_path: Path) -> None:
    table = lb.Table.create(tmp_path / "t", "id string, part string, ts bigint", record_keys="id")
    table.upsert([{"id": str(n), "part": "p", "ts": n} for n in range(40)])
    state(tmp_path / "t", **{FIXED_IDS: "true"})
    lb.Table.open(tmp_path / "t").upsert(ROWS)
    state(tmp_path / "t", hoodie__bucket__index__num__buckets="3")
    with pytest.raises(UnsupportedTable, match="3 buckets"):
        lb.Table.open(tmp_path / "t").upsert(ROWS)


@pytest.mark.parametrize(("stated", "looks"), [("1", [0, 0]), ("true", [1, 0])])
def test_looking_at_file_ids_costs_a_table_of_ours_nothing_or_one_listing_in_each_process(
    stated: str, looks: list[int]
) -> None:
    scene = Scene()
    scene.table.upsert([row("a", "a")])
    lines = {**load_properties(scene.storage), FIXED_IDS: stated}
    scene.storage.replace(PROPERTIES, format_properties(lines))
    partitions: list[Call] = []
    other = scene.other(
        before=lambda call: partitions.append(call) if (call.name, call.target) == ("list_folder", "") else None
    )
    found = []
    for value in ("b", "c"):
        partitions.clear()
        other.upsert([row("a", value)])
        found.append(len(partitions))
    assert found == looks
