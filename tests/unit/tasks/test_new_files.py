# SPDX-License-Identifier: Apache-2.0
"""How a write announces its data files and puts them where each call takes a while: all in one list, then side by side."""

from __future__ import annotations

import threading
import zlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from lakebraid import limits
from lakebraid.errors import OutcomeUnknown, StorageError
from lakebraid.format.names import parse_data_file
from lakebraid.storage import Storage
from lakebraid.tasks.new_files import NewFiles, put_files
from lakebraid.tasks.staged_file import StagedFile
from lakebraid.tasks.writing.rows import write_rows
from lakebraid.txn.liveness.markers import load_markers, marked_file
from tests.kit.races.wide import WideMemory
from tests.kit.tables.builder import StillClock
from tests.kit.tables.built_files import t
from tests.kit.tables.lake import PLAIN, Lake, row
from tests.kit.tables.scene import Call, TickingClock, WatchedStorage, answer, make_table, once, table_on
from tests.kit.tables.scene import row as wide_row
from tests.kit.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.unit

TYPE = f".hoodie/.temp/{t(1)}/MARKERS.type"


def wide_lake(**how: Any) -> Lake:
    return Lake(storage=WideMemory("memory://lake", StillClock()), **how)


def marker_objects(storage: Storage, request_time: str = t(1)) -> list[str]:
    return [info.name for info in storage.list(f".hoodie/.temp/{request_time}")]


def announced(storage: Storage, request_time: str = t(1)) -> list[str]:
    return sorted(marked_file(marker) for marker in load_markers(storage, request_time))


# --- lists -----------------------------------------------------------------------------------------------------------


def test_a_task_on_an_object_store_announces_all_its_files_in_one_list_that_hudi_reads() -> None:
    lake = wide_lake(buckets=8)
    files = write_rows(lake.storage, lake.plan(), lake.table([row(f"k{n}", 1) for n in range(100)]), 1000)
    assert len(files) == 8
    kind, listed = marker_objects(lake.storage)
    assert kind == TYPE
    assert lake.storage.read(kind, 100) == b"TIMELINE_SERVER_BASED"
    number = listed.removeprefix(f".hoodie/.temp/{t(1)}/MARKERS")
    assert int(number) < 2**31
    lines = lake.storage.read(listed, 10_000).decode()
    assert lines == "".join(f"{path}.marker.CREATE\n" for path in sorted(file.path for file in files))
    assert announced(lake.storage) == sorted(file.path for file in files)


def test_every_task_has_a_list_of_its_own_and_a_second_attempt_meets_that_of_the_first() -> None:
    lake = wide_lake()
    rows = lake.table([row(f"k{n}", 1) for n in range(20)])
    for task in (1000, 1001, 1000):
        write_rows(lake.storage, lake.plan(), rows, task)
    assert len(marker_objects(lake.storage)) == 3
    assert len(announced(lake.storage)) == 8


def test_an_attempt_that_has_other_file_groups_announces_them_too() -> None:
    lake = wide_lake(buckets=16)
    first = write_rows(lake.storage, lake.plan(), lake.table([row("a", 1)]), 1000)
    second = write_rows(lake.storage, lake.plan(), lake.table([row("b", 1)]), 1000)
    assert first[0].path != second[0].path
    assert announced(lake.storage) == sorted([first[0].path, second[0].path])


def test_files_that_were_announced_before_there_were_rows_are_not_announced_again() -> None:
    lake, other = wide_lake(buckets=16), wide_lake(buckets=16)
    (first,) = write_rows(other.storage, other.plan(), other.table([row("a", 1)]), 1000)
    ahead = replace(lake.plan(), announced=frozenset({(first.partition, first.name)}))
    assert write_rows(lake.storage, ahead, lake.table([row("a", 1)]), 1000) == [first]
    assert marker_objects(lake.storage) == []
    (second,) = write_rows(lake.storage, ahead, lake.table([row("b", 1)]), 1000)
    assert announced(lake.storage) == [second.path], "others are"


def test_a_list_of_another_task_under_the_same_number_stays_and_both_are_found() -> None:
    lake, other = wide_lake(buckets=1), wide_lake(buckets=1)
    (file,) = write_rows(lake.storage, lake.plan(), lake.table([row("a", 1)]), 1000)
    name = marker_objects(lake.storage)[-1]
    theirs = file.path.replace("_1000-", "_1001-")
    other.storage.create(name, f"{theirs}.marker.CREATE\n".encode())
    write_rows(other.storage, other.plan(), other.table([row("a", 1)]), 1000)
    assert announced(other.storage) == sorted([theirs, file.path])


def test_a_folder_full_of_foreign_lists_is_an_error_and_no_file_is_put() -> None:
    lake, other = wide_lake(buckets=1), wide_lake(buckets=1)
    (file,) = write_rows(lake.storage, lake.plan(), lake.table([row("a", 1)]), 1000)
    number = zlib.crc32(f"{file.path}.marker.CREATE\n".encode())
    for further in range(limits.PLACE_ATTEMPTS_MAX):
        other.storage.create(f".hoodie/.temp/{t(1)}/MARKERS{(number + further) % 10**9}", b"others\n")
    with pytest.raises(StorageError, match=r"nothing is visible.*again"):
        write_rows(other.storage, other.plan(), other.table([row("a", 1)]), 1000)
    assert file.path not in {info.name for info in other.storage.list()}


@pytest.mark.parametrize("effect", ["before", "after"])
@pytest.mark.parametrize("where", ["MARKERS.type", "/MARKERS", "0000-0"], ids=["type", "list", "data file"])
def test_an_answer_that_is_lost_loses_and_doubles_nothing(where: str, effect: str) -> None:
    lake = wide_lake(buckets=1)

    def lose() -> None:
        raise OutcomeUnknown("no answer: nothing is known")

    hook = once(lambda call: call.name == "create" and where in call.target, lose)
    storage = WatchedStorage(lake.storage, **{effect: hook})
    (file,) = write_rows(storage, lake.plan(), lake.table([row("a", 1)]), 1000)
    assert hook.done
    assert announced(lake.storage) == [file.path]
    assert len(marker_objects(lake.storage)) == 2


@pytest.mark.parametrize("mark", ["\u2028", "\u2029", "\u0085"])
def test_a_partition_whose_name_ends_lines_elsewhere_is_found_or_refused_before_anything_is_written(mark: str) -> None:
    schema = pa.schema([*PLAIN, ("p", pa.string())])
    lake = wide_lake(schema=schema, properties={"hoodie.table.partition.fields": "p"}, buckets=1)
    rows = lake.table([row("a", 1) | {"p": f"x{mark}y"}])
    if mark == "\u0085":  # no store has to take it
        with pytest.raises(Exception, match=r"U\+0085"):
            write_rows(lake.storage, lake.plan(), rows, 1000)
        assert marker_objects(lake.storage) == []
    else:
        (file,) = write_rows(lake.storage, lake.plan(), rows, 1000)
        assert announced(lake.storage) == [file.path]


def test_a_list_that_another_rollback_removes_after_it_was_seen_is_no_error() -> None:
    lake = wide_lake(buckets=1)
    write_rows(lake.storage, lake.plan(), lake.table([row("a", 1)]), 1000)
    names = marker_objects(lake.storage)
    hook = once(lambda call: call.name == "read", lambda: lake.storage.delete(names))
    assert load_markers(WatchedStorage(lake.storage, before=hook), t(1)) == []
    assert hook.done


# --- round trips -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("buckets", [8, 64])
def test_markers_and_data_of_any_number_of_buckets_take_two_round_trips(buckets: int) -> None:
    lake = wide_lake(buckets=buckets)
    lake.storage.create(".hoodie_partition_metadata", b"")
    all_at_once = threading.Barrier(buckets)
    markers_at_once = threading.Barrier(2)
    acknowledged: list[str] = []

    def wait(call: Call) -> None:
        if call.name == "create":
            is_marker = call.target.startswith(".hoodie/.temp/")
            assert is_marker or len(acknowledged) == 2, "a data file before its marker was acknowledged"
            (markers_at_once if is_marker else all_at_once).wait(PATIENCE_SECONDS)

    def note(call: Call) -> None:
        if call.name == "create" and call.target.startswith(".hoodie/.temp/"):
            acknowledged.append(call.target)

    storage = WatchedStorage(lake.storage, wait, note)
    rows = lake.table([row(f"{n * 7919:08x}", 1) for n in range(40 * buckets)])  # keys that hash into all buckets
    files = write_rows(storage, lake.plan(), rows, 1000)
    assert len(files) == buckets
    assert len([call for call in storage.calls if call.name == "create"]) == buckets + 2


def test_many_large_files_are_announced_and_put_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "STORE_BYTES_AT_ONCE_MAX", 100)
    storage = WideMemory("memory://lake", StillClock())
    seen: list[int] = []

    def new(number: int) -> NewFiles:
        name = f"a{number}-0_0-0-0_{t(1)}.parquet"

        def put() -> list[StagedFile]:
            seen.append(len(announced(storage)))
            return [StagedFile("", f"a{number}-0", name, 0, 0, 0, is_base=True)]

        return NewFiles((("", name),), 40, put)

    made = list(put_files(storage, t(1), map(new, range(5))))
    assert [file.file_id for file in made] == [f"a{n}-0" for n in range(5)]
    assert sorted(seen) == [2, 2, 4, 4, 5]
    assert len(marker_objects(storage)) == 4


def test_a_caller_that_stops_after_the_first_files_leaves_the_others_unmade(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WideMemory, "calls_at_once", 2)
    storage = WideMemory("memory://lake", StillClock())
    made: list[int] = []

    def new(number: int) -> NewFiles:
        name = f"a{number}-0_0-0-0_{t(1)}.parquet"
        file = StagedFile("", f"a{number}-0", name, 0, 0, 0, is_base=True)
        return NewFiles((("", name),), 1, lambda: made.append(number) or [file])  # type: ignore[func-returns-value]

    next(put_files(storage, t(1), map(new, range(6))))
    assert sorted(made) == [0, 1]


# --- all roads -------------------------------------------------------------------------------------------------------


def _twice(table: Any, write: Callable[[list[dict[str, Any]]], object]) -> None:
    write([wide_row(f"k{n}", "1") for n in range(40)])
    write([wide_row(f"k{n}", "2", ts=2) for n in range(20, 60)])
    table.delete([{"id": "k1", "ts": 3}, {"id": "absent", "ts": 3}])


CAPTURES = {"hoodie.table.cdc.enabled": "true"}
ROADS: dict[str, tuple[dict[str, Any], Callable[[Any], None]]] = {
    "log files": ({"buckets": 4}, lambda table: _twice(table, table.upsert)),
    "base files of a bulk load": ({"buckets": 4}, lambda table: _twice(table, table.bulk_insert)),
    "partial updates": (
        {"buckets": 4},
        lambda table: _twice(table, lambda rows: table.upsert(rows, columns=["id", "ts", "v"])),
    ),
    "copy on write": ({"buckets": 4, "table_type": "cow"}, lambda table: _twice(table, table.upsert)),
    "copy on write, captured": (
        {"buckets": 4, "table_type": "cow", "properties": CAPTURES},
        lambda table: _twice(table, table.upsert),
    ),
    "merge on read, captured": ({"buckets": 4, "properties": CAPTURES}, lambda table: _twice(table, table.upsert)),
    "looked up": (
        {"table_type": "cow", "index": "simple"},
        lambda table: _twice(table, table.upsert),
    ),
    "looked up, with log files": (
        {"index": "simple", "concurrency": "occ"},
        lambda table: _twice(table, table.upsert),
    ),
    "overwrite": ({"buckets": 4}, lambda table: _twice(table, table.insert_overwrite_table)),
}


@pytest.mark.parametrize("road", ROADS)
def test_no_data_file_of_a_write_appears_before_it_was_announced(road: str) -> None:
    arguments, write = ROADS[road]
    storage = WideMemory("memory://roads", TickingClock())
    put: list[str] = []

    def look(call: Call) -> None:
        found = parse_data_file(call.target.rpartition("/")[2]) if call.name == "create" else None
        if found is not None:
            put.append(call.target)
            assert call.target in announced(storage, found.request_time), "not announced"
            assert f".hoodie/.temp/{found.request_time}/MARKERS.type" in marker_objects(storage, found.request_time)

    watched = WatchedStorage(storage, before=look)
    made = make_table(watched, storage.clock, **arguments)
    write(made)
    assert len(put) >= 3  # of each of the three writes
    seen = answer(table_on(storage, storage.clock))
    assert "k1" not in seen
    assert seen["k50"] == "2"
    assert not storage.list(".hoodie/.temp"), "markers of writes that are over"
