# SPDX-License-Identifier: Apache-2.0
"""Streams: drivers that write numbered batches from a checkpoint, forget it, die, and are started while another lives."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from lakebraid.errors import BatchRepeated, CommitRefused, StorageError
from lakebraid.txn.actions.write import begin_write
from lakebraid.txn.checks.rivalry import Placement
from lakebraid.txn.ledger.entries import Batch
from lakebraid.txn.liveness.heartbeat import beat
from lakebraid.writing.request import WriteRequest
from simulator.actors.writing import Writer, drawn_changes, new_ledger
from simulator.oracle import Change
from simulator.stand_ins import product
from simulator.world.world import Process, Thread

if TYPE_CHECKING:
    from simulator.scene import Scene


@dataclass
class Checkpoint:
    """What outlives a driver: the number of the next batch. The source gives the same rows for the same number."""

    writer: str
    following: int = 0
    drivers: list[Thread] = field(default_factory=list)


def stream(scene: Scene, process: Process, rounds: int) -> None:
    """Sees to it that somebody drives the stream; now and then two do."""
    checkpoint = Checkpoint(process.name)
    for _ in range(12 * rounds):
        if checkpoint.following >= rounds or len(checkpoint.drivers) > 3 * rounds:
            return
        if all(d.dead or d.process.is_dead for d in checkpoint.drivers) or process.rng.random() < 0.1:
            driver = Process(scene.world, f"{process.name}.d{len(checkpoint.drivers)}")
            body = partial(_drive, scene, driver, checkpoint, rounds)
            checkpoint.drivers.append(scene.world.spawn(driver, driver.name, body))
        process.clock.sleep(0.05 + 40 * scene.setting.call_ms / 1000 * process.rng.random())


def _drive(scene: Scene, process: Process, checkpoint: Checkpoint, rounds: int) -> None:
    number = checkpoint.following
    while number < rounds and _is_done(scene, process, Batch(checkpoint.writer, number)):
        scene.tell("batch_done", checkpoint.writer, number)
        if process.rng.random() < 0.3:
            scene.mark("driver forgot its checkpoint")
            return
        number += 1
        checkpoint.following = max(checkpoint.following, number)


def _is_done(scene: Scene, process: Process, batch: Batch) -> bool:
    """Whether the driver is told that the batch is in the table, within some attempts."""
    changes = drawn_changes(
        scene, scene.world.derived(f"{batch.writer} {batch.number}"), f"{batch.writer}-{batch.number}"
    )
    for attempt in range(3):
        writer = BatchWriter(scene, process, new_ledger(scene, process), f"{process.name}-{batch.number}-{attempt}")
        if scene.setting.whole or scene.setting.shared:
            session = BatchSession(scene, process, product.new_writing(scene, process), writer._txn)
            session.run_batch(batch, changes, writer)
            is_done = session.is_done
        else:
            writer.run_batch(batch, changes)
            is_done = writer.is_done
        if is_done:
            return True
    return False


class BatchWriter(Writer):
    """One batch by the decisions alone. It knows that it is done when it is told so at a new beginning."""

    is_done = False

    def run_batch(self, batch: Batch, changes: tuple[Change, ...]) -> None:
        storage, scene = self._process.storage, self._scene
        try:
            request_time = begin_write(self._ledger, self._txn, batch=batch, beat=lambda s: beat(storage, s))
        except BatchRepeated:
            self.is_done = True
            scene.mark("batch repeated")
            return
        except (StorageError, CommitRefused):
            scene.mark("begin failed")
            return
        scene.batches[request_time] = (batch.writer, batch.number)
        intent = scene.oracle.intend(request_time, self._process.name, changes)
        scene.world.spawn(self._process, f"{self._txn}.beat", lambda: self._beat(request_time))
        try:
            files = self.write_files(request_time, changes)
            if files is None:
                intent.outcome = "aborting"
                self._abort(request_time)
            else:
                self._publish(request_time, files)
        finally:
            self._is_over = True


class BatchSession(product.Session):
    """One batch by the product's own transaction."""

    is_done = False

    def run_batch(self, batch: Batch, changes: tuple[Change, ...], writer: BatchWriter) -> None:
        scene = self._scene
        try:
            request = WriteRequest("upsert", writer=batch.writer, batch=batch.number)
            txn = product.begun(self._writing, request)
        except (StorageError, CommitRefused):
            scene.mark("begin failed")
            return
        if txn.is_repeated:
            scene.mark("batch repeated")
            self.is_done = txn.commit().is_repeated
            return
        scene.batches[txn.instant] = (batch.writer, batch.number)
        intent = scene.oracle.intend(txn.instant, self._process.name, changes)
        placement = txn.begun.placement if scene.setting.fixed else Placement()
        place = partial(product._placed, placement)
        commit = txn.commit

        def noted() -> None:
            result = commit()
            self.is_done = True
            if result.is_repeated:
                scene.mark("batch repeated at its commit")
                raise BatchRepeated("Another driver was first. Nothing of this attempt is visible.")

        txn.commit = noted  # type: ignore[method-assign,assignment]
        self._finish(txn, intent, writer.write_files(txn.instant, changes, place))
