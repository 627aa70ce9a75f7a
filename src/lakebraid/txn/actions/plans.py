# SPDX-License-Identifier: Apache-2.0
"""Plans of table services: decided once, claimed by one executor at a time, published by the last one to claim.

A removable plan is claimed once in its life: if that attempt fails, or no executor comes for long, the whole plan is
withdrawn (rollback.py), so that it blocks no writer. Other plans stay until they are executed (RFC-79).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from lakebraid.errors import ClaimLost
from lakebraid.format.names import State, TimelineFileName
from lakebraid.format.timeline.commit import CommitMetadata, format_commit
from lakebraid.model.timeline.instant import COMPLETED_AS
from lakebraid.txn.actions.restore_files import check_no_restore, decide_after_restores
from lakebraid.txn.actions.write import ahead_of_publication, completed_at, decide_publishing
from lakebraid.txn.checks.rivalry import touched_by
from lakebraid.txn.ledger.entries import PendingPlan
from lakebraid.txn.ledger.ledger import Ledger
from lakebraid.txn.ledger.rounds import Already, Decision, Outcome, Round
from lakebraid.txn.ledger.wishes import claim_wish, finish_wish, release_wish
from lakebraid.txn.metadata.files import Tell


def decide_plan(
    ledger: Ledger,
    decider: str,
    action: str,
    build: Callable[[Round, str], bytes | None],
    *,
    is_removable: bool = False,
) -> str | None:
    """The request time of a new plan, or None if there is nothing to do. `build` gives its bytes, in every round anew."""

    def rule(now: Round) -> Outcome[str | None]:
        mine = next((request_time for request_time, plan in now.state.plans.items() if plan.planner == decider), None)
        if mine is not None:
            return Already(mine)
        check_no_restore(now)
        request_time = now.time()
        plan = build(now, request_time)
        if plan is None:
            return Already(None)
        name = TimelineFileName(request_time, None, action, State.REQUESTED).format()
        pending = PendingPlan(action, decider, is_removable=is_removable)
        state = replace(now.state, last=now.time(), plans={**now.state.plans, request_time: pending})
        return Decision("plan", state, ((plan, name),), value=request_time)

    return decide_after_restores(ledger, decider, rule)


def claim(
    ledger: Ledger,
    decider: str,
    request_time: str,
    *,
    seen: int | None,
    is_taken: Callable[[Round], bool] | None = None,
) -> int:
    """The epoch of this executor's claim on a plan. ClaimLost if the claim is no longer the one that was judged.

    The epoch is the number of the entry, so a later claim always has a greater one. `is_taken` says in the round whether
    an executor whose claim is not in the ledger has the plan by now.
    """

    def rule(now: Round) -> Outcome[int]:
        plan = now.state.plans.get(request_time) or _foreign_plan(now, request_time)
        if plan is None:
            raise ClaimLost(
                f"The plan {request_time} is done or was withdrawn. Nothing of this attempt is visible.",
                instant=request_time,
            )
        if plan.claimant == decider:
            return Already(plan.epoch)
        check_claimable(plan, request_time)
        if plan.epoch != (seen or 0) or (is_taken is not None and is_taken(now)):
            raise ClaimLost(
                f"The plan {request_time} was claimed by another executor. Nothing of this attempt is visible. Let "
                "it work, or wait.",
                instant=request_time,
            )
        if is_taken is None and request_time in now.state.plans:
            return now.wished("claim", claim_wish(decider, request_time, plan.epoch), (b"",), int)
        name = TimelineFileName(request_time, None, plan.action, State.INFLIGHT).format()
        claimed = replace(plan, epoch=now.number, claimant=decider, claimed_at=now.state.last)
        state = replace(now.state, plans={**now.state.plans, request_time: claimed})
        return Decision("claim", state, ((b"", name),), value=now.number, touches=0)

    return ledger.decide(decider, rule)


def check_claimable(plan: PendingPlan, request_time: str) -> None:
    """ClaimLost if the plan had its one executor already: a removable one is never executed twice."""
    if plan.is_removable and plan.epoch:
        raise ClaimLost(
            f"The plan {request_time} is removable and was begun by another executor. Nothing was changed. Let it work; if it "
            "has failed, the plan is rolled back when it is old enough, and a new one can be made.",
            instant=request_time,
        )


def release(ledger: Ledger, decider: str, request_time: str, epoch: int) -> None:
    """Gives a claim back, so that the next executor need not wait until the heartbeat has expired.

    The plan has an epoch of its own afterwards, greater than that of the claim: late files of ours stay behind it.
    """

    def rule(now: Round) -> Outcome[None]:
        plan = now.state.plans.get(request_time)
        if plan is None or plan.epoch != epoch:
            return Already(None)
        return now.wished("release", release_wish(request_time, epoch), (b"",), lambda _: None)

    ledger.decide(decider, rule)


def publish_plan(
    ledger: Ledger,
    decider: str,
    request_time: str,
    epoch: int,
    metadata: Callable[[Round], CommitMetadata],
    tell: Tell | None = None,
) -> str:
    """The completion time of an executed plan; ClaimLost if another executor has claimed it since. `tell` gives what the metadata
    table is told, if the table has one.
    """

    def rule(now: Round) -> Outcome[str]:
        plan = now.state.plans.get(request_time)
        if plan is None:
            return Already(completed_at(now, request_time))
        if plan.epoch != epoch:
            raise ClaimLost(
                f"The plan {request_time} was taken over by another executor. Nothing of this attempt is visible."
            )
        content = metadata(now)
        ahead = ahead_of_publication(now, request_time, now.time(), content, tell)
        wish = finish_wish(request_time, epoch, touches=touched_by(ledger.config, content), look=now.look)
        return now.wished("publish", wish, (format_commit(content),), str, ahead)

    return decide_publishing(ledger, decider, request_time, rule)


def _foreign_plan(now: Round, request_time: str) -> PendingPlan | None:
    """A plan of Apache Hudi, which decides on the timeline alone."""
    if request_time in now.state.gone or any(
        u.victim == request_time and u.removes_plan for u in now.state.rollbacks.values()
    ):
        return None  # one of ours that is being withdrawn: its files are still there
    instant = now.timeline().write(request_time)
    if instant is None or instant.is_completed or instant.kind not in COMPLETED_AS:
        return None
    return PendingPlan(instant.kind, "hudi")
