# SPDX-License-Identifier: Apache-2.0
"""How often each batch was published, by what the commits say: those on the timeline and the archived ones."""

from __future__ import annotations

from collections import Counter

from lakebraid.api.table import Table
from lakebraid.clock import SystemClock
from lakebraid.format.timeline.commit import parse_commit
from lakebraid.model.timeline.instant import WRITE_ACTIONS
from lakebraid.table.at import TableAt
from lakebraid.table.history import load_history
from lakebraid.table.loading import load_commit, load_timeline
from lakebraid.txn.actions.batches import BATCH
from lakebraid.txn.checks.file_groups import WRITER


def published(table: Table) -> Counter[tuple[str, int]]:
    """By writer and number of the batch."""
    storage, config = table._storage, table._config
    found = {
        i.request_time: load_commit(TableAt(storage, config, table._clock), i)
        for i in load_timeline(TableAt(storage, config, SystemClock())).writes
    }
    for archived in load_history(TableAt(storage, config, SystemClock()), actions=WRITE_ACTIONS, with_metadata=True):
        found.setdefault(archived.instant.request_time, parse_commit(archived.metadata or b"", "the history"))
    return Counter((c.extra[WRITER], int(c.extra[BATCH])) for c in found.values() if BATCH in c.extra)
