# SPDX-License-Identifier: Apache-2.0
"""Executing a restore: any process may, any number of times, also a day later. docs/decisions/0010-restore.md says why.

What a decided restore names is dead for ever: its request times are neither open nor planned, so they are never published again,
and no name of theirs is ever used again. A process that begins something finishes an unfinished restore first.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final, TypeVar

from lakebraid import limits
from lakebraid.errors import RestoreUnfinished
from lakebraid.format.names import State, TimelineFileName, in_partition, parse_data_file, parse_timeline_file
from lakebraid.format.timeline.rollbacks import (
    InstantInfo,
    RestoreMetadata,
    RollbackMetadata,
    RolledBackPartition,
    format_restore_metadata,
)
from lakebraid.model.timeline.instant import COMPLETED_AS, action_family
from lakebraid.storage.protocol import Storage
from lakebraid.table.at import TableAt
from lakebraid.table.restores import load_restore_plan
from lakebraid.txn.checks.overwrite_maps import remove_maps
from lakebraid.txn.ledger.entries import without
from lakebraid.txn.ledger.ledger import Ledger
from lakebraid.txn.ledger.rounds import Already, Decision, Outcome, Round, Rule
from lakebraid.txn.liveness.heartbeat import forget

T = TypeVar("T")
_UNPUBLISHED: Final = (State.INFLIGHT, State.REQUESTED)
Removed = dict[str, dict[str, tuple[str, ...]]]
"""Names of data files by the request time of their write and their partition."""


def check_no_restore(now: Round) -> None:
    """RestoreUnfinished if a restore still has something to remove; see `decide_after_restores`."""
    restore = min(now.state.restores, default=None)
    if restore is not None:
        raise RestoreUnfinished(
            f"{now.ledger.storage.url} is being restored ({restore}). Nothing was begun. Try again when that is done; "
            "`table.rollback()` finishes it if its process died.",
            instant=restore,
        )


def decide_after_restores(
    ledger: Ledger,
    decider: str,
    rule: Rule[T],
    *,
    before_applied: Callable[[T], object] | None = None,
    lazily: bool = False,
) -> T:
    """What the rule decides; a restore that it finds unfinished is finished first, so that a dead restorer stops no other process."""
    for _ in range(limits.RESTORES_FINISHED_MAX):
        try:
            return ledger.decide(decider, rule, before_applied=before_applied, lazily=lazily)
        except RestoreUnfinished as unfinished:
            finish_restore(ledger, decider, unfinished.instant)
    return ledger.decide(decider, rule, before_applied=before_applied, lazily=lazily)


def finish_restore(ledger: Ledger, decider: str, restore: str) -> None:
    """Removes the files of what a decided restore undoes, and reports it done, unless it is."""

    def rule(now: Round) -> Outcome[Removed | None]:
        # Here the restore is on the timeline: that is what makes it one moment for readers. On a shared table this runs
        # inside Hudi's lock, in which one of its writers that is still at work would complete.
        if restore not in now.state.restores:
            return Already(None)
        # First what could bring timeline files back, then the files: a late copy must find no source.
        ledger.sweep_staged(now.number - 1)
        return Already(_remove(ledger, restore))

    removed = ledger.decide(decider, rule)
    if removed is not None:
        _decide_done(ledger, decider, restore, removed)
        for request_time in removed:
            forget(ledger.storage, request_time)


def _remove(ledger: Ledger, restore: str) -> Removed:
    storage, config = ledger.storage, ledger.config
    plan = load_restore_plan(ledger.table, restore)
    request_times = {instant.request_time for instant in plan.instants}
    names = _timeline_files(ledger.table, request_times)
    # Unpublished first, the last completion first: readers that do not know of the restore (Hudi's) see states that
    # once were, and never a commit whose files are gone. A plan goes with its commit: were it pending while an older one of
    # the same file group seems so too, Hudi would pass over what was written before both.
    completed = {name.request_time: name for name in names if name.state is State.COMPLETED}
    plans = [name for name in names if name.state is not State.COMPLETED and name.action in COMPLETED_AS]
    for request_time in sorted(
        {*completed, *(name.request_time for name in plans)}, key=_last_seen(completed), reverse=True
    ):
        own = [completed[request_time]] if request_time in completed else []
        own += sorted(
            (name for name in plans if name.request_time == request_time), key=lambda n: _UNPUBLISHED.index(n.state)
        )
        for name in own:
            storage.delete([f"{config.timeline_folder}/{name.format()}"])
    removed: Removed = {request_time: {} for request_time in sorted(request_times)}
    paths = []
    for request_time, partition, file in _data_files(storage, request_times):
        removed[request_time][partition] = (*removed[request_time].get(partition, ()), file)
        paths.append(in_partition(partition, file))
    storage.delete(paths)
    if any(instant.action == "replacecommit" for instant in plan.instants):
        remove_maps(storage, request_times)
    for state in _UNPUBLISHED:
        storage.delete([f"{config.timeline_folder}/{name.format()}" for name in names if name.state is state])
    return removed


def _last_seen(completed: Mapping[str, TimelineFileName]) -> Callable[[str], tuple[str, str]]:
    """What is pending is newer than all that is completed."""
    return lambda request_time: (
        (completed[request_time].completion_time or "") if request_time in completed else "9",
        request_time,
    )


def _timeline_files(table: TableAt, request_times: set[str]) -> list[TimelineFileName]:
    """All timeline files of these writes; a savepoint or another action with the request time of one is not among them."""
    files, _ = table.storage.list_folder(table.config.timeline_folder)
    parsed = (parse_timeline_file(file.name.rpartition("/")[2]) for file in files)
    writes = (name for name in parsed if name is not None and action_family(name.action) == "write")
    return [name for name in writes if name.request_time in request_times]


def _data_files(storage: Storage, request_times: set[str]) -> list[tuple[str, str, str]]:
    """Request time, partition and name of every base and log file of these writes, wherever in the table it lies.

    A task that still runs may bring another one afterwards; no reader ever sees it, and `sweep` removes it.
    """
    found = []
    top, folders = storage.list_folder("")
    below = (info for folder in folders if folder != ".hoodie" for info in storage.list(folder))
    for info in (*top, *below):
        partition, _, name = info.name.rpartition("/")
        parsed = parse_data_file(name)
        if parsed is not None and parsed.request_time in request_times:
            found.append((parsed.request_time, partition, name))
    return found


def _decide_done(ledger: Ledger, decider: str, restore: str, removed: Removed) -> None:
    def rule(now: Round) -> Outcome[None]:
        restoring = now.state.restores.get(restore)
        if restoring is None:
            return Already(None)
        plan = load_restore_plan(ledger.table, restore)
        if _timeline_files(ledger.table, {i.request_time for i in plan.instants}):
            _remove(ledger, restore)  # a writer of Hudi has completed since: its lock is a lease, and it had run out
        done = now.time()
        name = TimelineFileName(restore, done, "restore", State.COMPLETED).format()
        lately = dict(sorted({**now.state.restored, restore: restoring}.items())[-limits.RESTORES_KEPT :])
        state = replace(now.state, last=now.time(), restores=without(now.state.restores, restore), restored=lately)
        metadata = _metadata(restore, plan.instants, removed)
        return Decision("restored", state, ((format_restore_metadata(metadata), name),), value=None)

    ledger.decide(decider, rule)


def _metadata(restore: str, instants: tuple[InstantInfo, ...], removed: Removed) -> RestoreMetadata:
    """What this executor removed; what another one did before it died is not told again."""
    rollbacks: dict[str, list[RollbackMetadata]] = defaultdict(list)
    for instant in instants:
        parts = removed.get(instant.request_time, {})
        rollbacks[instant.request_time].append(
            RollbackMetadata(
                restore,
                (instant,),
                {partition: RolledBackPartition(deleted=names) for partition, names in parts.items()},
                files_deleted=sum(len(names) for names in parts.values()),
            )
        )
    return RestoreMetadata(restore, instants, {request_time: tuple(items) for request_time, items in rollbacks.items()})
