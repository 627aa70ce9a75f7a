# SPDX-License-Identifier: Apache-2.0
"""What only a folder on a disk can get wrong: durability, leftovers, links, full disks."""

from __future__ import annotations

import errno
import multiprocessing
import os
import pickle
import resource
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lakebraid.errors import ObjectExists, ObjectNotFound, OutcomeUnknown, StorageError
from lakebraid.storage import LocalStorage, ObjectInfo
from lakebraid.storage.addressing import spark_address
from tests.kit.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.unit


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    (tmp_path / "table").mkdir()
    return LocalStorage(str(tmp_path / "table"))


def everything_below(storage: LocalStorage) -> list[str]:
    return sorted(str(path.relative_to(storage.root)) for path in Path(storage.root).rglob("*") if path.is_file())


def failing(monkeypatch: pytest.MonkeyPatch, call: str, number: int, after: int = 0) -> None:
    """Lets the system call fail from its call number `after` on."""
    real: Callable[..., Any] = getattr(os, call)
    left = [after]

    def fake(*args: Any, **kwargs: Any) -> Any:
        left[0] -= 1
        if left[0] < 0:
            raise OSError(number, os.strerror(number))
        return real(*args, **kwargs)

    monkeypatch.setattr(os, call, fake)


@pytest.fixture
def trace(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The calls that matter for durability, in order, with the file they act upon."""
    calls: list[str] = []

    def spy(call: str, target: Callable[..., str]) -> None:
        real = getattr(os, call)

        def traced(*args: Any, **kwargs: Any) -> Any:
            calls.append(f"{call} {target(*args)}")
            return real(*args, **kwargs)

        monkeypatch.setattr(os, call, traced)

    def base(path: str) -> str:
        name = Path(path).name
        return "temporary" if name.startswith(".lakebraid-") else name

    spy("fsync", lambda descriptor: base(str(Path(f"/proc/self/fd/{descriptor}").readlink())))
    spy("link", lambda source, target: f"{base(source)} {base(target)}")
    spy("replace", lambda source, target: f"{base(source)} {base(target)}")
    spy("unlink", base)
    spy("mkdir", base)
    return calls


def test_a_create_is_acknowledged_only_when_file_and_folder_are_synced(storage: LocalStorage, trace: list[str]) -> None:
    storage.create("a", b"x")
    assert trace == ["fsync temporary", "link temporary a", "unlink temporary", "fsync table"]


def test_every_new_folder_is_synced_into_the_one_above(storage: LocalStorage, trace: list[str]) -> None:
    storage.create("x/y/a", b"1")
    made = [call for call in trace if "mkdir" in call or "fsync" in call]
    assert made[-6:] == ["mkdir x", "fsync table", "mkdir y", "fsync x", "fsync temporary", "fsync y"]


def test_who_is_told_that_an_object_exists_has_synced_it(storage: LocalStorage, trace: list[str]) -> None:
    storage.create("a", b"1")
    storage.copy("a", "b")
    trace.clear()
    with pytest.raises(ObjectExists):
        storage.create("a", b"1")
    assert trace == ["fsync temporary", "link temporary a", "fsync table", "unlink temporary"]
    trace.clear()
    storage.copy("a", "b")
    assert trace == ["link a b", "fsync table"]


def test_a_replacement_is_synced_before_it_is_renamed(storage: LocalStorage, trace: list[str]) -> None:
    storage.replace("a", b"x")
    assert trace == ["fsync temporary", "unlink .a.crc", "replace temporary a", "fsync table"]


def test_a_deletion_is_not_synced_for_nobody_minds_if_a_crash_undoes_it(
    storage: LocalStorage, trace: list[str]
) -> None:
    storage.create("a", b"")
    trace.clear()
    storage.delete(["a"])
    assert trace == ["unlink .a.crc", "unlink a"]


def test_of_an_empty_object_only_the_name_is_synced(storage: LocalStorage, trace: list[str]) -> None:
    storage.create("a", b"")
    assert trace == ["link temporary a", "unlink temporary", "fsync table"]
    trace.clear()
    storage.replace("a", b"")
    assert trace == ["unlink .a.crc", "replace temporary a"]


@pytest.mark.slow
def test_of_sixteen_processes_exactly_one_creates(storage: LocalStorage) -> None:
    context = multiprocessing.get_context("fork")
    start, won = context.Barrier(16), context.Queue()

    def create(writer: int) -> None:
        start.wait()
        try:
            storage.create("ledger/1", b"%02d" % writer)
        except ObjectExists:
            won.put(None)
        else:
            won.put(writer)

    processes = [context.Process(target=create, args=(writer,)) for writer in range(16)]
    for process in processes:
        process.start()
    answers = [won.get(timeout=PATIENCE_SECONDS) for _ in processes]
    for process in processes:
        process.join(PATIENCE_SECONDS)
    winners = [writer for writer in answers if writer is not None]
    assert len(winners) == 1
    assert storage.read("ledger/1", 10) == b"%02d" % winners[0]
    assert everything_below(storage) == ["ledger/1"]


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.ENOSPC, "the disk is full"),
        (errno.EDQUOT, "the disk quota is used up"),
        (errno.EIO, "input/output error"),
        (errno.EROFS, "read-only"),
    ],
)
def test_a_failed_write_leaves_nothing_and_says_why(
    storage: LocalStorage, monkeypatch: pytest.MonkeyPatch, number: int, words: str
) -> None:
    storage.create("old", b"old")
    for call in ("write", "fsync"):
        with monkeypatch.context() as patch:
            failing(patch, call, number)
            with pytest.raises(StorageError, match=f"{words}. Nothing was created") as caught:
                storage.create("new", b"new")
            assert caught.value.errno == number
            assert not isinstance(caught.value, OutcomeUnknown)
            with pytest.raises(StorageError, match=f"{words}. The old content"):
                storage.replace("old", b"new")
    assert everything_below(storage) == ["old"]
    assert storage.read("old", 10) == b"old"


def test_a_disk_that_fills_up_in_the_middle_leaves_no_half_object(storage: LocalStorage) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    try:
        with pytest.raises(StorageError, match=r"larger than this process or file system may write\. Nothing"):
            storage.create("big", b"x" * 200_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    assert everything_below(storage) == []


def test_a_folder_that_cannot_be_synced_leaves_the_outcome_unknown(
    storage: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing(monkeypatch, "fsync", errno.EIO, after=1)
    with pytest.raises(OutcomeUnknown, match="may be gone after a crash"):
        storage.create("a", b"x")
    assert everything_below(storage) == ["a"]


def test_short_writes_are_continued(storage: LocalStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: real(descriptor, data[:3]))
    storage.create("a", b"0123456789")
    assert storage.read("a", 10) == b"0123456789"


def test_a_file_system_without_hard_links_is_named(storage: LocalStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, "link", errno.EPERM)
    with pytest.raises(StorageError, match="hard links"):
        storage.create("a", b"x")
    assert everything_below(storage) == []


def test_a_link_repeated_by_the_network_is_our_own(storage: LocalStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.link

    def link_twice(source: str, target: str) -> None:
        real(source, target)
        real(source, target)

    monkeypatch.setattr(os, "link", link_twice)
    storage.create("a", b"x")
    assert everything_below(storage) == ["a"]


def test_a_file_in_the_place_of_a_folder_is_a_clear_error(storage: LocalStorage) -> None:
    storage.create("a", b"x")
    calls: list[Callable[[], None]] = [lambda: storage.create("a/b", b""), lambda: storage.copy("a", "a/b")]
    for call in calls:
        with pytest.raises(StorageError, match="a part of the path is a file, not a folder"):
            call()
    with pytest.raises(ObjectNotFound):
        storage.read("a/b", 10)
    with pytest.raises(ObjectNotFound):
        storage.copy("a/b", "c")
    storage.delete(["a/b"])
    assert storage.list("a") == []


def test_a_name_longer_than_the_file_system_allows_is_a_clear_error(storage: LocalStorage) -> None:
    calls: list[Callable[[], object]] = [lambda: storage.create("a" * 300, b""), lambda: storage.read("a" * 300, 1)]
    for call in calls:
        with pytest.raises(StorageError, match="longer than the file system allows"):
            call()


def test_an_unreadable_folder_is_an_error_and_not_an_empty_listing(
    storage: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage.create("a/b", b"")
    failing(monkeypatch, "scandir", errno.EACCES, after=1)
    with pytest.raises(StorageError, match=r"Listing .*/a failed: permission was denied"):
        storage.list()


def test_names_alone_are_those_of_the_listing(storage: LocalStorage, tmp_path: Path) -> None:
    folder = Path(storage.root, "f")
    for name in ("f/a", "f/sub/b", "f/.c"):
        storage.create(name, b"")
    os.mkfifo(folder / "pipe")
    (folder / ".a.crc").touch()
    (folder / "dangling").symlink_to(tmp_path / "nothing")
    assert sorted(storage.list_names("f")) == [info.name[2:] for info in storage.list_folder("f")[0]] == [".c", "a"]
    (folder / "link").symlink_to(tmp_path)
    with pytest.raises(StorageError, match="is a symbolic link"):
        storage.list_names("f")


def test_checksums_of_hadoop_and_our_own_leftovers_are_not_listed(storage: LocalStorage) -> None:
    for file in (".f.parquet.crc", ".lakebraid-0123456789abcdef.tmp", "f.parquet", ".g.log.1_0-1-2", "x.crc"):
        Path(storage.root, file).write_bytes(b"")
    assert [info.name for info in storage.list()] == [".g.log.1_0-1-2", "f.parquet", "x.crc"]
    assert [info.name for info in storage.list_folder()[0]] == [".g.log.1_0-1-2", "f.parquet", "x.crc"]


def test_a_stale_checksum_goes_before_its_file_is_replaced_or_deleted(storage: LocalStorage) -> None:
    changes: list[Callable[[], None]] = [lambda: storage.replace("d/f", b"new"), lambda: storage.delete(["d/f"])]
    for change in changes:
        storage.replace("d/f", b"old")
        Path(storage.root, "d/.f.crc").write_bytes(b"crc!")
        change()
        assert not Path(storage.root, "d/.f.crc").exists()


def test_files_that_vanish_during_a_listing_do_not_disturb_it(
    storage: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a/1", "b/1", "c/1"):
        storage.create(name, b"")
    real = os.scandir

    def scandir(path: str) -> Any:
        if path.endswith("/c"):
            Path(path, "1").unlink()
            Path(path).rmdir()
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    assert [info.name for info in storage.list()] == ["a/1", "b/1"]


def test_a_listing_after_a_name_does_not_look_into_earlier_folders(
    storage: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a/1", "b/1", "b/2", "c/1"):
        storage.create(name, b"")
    visited: list[str] = []
    real = os.scandir

    def scandir(path: str) -> Any:
        visited.append(Path(path).name)
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    assert [info.name for info in storage.list(after="b/1")] == ["b/2", "c/1"]
    assert sorted(visited) == ["b", "c", "table"]


def test_a_missing_root_is_empty_and_is_made_by_the_first_create(tmp_path: Path) -> None:
    storage = LocalStorage(str(tmp_path / "no" / "table"))
    assert storage.list() == []
    assert storage.list_folder() == ([], [])
    storage.create("a", b"")
    assert [info.name for info in storage.list()] == ["a"]


def test_a_storage_travels_to_other_processes(storage: LocalStorage) -> None:
    storage.create("a", b"x")
    travelled = pickle.loads(pickle.dumps(storage))
    assert travelled == storage
    assert travelled.read("a", 1) == b"x"


def test_times_of_objects_are_those_of_the_file_system(storage: LocalStorage) -> None:
    storage.create("a", b"xy")
    os.utime(Path(storage.root, "a"), ns=(0, 1_700_000_000_123_456_789))
    assert storage.list() == [storage.info("a")] == [ObjectInfo("a", 2, 1_700_000_000_123)]


@pytest.mark.parametrize(
    ("path", "address"),
    [
        ("/t/a%2Fb/f.parquet", "file:///t/a%2Fb/f.parquet"),
        ("/t/k=x y/ü#/f.parquet", "file:///t/k=x y/ü#/f.parquet"),
        ("/t/[a]{b}*?/f.parquet", "file:///t/\\[a\\]\\{b\\}\\*\\?/f.parquet"),
        ("/t\\u/f.parquet", "file:///t\\\\u/f.parquet"),
        ("/t/10:30/f.parquet", "file:///t/10:30/f.parquet"),
        ("/t/_a=b.parquet", "file:///t/_a=b.parquet"),
        ("/t/[10:30]/f.parquet", None),
        ("/t/f:1.parquet", None),
        ("/t/.f.parquet", None),
        ("/t/_f.parquet", None),
        ("/t/f._COPYING_", None),
    ],
)
def test_spark_is_told_the_path_literally_with_globs_escaped(path: str, address: str | None) -> None:
    assert spark_address("file://", path) == address
