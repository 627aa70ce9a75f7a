# SPDX-License-Identifier: Apache-2.0
"""18. A batch of a writer is published once at most, unless a restore took it back; whoever is told it is there is right."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simulator.oracle import Note, Oracle, describe
from simulator.world.violation import Violation

if TYPE_CHECKING:
    from simulator.scene import Scene

_NAME = "18 batches once"


class BatchesOnce:
    scene: Scene

    def __init__(self, oracle: Oracle) -> None:
        self._oracle = oracle

    def published(self, note: Note) -> None:
        batch = self.scene.batches.get(note.request_time)
        if batch is None:
            return
        for request_time in self._request_times(batch):
            if request_time != note.request_time and request_time not in self._oracle.undone:
                raise Violation(
                    _NAME,
                    f"{batch} was published by {describe(request_time)}, and again by {describe(note.request_time)}",
                )

    def batch_done(self, writer: str, number: int) -> None:
        if not self._request_times((writer, number)):
            raise Violation(_NAME, f"{writer} was told that its batch {number} is there, and it is not")

    def _request_times(self, batch: tuple[str, int]) -> list[str]:
        return [s for s, known in self.scene.batches.items() if known == batch and s in self._oracle.published]
