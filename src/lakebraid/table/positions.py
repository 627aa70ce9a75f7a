# SPDX-License-Identifier: Apache-2.0
"""The completion times of a table's writes, as they come: where a reader of changes can stop and go on.

Only names are looked at, so asking often is cheap, however large the table is.
"""

from __future__ import annotations

from lakebraid.format.names import State
from lakebraid.model.timeline.instant import WRITE_ACTIONS, Instant
from lakebraid.model.timeline.timeline import Timeline
from lakebraid.table.at import TableAt
from lakebraid.table.history import load_history
from lakebraid.table.loading import load_timeline


class Positions:
    """Remembers what it has seen of the timeline: what left it for the history since is looked for there."""

    def __init__(self, table: TableAt) -> None:
        self._table = table
        self._oldest: str | None = None
        """The smallest request time that was active at the last look; None: there was no look."""
        self._archived: dict[str, Instant] = {}

    def after(self, time: str) -> list[Instant]:
        """Completed writes, services among them, and restores, in the order of their completion, after a time.

        The parts of a listing may be of different moments, so it may show c2 and not c1 < c2. What the first of two
        listings has last is the end; the second has everything before it.
        """
        first = load_timeline(self._table)
        second = load_timeline(self._table)
        request_times = {i.request_time for i in second}
        if self._oldest is None or self._oldest not in request_times:
            self._look_back(self._oldest or "", time)
        self._oldest = min(request_times, default="")
        self._archived = {s: i for s, i in self._archived.items() if _time(i) > time}
        end = max(map(_time, (*_positions(first), *self._archived.values())), default="")
        every = {i.request_time: i for i in (*_positions(first), *_positions(second), *self._archived.values())}
        return sorted((i for i in every.values() if time < _time(i) <= end), key=_time)

    def _look_back(self, first: str, time: str) -> None:
        """What the history has from a request time on. An archived write completed before we looked, perhaps after all others."""
        for row in load_history(self._table, first, actions=WRITE_ACTIONS):
            if _time(row.instant) > time:
                self._archived[row.instant.request_time] = row.instant


def _positions(timeline: Timeline) -> list[Instant]:
    """The instants at which a reader can stop: a restore counts from its beginning."""
    restores = [i.request_time for i in timeline if i.action == "restore"]
    return [
        *timeline.writes,
        *(Instant(request_time, "restore", State.COMPLETED, request_time) for request_time in restores),
    ]


def _time(instant: Instant) -> str:
    return instant.completion_time or ""
