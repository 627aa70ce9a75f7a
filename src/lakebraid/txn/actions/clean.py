# SPDX-License-Identifier: Apache-2.0
"""Cleaning: which files go is decided once; any process deletes them then, any number of times, at any time.

The plan is on the timeline before the first file goes, so a reader that misses a file finds out why. A file that a
decided clean names is dead for ever: nothing that is decided later may need it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from lakebraid import limits
from lakebraid.errors import ObjectNotFound
from lakebraid.format.names import State, TimelineFileName, in_partition
from lakebraid.format.timeline.services import (
    CleanedPartition,
    CleanMetadata,
    CleanPlan,
    format_clean_metadata,
    format_clean_plan,
    parse_clean_plan,
)
from lakebraid.txn.ledger.entries import without
from lakebraid.txn.ledger.ledger import Ledger
from lakebraid.txn.ledger.rounds import Already, Decision, Outcome, Round
from lakebraid.txn.ledger.wishes import cleaned_wish
from lakebraid.txn.liveness.leases import forget_beats
from lakebraid.txn.metadata.files import ahead_of_clean


@dataclass(frozen=True, slots=True)
class Removal:
    """What a clean would remove, and what is so once it is decided."""

    plan: CleanPlan | None = None
    horizon: str = ""
    """Before this completion time something is missing from then on."""
    expired: tuple[str, ...] = ()
    """Leases whose holders show no life: they are dropped in the same decision, so they protect nothing."""


@dataclass(frozen=True, slots=True)
class Done:
    """A clean that has ended."""

    completion_time: str
    plan: CleanPlan


def decide_clean(ledger: Ledger, decider: str, build: Callable[[Round, str], Removal]) -> str | None:
    """The request time of a new clean, or None if nothing may go. `build` says what, in every round anew.

    While a restore is unfinished nothing is removed: what it goes back to is not on the timeline yet.
    """

    def rule(now: Round) -> Outcome[str | None]:
        mine = next((request_time for request_time, owner in now.state.cleans.items() if owner == decider), None)
        if mine is not None or now.state.restores:
            return Already(mine)
        request_time = now.time()
        removal = build(now, request_time)
        leases = {token: lease for token, lease in now.state.leases.items() if token not in removal.expired}
        if removal.plan is None:
            if len(leases) == len(now.state.leases):
                return Already(None)
            return Decision("drop leases", replace(now.state, leases=leases), value=None, touches=0)
        names = (TimelineFileName(request_time, None, "clean", s).format() for s in (State.REQUESTED, State.INFLIGHT))
        state = replace(
            now.state,
            last=now.time(),
            cleans={**now.state.cleans, request_time: decider},
            horizon=max(now.state.horizon, removal.horizon),
            leases=leases,
        )
        files = zip((format_clean_plan(removal.plan, ledger.storage.url), b""), names, strict=True)
        return Decision("clean", state, tuple(files), value=request_time)

    found = ledger.decide(decider, rule)
    forget_beats(ledger)
    return found


def finish_clean(ledger: Ledger, decider: str, request_time: str) -> Done | None:
    """Executes a decided clean; None if it is done already, or another process was faster."""
    # The newest decision is applied first: the plan is seen on the timeline before a file goes.
    state = ledger.decide(decider, lambda now: Already(now.state))
    if request_time not in state.cleans:
        return None
    storage, began = ledger.storage, ledger.clock.monotonic()
    plan = load_clean_plan(ledger, request_time)
    if plan is None:
        _decide_done(ledger, decider, request_time, None, None)  # Apache Hudi ended it, and has archived it since
        return None
    storage.delete([in_partition(partition, name) for partition, names in plan.files.items() for name in names])
    metadata = _metadata(request_time, plan, int((ledger.clock.monotonic() - began) * 1000))
    completion = _decide_done(ledger, decider, request_time, plan, metadata)
    return None if completion is None else Done(completion, plan)


def load_clean_plan(ledger: Ledger, request_time: str) -> CleanPlan | None:
    """What a clean on the timeline is to remove; None if it is not there any more."""
    name = TimelineFileName(request_time, None, "clean", State.REQUESTED).format()
    path = f"{ledger.config.timeline_folder}/{name}"
    try:
        return parse_clean_plan(ledger.storage.read(path, limits.TIMELINE_FILE_BYTES_MAX), path)
    except ObjectNotFound:
        return None


def _metadata(request_time: str, plan: CleanPlan, took_ms: int) -> CleanMetadata:
    return CleanMetadata(
        request_time=request_time,
        earliest_commit_to_retain="" if plan.earliest_to_retain is None else plan.earliest_to_retain.request_time,
        partitions={partition: CleanedPartition(plan.policy, deleted=names) for partition, names in plan.files.items()},
        files_deleted=sum(map(len, plan.files.values())),
        time_taken_ms=max(took_ms, 0),
        last_completed=plan.last_completed,
    )


def _decide_done(
    ledger: Ledger, decider: str, request_time: str, plan: CleanPlan | None, metadata: CleanMetadata | None
) -> str | None:
    """When it was done, if it is now; None if another process has done it. Hudi finishes cleans that it finds, ours too."""

    def rule(now: Round) -> Outcome[str | None]:
        if request_time not in now.state.cleans:
            return Already(None)
        with now.minding(0):  # where only the ledger decides, it is pending for as long as the state says so
            is_pending = any(i.action == "clean" and i.request_time == request_time for i in now.timeline().pending)
        if plan is None or metadata is None or not is_pending:
            state = replace(now.state, cleans=without(now.state.cleans, request_time))
            return Decision("cleaned", state, value=None, touches=0)
        ahead = ahead_of_clean(now, request_time, plan)
        return now.wished("cleaned", cleaned_wish(request_time), (format_clean_metadata(metadata),), str, ahead)

    return ledger.decide(decider, rule)
