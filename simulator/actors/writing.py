# SPDX-License-Identifier: Apache-2.0
"""Writers: they call the product's own control plane, and write the simulator's tiny files."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import TYPE_CHECKING

from lakebraid.errors import BatchRepeated, CommitRefused, CommitUnknown, SchemaConflict, StorageError
from lakebraid.format.timeline.commit import CommitMetadata, WriteStat
from lakebraid.storage.protocol import Storage
from lakebraid.table.at import TableAt
from lakebraid.txn.actions.rollback import roll_back
from lakebraid.txn.actions.write import begin_write, publish_write, write_status
from lakebraid.txn.hudi.file_lock import FileLock
from lakebraid.txn.ledger.ledger import Ledger
from lakebraid.txn.liveness.heartbeat import beat, beat_first, forget
from simulator.actors.metadata import tell
from simulator.oracle import Change
from simulator.stand_ins import product
from simulator.stand_ins.executors import run_tasks
from simulator.stand_ins.tasks import Written, by_group, write_log
from simulator.world.tables import SCHEMA
from simulator.world.world import Process

if TYPE_CHECKING:
    from simulator.scene import Scene


def new_ledger(scene: Scene, process: Process) -> Ledger:
    storage, clock, config = process.storage, process.clock, scene.table.config
    if scene.setting.shared:
        return Ledger(TableAt(storage, config, clock), lock=FileLock(storage, clock, scene.lock_owners), is_shared=True)
    return Ledger(TableAt(storage, config, clock), company=product.RightClock())


def found(scene: Scene, process: Process) -> None:
    """Creating a table publishes an empty commit, so that no later write is the first."""
    ledger = new_ledger(scene, process)
    request_time = begin_write(ledger, "founding", action=ledger.config.write_action)
    publish_write(
        ledger, "founding", request_time, lambda _: CommitMetadata(extra={"schema": SCHEMA}, operation="UPSERT")
    )


def write(scene: Scene, process: Process, rounds: int) -> None:
    ledger, writing = new_ledger(scene, process), product.new_writing(scene, process)
    for number in range(rounds):
        if process.rng.random() < 0.3:
            ledger, writing = new_ledger(scene, process), product.new_writing(scene, process)
        process.clock.sleep(process.rng.random() * 0.2)
        txn = f"{process.name}-{number}"
        if scene.setting.whole:
            changes = drawn_changes(scene, process.rng, txn)
            files = Writer(scene, process, ledger, txn)
            product.Session(scene, process, writing, txn).run(changes, files.write_files)
        else:
            Writer(scene, process, ledger, txn).run()


class Writer:
    """One write, from its beginning to whatever it is told."""

    def __init__(self, scene: Scene, process: Process, ledger: Ledger, txn: str) -> None:
        self._scene, self._process, self._ledger, self._txn = scene, process, ledger, txn
        self._is_over = False

    def run(self) -> None:
        storage = self._process.storage
        changes = drawn_changes(self._scene, self._process.rng, self._txn)
        try:
            request_time = begin_write(self._ledger, self._txn, beat=lambda s: _beat_once(storage, s))
        except StorageError:
            self._scene.mark("begin failed")
            return
        intent = self._scene.oracle.intend(request_time, self._process.name, changes)
        self._scene.world.spawn(self._process, f"{self._txn}.beat", lambda: self._beat(request_time))
        try:
            files = self.write_files(request_time, changes)
            if files is None or self._happens(self._scene.setting.aborts):
                intent.outcome = "aborting"
                self._abort(request_time)
            else:
                self._publish(request_time, files)
        finally:
            self._is_over = True

    def _beat(self, request_time: str) -> None:
        while not self._is_over:
            self._process.clock.sleep(self._scene.setting.timeout_ms / 5000)
            if not self._is_over:
                beat(self._process.storage, request_time)

    def write_files(
        self,
        request_time: str,
        changes: tuple[Change, ...],
        place: Callable[[tuple[str, str]], tuple[str, str]] = lambda group: group,
        task: Callable[..., Written] = write_log,
    ) -> list[Written] | None:
        """The files of these changes; `place` says where the rows of a bucket go, `task` into what kind of file."""
        setting = self._scene.setting
        work = [
            partial(task, request_time=request_time, group=place(group), changes=part)
            for group, part in by_group(changes, setting.partitions, setting.buckets)
        ]
        if setting.executors:
            return run_tasks(self._scene, self._process, self._txn, work)
        try:
            return [task(self._process.storage) for task in work]
        except StorageError:
            self._scene.mark("task failed")
            return None

    def _publish(self, request_time: str, files: list[Written]) -> None:
        metadata = commit_of(files)
        is_unknown = False
        for _ in range(4):
            self._scene.tell("resolved", request_time, "open")
            try:
                publish_write(self._ledger, self._txn, request_time, lambda _: self._checked(metadata), tell=tell)
            except (SchemaConflict, BatchRepeated):
                if self._give_up(request_time):
                    return
                is_unknown = True
            except CommitRefused:
                self._scene.mark("refused")
                self._scene.tell("resolved", request_time, "refused")
                return
            except CommitUnknown:
                is_unknown = True
                if self._ask(request_time) != "open":
                    return
            except StorageError:
                self._scene.mark("publish failed")
                if not is_unknown:
                    # Whoever is not told that it is unknown may take it for not done.
                    self._scene.tell("resolved", request_time, "not done")
                self._process.clock.sleep(0.05)
            else:
                self._scene.tell("resolved", request_time, "published")
                forget(self._process.storage, request_time)
                return

    def _give_up(self, request_time: str) -> bool:
        """Rolls back before anybody is told: an unanswered publish of ours could still land (LEDGER, H12)."""
        self._scene.mark("refused by a check")
        self._scene.oracle.intents[request_time].outcome = "aborting"
        try:
            is_gone = roll_back(self._ledger, self._txn, request_time)
        except StorageError:
            return False
        self._scene.tell(
            "resolved",
            request_time,
            "refused" if is_gone or request_time not in self._scene.oracle.published else "published",
        )
        return True

    def _happens(self, probability: float) -> bool:
        return self._scene.world.is_storm and self._process.rng.random() < probability

    def _checked(self, metadata: CommitMetadata) -> CommitMetadata:
        """Stands in for the checks of a round: another writer may have changed the schema since the last one."""
        if self._happens(self._scene.setting.refusals):
            raise SchemaConflict("Another writer changed the schema first. Nothing was published.")
        return metadata

    def _ask(self, request_time: str) -> str:
        self._process.clock.sleep(0.05)
        try:
            answer = write_status(self._ledger, request_time)
        except StorageError:
            return "open"
        self._scene.mark(f"unknown became {answer}")
        if answer != "open":
            self._scene.tell("resolved", request_time, answer)
        return answer

    def _abort(self, request_time: str) -> None:
        try:
            if roll_back(self._ledger, self._txn, request_time):
                self._scene.tell("resolved", request_time, "refused")
        except StorageError:
            self._scene.mark("abort failed")


def _beat_once(storage: Storage, request_time: str) -> None:
    beat_first(storage, request_time)


def drawn_changes(scene: Scene, rng: Random, txn: str) -> tuple[Change, ...]:
    setting = scene.setting
    keys = sorted({f"k{rng.randrange(setting.keys)}" for _ in range(rng.randrange(1, 4))})
    changes = []
    for key in keys:
        is_delete = rng.random() < setting.deletes
        order = rng.randrange(1, setting.orders + 1)
        if is_delete:
            # By event time our deletes always have an ordering value; by commit time never.
            changes.append(Change(key, order if setting.by_event else None, None))
        else:
            changes.append(Change(key, order, f"{txn}-{key}"))
    return tuple(changes)


def commit_of(files: list[Written]) -> CommitMetadata:
    stats: dict[str, tuple[WriteStat, ...]] = {}
    for file in files:
        stats[file.partition] = (*stats.get(file.partition, ()), file.stat())
    return CommitMetadata(write_stats=stats, extra={"schema": SCHEMA}, operation="UPSERT")
