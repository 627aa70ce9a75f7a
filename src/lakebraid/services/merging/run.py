# SPDX-License-Identifier: Apache-2.0
"""Executing a plan alone: a claim in the ledger, a heartbeat while it is held, and whatever dead executors left.

Of any number of executors one has the claim; whoever takes it over after a silence outranks the one before, whose
files can never be published any more. That is RFC-79's guard, without a lock: docs/decisions/0007-ledger.md.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from lakebraid.digits import whole_number
from lakebraid.errors import ClaimLost, CorruptFile, LakebraidError, ObjectNotFound, SnapshotExpired, StorageError
from lakebraid.format.names import State, parse_data_file
from lakebraid.table.loading import load_timeline
from lakebraid.txn.actions.plans import check_claimable, claim, release
from lakebraid.txn.actions.rollback import decide_withdrawal, finish_rollback
from lakebraid.txn.hudi.reconcile import rolled_back_since
from lakebraid.txn.ledger.entries import LedgerState
from lakebraid.txn.ledger.ledger import Ledger
from lakebraid.txn.ledger.rounds import Already, Round
from lakebraid.txn.liveness.heartbeat import (
    Heartbeat,
    beat_first,
    beat_interval_ms,
    is_expired,
    silence_ms_max,
    storage_now_ms,
)


@dataclass(frozen=True, slots=True)
class Held:
    """A claim that is ours, as far as we know."""

    txn: str
    start: str
    epoch: int
    lost: threading.Event = field(default_factory=threading.Event)

    def check(self) -> None:
        """Raises ClaimLost if the heartbeat has found that another executor took the plan over."""
        if self.lost.is_set():
            raise ClaimLost(
                f"The plan {self.start} was taken over by another executor. Nothing of this attempt is visible."
            )

    def is_left_behind(self, name: str) -> bool:
        """Whether the file was written for this plan under an earlier claim of ours: it is dead for ever."""
        parsed = parse_data_file(name.rpartition("/")[2])
        if parsed is None or parsed.request_time != self.start or parsed.write_token is None:
            return False
        *first, epoch = parsed.write_token.split("-")
        return first == ["0", "0"] and 0 < (whole_number(epoch) or 0) < self.epoch


@contextlib.contextmanager
def claimed(ledger: Ledger, start: str) -> Iterator[Held]:
    """The claim on a pending plan, with a heartbeat, for as long as the block runs; ClaimLost if a living one has it.

    If the block fails the claim is given back, so that others need not wait until the heartbeat has expired; a removable
    plan is rolled back, since nobody could execute it again.
    """
    held = _claim(ledger, start)
    interval_s = beat_interval_ms(ledger.config) / 1000
    heartbeat = Heartbeat(ledger.storage, start, interval_s, lambda: _is_held(ledger, held), held.lost.set)
    heartbeat.run()
    try:
        yield held
    except ClaimLost:
        raise  # the heartbeat is another one's by now
    except BaseException as error:
        if isinstance(error, ObjectNotFound | SnapshotExpired) and not _is_held(ledger, held):
            raise ClaimLost(
                f"The plan {start} was taken back or taken over while it was being executed, and a file that it needs is "
                "gone. Nothing of this attempt is visible. Plan a new one.",
                instant=start,
            ) from error
        with contextlib.suppress(LakebraidError):
            _give_back(ledger, held)
        raise
    finally:
        heartbeat.stop()


def abandoned_plans(ledger: Ledger, kind: str, load: Callable[[Ledger, str], object]) -> list[str]:
    """Starts of pending plans that nobody has worked on for a while, oldest first.

    `load` reads a plan: a torn one is nobody's to execute, and not ours to remove (scenario F20).
    """
    pending = [i.request_time for i in load_timeline(ledger.storage, ledger.config).pending if i.kind == kind]
    if not pending:
        return []
    plans = _state(ledger).plans
    released = {s for s, plan in plans.items() if plan.epoch and not plan.claimant}
    pending = [s for s in pending if s not in plans or not (plans[s].is_removable and plans[s].epoch)]
    storage, config = ledger.storage, ledger.config
    now_ms, silence_ms = storage_now_ms(storage, ledger.clock), silence_ms_max(config)
    free = [s for s in pending if s in released or is_expired(storage, config, s, now_ms, silence_ms)]
    return [start for start in free if _is_whole(ledger, start, load)]


def _is_whole(ledger: Ledger, start: str, load: Callable[[Ledger, str], object]) -> bool:
    with contextlib.suppress(CorruptFile, ClaimLost):
        load(ledger, start)
        return True
    return False


def _give_back(ledger: Ledger, held: Held) -> None:
    rollback = decide_withdrawal(ledger, held.txn, held.start, lambda plan: plan.epoch == held.epoch)
    if rollback is None:
        release(ledger, held.txn, held.start, held.epoch)
    else:
        finish_rollback(ledger, held.txn, rollback)


@dataclass(frozen=True, slots=True)
class _Judged:
    """A plan as it was when it was found to be free."""

    epoch: int | None
    was_inflight: bool
    last: str
    """The last time that had been given."""


def _claim(ledger: Ledger, start: str) -> Held:
    judged = _judge(ledger, start)
    # Before others can see the claim, so that nobody takes it for a dead one's: of an old plan the last beat is old.
    if not beat_first(ledger.storage, start):
        raise StorageError(
            f"{ledger.storage.url} did not take the heartbeat of the plan {start}, without which others would take its "
            "executor for dead. Nothing was changed. Try again when the store answers.",
            path=ledger.storage.url,
            instant=start,
        )
    txn = ledger.clock.token()
    is_taken = (lambda now: _is_taken(now, start, judged)) if ledger.is_shared else None
    return Held(txn, start, claim(ledger, txn, start, seen=judged.epoch, is_taken=is_taken))


def _judge(ledger: Ledger, start: str) -> _Judged:
    """The plan as it is now, if it may be claimed; ClaimLost if its executor is alive."""
    state = _state(ledger)
    plan = state.plans.get(start)
    if plan is not None:
        # Before the beat: whoever tries in vain must not make a failed plan look alive.
        check_claimable(plan, start)
    known = load_timeline(ledger.storage, ledger.config).write(start)
    is_inflight = known is not None and known.state is State.INFLIGHT
    # An executor of Apache Hudi is not in the ledger: it leaves an inflight file and beats.
    is_held = (plan is not None and plan.claimant != "") or (is_inflight and (plan is None or ledger.is_shared))
    if is_held:
        now_ms = storage_now_ms(ledger.storage, ledger.clock)
        if not is_expired(ledger.storage, ledger.config, start, now_ms, silence_ms_max(ledger.config)):
            raise ClaimLost(
                f"The plan {start} of {ledger.storage.url} is being executed by somebody who is alive. Nothing was "
                "changed. Let it work, or try again later.",
                instant=start,
            )
    return _Judged(None if plan is None else plan.epoch, is_inflight, state.last)


def _is_taken(now: Round, start: str, judged: _Judged) -> bool:
    """Whether Apache Hudi has begun to execute the plan since it was judged: it then makes an inflight file, or rolls the
    attempt back whose file is there. To be asked under its lock, in which it does so.
    """
    known = now.timeline().write(start)
    if known is not None and known.state is State.INFLIGHT and not judged.was_inflight:
        return True
    ledger = now.ledger
    return start in rolled_back_since(ledger.storage, ledger.config, now.timeline(), judged.last)


def _state(ledger: Ledger) -> LedgerState:
    """The state as a decision would see it: beside Hudi the newest entry may be void."""
    if not ledger.is_shared:
        return ledger.newest().state
    return ledger.decide("", lambda now: Already(now.state))


def _is_held(ledger: Ledger, held: Held) -> bool:
    watching = Ledger(ledger.storage, ledger.clock, ledger.config)
    plan = watching.newest().state.plans.get(held.start)
    return plan is not None and plan.epoch == held.epoch
