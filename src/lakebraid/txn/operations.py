# SPDX-License-Identifier: Apache-2.0
"""What can be decided: begin, publish, plan, claim, roll back. Each rule first asks whether it is so already."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal

from lakebraid import limits
from lakebraid.errors import CommitRefused, CommitUnknown, InvalidArgument, RolledBack
from lakebraid.format.commit import CommitMetadata, format_commit
from lakebraid.format.names import State, TimelineFileName
from lakebraid.format.plans import CompactionPlan, format_compaction_plan
from lakebraid.model.instant import WRITE_ACTIONS
from lakebraid.table.history import load_history
from lakebraid.txn.entries import LedgerState, OpenWrite, PendingPlan, without
from lakebraid.txn.ledger import Already, Decision, DecisionUnknown, Ledger, Round

_COMPLETED_AS = {"compaction": "commit", "logcompaction": "deltacommit", "clustering": "replacecommit"}


class ClaimLost(CommitRefused):
    """Another executor has the plan now, or it is done; nothing of this attempt is visible."""


def begin(
    ledger: Ledger,
    txn: str,
    *,
    action: str = "deltacommit",
    adds_base: bool = False,
    columns: tuple[str, ...] | None = None,
    beat: Callable[[str], None] | None = None,
) -> str:
    """The start of a new write. `beat` is called with it before anybody else can see it on the timeline.

    Requested and inflight come together: a writer creating its own inflight could resurrect it (LEDGER, H5).
    """

    def rule(now: Round) -> Decision | Already:
        mine = next((start for start, write in now.state.open.items() if write.txn == txn), None)
        if mine is not None:
            return Already(mine)
        if adds_base and not (now.state.is_fresh and not any(w.adds_base for w in now.state.open.values())):
            raise InvalidArgument("Base files may only be added to a table without rows. Nothing was begun.")
        start = now.time()
        files = tuple(
            (b"", TimelineFileName(start, None, action, s).format()) for s in (State.REQUESTED, State.INFLIGHT)
        )
        state = now.timed(open={**now.state.open, start: OpenWrite(txn, action, adds_base, columns)})
        return Decision("begin", state, files, start)

    return str(ledger.decide(txn, rule, before_true=beat))


def publish(
    ledger: Ledger,
    txn: str,
    start: str,
    metadata: Callable[[Round], CommitMetadata],
    *,
    states_schema: bool = False,
) -> str:
    """The completion time of the write; from this moment on everybody sees it. RolledBack if it was taken away.

    `metadata` is asked in every round anew: it may look at the schema of that moment, and may refuse.
    """

    def rule(now: Round) -> Decision | Already:
        if start not in now.state.open:
            return Already(_completion(now, start))
        action = now.state.open[start].action
        completion = now.time()
        name = TimelineFileName(start, completion, action, State.COMPLETED).format()
        content = metadata(now)
        state = now.timed(
            open=without(now.state.open, start),
            is_fresh=False if content.write_stats else now.state.is_fresh,
            schema_file=name if states_schema or now.state.schema_file is None else now.state.schema_file,
        )
        return Decision("publish", state, ((format_commit(content), name),), completion)

    return _published(ledger, txn, start, rule)


def plan_compaction(
    ledger: Ledger, txn: str, build: Callable[[Round, str], CompactionPlan | None], *, action: str = "compaction"
) -> str | None:
    """The start of a new plan, or None if there is nothing to do."""

    def rule(now: Round) -> Decision | Already:
        mine = next((start for start, plan in now.state.plans.items() if plan.planner == txn), None)
        if mine is not None:
            return Already(mine)
        start = now.time()
        plan = build(now, start)
        if plan is None or not plan.operations:
            return Already(None)
        name = TimelineFileName(start, None, action, State.REQUESTED).format()
        state = now.timed(plans={**now.state.plans, start: PendingPlan(action, txn)})
        return Decision("plan", state, ((format_compaction_plan(plan), name),), start)

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
            return Already(_completion(now, start))
        if plan.epoch != epoch:
            raise ClaimLost(f"The plan {start} was taken over by another executor. Nothing of this attempt is visible.")
        completion = now.time()
        name = TimelineFileName(start, completion, _COMPLETED_AS[plan.action], State.COMPLETED).format()
        state = now.timed(plans=without(now.state.plans, start), is_fresh=False)
        return Decision("publish", state, ((format_commit(metadata(now)), name),), completion)

    return _published(ledger, txn, start, rule)


def status(ledger: Ledger, start: str) -> Literal["published", "refused", "open"]:
    """How a write ended, or that it has not; the newest decision is made true on the way."""

    def rule(now: Round) -> Decision | Already:
        if start in now.state.open or start in now.state.plans:
            return Already("open")
        return Already("refused" if find_completion(now, start) is None else "published")

    answer: Literal["published", "refused", "open"] = ledger.decide("", rule)
    return answer


def completion(ledger: Ledger, start: str) -> str:
    """When the write completed; RolledBack if it never will."""
    return str(ledger.decide("", lambda now: Already(_completion(now, start))))


def find_completion(now: Round, start: str) -> str | None:
    """When the write completed: by the timeline, then by the history; None if neither has it."""
    instant = now.timeline().write(start)
    if instant is not None and instant.is_completed:
        return instant.completion_time
    config = now.ledger.config
    for row in load_history(now.ledger.storage, config, start, actions=WRITE_ACTIONS):
        if row.instant.request_time == start:
            return row.instant.completion_time or start
    return None


def _completion(now: Round, start: str) -> str:
    found = find_completion(now, start)
    if found is None:
        raise RolledBack(
            f"The write {start} of {now.ledger.storage.url} was rolled back before it could be published: its owner gave "
            "up, or another process found its heartbeat expired. Nothing of it is visible, now or later. Write again; "
            "if this process was paused or very slow, raise the heartbeat timeout.",
            instant=start,
        )
    return found


def _published(ledger: Ledger, txn: str, start: str, rule: Callable[[Round], Decision | Already]) -> str:
    try:
        return str(ledger.decide(txn, rule))
    except DecisionUnknown as error:
        raise unknown(ledger, start) from error


def unknown(ledger: Ledger, start: str) -> CommitUnknown:
    """What to tell if nobody can say whether a write was published."""
    return CommitUnknown(
        f"Whether the write {start} of {ledger.storage.url} was published is not known: the store stopped answering. "
        f"Nothing was removed, and it will not be half visible. Ask `table.status({start!r})` before writing again.",
        instant=start,
    )


def _foreign_plan(now: Round, start: str) -> PendingPlan | None:
    """A plan of Apache Hudi, which decides on the timeline alone."""
    instant = now.timeline().write(start)
    if instant is None or instant.is_completed or instant.kind not in _COMPLETED_AS:
        return None
    return PendingPlan(instant.kind, "hudi")


def remember_gone(state: LedgerState, start: str, time: str) -> dict[str, str]:
    """The starts that were rolled back lately, this one among them."""
    gone = {**state.gone, start: time}
    return dict(sorted(gone.items(), key=lambda item: item[1])[-limits.GONE_STARTS_MAX :])
