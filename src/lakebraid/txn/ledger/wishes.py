# SPDX-License-Identifier: Apache-2.0
"""Wishes: decisions that are small enough to be written down as data, so that any process can decide them for another.

What a wish makes of a state is said here once, for the process that has it and for one that decides it along with its own: a
function of the state, of the wish and of a time, which looks at nothing else. What the rule of the wish has looked at beyond
the state is named in the wish as a guard; where a guard differs, the outcome is that the rule has to look again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, Final

from lakebraid import limits
from lakebraid.format.names import State, TimelineFileName
from lakebraid.format.times import is_instant_time
from lakebraid.model.timeline.instant import COMPLETED_AS
from lakebraid.txn.ledger.entries import (
    BEYOND,
    Batch,
    Lease,
    LedgerState,
    OpenWrite,
    PublishedBatch,
    Undoing,
    batch_of,
    mask_of_text,
    texts_of,
    without,
)

AGAIN: Final = "again"
"""The outcome of a wish that changed nothing: its rule has to look at what is so now."""
BEGINNING: Final = "begin"
"""The wish to begin a write."""
AHEAD: Final = "ahead"
"""The same, for a writer that waits for something else: those who ask after it need not wait for its author to decide."""
DONE: Final = "done"
"""The outcome of a wish that has nothing else to tell."""
PUBLISHING: Final = frozenset({"publish", "finish", "done", "cleaned"})
"""Wishes whose timeline file completes something."""
TELLING: Final = PUBLISHING - {"done"}
"""Those of which a metadata table is told: bytes that an ask does not bring."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What is wanted, as plain values that can stand in the name of an object."""

    kind: str
    params: Sequence[Any]


@dataclass(frozen=True, slots=True)
class Look:
    """What a rule has looked at beside the state: a later decision that changes some of it shares a bit with the mask."""

    entry: int
    """The entry that was applied when the rule looked."""
    mask: int


@dataclass(frozen=True, slots=True)
class Applied:
    """What a wish makes of a state."""

    state: LedgerState
    outcome: str
    files: tuple[tuple[int, str], ...] = ()
    """Timeline files, and which part of the wish's bytes each holds."""


def begin_wish(write: OpenWrite) -> Wish:
    """To begin a write whose pending files are empty."""
    batch = write.batch
    told = None if batch is None else [batch.writer, batch.number, batch.stream]
    return Wish(BEGINNING, [write.decider, write.action, write.columns, told, write.writer])


def ahead_wish(write: OpenWrite) -> Wish:
    """To begin a write while the one before is published."""
    return replace(begin_wish(write), kind=AHEAD)


def publish_wish(
    state: LedgerState,
    request_time: str,
    *,
    has_rows: bool,
    touches: int,
    look: Look | None = None,
    takes_all: bool = False,
    is_ahead: bool = False,
) -> Wish:
    """To publish an open write whose commit states no new schema and replaces nothing; its bytes depend on what is guarded."""
    guard = _guard(state, state.open[request_time].batch)
    return Wish("publish", [request_time, has_rows, guard, f"{touches:x}", _told(look), takes_all, is_ahead])


def finish_wish(request_time: str, epoch: int, *, touches: int, look: Look | None = None) -> Wish:
    """To publish what was made of a plan under the claim of this epoch."""
    return Wish("finish", [request_time, epoch, f"{touches:x}", _told(look)])


def claim_wish(decider: str, request_time: str, epoch: int) -> Wish:
    """To claim a plan whose last claim has this epoch."""
    return Wish("claim", [decider, request_time, epoch])


def release_wish(request_time: str, epoch: int) -> Wish:
    """To give the claim of this epoch back."""
    return Wish("release", [request_time, epoch])


def undo_wish(undoing: Undoing) -> Wish:
    """To roll back an open write."""
    return Wish("undo", [undoing.victim, undoing.decider])


def done_wish(rollback: str) -> Wish:
    """To report that a rollback is done."""
    return Wish("done", [rollback])


def cleaned_wish(clean: str) -> Wish:
    """To report that a clean is done."""
    return Wish("cleaned", [clean])


def lease_wish(token: str, lease: Lease, looked: int) -> Wish:
    """To hold the files of a moment that was readable when the entry `looked` was applied."""
    return Wish("lease", [token, lease.time, lease.holder, looked])


def drop_lease_wish(token: str) -> Wish:
    """To give a lease back."""
    return Wish("drop", [token])


def consumer_wish(name: str, before: str | None, after: str | None, looked: int | None = None) -> Wish:
    """To move a consumer from one position to another, None being no consumer. If `looked` is given, the new position was
    readable when that entry was applied.
    """
    return Wish("consumer", [name, before, after, looked])


def forget_wish(writer: str) -> Wish:
    """To let the batch numbers of a writer begin again."""
    return Wish("forget", [writer])


def apply(state: LedgerState, number: int, wish: Wish, time: str) -> Applied | None:
    """The state after the wish, decided in this slot at this time; None if the wish is malformed, or of a kind that is not
    known here: then its author has to decide it.
    """
    rule = _RULES.get(wish.kind)
    try:
        return None if rule is None else rule(state, number, time, *wish.params)
    except (TypeError, ValueError, LookupError, AttributeError):
        return None


def begun(state: LedgerState, request_time: str, write: OpenWrite) -> LedgerState:
    """The state once a write has begun."""
    return replace(state, last=request_time, open={**state.open, request_time: write})


def published(
    state: LedgerState, request_time: str, completion: str, *, has_rows: bool, takes_all: bool = False
) -> LedgerState:
    """The state once an open write is published."""
    batch, batches = state.open[request_time].batch, state.batches
    if batch is not None:
        batches = {**batches, batch.writer: PublishedBatch(batch.number, request_time, completion, batch.stream)}
    return replace(
        state,
        last=completion,
        open=without(state.open, request_time),
        is_fresh=state.is_fresh and not has_rows,
        batches=batches,
        taken=max(state.taken, request_time) if takes_all else state.taken,
    )


def touching(state: LedgerState, number: int, mask: int) -> LedgerState:
    """The state with a note of what this entry has changed."""
    return replace(state, touched={**state.touched, number: state.touched.get(number, 0) | mask}) if mask else state


def noted(state: LedgerState, number: int, touches: int) -> LedgerState:
    """The state as this entry tells it: what its decision has changed is noted, what no ask needs any more is not."""
    since = number - limits.ASK_ENTRIES_MAX
    remembered = {w: d for w, d in state.decided.items() if d.number > since}
    touched = {at: mask for at, mask in state.touched.items() if at > since}
    return touching(replace(state, decided=remembered, touched=touched), number, touches)


def undone(state: LedgerState, request_time: str, undoing: Undoing) -> LedgerState:
    """The state once it was decided to roll back a write, or to withdraw a plan."""
    return replace(
        remembering_gone(state, undoing.victim, request_time),
        last=request_time,
        open=without(state.open, undoing.victim),
        plans=without(state.plans, undoing.victim),
        rollbacks={**state.rollbacks, request_time: undoing},
    )


def remembering_gone(state: LedgerState, request_time: str, time: str) -> LedgerState:
    """The state with one more write that was rolled back lately: late files of it may still appear."""
    gone = {**state.gone, request_time: time}
    return replace(state, gone=dict(sorted(gone.items(), key=lambda item: item[1])[-limits.GONE_REQUEST_TIMES_MAX :]))


def _begin(
    state: LedgerState, _number: int, time: str, decider: Any, action: Any, columns: Any, batch: Any, writer: Any
) -> Applied:
    write = OpenWrite(_text(decider), _action(action), False, texts_of(columns), batch_of(batch), _text(writer))
    is_begun = any(other.decider == write.decider for other in state.open.values())
    if is_begun or state.restores or not _is_next(state, write.batch):
        return Applied(state, AGAIN)
    names = (TimelineFileName(time, None, write.action, s).format() for s in (State.REQUESTED, State.INFLIGHT))
    return Applied(begun(state, time, write), time, tuple((0, name) for name in names))


def _publish(
    state: LedgerState,
    number: int,
    time: str,
    request_time: Any,
    has_rows: Any,
    guard: Any,
    touches: Any,
    look: Any,
    takes_all: Any,
    is_ahead: Any,
) -> Applied:
    write, mask, seen = state.open.get(_text(request_time)), mask_of_text(touches), _look(look)
    if write is None or guard != _guard(state, write.batch) or not _is_next(state, write.batch):
        return Applied(state, AGAIN)
    if _has_changed(state, number, seen) or (is_ahead is True and state.taken > request_time):
        return Applied(state, AGAIN)
    name = TimelineFileName(request_time, time, write.action, State.COMPLETED).format()
    done = published(state, request_time, time, has_rows=has_rows is True, takes_all=takes_all is True)
    return Applied(touching(done, number, mask), time, ((0, name),))


def _finish(
    state: LedgerState, number: int, time: str, request_time: Any, epoch: Any, touches: Any, look: Any
) -> Applied:
    plan, mask, seen = state.plans.get(_text(request_time)), mask_of_text(touches), _look(look)
    if plan is None or plan.epoch != epoch or _has_changed(state, number, seen):
        return Applied(state, AGAIN)
    name = TimelineFileName(request_time, time, COMPLETED_AS[plan.action], State.COMPLETED).format()
    done = replace(state, last=time, plans=without(state.plans, request_time), is_fresh=False)
    return Applied(touching(done, number, mask), time, ((0, name),))


def _claim(state: LedgerState, number: int, _time: str, decider: Any, request_time: Any, epoch: Any) -> Applied:
    plan = state.plans.get(_text(request_time))
    if plan is None or plan.epoch != epoch or (plan.is_removable and plan.epoch):
        return Applied(state, AGAIN)
    claimed = replace(plan, epoch=number, claimant=_text(decider), claimed_at=state.last)
    name = TimelineFileName(request_time, None, plan.action, State.INFLIGHT).format()
    return Applied(replace(state, plans={**state.plans, request_time: claimed}), str(number), ((0, name),))


def _release(state: LedgerState, number: int, _time: str, request_time: Any, epoch: Any) -> Applied:
    plan = state.plans.get(_text(request_time))
    if plan is None or plan.epoch != epoch:
        return Applied(state, AGAIN)
    free = replace(plan, epoch=number, claimant="")
    return Applied(replace(state, plans={**state.plans, request_time: free}), str(number))


def _undo(state: LedgerState, _number: int, time: str, victim: Any, decider: Any) -> Applied:
    write = state.open.get(_text(victim))
    if write is None:
        return Applied(state, AGAIN)
    names = (TimelineFileName(time, None, "rollback", s).format() for s in (State.REQUESTED, State.INFLIGHT))
    undoing = Undoing(victim, write.action, _text(decider))
    return Applied(undone(state, time, undoing), time, tuple(enumerate(names)))


def _done(state: LedgerState, _number: int, time: str, rollback: Any) -> Applied:
    if _text(rollback) not in state.rollbacks:
        return Applied(state, AGAIN)
    name = TimelineFileName(rollback, time, "rollback", State.COMPLETED).format()
    return Applied(replace(state, last=time, rollbacks=without(state.rollbacks, rollback)), time, ((0, name),))


def _cleaned(state: LedgerState, _number: int, time: str, clean: Any) -> Applied:
    if _text(clean) not in state.cleans:
        return Applied(state, AGAIN)
    name = TimelineFileName(clean, time, "clean", State.COMPLETED).format()
    return Applied(replace(state, last=time, cleans=without(state.cleans, clean)), time, ((0, name),))


def _lease(state: LedgerState, number: int, _time: str, token: Any, moment: Any, holder: Any, looked: Any) -> Applied:
    lease, is_full = Lease(_moment(moment), _text(holder)), len(state.leases) >= limits.LEASES_MAX
    if _text(token) in state.leases or is_full or _has_changed(state, number, Look(looked, BEYOND)):
        return Applied(state, AGAIN)
    return Applied(replace(state, leases={**state.leases, token: lease}), DONE)


def _drop(state: LedgerState, _number: int, _time: str, token: Any) -> Applied:
    if _text(token) not in state.leases:
        return Applied(state, AGAIN)
    return Applied(replace(state, leases=without(state.leases, token)), DONE)


def _consumer(state: LedgerState, number: int, _time: str, name: Any, before: Any, after: Any, looked: Any) -> Applied:
    is_full = before is None and len(state.consumers) >= limits.CONSUMERS_MAX
    has_changed = looked is not None and _has_changed(state, number, Look(looked, BEYOND))
    if state.consumers.get(_text(name)) != before or is_full or has_changed:
        return Applied(state, AGAIN)
    others = without(state.consumers, name)
    return Applied(replace(state, consumers=others if after is None else {**others, name: _moment(after)}), DONE)


def _forget(state: LedgerState, _number: int, _time: str, writer: Any) -> Applied:
    if _text(writer) not in state.batches:
        return Applied(state, AGAIN)
    return Applied(replace(state, batches=without(state.batches, writer)), DONE)


_RULES: Final[Mapping[str, Callable[..., Applied]]] = {
    BEGINNING: _begin,
    AHEAD: _begin,
    "publish": _publish,
    "claim": _claim,
    "release": _release,
    "undo": _undo,
    "done": _done,
    "finish": _finish,
    "cleaned": _cleaned,
    "lease": _lease,
    "drop": _drop,
    "consumer": _consumer,
    "forget": _forget,
}


def _guard(state: LedgerState, batch: Batch | None) -> str:
    """What the bytes of a commit depend on (LEDGER, G8): the schema, the map of overwrites, the last batch of its writer."""
    known = None if batch is None else state.batches.get(batch.writer)
    named = json.dumps([state.schema_file, state.replaced_file, None if known is None else known.request_time])
    return blake2b(named.encode(), digest_size=12).hexdigest()


def _has_changed(state: LedgerState, number: int, look: Look | None) -> bool:
    """Whether something that was looked at may be different by now, in this entry before the wish, or in one that is
    forgotten (LEDGER, G10).
    """
    if look is None:
        return False
    if not look.entry < number <= look.entry + limits.ASK_ENTRIES_MAX:
        return True
    return any(at > look.entry and mask & look.mask for at, mask in state.touched.items())


def _told(look: Look | None) -> list[int | str] | None:
    return None if look is None else [look.entry, f"{look.mask:x}"]


def _look(told: Any) -> Look | None:
    return None if told is None else Look(told[0], mask_of_text(told[1]))


def _is_next(state: LedgerState, batch: Batch | None) -> bool:
    """Whether a batch may be published after those that are; what to say if it may not is told by its rule."""
    if batch is None:
        return True
    known = state.batches.get(batch.writer)
    if known is None:
        return len(state.batches) < limits.BATCH_WRITERS_MAX
    is_other = bool(known.stream and batch.stream and known.stream != batch.stream)
    return batch.number > known.number and not is_other


def _action(value: Any) -> str:
    if value not in {"commit", "deltacommit"}:
        raise ValueError("only these have empty pending files")
    return str(value)


def _moment(value: Any) -> str:
    if not is_instant_time(_text(value)):
        raise ValueError("a time expected")
    return str(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("text expected")
    return value
