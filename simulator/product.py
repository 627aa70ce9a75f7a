# SPDX-License-Identifier: Apache-2.0
"""The product's transactions and compactions whole, with three things replaced: threads, Spark, and bytes of rows.

Heartbeats beat in a thread of the simulated process; tasks write the simulator's tiny files; what would be read out of
log blocks (hazards) comes from the oracle.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from greenlet import getcurrent

from lakebraid.api import transaction
from lakebraid.api.planning import Source
from lakebraid.api.transaction import Transaction
from lakebraid.errors import CommitRefused, CommitUnknown, OutcomeUnknown, SchemaConflict, StorageError
from lakebraid.model import timeline
from lakebraid.services import claims, compaction
from lakebraid.table import loading, schema
from lakebraid.tasks.hazards import Hazard
from lakebraid.tasks.staged_file import StagedFile
from lakebraid.txn import ledger, session
from lakebraid.txn.heartbeat import Heartbeat, beat
from lakebraid.txn.operations import status
from lakebraid.txn.session import Writing
from simulator.oracle import Change
from simulator.tasks import Merging, Written, run_merge
from simulator.world import Process

if TYPE_CHECKING:
    from simulator.scene import Scene


class SimHeartbeat(Heartbeat):
    """Beats in a thread of the process that began it."""

    def run(self) -> None:
        thread: Any = getcurrent()
        self._world = thread.world
        thread.world.spawn(thread.process, f"{thread.label}.beat-{self.start[10:]}", self._beat)

    def _beat(self) -> None:
        while True:
            self._world.sleep(self._world.timeout_ms / 5)
            if self._stop.is_set():
                return
            self._loop_once()

    def _loop_once(self) -> None:
        beat(self.storage, self.start)
        if self.check is not None and self._is_lost(self.check):
            if self.on_lost is not None:
                self.on_lost()
            self._stop.set()


class SimWriting(Writing):
    """Refuses now and then, as if another writer had changed the schema."""

    scene: Scene

    def schema_text(self, now: Any, own: Any) -> str:
        if self.scene.world.is_storm and self.clock.random() < self.scene.setting.refusals:
            raise SchemaConflict("Another writer changed the schema first. Nothing was published.")
        return super().schema_text(now, own)


def _remembered(module: Any, name: str) -> tuple[Any, str, Any]:
    return module, name, lru_cache(100_000)(getattr(module, name))


_REMEMBERED = (
    # Pure functions of the product: the simulator asks them the same a hundred times.
    _remembered(timeline, "parse_timeline_file"),
    _remembered(ledger, "parse_timeline_file"),
    _remembered(loading, "parse_data_file"),
    _remembered(loading, "parse_commit"),
    _remembered(session, "parse_commit"),
    _remembered(schema, "parse_avro_schema"),
    _remembered(session, "parse_avro_schema"),
)


@contextmanager
def replaced(scene: Scene) -> Iterator[None]:
    """The product without its threads, for one history."""

    def find_hazards(_storage: Any, name: str, *_: Any) -> tuple[Hazard, ...]:
        start = name.rpartition("_")[0].rpartition("_")[2][:17]
        intent = scene.oracle.intents.get(start)
        forgets = intent is not None and any(c.value is None and c.order is None for c in intent.changes)
        return (Hazard(start),) if forgets else ()

    def run_tasks(storage: Any, plan: Any, tasks: Any, *, check: Any, **_: Any) -> list[StagedFile]:
        made: list[Written] = []
        for task in tasks:
            check()
            part = task.slice
            logs = tuple(name.rpartition("/")[2] for name in part.log_names)
            base = part.base_name.rpartition("/")[2] if part.base_name else None
            work = Merging(part.partition, task.file_id, base, logs)
            made += run_merge(storage, plan.start, plan.epoch, work, by_event=scene.setting.by_event)
        return [staged(file) for file in made]

    changes = (
        *_REMEMBERED,
        (transaction, "Heartbeat", SimHeartbeat),
        (claims, "Heartbeat", SimHeartbeat),
        (compaction, "find_hazards", find_hazards),
        (compaction, "run_tasks", run_tasks),
    )
    before = [(module, name, getattr(module, name)) for module, name, _ in changes]
    for module, name, value in changes:
        setattr(module, name, value)
    try:
        yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)


def staged(file: Written) -> StagedFile:
    is_base = file.name.endswith(".parquet")
    return StagedFile(file.partition, file.file_id, file.name, 100, file.rows, file.deletes, is_base)


def new_writing(scene: Scene, process: Process) -> SimWriting:
    writing = SimWriting(process.storage, process.clock)
    writing.scene = scene
    return writing


class Session:
    """One `Transaction`, from its beginning to whatever its user is told."""

    def __init__(self, scene: Scene, process: Process, writing: SimWriting, txn: str) -> None:
        self._scene, self._process, self._writing, self._txn = scene, process, writing, txn

    def run(self, changes: tuple[Change, ...], write: Any) -> None:
        scene = self._scene
        try:
            txn = Transaction(self._writing, Source(self._process.storage.url), "upsert")
        except StorageError:
            scene.mark("begin failed")
            return
        intent = scene.oracle.intend(txn.instant, self._process.name, changes)
        files = write(txn.instant, changes)
        is_storm = scene.world.is_storm
        if files is None or (is_storm and self._process.rng.random() < scene.setting.aborts):
            intent.outcome = "aborting"
            self._abort(txn)
            return
        intent.outcome = "aborting"  # a refused commit rolls itself back
        txn._files += [staged(file) for file in files]
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
            scene.tell("resolved", txn.instant, "refused")
        else:
            scene.tell("resolved", txn.instant, "published")

    def _ask(self, txn: Transaction) -> None:
        for _ in range(3):
            self._process.clock.sleep(0.1)
            try:
                answer = status(self._writing.ledger(self._scene.table.config), txn.instant)
            except StorageError:
                continue
            self._scene.mark(f"unknown became {answer}")
            if answer != "open":
                self._scene.tell("resolved", txn.instant, answer)
                return


def compact(scene: Scene, writing: SimWriting) -> None:
    """The product's own compaction."""
    for _ in compaction.compact(writing):
        scene.mark("compacted by the service")


__all__ = ["Session", "compact", "new_writing", "replaced"]
