# SPDX-License-Identifier: Apache-2.0
"""What every store promises. The same tests run over S3 in tests/objects."""

from __future__ import annotations

import io
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier, Event

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakebraid.clock import SystemClock
from lakebraid.errors import CorruptFile, InvalidArgument, ObjectExists, ObjectNotFound
from lakebraid.storage import LocalStorage, MemoryStorage, Storage

pytestmark = pytest.mark.unit

ODD_NAMES = [
    "a%2Fb/100%.parquet",
    "k=x y/f 1.parquet",
    "ü#?/日本 😀.parquet",
    "a[b]{c,d}*/f.parquet",
    "k=2024-01-01 10:30:00+02/f.parquet",
    'it\'s/"q"~^|<>&;$!@,().parquet',
    ".hidden/.f.log.1_0-1-2",
    "...three/x..y",
]


@pytest.fixture(params=["local", "memory"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    return LocalStorage(str(tmp_path / "table")) if request.param == "local" else MemoryStorage()


def names(storage: Storage, prefix: str = "", after: str = "") -> list[str]:
    return [info.name for info in storage.list(prefix, after=after)]


def test_what_was_created_is_read_back(storage: Storage) -> None:
    storage.create("k=1/a", b"hello")
    assert storage.read("k=1/a", 100) == b"hello"
    info = storage.info("k=1/a")
    assert (info.name, info.size) == ("k=1/a", 5)
    assert abs(info.modified_ms - SystemClock().now_ms()) < 60_000
    assert storage.list() == [info]


def test_a_second_create_is_refused_and_changes_nothing(storage: Storage) -> None:
    storage.create("a", b"first")
    with pytest.raises(ObjectExists, match="Nothing was changed"):
        storage.create("a", b"second")
    assert storage.read("a", 100) == b"first"
    assert names(storage) == ["a"]


def test_of_sixteen_creators_exactly_one_wins(storage: Storage) -> None:
    start = Barrier(16)

    def create(writer: int) -> bool:
        start.wait()
        try:
            storage.create("ledger/1", b"%02d" % writer)
        except ObjectExists:
            return False
        return True

    with ThreadPoolExecutor(16) as pool:
        won = list(pool.map(create, range(16)))
    assert won.count(True) == 1
    assert storage.read("ledger/1", 100) == b"%02d" % won.index(True)
    assert names(storage) == ["ledger/1"]


def test_a_reader_never_sees_part_of_an_object(storage: Storage) -> None:
    data = b"x" * 3_000_000
    done = Event()

    def poll() -> set[int]:
        seen: set[int] = set()
        while True:
            last_round = done.is_set()
            seen.update(info.size for info in storage.list("d"))
            for i in range(8):
                try:
                    seen.add(len(storage.read(f"d/{i}", len(data))))
                except ObjectNotFound:
                    break
            if last_round:
                return seen

    with ThreadPoolExecutor(1) as pool:
        seen = pool.submit(poll)
        try:
            for i in range(8):
                storage.create(f"d/{i}", data)
            for i in range(8):
                storage.replace(f"d/{i}", data)
        finally:
            done.set()
    assert seen.result() == {len(data)}


def test_replace_writes_whether_or_not_there_is_something(storage: Storage) -> None:
    storage.replace("heartbeat/1", b"one")
    storage.replace("heartbeat/1", b"two two")
    assert storage.read("heartbeat/1", 100) == b"two two"
    assert names(storage) == ["heartbeat/1"]


def test_a_copy_appears_under_the_new_name_and_outlives_its_source(storage: Storage) -> None:
    storage.create("staged/1.x", b"bytes")
    storage.copy("staged/1.x", "new/folder/1")
    storage.delete(["staged/1.x"])
    assert storage.read("new/folder/1", 100) == b"bytes"
    assert names(storage) == ["new/folder/1"]


def test_a_copy_of_a_deleted_source_is_refused_and_makes_nothing(storage: Storage) -> None:
    storage.create("staged/1.x", b"bytes")
    storage.delete(["staged/1.x"])
    with pytest.raises(ObjectNotFound):
        storage.copy("staged/1.x", "timeline/1")
    assert storage.list() == []
    assert storage.list_folder("timeline") == ([], [])
    assert "timeline" not in storage.list_folder()[1]


def test_a_copy_whose_target_is_there_already_succeeds(storage: Storage) -> None:
    storage.create("staged/1.x", b"bytes")
    storage.copy("staged/1.x", "timeline/1")
    storage.copy("staged/1.x", "timeline/1")
    assert storage.read("timeline/1", 100) == b"bytes"


def test_a_copy_without_source_is_refused_even_if_the_target_is_there(storage: Storage) -> None:
    storage.create("timeline/1", b"bytes")
    with pytest.raises(ObjectNotFound):
        storage.copy("staged/1.x", "timeline/1")
    assert storage.read("timeline/1", 100) == b"bytes"


def test_what_is_absent_is_not_found_by_any_read(storage: Storage) -> None:
    storage.create("d/a", b"x")
    for absent in ("b", "d/b", "d", "e/f"):
        with pytest.raises(ObjectNotFound):
            storage.read(absent, 100)
        with pytest.raises(ObjectNotFound):
            storage.read_range(absent, 0, 1)
        with pytest.raises(ObjectNotFound):
            storage.read_range(absent, 0, 0)
        with pytest.raises(ObjectNotFound):
            storage.info(absent)
        with pytest.raises(ObjectNotFound):
            storage.open_input(absent)


def test_an_object_beyond_the_size_limit_is_not_read(storage: Storage) -> None:
    storage.create("a", b"12345")
    assert storage.read("a", 5) == b"12345"
    with pytest.raises(CorruptFile, match="5 bytes, where at most 4") as caught:
        storage.read("a", 4)
    assert (caught.value.size, caught.value.size_max) == (5, 4)


def test_a_range_is_shorter_only_at_the_end_of_the_object(storage: Storage) -> None:
    data = b"0123456789"
    storage.create("a", data)
    for start in range(13):
        for length in (0, 1, 4, 10, 1 << 40):
            assert storage.read_range("a", start, length) == data[start : start + length], (start, length)


def test_negative_ranges_are_refused(storage: Storage) -> None:
    storage.create("a", b"0123456789")
    for start, length in ((-1, 3), (0, -1)):
        with pytest.raises(InvalidArgument):
            storage.read_range("a", start, length)


def test_an_empty_object_is_an_object(storage: Storage) -> None:
    storage.create("inflight", b"")
    assert storage.read("inflight", 0) == b""
    assert storage.read_range("inflight", 0, 10) == b""
    assert [(info.name, info.size) for info in storage.list()] == [("inflight", 0)]


def test_a_listing_is_recursive_sorted_and_by_folder(storage: Storage) -> None:
    made = ["a", "b/1", "b/c/2", "b-", "b0", "bc/3", "ü/x", "z/y/x/w"]
    for name in made:
        storage.create(name, name.encode())
    assert names(storage) == sorted(made)
    assert names(storage, "b") == names(storage, "b/") == ["b/1", "b/c/2"]
    assert [info.size for info in storage.list("b")] == [3, 5]
    assert names(storage, "z/y") == ["z/y/x/w"]
    assert names(storage, "none") == names(storage, "none/at/all") == []
    assert names(storage, "a") == []


def test_a_listing_can_begin_after_any_name(storage: Storage) -> None:
    made = sorted(["a", "b/1", "b/2/x", "b-/1", "b0/1", "c/1", "c/2"])
    for name in made:
        storage.create(name, b"")
    for after in [*made, "", "a0", "b", "b/", "b/2", "b/2/", "b/2/y", "b/3", "c", "zz"]:
        assert names(storage, after=after) == [name for name in made if name > after], after
        in_b = [name for name in made if name.startswith("b/") and name > after]
        assert names(storage, "b", after=after) == in_b, after


def test_a_folder_shows_its_own_objects_and_sub_folders(storage: Storage) -> None:
    for name in ["a", "b/1", "b/c/2", "b/c/d/3", "bc/3", ".hoodie/x"]:
        storage.create(name, b"")
    objects, folders = storage.list_folder()
    assert ([info.name for info in objects], folders) == (["a"], [".hoodie", "b", "bc"])
    objects, folders = storage.list_folder("b/")
    assert ([info.name for info in objects], folders) == (["b/1"], ["b/c"])
    assert storage.list_folder("none") == ([], [])
    assert storage.list_names("b/") == storage.list_names("b") == ["1"]
    assert storage.list_names("none") == []


@pytest.mark.parametrize("name", ODD_NAMES)
def test_odd_names_are_taken_literally(storage: Storage, name: str) -> None:
    storage.create(name, b"odd")
    folder = name.rpartition("/")[0]
    assert storage.read(name, 10) == b"odd"
    assert storage.read_range(name, 1, 1) == b"d"
    assert storage.info(name).name == name
    assert names(storage) == names(storage, folder) == [name]
    assert storage.list_folder()[1] == [folder]
    storage.copy(name, f"{name}2")
    storage.replace(name, b"even")
    assert names(storage) == sorted([name, f"{name}2"])
    storage.delete([name, f"{name}2"])
    assert names(storage) == []


def test_deleting_what_is_absent_is_fine(storage: Storage) -> None:
    for name in ("a", "b/c", "b/d"):
        storage.create(name, b"")
    storage.delete(["a", "none", "b/c", "no/folder/x", "a"])
    storage.delete([])
    assert names(storage) == ["b/d"]


@pytest.mark.parametrize("name", ["", "/etc/passwd", "../x", "a/../../x", "a//b", "a/", "./a", "a\\b", "a\0b", "a\nb"])
def test_no_call_takes_a_name_that_could_leave_the_root(storage: Storage, name: str) -> None:
    storage.create("good", b"")
    calls: list[Callable[[], object]] = [
        lambda: storage.read(name, 10),
        lambda: storage.read_range(name, 0, 1),
        lambda: storage.info(name),
        lambda: storage.create(name, b""),
        lambda: storage.replace(name, b""),
        lambda: storage.copy(name, "b"),
        lambda: storage.copy("good", name),
        lambda: storage.delete(["good", name]),
        lambda: storage.open_input(name),
        lambda: storage.native_path(name),
    ]
    if name not in ("", "a/"):
        calls += [lambda: storage.list(name), lambda: storage.list_folder(name)]
    for call in calls:
        with pytest.raises(InvalidArgument):
            call()
    assert names(storage) == ["good"]


def test_parquet_is_read_through_open_input(storage: Storage) -> None:
    table = pa.table({"id": range(10_000), "text": [f"row {i}" for i in range(10_000)]})
    buffer = io.BytesIO()
    pq.write_table(table, buffer, row_group_size=1_000)
    storage.create("k=1/f.parquet", buffer.getvalue())
    for pre_buffer in (False, True):
        with storage.open_input("k=1/f.parquet") as source:
            file = pq.ParquetFile(source, pre_buffer=pre_buffer)
            assert file.read().equals(table)
            assert file.read_row_group(7, columns=["id"])["id"].to_pylist() == list(range(7_000, 8_000))
