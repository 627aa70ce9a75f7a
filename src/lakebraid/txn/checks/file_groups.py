# SPDX-License-Identifier: Apache-2.0
"""The check before an optimistic commit: which instants have touched its file groups since the write began."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from lakebraid import limits
from lakebraid.errors import CorruptFile, ObjectNotFound, WriteConflict
from lakebraid.format.names import MarkerName, parse_data_file
from lakebraid.model.conflicts import (
    Begun,
    Clash,
    Strategy,
    WriteKind,
    candidates,
    find_clash,
    kind_of,
)
from lakebraid.model.timeline.instant import COMPLETED_AS, WRITE_ACTIONS, Instant
from lakebraid.model.timeline.slicing import GroupId
from lakebraid.model.timeline.timeline import Timeline
from lakebraid.table.history import load_history
from lakebraid.table.loading import load_commit
from lakebraid.txn.checks.pending_plans import load_planned
from lakebraid.txn.hudi.reconcile import pending_writes
from lakebraid.txn.ledger.ledger import Ledger
from lakebraid.txn.ledger.rounds import Round
from lakebraid.txn.liveness.markers import load_markers

STRATEGY = "hoodie.write.lock.conflict.resolution.strategy"
UPDATES = "hoodie.clustering.updates.strategy"
EARLY = "hoodie.write.concurrency.early.conflict.detection.enable"
WRITER = "lakebraid.writer"
"""In a commit's extra metadata: who wrote it."""


@dataclass
class Rivals:
    """What an optimistic write is held against; what was learnt of completed instants stays true between rounds."""

    begun: Begun
    strategy: Strategy
    updates_allowed: bool
    current: WriteKind = WriteKind.INGESTION
    is_blind: bool = False
    """Whether what this write holds is the same whatever others have written."""
    seen: frozenset[str] = frozenset()
    """Request times of completed instants that were there when this write read what it depends on."""
    are_apart: Callable[[Round, Instant], bool] | None = None
    """Of a blind write: whether a published one has other keys than it."""
    _footprints: dict[str, frozenset[GroupId]] = field(default_factory=dict)

    def check(self, now: Round, own: Collection[GroupId], writer: str) -> None:
        """WriteConflict if a candidate touches one of these groups."""
        self._check(now, own, writer, is_early=False)

    def check_early(self, now: Round, own: Collection[GroupId], writer: str) -> None:
        """The same for completed candidates alone: they stay, so whom they refuse now would be refused at the commit."""
        self._check(now, own, writer, is_early=True)

    def _check(self, now: Round, own: Collection[GroupId], writer: str, *, is_early: bool) -> None:
        clash = self.clash(now, own, is_early=is_early)
        if clash is not None:
            raise _conflict(now, self.begun, clash, writer)

    def clash(self, now: Round, own: Collection[GroupId], *, is_early: bool = False) -> Clash | None:
        """The first candidate that touches one of these groups; without pending ones if it is early."""
        ledger = now.ledger
        # What is being rolled back is on the timeline until its files are gone, and stops no write.
        met = ((i, rule) for i, rule in self._candidates(now) if i.is_completed or i.request_time not in now.state.gone)
        found = ((instant, rule) for instant, rule in met if instant.is_completed or not is_early)
        return find_clash(
            found,
            own,
            lambda instant: self._footprint(ledger, instant),
            by_bucket=ledger.config.buckets is not None,
            are_apart=lambda instant: self._are_apart(now, instant),
        )

    def completed(self, now: Round) -> list[Instant]:
        """What has completed since this write began."""
        return [instant for instant, _ in self._candidates(now) if instant.is_completed]

    def _candidates(self, now: Round) -> list[tuple[Instant, str]]:
        timeline = with_archived(now, self.begun)
        every = candidates(timeline, self.begun, self.current, self.strategy, updates_allowed=self.updates_allowed)
        return [(instant, rule) for instant, rule in every if now.is_shared or not self._is_accounted_for(instant)]

    def _is_accounted_for(self, rival: Instant) -> bool:
        """Whether this write, done again after that rival, would be the same, byte for byte but for its own request time: then the
        rival is passed over.

        One that began earlier and is published comes before ours in every order, and our base files hide its own. A
        compaction finds blind rows in the slice after it, whenever it was planned (RFC-66). Beside Apache Hudi a bucket
        may get a second file id while the write is open, so there no rival is passed over.
        """
        if self.is_blind and kind_of(rival) is WriteKind.COMPACTION:
            return True
        if not rival.is_completed or rival.request_time > self.begun.request_time:
            return False
        return rival.request_time in self.seen or (self.is_blind and rival.action != "replacecommit")

    def _are_apart(self, now: Round, rival: Instant) -> bool:
        """Whether it makes no difference which of two blind writes comes first, since they share no key."""
        is_possible = self.is_blind and rival.is_completed and rival.action == "deltacommit" and not now.is_shared
        return is_possible and self.are_apart is not None and self.are_apart(now, rival)

    def _footprint(self, ledger: Ledger, instant: Instant) -> frozenset[GroupId]:
        known = self._footprints.get(instant.request_time)
        if known is None:
            known = frozenset(_groups(ledger, instant))
            if instant.is_completed:
                self._footprints[instant.request_time] = known
        return known


def begun(now: Round, request_time: str) -> Begun:
    """What is under way at the moment a write begins; to be asked inside the decision that begins it."""
    if not now.is_shared:
        # Another process may decide it later, and tells no more than the time: by times the same is found. What is
        # archived since is looked up in vain.
        return Begun(request_time, None, now.state.archived)
    pending, timeline = {*now.state.open, *now.state.plans}, now.since(request_time)
    return Begun(request_time, frozenset(pending | {*pending_writes(timeline)}), timeline.first_active_write or "")


def with_archived(now: Round, begun: Begun) -> Timeline:
    """The timeline since the write began, and what was archived since: a rival does not vanish by that."""
    timeline = now.since(begun.request_time, begun.pending or frozenset())
    active_from = (timeline.first_active_write or "") if now.is_shared else now.state.archived
    if active_from == begun.active_from:
        return timeline
    known = {instant.request_time for instant in timeline.active}
    rows = load_history(now.ledger.table, begun.active_from, actions=WRITE_ACTIONS)
    moved = {row.instant.request_time: row.instant for row in rows if row.instant.request_time not in known}
    return Timeline(tuple(sorted((*moved.values(), *timeline.active))))


def _groups(ledger: Ledger, instant: Instant) -> list[GroupId]:
    """The file groups that an instant touches: as its commit says, or as its plan does."""
    if instant.is_completed:
        metadata = load_commit(ledger.table, instant)
        written = [GroupId(p, s.file_id or "") for p, stats in metadata.write_stats.items() for s in stats]
        return written + [GroupId(p, file_id) for p, ids in metadata.replaced.items() for file_id in ids]
    if kind_of(instant) is WriteKind.INGESTION:
        # What it will touch is not known before it completes; what it has announced so far is.
        return [g for m in load_markers(ledger.storage, instant.request_time) if (g := _marked_group(m)) is not None]
    with contextlib.suppress(CorruptFile, ObjectNotFound):  # torn, or withdrawn: it will not be executed
        return [part.group for part in load_planned(ledger.table, instant)]
    return []


def _marked_group(marker: MarkerName) -> GroupId | None:
    parsed = parse_data_file(marker.data_file_name)
    return None if parsed is None else GroupId(marker.partition_path, parsed.file_id)


def _conflict(now: Round, begun: Begun, clash: Clash, writer: str) -> WriteConflict:
    ledger, other = now.ledger, clash.other
    rival = writer_of(now, other)
    done = f"completed {other.completion_time}" if other.is_completed else "is pending"
    hint = "Write again: it will then begin after the other one."
    if other.kind == "clustering" and not other.is_completed:
        hint = (
            f"Write again when the clustering is done; or take its plan back, `table.rollback(plan={other.request_time!r})`. "
            f"With {UPDATES}=SparkAllowUpdateStrategy clusterings give way instead."
        )
    return WriteConflict(
        f"The write {begun.request_time} of {ledger.storage.url} (by {writer}) was refused: the {other.kind} {other.request_time} "
        f"(by {rival}, {done}) touches the same file groups: {groups_text(clash.groups)}. The rule: {clash.rule}. Nothing of this "
        f"write is visible, now or later; the other one is safe. {hint}",
        instant=begun.request_time,
        other=other.request_time,
        writer=writer,
        other_writer=rival,
        groups=[(g.partition, g.file_id) for g in clash.groups],
        rule=clash.rule,
    )


def groups_text(groups: Sequence[GroupId]) -> str:
    """The first of the groups, and how many more there are."""
    shown = ", ".join(f"{g.partition or '.'}/{g.file_id[:8]}" for g in groups[: limits.NAMES_SHOWN_MAX])
    more = len(groups) - limits.NAMES_SHOWN_MAX
    return f"{shown} and {more} more" if more > 0 else shown


def writer_of(now: Round, other: Instant) -> str:
    """Who wrote it, or has it open, as far as that is told."""
    ledger = now.ledger
    if other.kind in COMPLETED_AS:
        return "a table service"
    if not other.is_completed:
        return now.state.writer_of(other.request_time) or "an unknown writer"
    extra = load_commit(ledger.table, other).extra
    return extra.get(WRITER) or "Apache Hudi"
