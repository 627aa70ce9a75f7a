# SPDX-License-Identifier: Apache-2.0
"""The history on disk: torn, stale or missing parts of it, layers that stay few, and real tables of Apache Hudi."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import lakebraid as lb
from lakebraid import limits
from lakebraid.clock import SystemClock
from lakebraid.errors import CorruptFile
from lakebraid.format.names import history_file_name
from lakebraid.format.timeline.history import HistoryFile, format_manifest
from lakebraid.storage.memory import MemoryStorage
from lakebraid.table.at import TableAt
from lakebraid.table.history import load_manifest
from lakebraid.txn.actions.history import choose_merge
from tests.kit.reference import names, our_rows, unpack
from tests.kit.tables.archiving import HISTORY, Past, archive, archive_all, check_history_is_tidy, check_past, past
from tests.kit.tables.scene import row, table_on

pytestmark = pytest.mark.unit


def archived(made: Past) -> MemoryStorage:
    storage = made.storage()
    archive(storage, storage.clock)
    return storage


def goes_on(storage: MemoryStorage, made: Past) -> None:
    """Writers write, the next archiver archives, and nothing is lost."""
    table = check_past(storage, storage.clock, made)
    for n in range(5):
        table.upsert([row("later", str(n), n)])
    assert archive(storage, storage.clock).instants
    check_past(storage, storage.clock, made)
    check_history_is_tidy(storage)


# --- F10 -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [b"", b"x", b"0", None], ids=["empty", "no number", "an old number", "missing"])
def test_f10_a_version_file_that_tells_nothing_is_done_without_and_mended(text: bytes | None) -> None:
    made = past()
    storage = archived(made)
    storage.delete([f"{HISTORY}/_version_"])
    if text is not None:
        storage.create(f"{HISTORY}/_version_", text)
    check_past(storage, storage.clock, made)
    archive(storage, storage.clock)
    assert (
        storage.read(f"{HISTORY}/_version_", 64)
        == str(load_manifest(TableAt(storage, _config(storage), SystemClock())).number).encode()
    )
    goes_on(storage, made)


def _config(storage: MemoryStorage):  # type: ignore[no-untyped-def]
    return table_on(storage, storage.clock)._config


def test_f10_a_version_file_that_a_sleeper_put_back_hides_nothing() -> None:
    """It points at an older manifest that is still there, and instants of newer ones have left the timeline."""
    made = past()
    storage = made.storage()
    archive(storage, storage.clock, keep_min=8, keep_max=8)
    old = load_manifest(TableAt(storage, _config(storage), SystemClock())).number
    archive(storage, storage.clock)
    assert load_manifest(TableAt(storage, _config(storage), SystemClock())).number > old
    storage.replace(f"{HISTORY}/_version_", str(old).encode())
    goes_on(storage, made)


@pytest.mark.parametrize("torn", [b"", b'{"files":[{"fileName":"2026'])
def test_f10_a_torn_manifest_that_nobody_points_at_is_passed_over_and_its_number_never_used(torn: bytes) -> None:
    made = past()
    storage = archived(made)
    number = load_manifest(TableAt(storage, _config(storage), SystemClock())).number
    storage.create(f"{HISTORY}/manifest_{number + 1}", torn)
    table = check_past(storage, storage.clock, made)
    for n in range(5):
        table.upsert([row("later", str(n), n)])
    assert archive(storage, storage.clock).instants
    assert load_manifest(TableAt(storage, _config(storage), SystemClock())).number == number + 2
    assert storage.read(f"{HISTORY}/manifest_{number + 1}", 100) == torn
    check_past(storage, storage.clock, made)


def test_f10_a_torn_manifest_that_counts_is_a_clear_error_and_nothing_leaves_the_timeline() -> None:
    made = past()
    storage = archived(made)
    number = load_manifest(TableAt(storage, _config(storage), SystemClock())).number
    storage.replace(f"{HISTORY}/manifest_{number}", b"{")
    table = table_on(storage, storage.clock)
    for n in range(5):
        table.upsert([row("later", str(n), n)])
    active = len(table.timeline())
    with pytest.raises(CorruptFile, match=f"manifest_{number}"):
        archive(storage, storage.clock)
    assert len(table.timeline()) == active


def test_f10_a_manifest_that_names_a_missing_file_is_a_clear_error_for_who_needs_it_and_archiving_goes_on() -> None:
    made = past()
    storage = archived(made)
    (file,) = [i.name for i in storage.list(HISTORY) if i.name.endswith(".parquet")]
    data = storage.read(file, 10**7)
    storage.delete([file])
    table = table_on(storage, storage.clock)
    with pytest.raises(CorruptFile, match="names a file that is not there") as told:
        table.timeline(archived=True)
    assert "Nothing was changed" in told.value.message
    storage.create(file, data)
    goes_on(storage, made)


def test_f10_a_torn_file_of_a_dead_archiver_is_in_nobodys_way() -> None:
    """Apache Hudi writes such files under their final names; ours are whole or not there."""
    made = past()
    name = next(i.name for i in archived(made).list(HISTORY) if i.name.endswith(".parquet"))
    storage = made.storage()
    storage.create(name, b"PAR1 torn")
    assert archive(storage, storage.clock).instants == 10
    check_past(storage, storage.clock, made)
    assert storage.read(name, 100) == b"PAR1 torn", "no name is ever written twice"


def test_a_file_that_a_dead_archiver_left_whole_is_taken_over() -> None:
    made = past()
    done = archived(made)
    name = next(i.name for i in done.list(HISTORY) if i.name.endswith(".parquet"))
    storage = made.storage()
    storage.create(name, done.read(name, 10**7))
    assert archive(storage, storage.clock).instants == 10
    assert [i.name for i in storage.list(HISTORY) if i.name.endswith(".parquet")] == [name]
    goes_on(storage, made)


# --- layers ----------------------------------------------------------------------------------------------------------


def _file(number: int, layer: int = 0, size: int = 10) -> HistoryFile:
    request_time = f"{20260101000000000 + number}"
    return HistoryFile(history_file_name(request_time, request_time, layer), size)


def test_ten_neighbours_of_a_layer_become_one_of_the_next_the_lowest_and_oldest_first() -> None:
    low, high = [_file(n) for n in range(12)], [_file(100 + n, 1) for n in range(10)]
    assert choose_merge([*high, *reversed(low)]) == tuple(low[:10])
    assert choose_merge([*high, *low[:9]]) == tuple(high)
    assert choose_merge(low[:9]) == ()


def test_large_files_are_not_merged_and_are_not_in_the_way_of_small_ones() -> None:
    large = [_file(n, size=limits.HISTORY_MERGE_BYTES_MAX) for n in range(3)]
    small = [_file(n) for n in range(5, 15)]
    assert choose_merge([*large, *small]) == tuple(small)
    assert choose_merge([*large, *small[:9]]) == ()


@pytest.mark.slow
def test_the_files_of_a_history_stay_few_however_often_it_is_archived(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "HISTORY_MERGE_FILES", 3)
    made = past()
    storage = archived(made)
    table = table_on(storage, storage.clock)
    for n in range(20):
        table.upsert([row("later", str(n), n)])
        table.archive(keep_min=1, keep_max=1)
        assert len(load_manifest(TableAt(storage, _config(storage), SystemClock())).files) <= 3 * 2
    files = load_manifest(TableAt(storage, _config(storage), SystemClock())).files
    assert max(int(f.name.rpartition("_")[2].removesuffix(".parquet")) for f in files) >= 2
    check_past(storage, storage.clock, made)
    check_history_is_tidy(storage)


def test_a_manifest_of_ours_reads_as_hudis_do() -> None:
    storage = archived(past())
    manifest = load_manifest(TableAt(storage, _config(storage), SystemClock()))
    data = storage.read(f"{HISTORY}/manifest_{manifest.number}", 10**6)
    assert format_manifest(manifest.files) == data
    assert {*json.loads(data)} == {"files"}
    assert all(storage.info(f"{HISTORY}/{file.name}").size == file.size for file in manifest.files)


# --- tables of Apache Hudi -------------------------------------------------------------------------------------------

REFERENCES = [name for name in names() if "v6_" not in name]


@pytest.mark.slow
@pytest.mark.parametrize("name", REFERENCES)
def test_archiving_a_table_of_hudi_changes_no_answer(name: str, tmp_path: Path) -> None:
    reference = unpack(name, tmp_path)
    before = lb.Table.open(reference.path)
    times = [None, *reference.times()]
    answers = [_answer(before, time) for time in times]
    listed = sorted((e.instant.request_time, e.instant.action) for e in before.timeline(archived=True))
    archive_all(reference.path)
    after = lb.Table.open(reference.path)
    assert [_answer(after, time) for time in times] == answers
    assert sorted((e.instant.request_time, e.instant.action) for e in after.timeline(archived=True)) == listed


def _answer(table: lb.Table, time: str | None) -> object:
    try:
        return our_rows(table.to_arrow(as_of=time))
    except lb.SnapshotExpired:
        return "expired"


def test_some_of_hudis_tables_have_something_to_archive(tmp_path: Path) -> None:
    moved = [archive_all(unpack(name, tmp_path).path) for name in ("v9_mor_archived", "v9_mor_upgraded_from_6")]
    assert all(moved), moved
