# SPDX-License-Identifier: Apache-2.0
"""Whether the keys that a partial update took for new are new at the moment it is published.

Hudi's readers take a skeleton for a whole row: it hides the columns of every write that began before it. So of two
writers that open a row for one key the second is refused, and so is one that began before a row was opened, and looked
after it. Both begin again, and then come after the skeleton.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from lakebraid.errors import SnapshotExpired, WriteConflict
from lakebraid.model.timeline.instant import Instant
from lakebraid.storage.protocol import Storage
from lakebraid.table.loading import load_commit
from lakebraid.tasks.staged_file import StagedFile
from lakebraid.txn.checks.log_keys import SERVICES, Group, by_group, has_rows, log_keys, meets, opens_rows, share_a_key
from lakebraid.txn.ledger.rounds import Round


@dataclass(slots=True)
class KeysSeen:
    """What a partial update knew when it looked which keys have a row."""

    position: str
    """Everything that completed up to this time was seen."""
    first_active: str | None
    """The first write of the timeline then: if it is another one now, some were archived since."""
    younger: tuple[Instant, ...] = ()
    """Writes that were seen, though they began later than this one."""
    judged: set[str] = field(default_factory=set)
    """Writes that completed since and are known to touch none of the new keys."""

    def check(self, now: Round, request_time: str, files: Iterable[StagedFile]) -> None:
        """WriteConflict if a write that completed since has rows of keys that these files open, or if a younger one
        opened rows that they update.

        Compactions change no answer, and what is only deleted is still new.
        """
        own = by_group(files)
        for instant in self.younger:
            if meets(now, instant, own, _opened_rows):
                raise _conflict(
                    now,
                    request_time,
                    f"the write {instant.request_time}, which began later, opened one of its rows",
                    instant,
                )
        self.younger = ()
        opened = by_group(file for file in files if file.new_keys)
        if not opened:
            return
        timeline = now.since(self.position)
        if timeline.first_active_write != self.first_active:
            raise _conflict(
                now,
                request_time,
                "writes that may have brought the same new keys were archived before it could look at them",
            )
        for instant in timeline.writes:
            if (instant.completion_time or "") > self.position and instant.request_time not in self.judged:
                if _may_bring_the_same(now, instant, opened):
                    raise _conflict(
                        now, request_time, f"the write {instant.request_time} brought a key of it that was new", instant
                    )
                self.judged.add(instant.request_time)


def _may_bring_the_same(now: Round, instant: Instant, opened: dict[Group, list[StagedFile]]) -> bool:
    if instant.kind in SERVICES:
        return False
    if instant.action != "replacecommit":
        return meets(now, instant, opened, _same_new_keys)
    # What replaces file groups has its rows in others of the same partitions, under the same keys.
    metadata = load_commit(now.ledger.table, instant)
    return any(partition in metadata.write_stats or partition in metadata.replaced for partition, _ in opened)


def _same_new_keys(storage: Storage, own: Iterable[StagedFile], other: str) -> bool:
    """Whether another file has rows of keys that ours open; what cannot be known counts as yes."""
    if other.endswith(".parquet"):
        return True
    mine = [keys for file in own for keys in log_keys(storage, file.path, opens_rows)]
    try:
        return share_a_key(mine, [*log_keys(storage, other, has_rows)])
    except SnapshotExpired:
        return True  # compacted and cleaned away since


def _opened_rows(storage: Storage, own: Iterable[StagedFile], other: str) -> bool:
    """Whether another file opens rows of which ours have columns. One that was compacted does so no more."""
    try:
        theirs = [] if other.endswith(".parquet") else [*log_keys(storage, other, opens_rows)]
    except SnapshotExpired:
        return False
    return bool(theirs) and share_a_key(theirs, [k for f in own for k in log_keys(storage, f.path, has_rows)])


def _conflict(now: Round, request_time: str, reason: str, instant: Instant | None = None) -> WriteConflict:
    facts = {} if instant is None else {"other": instant.request_time}
    return WriteConflict(
        f"The partial update {request_time} of {now.ledger.storage.url} was refused: {reason}. Nothing of it "
        "is visible. Run it again from its begin: it will then update the rows that are there now "
        "(`table.upsert(rows, columns=...)` does so by itself).",
        instant=request_time,
        **facts,
    )
