# SPDX-License-Identifier: Apache-2.0
"""A writer of Apache Hudi 1.2.0 on the same table, in its multi-writer mode, as FORMAT, sections 12 to 17, describes it.

It decides by creating timeline files under Hudi's lock, draws its own times, never looks at the ledger, rolls back
whoever shows no heartbeat, and compacts. A timeline file appears empty and is filled afterwards. The lock never passes
on while its holder lives, and its store is a local disk: requests do not arrive late. That is the promise's ground.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC
from typing import TYPE_CHECKING

from lakebraid.errors import ObjectExists, ObjectNotFound, StorageError
from lakebraid.format.timeline.commit import format_commit
from lakebraid.format.times import format_instant_time
from simulator.actors.writing import commit_of, drawn_changes
from simulator.oracle import HEARTBEATS, TIMELINE
from simulator.stand_ins.tasks import by_group, write_log
from simulator.world.tables import SKEW_MS
from simulator.world.violation import Killed
from simulator.world.world import Process

if TYPE_CHECKING:
    from simulator.scene import Scene

LOCK = ".hoodie/lock"
_FILE = re.compile(r"(\d{17})(?:_(\d{17}))?\.([a-z]+)(?:\.(requested|inflight))?")
_COMPLETED = {"compaction": "commit"}
_NO_WRITES = frozenset({"clean", "rollback", "savepoint", "restore"})
"""They may stay behind writes that were archived, and then do not say where the timeline begins."""


@dataclass
class Active:
    """One listing of the timeline: request time and action to the furthest state."""

    completed: dict[str, str] = field(default_factory=dict)
    first: str = ""
    """The first request time of a write on the timeline: what is older was archived, so it is committed."""
    pending: dict[str, dict[str, set[str]]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(set)))
    """Action, request time, and the states of which files are there."""


class Client:
    """One Hudi job."""

    def __init__(self, scene: Scene, process: Process) -> None:
        self.scene, self.process = scene, process
        process.writes_in_place = True
        self.storage, self.clock = process.storage, process.clock
        self._beaten_ms: dict[str, int] = {}
        self._attempts = 0

    # --- lock, time, timeline, heartbeats -----------------------------------------------------------------------------

    @contextmanager
    def locked(self) -> Iterator[None]:
        for _ in range(200):
            if self._take():
                break
            self.clock.sleep(0.05 + 0.2 * self.process.rng.random())
        else:
            raise StorageError("Unable to acquire the lock. Nothing was changed.")
        try:
            yield
        finally:
            self._bare("delete")

    def _take(self) -> bool:
        try:
            self._bare("create")
        except ObjectExists:
            return False
        return True

    def _bare(self, op: str) -> None:
        """The lock's own calls either happen or not: a local disk answers."""
        world = self.scene.world
        fault = world.point(op, LOCK)
        kind = fault[0] if fault else ""
        if kind != "kill_before":
            disk = world.disk
            disk.create(LOCK, self.process.name.encode()) if op == "create" else disk.delete(LOCK)
        if kind.startswith("kill"):
            world.kill(self.process)
            raise Killed

    def time(self) -> str:
        """Under the lock: the clock, and then a sleep for as long as clocks may differ."""
        now = format_instant_time(self.clock.now_ms(), UTC)
        self.clock.sleep(SKEW_MS / 1000)
        return now

    def load(self) -> Active:
        active, request_times = Active(), []
        for info in self.storage.list_folder(TIMELINE.rstrip("/"))[0]:
            found = _FILE.fullmatch(info.name.rpartition("/")[2])
            if found is None:
                continue
            request_time, completion, action, state = found.groups()
            if completion:
                active.completed[request_time] = completion
            else:
                active.pending[action][request_time].add(state)
            if action not in _NO_WRITES:
                request_times.append(request_time)
        active.first = min(request_times, default="")
        for states in active.pending.values():
            for request_time in [s for s in states if s in active.completed]:
                del states[request_time]
        return active

    def put(self, name: str, data: bytes) -> None:
        """Creates a timeline file as Hudi does on local disks: the name first, then the bytes."""
        self.storage.create(f"{TIMELINE}{name}", b"")
        if data:
            self.storage.replace(f"{TIMELINE}{name}", data)

    def put_inflight(self, request_time: str, action: str) -> None:
        """Hudi makes the next state only of what is there in the one before."""
        disk, name = self.scene.world.disk, f"{TIMELINE}{request_time}.{action}"
        self.storage.info(f"{name}.requested")
        if f"{name}.requested" in disk.objects and f"{name}.inflight" not in disk.objects:
            disk.create(f"{name}.inflight", b"")

    def beat(self, request_time: str) -> None:
        self.storage.replace(f"{HEARTBEATS}{request_time}", b"")
        self._beaten_ms[request_time] = self.clock.now_ms()

    def _beat_again(self, request_time: str) -> None:
        if request_time in self._beaten_ms:
            self.storage.replace(f"{HEARTBEATS}{request_time}", b"")
        if request_time in self._beaten_ms:
            self._beaten_ms[request_time] = self.clock.now_ms()

    def beat_on(self, request_time: str) -> None:
        """Beats in a thread of its own until the beating is over."""

        def body() -> None:
            while request_time in self._beaten_ms:
                self.clock.sleep(self.scene.setting.timeout_ms / 6000)
                try:
                    self._beat_again(request_time)
                except StorageError:
                    continue

        self.scene.world.spawn(self.process, f"{self.process.name}.beat-{request_time[10:]}", body)

    def stop_beating(self, request_time: str) -> None:
        self._beaten_ms.pop(request_time, None)

    def is_own_beat_fresh(self, request_time: str) -> bool:
        last = self._beaten_ms.get(request_time)
        return last is not None and self.clock.now_ms() - last < self.scene.setting.timeout_ms

    def is_expired(self, request_time: str) -> bool:
        """No file is expired, too. The judge's clock is the storage's here: Hudi expects clocks that agree."""
        try:
            beaten = self.storage.info(f"{HEARTBEATS}{request_time}").modified_ms
        except ObjectNotFound:
            return True
        return self.scene.world.now - beaten > self.scene.setting.timeout_ms

    # --- writing ------------------------------------------------------------------------------------------------------

    def write(self, txn: str) -> None:
        scene, setting = self.scene, self.scene.setting
        changes = drawn_changes(scene, self.process.rng, txn)
        with self.locked():
            if self.load().pending["restore"]:
                return
            request_time = self.time()
            self.beat(request_time)
            self.put(f"{request_time}.deltacommit.requested", b"")
        scene.oracle.intend(request_time, self.process.name, changes).outcome = "foreign"
        self.beat_on(request_time)
        try:
            self.put_inflight(request_time, "deltacommit")
            files = [
                write_log(self.storage, request_time, group, part, task=self.process.rng.randrange(1, 9))
                for group, part in by_group(changes, setting.partitions, setting.buckets)
            ]
            if self.complete(request_time, "deltacommit", format_commit(commit_of(files))):
                scene.mark("hudi: wrote")
                self.tidy(request_time)
        finally:
            self.stop_beating(request_time)

    def complete(self, request_time: str, action: str, data: bytes) -> bool:
        with self.locked():
            states = self.load().pending[action].get(request_time, set())
            # Two Hudi jobs agree on who is dead in ways that are not ours to test; with us they do not.
            is_condemned = request_time in self.scene.condemned_by_hudi or self._is_overtaken(request_time)
            if is_condemned or not self.is_own_beat_fresh(request_time) or "inflight" not in states:
                self.scene.mark("hudi: refused itself")
                return False
            completion = self.time()
            self.put(f"{request_time}_{completion}.{_COMPLETED.get(action, action)}", data)
        return True

    def _is_overtaken(self, request_time: str) -> bool:
        return self.scene.hudi_executors.get(request_time, self.process.name) != self.process.name

    def tidy(self, request_time: str) -> None:
        self.storage.delete([i.name for i in self.storage.list(f".hoodie/.temp/{request_time}")])
        self.stop_beating(request_time)
        self.storage.delete([f"{HEARTBEATS}{request_time}"])
