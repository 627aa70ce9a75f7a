# SPDX-License-Identifier: Apache-2.0
"""Whether another write changed the rows that a conditional change has read: the check before its commit, key by key.

An optimistic table holds whole file groups against each other (file_groups.py). Where writers never wait for one another
that would refuse a change beside every stream, so only keys count: two changes of the same row do not both get through.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from lakebraid.errors import SnapshotExpired, WriteConflict
from lakebraid.model.timeline.instant import Instant
from lakebraid.storage.protocol import Storage
from lakebraid.tasks.staged_file import StagedFile
from lakebraid.txn.checks.log_keys import SERVICES, by_group, has_rows_or_deletes, log_keys, meets, share_a_key
from lakebraid.txn.ledger.rounds import Round


@dataclass(slots=True)
class TouchedKeys:
    """What a conditional change is held against: everything that completed since it began."""

    request_time: str
    first_active: str | None
    """The first write of the timeline then: if it is another one now, some were archived since."""
    judged: set[str] = field(default_factory=set)

    def check(self, now: Round, files: Iterable[StagedFile]) -> None:
        """WriteConflict if a write that completed since this one began has rows or deletes of its keys."""
        own = by_group(files)
        timeline = now.since(self.request_time)
        if own and timeline.first_active_write != self.first_active:
            raise self._conflict(
                now, "writes that may have changed the same rows were archived before it could look at them"
            )
        for instant in timeline.writes:
            is_newer = (instant.completion_time or "") > self.request_time and instant.request_time not in self.judged
            if not is_newer or instant.kind in SERVICES:
                continue
            if instant.action == "replacecommit" or meets(now, instant, own, _same_keys):
                raise self._conflict(now, f"the write {instant.request_time} changed one of its rows", instant)
            self.judged.add(instant.request_time)

    def _conflict(self, now: Round, reason: str, instant: Instant | None = None) -> WriteConflict:
        facts = {} if instant is None else {"other": instant.request_time}
        return WriteConflict(
            f"The change {self.request_time} of {now.ledger.storage.url} was refused: {reason} after it had been read. Nothing of "
            "it is visible. Run it again: it will then start from the rows of now.",
            instant=self.request_time,
            **facts,
        )


def _same_keys(storage: Storage, own: Iterable[StagedFile], other: str) -> bool:
    """Whether another file has rows or deletes of our keys; what cannot be known counts as yes."""
    if other.endswith(".parquet"):
        return True
    mine = [keys for file in own for keys in log_keys(storage, file.path, has_rows_or_deletes)]
    try:
        return share_a_key(mine, [*log_keys(storage, other, has_rows_or_deletes)])
    except SnapshotExpired:
        return True  # compacted and cleaned away since
