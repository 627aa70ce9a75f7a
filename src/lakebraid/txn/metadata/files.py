# SPDX-License-Identifier: Apache-2.0
"""What a decision that completes an instant brings the metadata table: log files, then a delta commit, before the instant itself.

All of it appears by copies of staged objects, in the entry that completes the instant. So a metadata table is ahead of its table
only while one entry is being applied, and no rule ever sees it so (LEDGER, P1).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from lakebraid.errors import UnsupportedTable
from lakebraid.format.metadata.commits import FOLDER, TIMELINE, format_metadata_delta_commit
from lakebraid.format.names import State, TimelineFileName
from lakebraid.format.timeline.commit import CommitMetadata
from lakebraid.format.timeline.services import CleanPlan
from lakebraid.format.times import next_instant_time
from lakebraid.model.metadata.delta import MetadataDelta, delta_of_clean, logs_of_delta, loose_partition_stats
from lakebraid.model.metadata.keys import COLUMN_STATS, PARTITION_STATS
from lakebraid.model.metadata.scope import IndexedColumn, MetadataScope
from lakebraid.model.metadata.value_types import NOTHING
from lakebraid.table.metadata.layout import MetadataLayout
from lakebraid.txn.ledger.rounds import Ahead, Round

Tell: TypeAlias = Callable[[CommitMetadata, MetadataLayout], MetadataDelta]
"""What a commit says in the metadata table as it is in this round."""
NOTHING_NEW = MetadataDelta({})
"""What an instant says that adds and removes no file."""


def ahead_of_commit(now: Round, request_time: str, time: str, content: CommitMetadata, tell: Tell | None) -> Ahead:
    """What goes ahead of a commit's completion, which takes the first time that is left; `time` is free.

    UnsupportedTable if nothing says what the metadata table is to be told: Hudi would not see the files.
    """
    if tell is None and (content.write_stats or content.replaced):
        raise UnsupportedTable(
            f"The commit {request_time} of {now.ledger.storage.url} does not say what the metadata table is to be told of its files. "
            "Nothing was published. Remove the metadata table with Apache Hudi (hoodie.metadata.enable=false), then write again.",
            path=now.ledger.storage.url,
        )
    layout = now.metadata_layout()
    return ahead_of(layout, request_time, time, NOTHING_NEW if tell is None else tell(content, layout))


def ahead_of_clean(now: Round, request_time: str, plan: CleanPlan) -> Ahead:
    """The same for the end of a clean: its files are gone by then, and no reader needs them."""
    if not now.config.metadata_partitions:
        return Ahead(now.time())
    layout = now.metadata_layout()
    statistics = layout.indexes.get(COLUMN_STATS)
    columns = tuple(IndexedColumn(name, NOTHING) for name in (() if statistics is None else statistics.columns))
    delta = delta_of_clean(plan.files, MetadataScope(frozenset(layout.groups), columns), dropped=plan.partitions)
    return ahead_of(layout, request_time, now.time(), delta)


def ahead_of(layout: MetadataLayout, request_time: str, time: str, delta: MetadataDelta) -> Ahead:
    """The logs of what an instant says and the delta commit with its request time (MDT, M1, M4).

    Where a later delta commit is completed, one more, with a request time of its own, says the ranges of partitions again: in
    the order of request times a tight record of the later one would replace them (MDT, section 4, point 3).
    """
    done = max(time, layout.next_time)
    files = _delta_commit(layout, request_time, done, delta)
    if PARTITION_STATS in delta.records and layout.has_later_deltas(request_time):
        again = next_instant_time(done)
        done = next_instant_time(again)
        files = (*files, *_delta_commit(layout, again, done, loose_partition_stats(delta)))
    return Ahead(next_instant_time(done), files)


def _delta_commit(
    layout: MetadataLayout, request_time: str, completion: str, delta: MetadataDelta
) -> tuple[tuple[bytes, str], ...]:
    # The completed file alone: Hudi needs neither of the pending ones (MDT, section 2).
    logs = logs_of_delta(delta, layout.groups, request_time)
    commit = format_metadata_delta_commit((name, len(data)) for name, data in logs)
    name = TimelineFileName(request_time, completion, "deltacommit", State.COMPLETED).format()
    return (*((data, f"{FOLDER}/{log}") for log, data in logs), (commit, f"{TIMELINE}/{name}"))
