# SPDX-License-Identifier: Apache-2.0
"""What a write must be held against before its commit: file groups in optimistic tables, keys in conditional changes, and
in tables with buckets the ids of their file groups.

What a commit touches, and what a write looks at, are told as sets of bits that fit into a wish and into every entry (LEDGER,
G10). Two sets with a place in common have a bit in common. The reverse does not hold: then a write is held against the other
one once more, and found to be apart from it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Final
from zlib import crc32

from lakebraid import limits
from lakebraid.errors import InvalidArgument, WriteConflict
from lakebraid.format.timeline.commit import CommitMetadata
from lakebraid.model.config import CONCURRENCY, TableConfig
from lakebraid.model.conflicts import PREFERS_WRITERS, STRATEGIES, UPDATES_ALLOWED, Begun, Strategy
from lakebraid.model.keys.buckets import Replaced, bucket_of_file_id
from lakebraid.model.timeline.slicing import GroupId
from lakebraid.model.timeline.timeline import Timeline
from lakebraid.table.loading import load_commit
from lakebraid.tasks.staged_file import StagedFile, brings_keys
from lakebraid.txn.checks.disjoint_keys import OtherKeys
from lakebraid.txn.checks.file_groups import EARLY, STRATEGY, UPDATES, Rivals, begun
from lakebraid.txn.checks.inserted_keys import SameKeys
from lakebraid.txn.checks.overwrite_maps import NO_MAP, ReplacedMap, load_map
from lakebraid.txn.checks.overwrites import partitions_text
from lakebraid.txn.checks.read_keys import TouchedKeys
from lakebraid.txn.checks.single_writer import check_alone
from lakebraid.txn.ledger.entries import BEYOND
from lakebraid.txn.ledger.rounds import Round

if TYPE_CHECKING:
    from lakebraid.txn.ledger.entries import LedgerState
    from lakebraid.txn.ledger.ledger import Ledger

_BITS: Final = BEYOND.bit_length() - 1


class Rivalry:
    """Notes what is under way when a write begins, and asks at its end who was in the way."""

    def __init__(
        self,
        config: TableConfig,
        properties: Mapping[str, str],
        writer: str,
        *,
        overwrites: bool = False,
        is_isolated: bool = False,
        repeats: bool = False,
        is_partial: bool = False,
        same_keys: type[SameKeys] = SameKeys,
    ) -> None:
        """`repeats`: a write that is refused is done again at once, so rivals which would change nothing of it are no
        hindrance. A blind write needs to know nothing of the table, so that goes for all that began before it.
        """
        self._writer, self._overwrites, self._is_isolated, self._repeats = writer, overwrites, is_isolated, repeats
        self._is_optimistic = config.concurrency == "occ" or config.is_placed
        self.is_alone = config.concurrency == "single" and CONCURRENCY in properties
        self._has_unique_keys = config.has_filters
        self._other_keys = OtherKeys()
        self._looked_up: frozenset[GroupId] = frozenset()
        """File groups in which this write looked for rows. It may have found nothing to change there, and have no file."""
        self._chosen: frozenset[GroupId] = frozenset()
        """The same, once it is certain that no process looks again: what others do there from then on is in the way."""
        self._looked_seconds: float | None = None
        self._is_blind = repeats and not (config.is_placed or is_isolated or is_partial)
        is_clustered_by_others = config.lock_provider is not None and config.buckets is None
        check_updates(properties, config.name, is_shared=is_clustered_by_others)
        self._strategy, self.updates_allowed = strategy_of(properties), allows_updates(properties)
        self._looks_early = properties.get(EARLY, "").strip().lower() == "true"
        self._noted: Begun | TouchedKeys | None = None
        self._rivals: Rivals | None = None
        self.begun: Begun | None = None
        """Of an overwrite: what was under way."""
        self._touched: TouchedKeys | None = None
        self._same_keys_class = same_keys
        self._same_keys: SameKeys | None = None

    @property
    def matters(self) -> bool:
        """Whether there is anything to be noted at the beginning."""
        return self._is_optimistic or self._is_isolated or self._overwrites or self.is_alone

    @property
    def gives_way(self) -> bool:
        """Whether it is worth while to let earlier ones end: not for who has read already, or is refused for good."""
        return self._rivals is not None and self._repeats and not self._is_isolated

    def note(self, now: Round, request_time: str) -> None:
        """To be asked inside of the decision that begins the write, or before another process makes it."""
        if self.is_alone:
            check_alone(now)
        if self._is_optimistic or self._overwrites:
            self._noted = begun(now, request_time)
        elif self._is_isolated:
            with now.minding(0):  # if some are archived before the write begins, it is refused in vain
                self._noted = TouchedKeys(request_time, now.since(request_time).first_active_write)

    def settle(self, request_time: str) -> None:
        """The write has begun: the last round in which it had not tells what is needed."""
        noted = self._noted and replace(self._noted, request_time=request_time)
        self._same_keys = self._same_keys_class(request_time) if self._has_unique_keys else None
        if isinstance(noted, Begun) and self._overwrites:
            self.begun = noted  # held against whole partitions: txn/checks/overwrites.py
        elif isinstance(noted, Begun):
            self._rivals = Rivals(noted, self._strategy, self.updates_allowed)
        else:
            self._touched = noted

    def saw(self, timeline: Timeline) -> None:
        """What this write depends on was read when the timeline was so."""
        if self._rivals is not None and self._repeats:
            request_time = self._rivals.begun.request_time
            self._rivals.seen = frozenset(
                i.request_time for i in timeline.writes if i.request_time < request_time < (i.completion_time or "")
            )

    def check_placed(self, now: Round, groups: frozenset[GroupId], *, is_closed: bool) -> None:
        """WriteConflict if another one has touched these file groups by the time the table was looked at for where rows go,
        or, where a plan has closed one of them, is about to.
        """
        if self._rivals is not None:
            self._looked_up = groups
            if not self._is_isolated:
                self.saw(now.timeline())
            (self._rivals.check if is_closed else self._rivals.check_early)(now, groups, self._writer)

    def check_meanwhile(self, ledger: Ledger, files: Sequence[StagedFile]) -> None:
        """WriteConflict if the commit is certain to be refused for what has been published since the look, and the table, or
        the job, wants that to be looked for early. To be asked before each file group is written; it looks now and then.
        """
        self._chosen = self._looked_up
        seconds = ledger.clock.monotonic()
        is_due = self._looked_seconds is None or seconds - self._looked_seconds >= limits.EARLY_LOOK_SECONDS
        if self._looks_early and is_due:
            self._looked_seconds = seconds
            clash = self.early_clash(ledger, ledger.newest().state, files)
            if clash is not None:
                raise clash

    def check(self, now: Round, files: Sequence[StagedFile]) -> None:
        """WriteConflict if another writer was in the way."""
        self._look_at(files)
        # All that the three find is published or planned: in the same file groups, with the same new keys, or everywhere.
        # A moment at which less of it is found is none at which more of it is there: rollbacks and archival add nothing.
        with now.minding(looked_at_by(now.config, files, self._looked_up)):
            if self._rivals is not None:
                self._rivals.check(now, _groups(files) | self._looked_up, self._writer)
            if self._rivals is not None and self._same_keys is not None:
                self._same_keys.check(now, self._rivals.completed(now), files, self._writer)
            if self._touched is not None:
                self._touched.check(now, files)

    def early_clash(self, ledger: Ledger, state: LedgerState, files: Sequence[StagedFile]) -> WriteConflict | None:
        """What the check at the commit would find for certain, if the table wants that to be looked for early."""
        if self._rivals is not None and self._looks_early:
            self._look_at(files)
            try:
                self._rivals.check_early(Round(ledger, state, 0), _groups(files) | self._chosen, self._writer)
            except WriteConflict as clash:
                return clash
        return None

    def _look_at(self, files: Sequence[StagedFile]) -> None:
        if self._rivals is not None:
            # A first base file of a bucket would hide the log files of others.
            self._rivals.is_blind = self._is_blind and not any(file.is_base for file in files)
            self._rivals.are_apart = partial(self._other_keys.are_apart, files=files)


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a write puts its rows: the file ids of its buckets, as it knew them when it began."""

    listed: Mapping[tuple[str, int], str] = field(default_factory=dict)
    """Ids by partition and bucket that were found in a listing: where Apache Hudi writes too, or has."""
    known: ReplacedMap = NO_MAP
    looked: str | None = None
    """The completion time of that listing; None if ids are fixed and nothing was listed."""

    @property
    def replaced(self) -> Replaced:
        return self.known.replaced

    def check(self, now: Round, files: Iterable[StagedFile], request_time: str, writer: str) -> None:
        """WriteConflict if an overwrite has replaced a file group of these since the write began to place its rows."""
        if now.config.buckets is None:
            return  # file ids are used once; a write into a replaced group is found by that (file_groups.py)
        if self.looked is None and now.state.replaced_file == self.known.name:
            return  # nothing was overwritten since: no further look is needed
        with now.minding(BEYOND):  # a later overwrite changes more than file groups; the map is guarded besides
            met = self._replaced_since(now, files) if self.looked is not None else self._moved(now, files)
        if met:
            raise WriteConflict(
                f"The write {request_time} of {now.ledger.storage.url} (by {writer}) was refused: since it began, another writer has "
                f"overwritten {partitions_text(met)}, into which it wrote. Nothing of this write is visible, now or later; the "
                "other one is safe. Write again: the rows will then be added to what is there now.",
                instant=request_time,
                writer=writer,
                partitions=tuple(sorted(met)),
                rule="an overwrite replaced the file groups that it wrote into",
            )

    def _moved(self, now: Round, files: Iterable[StagedFile]) -> set[str]:
        """The partitions in which these files are of other groups than their buckets have now."""
        current = load_map(now.ledger.storage, now.state.replaced_file).replaced
        return {
            f.partition for f in files if f.file_id != current.file_id(f.partition, bucket_of_file_id(f.file_id) or 0)
        }

    def _replaced_since(self, now: Round, files: Iterable[StagedFile]) -> set[str]:
        """The same by the timeline, where ids are not a matter of the map alone."""
        ledger, written = now.ledger, {file.partition for file in files}
        looked = self.looked or ""
        recent = (i for i in now.since(looked).writes if (i.completion_time or "") > looked)
        found: set[str] = set()
        for instant in recent:
            if instant.action == "replacecommit":
                metadata = load_commit(ledger.table, instant)
                found |= written & {*metadata.replaced, *metadata.write_stats}
        return found


def touched_by(config: TableConfig, content: CommitMetadata) -> int:
    """The mask of what a commit changes: its file groups, and where it brings keys that must not be there twice."""
    stats = [(partition, stat) for partition, found in content.write_stats.items() for stat in found]
    groups = [GroupId(partition, stat.file_id or "") for partition, stat in stats]
    groups += [GroupId(partition, file_id) for partition, ids in content.replaced.items() for file_id in ids]
    return mask_of(config, groups) | _keys_mask(config, (partition for partition, stat in stats if brings_keys(stat)))


def looked_at_by(config: TableConfig, files: Collection[StagedFile], looked_up: Iterable[GroupId] = ()) -> int:
    """The mask of what a write with these files is held against at its commit."""
    groups = [*(GroupId(file.partition, file.file_id) for file in files), *looked_up]
    return mask_of(config, groups) | _keys_mask(config, (f.partition for f in files if f.is_base and f.inserts))


def mask_of(config: TableConfig, groups: Iterable[GroupId]) -> int:
    """The mask of these file groups, or, in tables with buckets, of the buckets: the places of `find_clash`."""
    by_bucket = config.buckets is not None
    buckets = ((g.partition, g.file_id, bucket_of_file_id(g.file_id) if by_bucket else None) for g in groups)
    return _mask(f"{partition}/{file_id if bucket is None else bucket}" for partition, file_id, bucket in buckets)


def strategy_of(properties: Mapping[str, str]) -> Strategy:
    """Which way candidates are found, by Hudi's setting; InvalidArgument for a class of the user's own."""
    return STRATEGIES.get(_class_of(properties, STRATEGY, STRATEGIES), Strategy.BY_REQUEST_TIME)


def allows_updates(properties: Mapping[str, str]) -> bool:
    """Whether ingestion goes before clustering, by Hudi's setting."""
    return UPDATES_ALLOWED.get(_short_name(properties, UPDATES), False)


def check_updates(properties: Mapping[str, str], url: str, *, is_shared: bool) -> None:
    """InvalidArgument for a class of the user's own, and where rows could be lost beside Apache Hudi."""
    _class_of(properties, UPDATES, UPDATES_ALLOWED)
    prefers_writers = _short_name(properties, STRATEGY) == PREFERS_WRITERS
    if is_shared and allows_updates(properties) and not prefers_writers:
        raise InvalidArgument(
            f"{UPDATES} is SparkAllowUpdateStrategy, and Apache Hudi may cluster {url}, too: its clusterings drop rows that were "
            f"written after they began, unless {STRATEGY} is {PREFERS_WRITERS} in its jobs. Nothing was begun. Set that here as well, "
            "or use SparkRejectUpdateStrategy.",
            setting=UPDATES,
        )


def _class_of(properties: Mapping[str, str], setting: str, known: Collection[str]) -> str:
    name = _short_name(properties, setting)
    if name and name not in known:
        raise InvalidArgument(
            f"{setting} names {name!r}, which is Java code that cannot run here. Nothing was begun. Use one of "
            f"{', '.join(known)}.",
            setting=setting,
        )
    return name


def _short_name(properties: Mapping[str, str], setting: str) -> str:
    return properties.get(setting, "").strip().rpartition(".")[2]


def _groups(files: Sequence[StagedFile]) -> frozenset[GroupId]:
    return frozenset(GroupId(file.partition, file.file_id) for file in files)


def _keys_mask(config: TableConfig, partitions: Iterable[str]) -> int:
    """Where keys are looked up, two writes may bring one key in different file groups (inserted_keys.py)."""
    if not config.has_filters:
        return 0
    return _mask(
        "the keys of the table" if config.is_global else f"the keys of {partition}" for partition in partitions
    )


def _mask(texts: Iterable[str]) -> int:
    mask = 0
    for text in texts:
        mask |= 1 << crc32(text.encode()) % _BITS
    return mask
