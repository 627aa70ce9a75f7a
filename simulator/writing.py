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
from simulator import product
from simulator.executors import run_tasks
from simulator.oracle import Change
from simulator.tables import SCHEMA
from simulator.tasks import Written, by_group, write_log
from simulator.world import Process

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
    start = begin_write(ledger, "founding", action=ledger.config.write_action)
    publish_write(ledger, "founding", start, lambda _: CommitMetadata(extra={"schema": SCHEMA}, operation="UPSERT"))


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
            start = begin_write(self._ledger, self._txn, beat=lambda s: _beat_once(storage, s))
        except StorageError:
            self._scene.mark("begin failed")
            return
        intent = self._scene.oracle.intend(start, self._process.name, changes)
        self._scene.world.spawn(self._process, f"{self._txn}.beat", lambda: self._beat(start))
        try:
            files = self.write_files(start, changes)
            if files is None or self._happens(self._scene.setting.aborts):
                intent.outcome = "aborting"
                self._abort(start)
            else:
                self._publish(start, files)
        finally:
            self._is_over = True

    def _beat(self, start: str) -> None:
        while not self._is_over:
            self._process.clock.sleep(self._scene.setting.timeout_ms / 5000)
            if not self._is_over:
                beat(self._process.storage, start)

    def write_files(
        self,
        start: str,
        changes: tuple[Change, ...],
        place: Callable[[tuple[str, str]], tuple[str, str]] = lambda group: group,
        task: Callable[..., Written] = write_log,
    ) -> list[Written] | None:
        """The files of these changes; `place` says where the rows of a bucket go, `task` into what kind of file."""
        setting = self._scene.setting
        work = [
            partial(task, start=start, group=place(group), changes=part)
            for group, part in by_group(changes, setting.partitions, setting.buckets)
        ]
        if setting.executors:
            return run_tasks(self._scene, self._process, self._txn, work)
        try:
            return [task(self._process.storage) for task in work]
        except StorageError:
            self._scene.mark("task failed")
            return None

    def _publish(self, start: str, files: list[Written]) -> None:
        metadata = commit_of(files)
        is_unknown = False
        for _ in range(4):
            self._scene.tell("resolved", start, "open")
            try:
                publish_write(self._ledger, self._txn, start, lambda _: self._checked(metadata))
            except (SchemaConflict, BatchRepeated):
                if self._give_up(start):
                    return
                is_unknown = True
            except CommitRefused:
                self._scene.mark("refused")
                self._scene.tell("resolved", start, "refused")
                return
            except CommitUnknown:
                is_unknown = True
                if self._ask(start) != "open":
                    return
            except StorageError:
                self._scene.mark("publish failed")
                if not is_unknown:
                    # Whoever is not told that it is unknown may take it for not done.
                    self._scene.tell("resolved", start, "not done")
                self._process.clock.sleep(0.05)
            else:
                self._scene.tell("resolved", start, "published")
                forget(self._process.storage, start)
                return

    def _give_up(self, start: str) -> bool:
        """Rolls back before anybody is told: an unanswered publish of ours could still land (LEDGER, H12)."""
        self._scene.mark("refused by a check")
        self._scene.oracle.intents[start].outcome = "aborting"
        try:
            is_gone = roll_back(self._ledger, self._txn, start)
        except StorageError:
            return False
        self._scene.tell(
            "resolved", start, "refused" if is_gone or start not in self._scene.oracle.published else "published"
        )
        return True

    def _happens(self, probability: float) -> bool:
        return self._scene.world.is_storm and self._process.rng.random() < probability

    def _checked(self, metadata: CommitMetadata) -> CommitMetadata:
        """Stands in for the checks of a round: another writer may have changed the schema since the last one."""
        if self._happens(self._scene.setting.refusals):
            raise SchemaConflict("Another writer changed the schema first. Nothing was published.")
        return metadata

    def _ask(self, start: str) -> str:
        self._process.clock.sleep(0.05)
        try:
            answer = write_status(self._ledger, start)
        except StorageError:
            return "open"
        self._scene.mark(f"unknown became {answer}")
        if answer != "open":
            self._scene.tell("resolved", start, answer)
        return answer

    def _abort(self, start: str) -> None:
        try:
            if roll_back(self._ledger, self._txn, start):
                self._scene.tell("resolved", start, "refused")
        except StorageError:
            self._scene.mark("abort failed")


def _beat_once(storage: Storage, start: str) -> None:
    beat_first(storage, start)


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
