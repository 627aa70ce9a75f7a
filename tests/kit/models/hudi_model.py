# SPDX-License-Identifier: Apache-2.0
"""Beside Apache Hudi: a small model of its writer, which decides on the timeline under its lock and knows no ledger."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from lakebraid import limits
from lakebraid.clock import Clock as AnyClock
from lakebraid.clock import SystemClock
from lakebraid.errors import StorageError
from lakebraid.format.names import State, TimelineFileName, history_file_name
from lakebraid.format.properties import format_properties
from lakebraid.format.timeline.commit import CommitMetadata, format_commit
from lakebraid.format.timeline.history import ArchivedInstant, write_history
from lakebraid.format.timeline.rollbacks import (
    InstantInfo,
    RollbackMetadata,
    RollbackPlan,
    RollbackRequest,
    format_rollback_metadata,
    format_rollback_plan,
)
from lakebraid.format.times import format_instant_time
from lakebraid.model.config import parse_config
from lakebraid.storage import MemoryStorage, Storage
from lakebraid.table.at import TableAt
from lakebraid.table.loading import load_timeline
from lakebraid.txn.hudi.file_lock import LOCK, FileLock
from lakebraid.txn.ledger.ledger import Ledger
from lakebraid.txn.liveness.heartbeat import beat
from tests.kit.present import present
from tests.kit.tables.builder import put_history
from tests.kit.tables.scene import WatchedStorage
from tests.unit.txn import test_ledger as alone
from tests.unit.txn.test_ledger import Clock, publish

PROPERTIES = alone.PROPERTIES | {
    "hoodie.index.type": "BUCKET",
    "hoodie.bucket.index.num.buckets": "2",
    "hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL",
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider",
}
CONFIG = parse_config(PROPERTIES, "t")
TIMELINE = ".hoodie/timeline"
LONG_AGO_MS = limits.HEARTBEAT_TIMEOUT_MS + 1000


class Hudi:
    """Takes the lock for a moment to begin and to complete; its times are its clock's, never two the same."""

    def __init__(self, storage: Storage, clock: AnyClock) -> None:
        self.storage, self.clock = storage, clock

    @contextmanager
    def locked(self) -> Iterator[str]:
        while True:
            try:
                self.storage.create(LOCK, b"")
                break
            except StorageError:
                self.clock.sleep(0.002)
        self.clock.sleep(0.002)
        yield format_instant_time(self.clock.now_ms(), CONFIG.zone)
        self.storage.delete([LOCK])

    def begin(self, action: str = "deltacommit") -> str:
        with self.locked() as request_time:
            beat(self.storage, request_time)
            self.put(request_time, action, State.REQUESTED)
        self.put(request_time, action, State.INFLIGHT)
        return request_time

    def complete(self, request_time: str, action: str = "deltacommit") -> str:
        with self.locked() as completion:
            self.put(request_time, action, State.COMPLETED, completion, format_commit(CommitMetadata()))
        self.storage.delete([f".hoodie/.heartbeat/{request_time}"])
        return completion

    def commit(self) -> str:
        return self.complete(self.begin())

    def plan_rollback(self, victim: str, *files: tuple[str, str], action: str = "deltacommit") -> str:
        with self.locked() as request_time:
            requests = tuple(RollbackRequest(partition, files=(name,)) for partition, name in files)
            plan = RollbackPlan(InstantInfo(victim, action), requests)
            self.put(request_time, "rollback", State.REQUESTED, data=format_rollback_plan(plan, self.storage.url))
        return request_time

    def roll_back(self, victim: str) -> str:
        request_time = self.plan_rollback(victim)
        self.finish(request_time, victim)
        return request_time

    def finish(self, rollback: str, victim: str) -> None:
        with self.locked() as completion:
            self.remove(victim, State.INFLIGHT, State.REQUESTED)
            done = format_rollback_metadata(RollbackMetadata(rollback, (InstantInfo(victim, "deltacommit"),)))
            self.put(rollback, "rollback", State.COMPLETED, completion, done)

    def archive(self, request_time: str) -> None:
        """Moves one completed write into the history."""
        with self.locked():
            done = present(load_timeline(TableAt(self.storage, CONFIG, self.clock)).write(request_time))
            row = ArchivedInstant(
                request_time, done.completion_time, "deltacommit", format_commit(CommitMetadata()), None
            )
            put_history(self.storage, {history_file_name(request_time, request_time, 0): write_history([row])}, 1)
            self.storage.delete([f"{TIMELINE}/{name}" for name in names(self.storage) if name.startswith(request_time)])

    def put(
        self, request_time: str, action: str, state: State, completion: str | None = None, data: bytes = b""
    ) -> None:
        self.storage.create(f"{TIMELINE}/{TimelineFileName(request_time, completion, action, state).format()}", data)

    def remove(self, request_time: str, *states: State, action: str = "deltacommit") -> None:
        self.storage.delete([f"{TIMELINE}/{TimelineFileName(request_time, None, action, s).format()}" for s in states])


class Killed(BaseException):
    pass


class Mortal(MemoryStorage):
    """A process's view of the store; it dies before the call that `doom` names, and does nothing any more."""

    doom: tuple[str, str]
    dead: bool

    @staticmethod
    def on(storage: MemoryStorage, call: str, name: str) -> Mortal:
        made = Mortal(clock=storage.clock, _objects=storage._objects, _changes=storage._changes)
        object.__setattr__(made, "doom", (call, name))
        object.__setattr__(made, "dead", False)
        return made

    def _live(self, call: str, names: list[str]) -> None:
        if self.dead or (self.doom[0] == call and any(re.search(self.doom[1], name) for name in names)):
            object.__setattr__(self, "dead", True)
            raise Killed

    def create(self, name: str, data: bytes) -> None:
        self._live("create", [name])
        super().create(name, data)

    def copy(self, source: str, target: str) -> None:
        self._live("copy", [target])
        super().copy(source, target)

    def delete(self, names: Iterable[str]) -> None:
        names = list(names)
        self._live("delete", names)
        super().delete(names)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def storage(clock: Clock) -> MemoryStorage:
    made = MemoryStorage(clock=clock)
    made.create(".hoodie/hoodie.properties", format_properties(PROPERTIES))
    return made


@pytest.fixture
def hudi(storage: MemoryStorage, clock: Clock) -> Hudi:
    return Hudi(storage, clock)


def shared(storage: MemoryStorage | WatchedStorage, **changes: Any) -> Ledger:
    lock = FileLock(storage, storage.clock)
    how: dict[str, Any] = {"lock": lock, "is_shared": True}
    return Ledger(TableAt(storage, CONFIG, storage.clock), **how | changes)


def killed(storage: MemoryStorage, call: str, name: str, act: Callable[[Ledger], object]) -> None:
    """Runs `act(ledger)` in a process that dies at that call, holding the lock, which is then found to be dead."""
    with pytest.raises(Killed):
        act(shared(Mortal.on(storage, call, name)))
    storage.delete([LOCK])


def decided_but_dead(storage: MemoryStorage, request_time: str) -> None:
    """A writer decides to publish and dies before anybody can see it on the timeline."""
    killed(storage, "copy", r"\.deltacommit$", lambda dying: publish(dying, "a", request_time))
    assert (newest := shared(storage).newest()).kind == "publish"
    assert newest.files[0][1] not in storage._objects


def names(storage: Storage) -> list[str]:
    return [info.name.rpartition("/")[2] for info in storage.list_folder(TIMELINE)[0]]


def completions(storage: Storage) -> list[str]:
    return [present(i.completion_time) for i in load_timeline(TableAt(storage, CONFIG, SystemClock())).completed]
