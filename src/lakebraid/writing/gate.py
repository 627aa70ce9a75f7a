# SPDX-License-Identifier: Apache-2.0
"""Where a placed write is stopped on its way: when it knows where its rows go, and before each file group is written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from lakebraid import limits
from lakebraid.errors import WriteConflict
from lakebraid.model.timeline.slicing import GroupId
from lakebraid.model.timeline.timeline import Timeline
from lakebraid.tasks.staged_file import StagedFile
from lakebraid.txn.checks.rivalry import Rivalry
from lakebraid.txn.ledger.ledger import Ledger
from lakebraid.txn.ledger.rounds import Round
from lakebraid.txn.liveness.waiting import let_earlier_ones_end


@dataclass(frozen=True, slots=True)
class Seen:
    """Where rows are about to be written, and what was known when that was found out."""

    timeline: Timeline
    groups: frozenset[GroupId]
    is_closed: bool
    """Whether a plan that moves rows has one of the groups."""
    size: int
    """Of the base files that are there."""
    seconds: float
    """How long it took to find that out."""

    @property
    def work_seconds(self) -> float:
        """About how long it takes to do all of it again."""
        return self.seconds + self.size / limits.REWRITTEN_BYTES_PER_SECOND


@dataclass(frozen=True, slots=True)
class Gate:
    """What one write asks before it writes what may be in vain."""

    ledger: Ledger
    rivalry: Rivalry
    instant: str
    files: Sequence[StagedFile]
    """Those of the write, as many as there are by then."""
    found: Callable[[], WriteConflict | None]
    """What its heartbeat has met since the write began."""

    def check(self, seen: Seen) -> None:
        """WriteConflict if the commit would be refused as the table was when it was looked at."""
        now = Round.of_timeline(self.ledger, seen.timeline)
        self.rivalry.check_placed(now, seen.groups, is_closed=seen.is_closed)

    def give_way(self, seen: Seen) -> bool:
        """Whether others, who began before, were at the same file groups, and may be done now."""
        may_wait = self.rivalry.gives_way
        return may_wait and let_earlier_ones_end(self.ledger, self.instant, seen.groups, seen.work_seconds)

    def check_meanwhile(self) -> None:
        """WriteConflict if others were faster since the look, which is the last: from here on they are in the way."""
        clash = self.found()
        if clash is not None:
            raise clash
        self.rivalry.check_meanwhile(self.ledger, self.files)

    def each(self, files: Iterator[StagedFile]) -> Iterator[StagedFile]:
        """The files, each of which is made when it is asked for, after a check."""
        self.check_meanwhile()
        for file in files:
            yield file
            self.check_meanwhile()
