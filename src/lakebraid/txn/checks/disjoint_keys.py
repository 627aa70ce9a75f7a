# SPDX-License-Identifier: Apache-2.0
"""Whether two writes that met in a file group have nothing to do with each other there: then either may come first.

Optimistic control goes by file groups, since names are all it needs to look at. Before a write is done again for nothing,
the keys of both are read: those of the log files in the groups in which they met. Where a common key has different
ordering values the greater one wins, whichever write comes first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from lakebraid import limits
from lakebraid.errors import ObjectNotFound, SnapshotExpired
from lakebraid.format.timeline.commit import WriteStat
from lakebraid.model.config import MergeMode, PartialMode, TableConfig
from lakebraid.model.conflicts import place_of
from lakebraid.model.timeline.instant import Instant
from lakebraid.model.timeline.slicing import GroupId
from lakebraid.table.at import TableAt
from lakebraid.table.loading import load_commit
from lakebraid.tasks.staged_file import StagedFile
from lakebraid.txn.checks.log_keys import BlockKeys, by_group, has_rows_or_deletes, log_keys
from lakebraid.txn.ledger.rounds import Round


@dataclass(slots=True)
class OtherKeys:
    """What is known of our keys and of published rivals; it stays true between rounds."""

    judged: dict[tuple[str, int], bool] = field(default_factory=dict)
    """By the request time of a rival, and by how many files we had when it was looked at: more of them may bring more keys."""
    _own: dict[str, list[BlockKeys]] = field(default_factory=dict)

    def are_apart(self, now: Round, rival: Instant, files: Sequence[StagedFile]) -> bool:
        """Whether it makes no difference if a published write comes before ours or after it.

        What cannot be known, or is much to read, counts as no.
        """
        which = rival.request_time, len(files)
        known = self.judged.get(which)
        if known is None:
            known = self.judged[which] = self._look(now, rival, by_group(files))
        return known

    def _look(self, now: Round, rival: Instant, own: dict[tuple[str, str], list[StagedFile]]) -> bool:
        table = now.ledger.table
        written = load_commit(table, rival).write_stats
        by_bucket = table.config.buckets is not None
        places = {place_of(GroupId(*group), by_bucket=by_bucket) for group in own}
        met = [
            (own.get((partition, stat.file_id or ""), []), stat)
            for partition, stats in written.items()
            for stat in stats
            if place_of(GroupId(partition, stat.file_id or ""), by_bucket=by_bucket) in places
        ]
        if not all(files and _is_log(stat) for files, stat in met):
            return False  # a base file, or a second file id of a bucket
        size = sum(file.size for files, _ in met for file in files)
        if size + sum(stat.file_size_in_bytes or 0 for _, stat in met) > limits.KEYS_COMPARED_BYTES_MAX:
            return False
        try:
            return all(
                _are_apart(self._versions(table, files), _versions(table, stat.path or "")) for files, stat in met
            )
        except (SnapshotExpired, ObjectNotFound):
            return False  # compacted and cleaned away since

    def _versions(self, table: TableAt, files: Sequence[StagedFile]) -> list[BlockKeys]:
        for file in files:
            if file.path not in self._own:
                self._own[file.path] = [*_versions(table, file.path)]
        return [versions for file in files for versions in self._own[file.path]]


def _is_log(stat: WriteStat) -> bool:
    return stat.path is not None and ".log." in stat.path


def _versions(table: TableAt, name: str) -> Iterator[BlockKeys]:
    """What a log file brings, block by block."""
    return log_keys(table.storage, name, has_rows_or_deletes, _order_column(table.config))


def _order_column(config: TableConfig) -> str | None:
    """The column whose greater value wins; None if there is no such single one."""
    is_plain = config.merge_mode is MergeMode.EVENT_TIME and config.partial_mode is PartialMode.NONE
    fields = config.ordering_fields
    return fields[0] if is_plain and len(fields) == 1 and "." not in fields[0] else None


def _are_apart(some: Iterable[BlockKeys], others: Iterable[BlockKeys]) -> bool:
    theirs = [*others]
    return all(_blocks_are_apart(one, other) for one in some for other in theirs)


def _blocks_are_apart(one: BlockKeys, other: BlockKeys) -> bool:
    """Whether two blocks have no key in common, or only such as never rank equal."""
    common = pc.is_in(other.keys, value_set=one.keys.cast(other.keys.type))
    if not pc.any(common).as_py():
        return True
    if one.order is None or other.order is None or one.order.type != other.order.type:
        return False
    if pa.types.is_floating(one.order.type):
        return False  # not a number ranks equal to itself, and is not equal to it
    ours = dict(zip(one.keys.to_pylist(), one.order.to_pylist(), strict=True))
    shared = zip(other.keys.filter(common).to_pylist(), other.order.filter(common).to_pylist(), strict=True)
    return all(order is not None and ours[key] is not None and order != ours[key] for key, order in shared)
