# SPDX-License-Identifier: Apache-2.0
"""Rows are never written by hashes into a table whose file groups are no buckets, whatever its properties say."""

from __future__ import annotations

from pathlib import Path

import pytest

import lakebraid as lb
from lakebraid.errors import UnsupportedTable
from lakebraid.format.properties import format_properties, parse_properties
from lakebraid.model.writable import FIXED_IDS
from tests.kit.reference import Reference, unpack

pytestmark = pytest.mark.unit

ROWS = [{"id": f"new{n}", "part": "p0", "ts": 99} for n in range(2)]


def state(path: Path, **lines: str | None) -> None:
    """Puts lines into hoodie.properties by hand, or takes them out."""
    file = path / ".hoodie" / "hoodie.properties"
    changed = parse_properties(file.read_bytes(), "here") | {k.replace("__", "."): v for k, v in lines.items()}
    file.write_bytes(format_properties({key: value for key, value in changed.items() if value is not None}))


def stating_buckets(name: str, buckets: int, folder: Path) -> Reference:
    reference = unpack(name, folder)
    state(reference.path, hoodie__index__type="BUCKET", hoodie__bucket__index__num__buckets=str(buckets))
    return reference


@pytest.mark.parametrize("name", ["v9_mor_bulk_insert", "v9_mor_clustering_logs", "v9_cow_overwrite"])
def test_keys_do_not_double_in_a_table_without_buckets_that_was_told_to_have_some(name: str, tmp_path: Path) -> None:
    reference = stating_buckets(name, 2, tmp_path)
    table = lb.Table.open(reference.path)
    before = table.to_arrow()
    for write in (table.upsert, table.bulk_insert, table.insert_overwrite_table):
        with pytest.raises(
            UnsupportedTable, match=r"is (no )?bucket.*second rows.*Nothing was changed.*lakebraid adopt"
        ):
            write(before)
    assert table.to_arrow().equals(before)


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
