# SPDX-License-Identifier: Apache-2.0
"""The product's transactions and compactions whole, with three things of the simulator's own: threads, Spark, and bytes of rows.

`SimWriting` says how heartbeats beat (in a thread of the simulated process), how keys are read (of tiny files), and which
processes hold Hudi's lock. Merging services are given an engine of the simulator's own: its
tasks write tiny files, and what would be read out of log blocks (hazards) comes from the oracle.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from greenlet import getcurrent

from lakebraid.clock import Clock
from lakebraid.errors import CommitRefused, CommitUnknown, OutcomeUnknown, SchemaConflict, StorageError
from lakebraid.model.keys.buckets import bucket_of_file_id
from lakebraid.reading.plan import Source
from lakebraid.services.merging import compaction
from lakebraid.services.merging.engine import Marks, MergeEngine
from lakebraid.services.settings import open_table
from lakebraid.table.at import TableAt
from lakebraid.tasks.merging.cluster import run_clustering_task
from lakebraid.tasks.merging.compact import run_compaction_task
from lakebraid.tasks.merging.hazards import Hazard
from lakebraid.tasks.staged_file import StagedFile
from lakebraid.txn.actions.write import write_status
from lakebraid.txn.checks.rivalry import Placement
from lakebraid.txn.hudi.file_lock import FileLock
from lakebraid.txn.hudi.lock_owner import Owner, Processes
from lakebraid.txn.ledger.watch import Company
from lakebraid.txn.liveness.heartbeat import Heartbeat, beat
from lakebraid.txn.writer import Writing
from lakebraid.writing.ahead import Ahead, Series
from lakebraid.writing.begin import Opening, open_write
from lakebraid.writing.request import WriteRequest
from lakebraid.writing.transaction import Transaction
from simulator.oracle import Change, Intent
from simulator.stand_ins.clustering_task import run_cluster
from simulator.stand_ins.engine import SimEngine, SimSameKeys
from simulator.stand_ins.tasks import Merging, Written, read_origins, run_fold, run_merge, write_base
from simulator.world.world import Process

if TYPE_CHECKING:
    from simulator.scene import Scene


class SimHeartbeat(Heartbeat):
    """Beats in a thread of the process that began it."""

    def run(self) -> None:
        thread: Any = getcurrent()
        self._world = thread.world
        thread.world.spawn(thread.process, f"{thread.label}.beat-{self.request_time[10:]}", self._beat)

    def _beat(self) -> None:
        while True:
            self._world.sleep(self._world.timeout_ms / 5)
            if self._stop.is_set():
                return
            self._loop_once()

    def _loop_once(self) -> None:
        beat(self.storage, self.request_time)
        if self.check is not None and self._is_lost(self.check):
            if self.on_lost is not None:
                self.on_lost()
            self._stop.set()


class RightClock(Company):
    """Of a process that need not find out first that its clock is not ahead of the storage's: it asks from the beginning."""

    def is_clock_right(self, clock: Clock) -> bool:
        return True


class SimWriting(Writing):
    """Refuses now and then, as if another writer had changed the schema."""

    company = RightClock
    heartbeat = SimHeartbeat
    same_keys = SimSameKeys
    scene: Scene

    def lock(self, table: TableAt) -> FileLock | None:
        is_shared = table.config.lock_provider is not None
        return FileLock(table.storage, table.clock, self.scene.lock_owners) if is_shared else None

    def schema_text(self, *arguments: Any, **named: Any) -> str:
        if self.scene.world.is_storm and self.clock.random() < self.scene.setting.refusals:
            raise SchemaConflict("Another writer changed the schema first. Nothing was published.")
        return super().schema_text(*arguments, **named)


def new_engine(scene: Scene) -> MergeEngine:
    """What merging services leave to an engine: tasks write tiny files, and what log blocks hold comes from the oracle."""

    def find_hazards(storage: Any, name: str, *_: Any) -> tuple[Hazard, ...]:
        request_time = name.rpartition("_")[0].rpartition("_")[2][:17]
        if request_time in scene.oracle.intents:
            return (Hazard(request_time),) if forgets(request_time) else ()
        # A service's log: its blocks are of other instants, or stand for them.
        found = [(o.compacted_times or (o.instant_time,)) for o in read_origins(storage.read(name, 1 << 20))]
        return tuple(Hazard(max(times), is_exact=len(times) == 1) for times in found if any(map(forgets, times)))

    def forgets(request_time: str) -> bool:
        intent = scene.oracle.intents.get(request_time)
        return intent is not None and any(c.value is None and c.order is None for c in intent.changes)

    def run_tasks(storage: Any, plan: Any, tasks: Any, run_task: Any, check: Any) -> list[StagedFile]:
        current: Any = getcurrent()
        run = run_merge if run_task is run_compaction_task else run_fold
        is_clustering = run_task is run_clustering_task
        is_removable = run_task is not run_compaction_task and plan.request_time in scene.removable_plans()
        scene.tell("executing", plan.request_time, current.process, is_removable=is_removable, epoch=plan.epoch)
        made: list[Written] = []
        try:
            for task in tasks:
                check()
                if is_clustering:
                    made += run_cluster(storage, plan.request_time, plan.epoch, task, by_event=scene.setting.by_event)
                else:
                    made += run(storage, plan.request_time, plan.epoch, _merging(task), by_event=scene.setting.by_event)
        finally:
            scene.tell("executed", plan.request_time, current.process)
        return [staged(file) for file in made]

    def load_marks(storage: Any, name: str) -> Marks:
        return Marks(read_origins(storage.read(name, 1 << 20)), has_partial=False)

    return MergeEngine(run_tasks, find_hazards, load_marks)


def _merging(task: Any) -> Merging:
    part = task.slice
    logs = tuple(name.rpartition("/")[2] for name in part.log_names)
    base = part.base_name.rpartition("/")[2] if part.base_name else None
    return Merging(part.partition, task.file_id, base, logs, part.before)


def lock_owners(scene: Scene) -> Processes:
    """Simulated processes as owners of Hudi's lock: the dead are told from the living as they are on one machine."""

    def this(token: str, since_ms: int) -> Owner:
        current: Any = getcurrent()
        return Owner("sim", "boot", "pids", scene.world.processes.index(current.process), "1", token, since_ms)

    return Processes(this, lambda owner: scene.world.processes[owner.pid].is_dead)


def staged(file: Written) -> StagedFile:
    is_base = file.name.endswith(".parquet")
    return StagedFile(file.partition, file.file_id, file.name, 100, file.rows, file.deletes, is_base)


def new_writing(scene: Scene, process: Process) -> SimWriting:
    writing = SimWriting(process.storage, process.clock)
    writing.scene = scene
    return writing


def opened(writing: SimWriting, request: WriteRequest) -> Opening:
    """A write of a simulated process, whose files the simulator's own engine writes."""
    named = request if request.writer is not None else replace(request, writer="a simulated process")
    engine = SimEngine(writing.scene, writing.storage)
    return open_write(writing, Source(writing.storage.url), named, engine=engine, is_blind=True)


def begun(
    writing: SimWriting, request: WriteRequest, series: Series | None = None, ahead: Ahead | None = None
) -> Transaction:
    """A transaction that may put files: before that its request time may be of another write."""
    txn = Transaction(replace(opened(writing, request), series=series, ahead=ahead))
    if txn.is_repeated:
        return txn
    try:
        txn.staging.check_begun()
    except (StorageError, CommitRefused):
        txn.give_up()
        raise
    return txn


class Session:
    """One `Transaction`, from its beginning to whatever its user is told."""

    def __init__(self, scene: Scene, process: Process, writing: SimWriting, txn: str) -> None:
        self._scene, self._process, self._writing, self._txn = scene, process, writing, txn

    def run(self, changes: tuple[Change, ...], write: Any) -> None:
        scene = self._scene
        try:
            txn = begun(self._writing, WriteRequest("upsert"))
        except (StorageError, CommitRefused):
            scene.mark("begin failed")
            return
        intent = scene.oracle.intend(txn.instant, self._process.name, changes)
        placement = txn.begun.placement if scene.setting.fixed else Placement()
        self._finish(txn, intent, write(txn.instant, changes, partial(_placed, placement)))

    def overwrite(self, kind: Any, changes: tuple[Change, ...], deleted: frozenset[str], write: Any) -> None:
        """The same for an overwrite; `deleted` are partitions that go whatever is written."""
        scene = self._scene
        try:
            txn = begun(self._writing, WriteRequest(kind, partitions=deleted))
        except (StorageError, CommitRefused):
            scene.mark("begin failed")
            return
        touched = frozenset(scene.oracle.partition_of(change.key) for change in changes)
        replaces = None if kind == "insert_overwrite_table" else touched | deleted
        intent = scene.oracle.intend(txn.instant, self._process.name, changes, replaces)
        scene.mark(kind)
        self._finish(txn, intent, write(txn.instant, changes, partial(_placed, txn.begun.placement), write_base))

    def _finish(self, txn: Transaction, intent: Intent, files: list[Written] | None) -> None:
        scene = self._scene
        is_storm = scene.world.is_storm
        if files is None or (is_storm and self._process.rng.random() < scene.setting.aborts):
            intent.outcome = "aborting"
            self._abort(txn)
            return
        intent.outcome = "aborting"  # a refused commit rolls itself back
        txn.staging.files += [staged(file) for file in files]
        self._commit(txn)

    def _abort(self, txn: Transaction) -> None:
        try:
            txn.abort()
        except StorageError:
            self._scene.mark("abort failed")
        else:
            self._scene.tell("resolved", txn.instant, "refused")

    def _commit(self, txn: Transaction) -> None:
        scene = self._scene
        try:
            txn.commit()
        except CommitRefused:
            scene.mark("refused")
            scene.tell("resolved", txn.instant, "refused")
        except (CommitUnknown, OutcomeUnknown) as error:
            scene.mark(f"commit: {type(error).__name__}")
            self._ask(txn)
        except StorageError:
            # Neither "refused" nor "unknown": whoever reads that takes it for "not done".
            scene.mark("commit failed")
            txn.give_up()  # as it is done at the end of every `with`; it may not have come as far as to end
            scene.tell("resolved", txn.instant, "refused")
        else:
            scene.tell("resolved", txn.instant, "published")

    def _ask(self, txn: Transaction) -> None:
        for _ in range(3):
            self._process.clock.sleep(0.1)
            try:
                answer = write_status(self._writing.ledger(self._scene.table.config), txn.instant)
            except StorageError:
                continue
            self._scene.mark(f"unknown became {answer}")
            if answer != "open":
                self._scene.tell("resolved", txn.instant, answer)
                return


def _placed(placement: Placement, group: tuple[str, str]) -> tuple[str, str]:
    """Where the rows of a bucket go, by what the product knows of overwrites."""
    partition, file_id = group
    return partition, placement.replaced.file_id(partition, bucket_of_file_id(file_id) or 0)


def compact(scene: Scene, writing: SimWriting) -> None:
    """The product's own compaction."""
    opened = open_table(writing, is_written=True)
    for _ in compaction.compact(opened, engine=new_engine(scene)):
        scene.mark("compacted by the service")


__all__ = ["Session", "compact", "lock_owners", "new_engine", "new_writing"]
