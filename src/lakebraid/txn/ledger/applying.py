# SPDX-License-Identifier: Apache-2.0
"""Applying an entry on a table that is shared with Apache Hudi: what Hudi has done since counts."""

from __future__ import annotations

from lakebraid.errors import ObjectNotFound
from lakebraid.table.at import TableAt
from lakebraid.txn.hudi.reconcile import is_archived, stop_writers
from lakebraid.txn.ledger.entries import Entry
from lakebraid.txn.ledger.timeline_copies import copy_all


def was_applied(table: TableAt, entry: Entry) -> bool:
    """Whether an entry was applied, though its first file is not there: Hudi took it off the timeline.

    Then its staged objects are gone; if its decider died before it removed them, it is in the history. Taking it for
    void would lose what was acknowledged, copying it again would bring back what was archived.
    """
    source, target = entry.files[0]
    try:
        table.storage.info(source)
    except ObjectNotFound:
        return True
    return is_archived(table, target)


def apply_restore(table: TableAt, entry: Entry) -> bool:
    """The files of a restore; False if a staged object is gone. Then no job of Hudi that it removes can complete."""
    is_applied = copy_all(table.storage, table.clock, entry.files)
    if is_applied:
        stop_writers(table, min(entry.state.restores))
    return is_applied
