# SPDX-License-Identifier: Apache-2.0
"""Apache Hudi reads tables and histories that we archived, goes on writing and archiving there, and we after it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import lakebraid as lb
from lakebraid import limits
from tests.interop.our_tables import rows
from tests.interop.referee import Referee
from tests.interop.shared_table import LOCK, SharedTable
from tests.kit.reference import our_rows, unpack
from tests.kit.tables.archiving import archive_all

pytestmark = pytest.mark.interop

KEEP: dict[str, Any] = {"keep_min": 2, "keep_max": 3}
BEGIN = "hoodie.datasource.read.begin.instanttime"


@pytest.fixture
def shared(referee: Referee, tmp_path: Path) -> SharedTable:
    return SharedTable.create(referee, tmp_path / "shared")


def fill(shared: SharedTable, first: int, count: int) -> list[lb.WriteResult]:
    """Each write changes row 1 and brings one of its own; in the middle a compaction."""
    written = []
    for n in range(first, first + count):
        written.append(shared.table.upsert(rows(f"v{n}_", {1: n + 1, n + 2: 1})))
        if n == first + count // 2:
            shared.table.compact()
    return written


def names(last: int) -> list[str]:
    return [f"v{last}_1", *(f"v{n}_{n + 2}" for n in range(last + 1))]


def hudi_names(shared: SharedTable, mode: str, option: str, value: str) -> list[str]:
    found = shared.referee.ask("read", path=str(shared.path), mode=mode, options={option: value})
    return sorted(row["name"] for row in found["rows"])


def archived(shared: SharedTable) -> dict[str, int]:
    """What Hudi finds in the history: rows written, by request time."""
    span = "start_ts => '20000101000000000', end_ts => '20990101000000000', limit => 1000"
    found = shared.sql(f"call show_archived_commits(table => '{shared.name_in_spark()}', {span})")
    return {row["commit_time"]: row["total_records_written"] for row in found}


def listed(shared: SharedTable) -> dict[str, str]:
    """Hudi's listing of the whole timeline: whether each instant is active or archived."""
    name = shared.name_in_spark()
    found = shared.sql(f"call show_timeline(table => '{name}', showArchived => true, limit => 1000)")
    assert len(found) == len({row["instant_time"] for row in found})
    return {row["instant_time"]: row["timeline_type"] for row in found}


@pytest.mark.parametrize("is_shared", [True, False])
def test_hudi_reads_all_as_before_after_we_archived(referee: Referee, tmp_path: Path, is_shared: bool) -> None:
    shared = SharedTable.create(referee, tmp_path / "t", shared=is_shared)
    written = fill(shared, 0, 9)
    moved = shared.table.archive(**KEEP)
    assert moved.instants == 9 and len(shared.writes()) == 2
    shared.check(names(8))
    early, late = written[3].completion_time, written[7].completion_time
    assert hudi_names(shared, "as_of", "as.of.instant", early) == sorted(names(3))
    assert hudi_names(shared, "incremental", BEGIN, late) == ["v8_1", "v8_10"]
    assert hudi_names(shared, "incremental", BEGIN, early) == sorted(set(names(8)) - set(names(3)))
    found = archived(shared)
    assert {w.instant: w.rows_written for w in written[:7]}.items() <= found.items()
    kinds = listed(shared)
    assert [kinds[w.instant] for w in written] == ["ARCHIVED"] * 7 + ["ACTIVE"] * 2


def test_hudi_goes_on_and_archives_on_top_of_our_history_and_we_on_top_of_its(
    shared: SharedTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "ARCHIVE_BATCH_INSTANTS", 3)
    written = fill(shared, 0, 7)
    shared.table.archive(**KEEP)
    for n in range(7, 11):
        shared.hudi_writes(rows(f"v{n}_", {1: n + 1, n + 2: 1}))
    shared.call(
        "archive_commits", "min_commits => 2", "max_commits => 3", "retain_commits => 1", "enable_metadata => false"
    )
    assert len(shared.writes()) < 6, "Hudi archived nothing"
    shared.check(names(10))
    written += fill(shared, 11, 5)
    assert shared.table.archive(**KEEP).instants > 2
    shared.check(names(15))
    shared.hudi_writes(rows("last", {99: 1}))
    shared.check([*names(15), "last99"])
    everything = {entry.instant.request_time for entry in shared.table.timeline(archived=True)}
    assert everything == {*listed(shared)}
    assert {w.instant for w in written} <= everything
    assert [shared.table.status(w.instant) for w in written] == ["published"] * len(written)


def test_hudi_reads_and_archives_on_a_history_that_we_merged(
    shared: SharedTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "ARCHIVE_BATCH_INSTANTS", 2)
    monkeypatch.setattr(limits, "HISTORY_MERGE_FILES", 3)
    written = fill(shared, 0, 9)
    shared.table.archive(**KEEP)
    folder = shared.path / ".hoodie" / "timeline" / "history"
    assert list(folder.glob("*_1.parquet")), "nothing was merged"
    assert {w.instant for w in written[:7]} <= {*archived(shared)}
    shared.hudi_writes(rows("h", {1: 99}))
    shared.hudi_writes(rows("h", {2: 99}))
    shared.call(
        "archive_commits", "min_commits => 2", "max_commits => 3", "retain_commits => 1", "enable_metadata => false"
    )
    assert {w.instant for w in written[:7]} <= {*archived(shared)}
    assert {w.instant for w in written} <= {
        entry.instant.request_time for entry in shared.table.timeline(archived=True)
    }
    shared.check(["h1", "h2", *names(8)[2:]])


def test_hudi_finds_the_history_while_the_version_file_is_missing(shared: SharedTable) -> None:
    written = fill(shared, 0, 6)
    shared.table.archive(**KEEP)
    for name in ("_version_", "._version_.crc"):
        (shared.path / ".hoodie" / "timeline" / "history" / name).unlink(missing_ok=True)
    assert {w.instant for w in written[:4]} <= {*archived(shared)}
    fill(shared, 6, 2)
    shared.table.archive(**KEEP)
    assert (shared.path / ".hoodie" / "timeline" / "history" / "_version_").exists()
    assert {w.instant for w in written} <= {*archived(shared)}


def test_a_late_file_of_a_write_that_was_rolled_back_stays_invisible_to_hudi(shared: SharedTable) -> None:
    """H8: Hudi takes every file that is older than the first write of its timeline for committed."""
    fill(shared, 0, 3)
    dead = shared.table.begin()
    dead.write(rows("dead", {1: 999, 77: 999}))
    files = {p: p.read_bytes() for p in shared.path.rglob(f"*_{dead.instant}.log*") if p.suffix != ".crc"}
    assert files
    dead.abort()
    fill(shared, 3, 5)
    held = shared.table.archive(keep_min=1, keep_max=1)
    assert dead.instant in held.held_back_by
    for path, data in files.items():
        path.write_bytes(data)
    shared.check(names(7))


REFERENCES = [
    "v9_mor_archived",
    "v9_mor_cleaned_archived",
    "v9_mor_late_writers_two_compactions",
    "v9_mor_upgraded_from_6",
    "v9_cow_overwrite",
    "v9_mor_log_compaction_chain",
]


@pytest.mark.parametrize("name", REFERENCES)
def test_hudi_reads_its_own_table_as_before_after_we_archived_it(name: str, referee: Referee, tmp_path: Path) -> None:
    """Hudi's history and ours lie one upon the other."""
    reference = unpack(name, tmp_path)
    before = sorted(entry.instant.request_time for entry in lb.Table.open(reference.path).timeline(archived=True))
    archive_all(reference.path)
    table = lb.Table.open(reference.path)
    found = referee.ask("read", path=str(reference.path))["rows"]
    expected = reference.hudi(reference.expected["snapshot"])
    assert reference.hudi(found) == expected
    assert our_rows(table.to_arrow(meta_columns=True)) == expected
    assert sorted(entry.instant.request_time for entry in table.timeline(archived=True)) == before


def test_a_default_table_that_hudi_wrote_to_is_archived_with_its_writes(referee: Referee, tmp_path: Path) -> None:
    alone = SharedTable.create(referee, tmp_path / "t", shared=False)
    fill(alone, 0, 3)
    alone.hudi_writes(rows("h", {1: 50, 60: 1}), **LOCK)
    fill(alone, 3, 4)
    alone.table.archive(**KEEP)
    alone.check(["h1", "h60", *names(6)[1:]])
