# SPDX-License-Identifier: Apache-2.0
"""Hudi's locks as we take them: files in a folder, with real processes that die; leases on stores with versions."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lakebraid import limits
from lakebraid.clock import SystemClock
from lakebraid.errors import StorageError, UnsupportedTable
from lakebraid.model.config import TableConfig, parse_config
from lakebraid.storage import LocalStorage, MemoryStorage, ObjectStorage, Storage
from lakebraid.table.at import TableAt
from lakebraid.txn.hudi import file_lock
from lakebraid.txn.hudi.file_lock import BREAKING, FileLock
from lakebraid.txn.hudi.lease_lock import LeaseLock
from lakebraid.txn.hudi.lock import hudi_lock
from lakebraid.txn.hudi.lock_owner import Owner, format_owner, is_dead, parse_owner, this_process
from tests.kit.present import present
from tests.kit.races.failing_locks import Failing
from tests.kit.waiting import PATIENCE_SECONDS
from tests.unit.txn.test_ledger import PROPERTIES, Clock

pytestmark = [pytest.mark.unit, pytest.mark.slow]

PACKAGE = "org.apache.hudi.client.transaction.lock"
LOCK = file_lock.LOCK

HOLD = """
import sys
from lakebraid.clock import SystemClock
from lakebraid.storage import LocalStorage
from lakebraid.txn.hudi.file_lock import FileLock
with FileLock(LocalStorage(sys.argv[1]), SystemClock())():
    print("held", flush=True)
    sys.stdin.read()
"""
COUNT = """
import sys
from pathlib import Path
from lakebraid.clock import SystemClock
from lakebraid.storage import LocalStorage
from lakebraid.txn.hudi.file_lock import FileLock
lock, counter = FileLock(LocalStorage(sys.argv[1]), SystemClock()), Path(sys.argv[1], "counter")
for _ in range(int(sys.argv[2])):
    with lock() as hold:
        seen = int(counter.read_text())
        assert hold.check()
        counter.write_text(str(seen + 1))
"""


@pytest.fixture
def folder(tmp_path: Path) -> LocalStorage:
    (tmp_path / ".hoodie").mkdir()
    return LocalStorage(str(tmp_path))


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LOCK_WAIT_SECONDS_MAX", 0.3)


def run(script: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def held_by_a_child(storage: LocalStorage) -> subprocess.Popen[str]:
    child = run(HOLD, storage.root)
    assert child.stdout is not None
    assert child.stdout.readline() == "held\n"
    return child


def config(provider: str | None) -> TableConfig:
    return parse_config(PROPERTIES | ({} if provider is None else {"hoodie.write.lock.provider": provider}), "t")


def names(storage: Storage) -> list[str]:
    return [info.name for info in storage.list()]


# Which lock


def test_a_table_without_lock_provider_has_no_lock() -> None:
    assert hudi_lock(TableAt(MemoryStorage(), config(None), Clock())) is None


@pytest.mark.parametrize(
    "provider",
    [
        f"{PACKAGE}.InProcessLockProvider",
        f"{PACKAGE}.ZookeeperBasedLockProvider",
        "org.apache.hudi.aws.transaction.lock.DynamoDBBasedLockProvider",
        "org.apache.hudi.hive.transaction.lock.HiveMetastoreBasedLockProvider",
        "com.example.Other",
    ],
)
def test_a_lock_that_cannot_be_taken_is_refused_by_name_with_what_to_do(provider: str) -> None:
    with pytest.raises(UnsupportedTable, match=r"set hoodie\.write\.lock\.provider to .*StorageBased") as caught:
        hudi_lock(TableAt(MemoryStorage(), config(provider), Clock()))
    assert provider in caught.value.message


def test_each_store_takes_only_the_lock_that_holds_there(folder: LocalStorage) -> None:
    file, storage = f"{PACKAGE}.FileSystemBasedLockProvider", f"{PACKAGE}.StorageBasedLockProvider"
    assert isinstance(hudi_lock(TableAt(folder, config(file), Clock())), FileLock)
    bucket = ObjectStorage("s3://bucket/t")
    assert isinstance(hudi_lock(TableAt(bucket, config(storage), Clock())), LeaseLock)
    with pytest.raises(UnsupportedTable, match="no lock on an object store"):
        hudi_lock(TableAt(bucket, config(file), Clock()))
    with pytest.raises(UnsupportedTable, match="needs an object store"):
        hudi_lock(TableAt(folder, config(storage), Clock()))


# The file


def test_the_lock_file_is_there_while_it_is_held_and_gone_afterwards(folder: LocalStorage) -> None:
    with FileLock(folder, SystemClock())() as hold:
        assert hold.check()
        assert present(parse_owner(folder.read(LOCK, 1000))).pid == os.getpid()
    assert names(folder) == []


def test_the_lock_is_given_back_if_the_block_raises(folder: LocalStorage) -> None:
    with pytest.raises(KeyboardInterrupt), FileLock(folder, SystemClock())():
        raise KeyboardInterrupt
    assert names(folder) == []


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("content", [b"", b"LockInfo{owner}", b'{"lakebraid": 2}', b"[1]", b"\xff"])
def test_hudis_lock_is_waited_for_and_never_broken_and_the_error_says_what_to_do(
    folder: LocalStorage, content: bytes
) -> None:
    folder.create(LOCK, content)
    with (
        pytest.raises(StorageError, match=r"\(Apache Hudi\) since 20.* UTC.*Nothing was decided.*delete the file"),
        FileLock(folder, SystemClock())(),
    ):
        pass
    assert folder.read(LOCK, 100) == content


def test_we_go_on_when_hudi_gives_its_lock_back(folder: LocalStorage) -> None:
    folder.create(LOCK, b"")
    threading.Timer(0.2, folder.delete, ([LOCK],)).start()
    with FileLock(folder, SystemClock())() as hold:
        assert hold.check()


def test_a_lock_that_hudi_deleted_or_took_under_our_hands_is_noticed_and_left_to_its_owner(
    folder: LocalStorage,
) -> None:
    with FileLock(folder, SystemClock())() as hold:
        folder.delete([LOCK])
        assert not hold.check()
        folder.create(LOCK, b"")
        assert not hold.check()
    assert folder.read(LOCK, 10) == b""


def test_a_lock_that_hudi_overwrote_with_its_own_is_noticed(folder: LocalStorage) -> None:
    with FileLock(folder, SystemClock())() as hold:
        folder.replace(LOCK, b"")  # Hadoop looks whether the file is there, and then opens it: two steps
        assert not hold.check()
    assert names(folder) == [LOCK]


@pytest.mark.slow
def test_many_processes_never_hold_it_at_the_same_time(folder: LocalStorage) -> None:
    Path(folder.root, "counter").write_text("0")
    children = [run(COUNT, folder.root, 30) for _ in range(4)]
    assert [child.wait(PATIENCE_SECONDS) for child in children] == [0] * 4
    assert Path(folder.root, "counter").read_text() == "120"
    assert names(folder) == ["counter"]


# Dead owners


@pytest.mark.parametrize("reaped", [True, False])
def test_the_lock_of_a_killed_process_is_broken_by_the_next(folder: LocalStorage, reaped: bool) -> None:
    child = held_by_a_child(folder)
    os.kill(child.pid, signal.SIGKILL)
    if reaped:
        child.wait()
    with FileLock(folder, SystemClock())() as hold:
        assert hold.check()
    assert names(folder) == []
    child.wait()


@pytest.mark.usefixtures("impatient")
def test_the_lock_of_a_stopped_process_is_never_broken(folder: LocalStorage) -> None:
    child = held_by_a_child(folder)
    os.kill(child.pid, signal.SIGSTOP)
    before = folder.read(LOCK, 1000)
    try:
        with pytest.raises(StorageError, match=f"process {child.pid} of lakebraid"), FileLock(folder, SystemClock())():
            pass
        assert folder.read(LOCK, 1000) == before
    finally:
        child.kill()
        child.wait()


@pytest.mark.slow
def test_of_many_processes_that_find_a_dead_lock_none_removes_the_lock_of_the_next_owner(folder: LocalStorage) -> None:
    Path(folder.root, "counter").write_text("0")
    child = held_by_a_child(folder)
    children = [run(COUNT, folder.root, 10) for _ in range(4)]
    threading.Event().wait(1.0)  # until most of them wait for it
    os.kill(child.pid, signal.SIGKILL)
    assert [c.wait(PATIENCE_SECONDS) for c in children] == [0] * 4
    assert Path(folder.root, "counter").read_text() == "40"
    assert names(folder) == ["counter"]
    child.wait()


def dead() -> Owner:
    return replace(this_process("d" * 16, 1), pid=2**22 + 1)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    "change", [{"host": "other"}, {"boot": "other"}, {"namespace": "pid:[1]"}, {"boot": ""}, {"started": ""}]
)
def test_an_owner_that_cannot_be_judged_is_never_broken(folder: LocalStorage, change: dict[str, Any]) -> None:
    folder.create(LOCK, format_owner(replace(dead(), **change)))
    with pytest.raises(StorageError, match="is held by process"), FileLock(folder, SystemClock())():
        pass
    assert names(folder) == [LOCK]


def test_a_pid_that_was_given_to_another_process_is_a_dead_owner() -> None:
    me = this_process("a" * 16, 1)
    assert not is_dead(me)
    assert is_dead(replace(me, started="1"))


@pytest.mark.usefixtures("impatient")
def test_a_dead_lock_is_left_to_the_one_who_has_the_right_to_break_it(folder: LocalStorage) -> None:
    folder.create(LOCK, format_owner(dead()))
    folder.create(f"{BREAKING}/{dead().token}", format_owner(this_process("e" * 16, 1)))
    with pytest.raises(StorageError, match="is held by"), FileLock(folder, SystemClock())():
        pass
    assert names(folder) == [f"{BREAKING}/{dead().token}", LOCK]


def test_the_right_to_break_a_lock_passes_on_when_its_owner_dies(folder: LocalStorage) -> None:
    folder.create(LOCK, format_owner(dead()))
    folder.create(f"{BREAKING}/{dead().token}", format_owner(replace(dead(), token="e" * 16)))
    folder.create(f"{BREAKING}/{'e' * 16}", format_owner(replace(dead(), token="f" * 16)))
    with FileLock(folder, SystemClock())() as hold:
        assert hold.check()
    assert names(folder) == []


def test_a_breaker_who_comes_too_late_leaves_the_new_owner_alone() -> None:
    """He saw the dead lock, slept, and gets the right anew after another has used it and given it back."""
    storage = MemoryStorage()
    owner = this_process("b" * 16, 1)
    storage.create(LOCK, format_owner(owner))
    FileLock(storage, SystemClock())()._break(dead())
    assert parse_owner(storage.read(LOCK, 1000)) == owner
    assert names(storage) == [LOCK]


# Stores that do not answer


def test_an_unlock_that_is_refused_is_tried_again() -> None:
    storage = Failing(delete=limits.UNLOCK_ATTEMPTS_MAX - 1)
    with FileLock(storage, Clock())():
        pass
    assert names(storage) == []


def test_a_lock_that_cannot_be_given_back_is_told_and_removed_by_the_next_write_of_the_same_process() -> None:
    storage = Failing(delete=limits.UNLOCK_ATTEMPTS_MAX)
    with pytest.warns(RuntimeWarning, match="could not be removed"), FileLock(storage, SystemClock())():
        pass
    assert names(storage) == [LOCK]
    with FileLock(storage, SystemClock())() as hold:
        assert hold.check()
    assert names(storage) == []


def test_a_lock_whose_creation_was_not_answered_is_recognised_as_ones_own() -> None:
    storage = Failing(create=1)
    with FileLock(storage, Clock())() as hold:
        assert hold.check()
    assert names(storage) == []
