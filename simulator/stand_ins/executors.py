# SPDX-License-Identifier: Apache-2.0
"""Executors: processes of their own that do the tasks of a driver."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from lakebraid.errors import SnapshotExpired, StorageError
from lakebraid.storage.protocol import Storage
from simulator.world.world import Process

if TYPE_CHECKING:
    from simulator.scene import Scene

T = TypeVar("T")


def run_tasks(scene: Scene, driver: Process, label: str, work: Sequence[Callable[[Storage], T]]) -> list[T] | None:
    """Runs tasks in executors of their own: they go on when the driver dies, fail and are tried again, run twice."""
    results: dict[int, T] = {}
    failures: dict[int, int] = {}

    def launch(at: int, attempt: int) -> None:
        executor = Process(scene.world, f"{label}.t{at}.{attempt}")

        def body() -> None:
            try:
                results[at] = work[at](executor.storage)
            except (StorageError, SnapshotExpired):
                failures[at] = failures.get(at, 0) + 1

        scene.world.spawn(executor, executor.name, body)
        running.append((at, executor))

    running: list[tuple[int, Process]] = []
    for at in range(len(work)):
        launch(at, 0)
        if driver.rng.random() < 0.2:
            launch(at, 1)
    attempts = 1
    for _ in range(60):
        if len(results) == len(work):
            return [results[at] for at in sorted(results)]
        driver.clock.sleep(0.02)
        alive = {at for at, executor in running if not executor.is_dead and not all(t.dead for t in executor.threads)}
        idle = [at for at in range(len(work)) if at not in results and at not in alive]
        if idle and attempts < 4:
            attempts += 1
            for at in idle:
                launch(at, attempts)
    scene.mark("tasks given up")
    return None
