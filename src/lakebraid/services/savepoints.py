# SPDX-License-Identifier: Apache-2.0
"""Savepoints, and the way back to one."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

from lakebraid.errors import ObjectNotFound
from lakebraid.format.timeline.rollbacks import parse_restore_metadata
from lakebraid.limits import TIMELINE_FILE_BYTES_MAX
from lakebraid.model.timeline.instant import Instant
from lakebraid.table.loading import load_timeline
from lakebraid.txn.actions.restore import Undo, decide_restore, plan_restore
from lakebraid.txn.actions.restore_files import check_no_restore, finish_restore
from lakebraid.txn.actions.savepoints import (
    Savepoint,
    decide_savepoint,
    decide_unpinning,
    describe_savepoint,
    remove_unpinned,
    savepoints_on,
)
from lakebraid.txn.ledger.ledger import Ledger
from lakebraid.txn.ledger.rounds import Already, Round


@dataclass(frozen=True, slots=True)
class RestoreResult:
    """A table that went back, or, with `dry_run`, would go."""

    instant: str | None
    """The request time of the restore; None if there was nothing to remove, or it was a dry run."""
    completion_time: str | None
    until: str
    """The completion time to which the table returned."""
    undone: tuple[str, ...] = ()
    """Request times of published writes and services that are gone, the last completion first."""
    refused: tuple[str, ...] = ()
    """Request times of open writes and plans that can no longer be published."""
    files: int = 0
    """Data files that were removed, as far as the process that finished the restore has seen."""


def set_savepoint(ledger: Ledger, instant: str | None = None, *, comment: str = "", user: str = "") -> Savepoint:
    """Keeps the moment of a completed write, or of the last one, from being cleaned away."""
    return decide_savepoint(ledger, ledger.clock.token(), instant, comment=comment, user=user)


def delete_savepoint(ledger: Ledger, instant: str) -> bool:
    """Lets the moment of a savepoint go; False if there was none. Files that a dead process left are removed as well."""
    decider = ledger.clock.token()
    set_at = decide_unpinning(ledger, decider, instant)
    remove_unpinned(ledger, decider)
    return set_at is not None


def load_savepoints(ledger: Ledger) -> list[Savepoint]:
    """All savepoints, oldest write first."""

    def rule(now: Round) -> Already[list[Savepoint]]:
        found = []
        for savepoint in savepoints_on(now.timeline(), now.state):
            with contextlib.suppress(ObjectNotFound):  # Hudi deleted it just now
                found.append(describe_savepoint(ledger, now.timeline(), savepoint))
        return Already(found)

    return ledger.decide("", rule)


def restore(ledger: Ledger, to: str, *, dry_run: bool = False) -> RestoreResult:
    """Restores the table: everything that completed after `to` goes, and so does what is still open.

    Readers see the table before it or after it. If this process dies, the next process that begins, plans or restores
    something finishes the restore, and so does `rollback`.
    """
    decider = ledger.clock.token()
    if dry_run:
        return _would(ledger, to)
    request_time, undo = decide_restore(ledger, decider, to)
    if request_time is None:
        return RestoreResult(None, None, undo.until)
    finish_restore(ledger, decider, request_time)
    return _result(ledger, request_time, undo)


def _would(ledger: Ledger, to: str) -> RestoreResult:
    def rule(now: Round) -> Already[Undo]:
        check_no_restore(now)
        return Already(plan_restore(now, to))

    undo = ledger.decide("", rule)
    if not undo.completed:
        return RestoreResult(None, None, undo.until)
    return RestoreResult(None, None, undo.until, _request_times(undo.completed), _request_times(undo.pending))


def _result(ledger: Ledger, request_time: str, undo: Undo) -> RestoreResult:
    timeline = load_timeline(ledger.table)
    done = next((i for i in timeline if i.action == "restore" and i.request_time == request_time), None)
    files = 0
    if done is not None:  # else the restore has been archived since
        name = f"{ledger.config.timeline_folder}/{done.file_name()}"
        metadata = parse_restore_metadata(ledger.storage.read(name, TIMELINE_FILE_BYTES_MAX), name)
        files = sum(rollback.files_deleted for items in metadata.rollbacks.values() for rollback in items)
    completion = None if done is None else done.completion_time
    return RestoreResult(
        request_time, completion, undo.until, _request_times(undo.completed), _request_times(undo.pending), files
    )


def _request_times(instants: tuple[Instant, ...]) -> tuple[str, ...]:
    return tuple(i.request_time for i in instants)
