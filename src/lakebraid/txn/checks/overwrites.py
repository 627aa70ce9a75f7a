# SPDX-License-Identifier: Apache-2.0
"""Overwrites beside other writers: no rows of others are dropped unseen, and no write goes where no reader looks any more.

An overwrite is refused if a write of one of its partitions was published since it began. A write is refused if the ids of
its file groups are no longer those of its buckets. Both are asked in the round that publishes, on the state of that moment:
one of the two comes first, and the other one sees it. docs/decisions/0014-overwrites.md
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from lakebraid import limits
from lakebraid.errors import CorruptFile, ObjectNotFound, WriteConflict
from lakebraid.model.conflicts import Begun
from lakebraid.model.keys.buckets import bucket_of_file_id, replaced_file_id
from lakebraid.model.timeline.instant import COMPLETED_AS, Instant
from lakebraid.model.timeline.slicing import GroupId
from lakebraid.table.loading import load_commit
from lakebraid.tasks.staged_file import StagedFile
from lakebraid.txn.checks.file_groups import UPDATES, with_archived, writer_of
from lakebraid.txn.checks.overwrite_maps import ReplacedMap, load_map, write_map
from lakebraid.txn.checks.pending_plans import load_planned
from lakebraid.txn.ledger.rounds import Round

REARRANGING = frozenset({"COMPACT", "LOG_COMPACT", "CLUSTER"})
"""Operations after which the table has the same rows as before."""


@dataclass
class Overwrite:
    """What an overwrite replaces; what was learnt of published rivals stays true between rounds."""

    begun: Begun
    partitions: frozenset[str] | None = None
    """Those that go whatever is written; None: all there are."""
    updates_allowed: bool = False
    """Whether clusterings give way to writers, or writers to clusterings (RFC-71)."""
    _touched: dict[str, frozenset[str]] = field(default_factory=dict)
    _maps: list[tuple[ReplacedMap, ReplacedMap, frozenset[str] | None]] = field(default_factory=list)

    @property
    def request_time(self) -> str:
        return self.begun.request_time

    def replace(self, now: Round, files: Sequence[StagedFile], writer: str) -> dict[str, tuple[str, ...]]:
        """The file ids that go, by partition, as of this round, which is told the map of those that come.

        WriteConflict if a write that was published since the beginning touched one of the partitions.
        """
        written = frozenset(file.partition for file in files)
        scope = None if self.partitions is None else self.partitions | written
        self._check_alone(now, scope, writer)
        if now.config.buckets is not None:
            now.replaced_file = self._map(now, scope).name
        replaced: dict[str, list[str]] = {partition: [] for partition in (scope or ())}
        for group in sorted(now.view().groups):
            if scope is None or group.partition in scope:
                replaced.setdefault(group.partition, []).append(group.file_id)
        return {partition: tuple(ids) for partition, ids in replaced.items() if ids}

    def _check_alone(self, now: Round, scope: frozenset[str] | None, writer: str) -> None:
        for instant in self._rivals(now):
            touched = self._partitions_of(now, instant)
            met = touched if scope is None else touched & scope
            if met:
                raise self._conflict(now, instant, met, writer)

    def _rivals(self, now: Round) -> Iterator[Instant]:
        """What was published since the beginning, plans that were made since, and clusterings that must be let go first."""
        timeline = with_archived(now, self.begun)
        yield from (i for i in timeline.writes if (i.completion_time or "") > self.request_time)
        for plan in timeline.pending:
            is_first = plan.kind == "clustering" and not self.updates_allowed
            is_taken_back = plan.request_time in now.state.gone
            if plan.kind in COMPLETED_AS and not is_taken_back and (is_first or plan.request_time > self.request_time):
                yield plan

    def _partitions_of(self, now: Round, instant: Instant) -> frozenset[str]:
        """The partitions that a rival touches. A plan that was made before the overwrite began touches none: it has the same
        rows afterwards, in groups that are no longer read. A later one counts, so that every file of a replaced
        group is of a write that began before the overwrite, and leaves the timeline before it (LEDGER, rule 8).
        """
        known = self._touched.get(instant.request_time)
        if known is not None:
            return known
        if not instant.is_completed:
            with contextlib.suppress(CorruptFile, ObjectNotFound):  # torn, or withdrawn: it will not be executed
                return frozenset(part.group.partition for part in load_planned(now.ledger.table, instant))
            return frozenset()
        metadata = load_commit(now.ledger.table, instant)
        is_service = metadata.operation in REARRANGING or metadata.compacted
        found = frozenset((*(p for p, stats in metadata.write_stats.items() if stats), *metadata.replaced))
        known = frozenset() if is_service and instant.request_time < self.request_time else found
        self._touched[instant.request_time] = known
        return known

    def _map(self, now: Round, scope: frozenset[str] | None) -> ReplacedMap:
        """The map after this overwrite; that of an earlier round if nothing has changed since."""
        for old, made, of in self._maps:
            if old.name == now.state.replaced_file and of == scope:
                return made
        old = load_map(now.ledger.storage, now.state.replaced_file)
        made = write_map(now, self.request_time, old, scope)
        self._maps.append((old, made, scope))
        return made

    def _conflict(self, now: Round, other: Instant, met: Collection[str], writer: str) -> WriteConflict:
        rival = writer_of(now, other)
        who = f"the {other.kind} {other.request_time} (by {rival}, {other.completion_time or 'pending'})"
        if not other.is_completed and other.request_time < self.request_time:
            rule = "a pending clustering goes first"
            why = f"{who} is to rearrange file groups of {partitions_text(met)}"
            hint = (
                "Overwrite again when that is done; or take its plan back, "
                f"`table.rollback(plan={other.request_time!r})`. With {UPDATES}=SparkAllowUpdateStrategy clusterings give "
                "way instead."
            )
        else:
            rule = "the same partition was written, or planned for, since the overwrite began"
            why = f"{who} touched {partitions_text(met)} after the overwrite had begun, and what it did would be dropped unseen"
            hint = "Overwrite again: that will begin after the other one, and replace what it wrote, too."
        return WriteConflict(
            f"The overwrite {self.request_time} of {now.ledger.storage.url} (by {writer}) was refused: {why}. Nothing was replaced; "
            f"the table and the other one are safe. {hint}",
            instant=self.request_time,
            other=other.request_time,
            writer=writer,
            other_writer=rival,
            partitions=tuple(sorted(met)),
            rule=rule,
        )


def listed_ids(groups: Iterable[GroupId], replaced: Mapping[GroupId, Instant]) -> dict[tuple[str, int], str]:
    """The file ids of buckets as a listing shows them.

    A bucket whose group was replaced and has no other gets the id that follows from the last replacement, also if that
    was an overwrite of Hudi's: Hudi never shows again what is written into a group that it has replaced.
    """
    found: dict[tuple[str, int], str] = {}
    for group, instant in sorted(replaced.items(), key=lambda item: item[1].completion_time or ""):
        bucket = bucket_of_file_id(group.file_id)
        if bucket is not None and len(instant.request_time) == 17:
            found[group.partition, bucket] = replaced_file_id(bucket, instant.request_time)
    for group in groups:
        bucket = bucket_of_file_id(group.file_id)
        if bucket is not None:
            found[group.partition, bucket] = group.file_id
    return found


def partitions_text(partitions: Collection[str]) -> str:
    """The first of the partitions, and how many more there are."""
    if [*partitions] == [""]:
        return "the table"
    names = [p or "(none)" for p in sorted(partitions)]
    more = len(names) - limits.NAMES_SHOWN_MAX
    text = ", ".join(names[: limits.NAMES_SHOWN_MAX]) + (f" and {more} more" if more > 0 else "")
    return f"the partition {text}" if len(names) == 1 else f"the partitions {text}"
