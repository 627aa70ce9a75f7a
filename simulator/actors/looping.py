# SPDX-License-Identifier: Apache-2.0
"""Writers that write again and again, and begin the next write while the one before is published: the product's own code."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from lakebraid import limits
from lakebraid.errors import CommitRefused, StorageError
from lakebraid.txn.checks.rivalry import Placement
from lakebraid.writing.ahead import Series
from lakebraid.writing.request import WriteRequest
from simulator.actors.writing import Writer, drawn_changes, new_ledger
from simulator.oracle import Change
from simulator.stand_ins import product
from simulator.world.world import Process

if TYPE_CHECKING:
    from simulator.scene import Scene


def loop(scene: Scene, process: Process, rounds: int) -> None:
    """Most writes follow at once; now and then the writer rests for so long that what it has begun is rolled back."""
    writing = product.new_writing(scene, process)
    series, rng = Series(writing), process.rng
    has_batches = rng.random() < 0.4
    for number in range(3 * rounds):
        changes = drawn_changes(scene, rng, f"{process.name}-{number}")
        request = WriteRequest(writer=process.name, batch=number if has_batches else None)
        files = Writer(scene, process, new_ledger(scene, process), f"{process.name}-{number}")
        LoopSession(scene, process, writing, series).run_next(request, changes, files.write_files)
        rest = rng.random()
        process.clock.sleep(0.02 if rest < 0.8 else 2 * rng.random() * limits.AHEAD_IDLE_SECONDS)
        if rest > 0.95:
            scene.mark("a writer ended its series")
            series.close()
    if rng.random() < 0.7:  # else its process goes on with something else, and its heartbeat sees to it
        series.close()


class LoopSession(product.Session):
    """One write of a series."""

    def __init__(self, scene: Scene, process: Process, writing: product.SimWriting, series: Series) -> None:
        super().__init__(scene, process, writing, "")
        self._series = series

    def run_next(self, request: WriteRequest, changes: tuple[Change, ...], write: Any) -> None:
        scene, called = self._scene, self._scene.world.step
        ahead = self._series.take(request)
        try:
            txn = product.begun(self._writing, request, self._series, ahead)
        except (StorageError, CommitRefused):
            scene.mark("begin failed")
            return
        finally:
            if ahead is not None:
                ahead.let_go()
            self._series.ended()
        if ahead is not None:
            scene.mark("begun ahead" if txn.begun.token == ahead.token else "begun ahead, and not used")
        scene.tell("called", txn.instant, called)
        if request.batch is not None:
            scene.batches[txn.instant] = self._process.name, request.batch
        intent = scene.oracle.intend(txn.instant, self._process.name, changes)
        placement = txn.begun.placement if scene.setting.fixed else Placement()
        self._finish(txn, intent, write(txn.instant, changes, partial(product._placed, placement)))
        self._series.ended()
