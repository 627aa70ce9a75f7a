# SPDX-License-Identifier: Apache-2.0
"""4. Rows of refused, rolled-back or unfinished instants appear in no read."""

from __future__ import annotations

from simulator.oracle import Oracle, describe
from simulator.reading import Answer
from simulator.world.violation import Violation


class NothingUnpublishedIsVisible:
    def __init__(self, oracle: Oracle) -> None:
        self._oracle = oracle

    def answered(self, answer: Answer) -> None:
        for key, (_, request_time, value) in answer.rows.items():
            note = self._oracle.published.get(request_time)
            if note is None:
                raise Violation(
                    "4 nothing unpublished is visible",
                    f"{answer.reader} ({answer.kind}) read {key}={value} of {describe(request_time)}, which is not published",
                )
            if any(request_time in r.undone and r.step < answer.began for r in self._oracle.restores):
                raise Violation(
                    "4 nothing unpublished is visible",
                    f"{answer.reader} ({answer.kind}) read {key}={value} of {describe(request_time)}, which was restored away",
                )
            if answer.kind in ("as_of", "held") and note.completion > answer.completion:
                raise Violation(
                    "4 nothing unpublished is visible",
                    f"{answer.reader} as of {describe(answer.completion)} read {key}={value}, which was published at "
                    f"{describe(note.completion)}",
                )
