# SPDX-License-Identifier: Apache-2.0
"""Compactions of a metadata table: planned and completed by decisions of the ledger, executed without a claim.

What a plan gives is a function of the plan, under names that are functions of it. So any number of processes may execute it, and a
plan stays until it is executed. The state of the ledger does not know it: the timeline of the metadata table does, and no
rule looks at that before the newest entry is applied (LEDGER, P9).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from lakebraid.errors import ClaimLost
from lakebraid.format.metadata.commits import TIMELINE, format_metadata_compaction
from lakebraid.format.names import State, TimelineFileName
from lakebraid.format.timeline.plans import CompactionPlan, format_compaction_plan
from lakebraid.table.metadata.layout import MetadataLayout, load_metadata_timeline, next_time
from lakebraid.txn.ledger.ledger import Ledger
from lakebraid.txn.ledger.rounds import Already, Decision, Outcome, Round


def decide_metadata_plan(
    ledger: Ledger, decider: str, build: Callable[[Round, MetadataLayout], CompactionPlan | None]
) -> str | None:
    """The request time of a compaction of the metadata table that is to be executed: of the one that is planned already, or of a
    new one, as `build` gives it in every round anew. None if there is nothing to do, or it has to wait.
    """

    def rule(now: Round) -> Outcome[str | None]:
        layout = now.metadata_layout()
        planned = next((i.request_time for i in layout.timeline.pending if i.kind == "compaction"), None)
        if planned is not None or now.state.restores or _is_ahead(now, layout):
            return Already(planned)
        plan = build(now, layout)
        if plan is None:
            return Already(None)
        request_time = max(now.time(), layout.next_time)
        file = _name(request_time, None, "compaction", State.REQUESTED)
        state = replace(now.state, last=request_time)
        # No rule of the table looks at it.
        return Decision("plan", state, ((format_compaction_plan(plan), file),), value=request_time, touches=0)

    return ledger.decide(decider, rule)


def publish_metadata_compaction(
    ledger: Ledger, decider: str, request_time: str, bases: Sequence[tuple[str, int]]
) -> str:
    """The completion time of a compaction whose base files, given by their names below the metadata table and sizes, are there.

    ClaimLost if there is no such plan any more.
    """

    def rule(now: Round) -> Outcome[str]:
        timeline = load_metadata_timeline(now.ledger.storage)
        instant = timeline.write(request_time)
        if instant is None:
            raise ClaimLost(
                f"The compaction {request_time} of the metadata table of {now.ledger.storage.url} was removed. Nothing of this attempt is "
                "read.",
                instant=request_time,
            )
        if instant.completion_time is not None:
            return Already(instant.completion_time)
        completion = max(now.time(), next_time(timeline))
        files = (
            (b"", _name(request_time, None, "compaction", State.INFLIGHT)),
            (format_metadata_compaction(bases), _name(request_time, completion, "commit", State.COMPLETED)),
        )
        return Decision("publish", replace(now.state, last=completion), files, value=completion, touches=0)

    return ledger.decide(decider, rule)


def _is_ahead(now: Round, layout: MetadataLayout) -> bool:
    """Whether an instant is completed in the metadata table and pending in the table: readers do not see it yet, and a base file
    would hide it for ever, or show it (LEDGER, P8). Only jobs of Hudi leave it so.
    """
    pending = {i.request_time for i in now.timeline().pending}
    return any(i.request_time in pending for i in layout.timeline.writes)


def _name(request_time: str, completion_time: str | None, action: str, state: State) -> str:
    return f"{TIMELINE}/{TimelineFileName(request_time, completion_time, action, state).format()}"
