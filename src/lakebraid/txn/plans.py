# SPDX-License-Identifier: Apache-2.0
"""Plans of table services: decided once, claimed by one executor at a time, published by the last one to claim."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from lakebraid.errors import CommitRefused
from lakebraid.format.commit import CommitMetadata, format_commit
from lakebraid.format.names import State, TimelineFileName
from lakebraid.txn.entries import PendingPlan, without
from lakebraid.txn.ledger import Already, Decision, Ledger, Round
from lakebraid.txn.operations import completed_at, decide_publishing

COMPLETED_AS: Final = {"compaction": "commit", "logcompaction": "deltacommit", "clustering": "replacecommit"}


class ClaimLost(CommitRefused):
    """Another executor has the plan now, or it is done; nothing of this attempt is visible."""


def decide_plan(
    ledger: Ledger, txn: str, action: str, build: Callable[[Round, str], bytes | None], *, is_removable: bool = False
) -> str | None:
    """The start of a new plan, or None if there is nothing to do. `build` gives its bytes, in every round anew."""

    def rule(now: Round) -> Decision | Already:
        mine = next((start for start, plan in now.state.plans.items() if plan.planner == txn), None)
        if mine is not None:
            return Already(mine)
        start = now.time()
        plan = build(now, start)
        if plan is None:
            return Already(None)
        name = TimelineFileName(start, None, action, State.REQUESTED).format()
        pending = PendingPlan(action, txn, is_removable=is_removable)
        state = now.timed(plans={**now.state.plans, start: pending})
        return Decision("plan", state, ((plan, name),), start)

    found = ledger.decide(txn, rule)
    return None if found is None else str(found)


def claim(ledger: Ledger, txn: str, start: str, *, seen: int | None) -> int:
    """The epoch of this executor's claim on a plan. ClaimLost if the claim is no longer the one that was judged.

    The epoch is the number of the entry, so a later claim always has a greater one.
    """

    def rule(now: Round) -> Decision | Already:
        plan = now.state.plans.get(start) or _foreign_plan(now, start)
        if plan is None:
            raise ClaimLost(f"The plan {start} is done or was taken back. Nothing of this attempt is visible.")
        if plan.claimant == txn:
            return Already(plan.epoch)
        if plan.epoch != (seen or 0):
            raise ClaimLost(f"The plan {start} was claimed by another executor meanwhile. Let it work, or wait.")
        name = TimelineFileName(start, None, plan.action, State.INFLIGHT).format()
        claimed = replace(plan, epoch=now.number, claimant=txn)
        state = replace(now.state, plans={**now.state.plans, start: claimed})
        return Decision("claim", state, ((b"", name),), now.number)

    return int(ledger.decide(txn, rule))


def release(ledger: Ledger, txn: str, start: str, epoch: int) -> None:
    """Gives a claim back, so that the next executor need not wait until the heartbeat has expired.

    The plan has an epoch of its own afterwards, greater than that of the claim: late files of ours stay behind it.
    """

    def rule(now: Round) -> Decision | Already:
        plan = now.state.plans.get(start)
        if plan is None or plan.epoch != epoch:
            return Already()
        free = replace(plan, epoch=now.number, claimant="")
        return Decision("release", replace(now.state, plans={**now.state.plans, start: free}))

    ledger.decide(txn, rule)


def publish_plan(ledger: Ledger, txn: str, start: str, epoch: int, metadata: Callable[[Round], CommitMetadata]) -> str:
    """The completion time of an executed plan; ClaimLost if somebody else has claimed it since."""

    def rule(now: Round) -> Decision | Already:
        plan = now.state.plans.get(start)
        if plan is None:
            return Already(completed_at(now, start))
        if plan.epoch != epoch:
            raise ClaimLost(f"The plan {start} was taken over by another executor. Nothing of this attempt is visible.")
        completion = now.time()
        name = TimelineFileName(start, completion, COMPLETED_AS[plan.action], State.COMPLETED).format()
        state = now.timed(plans=without(now.state.plans, start), is_fresh=False)
        return Decision("publish", state, ((format_commit(metadata(now)), name),), completion)

    return decide_publishing(ledger, txn, start, rule)


def _foreign_plan(now: Round, start: str) -> PendingPlan | None:
    """A plan of Apache Hudi, which decides on the timeline alone."""
    instant = now.timeline().write(start)
    if instant is None or instant.is_completed or instant.kind not in COMPLETED_AS:
        return None
    return PendingPlan(instant.kind, "hudi")
