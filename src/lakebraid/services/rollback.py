# SPDX-License-Identifier: Apache-2.0
"""Rolling back dead writers, and withdrawing plans that no process executes."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from lakebraid import limits
from lakebraid.errors import ClaimLost, InvalidArgument
from lakebraid.services.settings import Opened, ServiceSettings
from lakebraid.txn.actions.rescue import RollbackResult, rescue, sweep
from lakebraid.txn.actions.rollback import decide_withdrawal, finish_rollback
from lakebraid.txn.ledger.entries import PendingPlan
from lakebraid.txn.ledger.ledger import Ledger
from lakebraid.txn.liveness.heartbeat import is_expired, silence_ms_max, storage_now_ms


def roll_back_dead(
    opened: Opened, *, timeout_seconds: float | None = None, delay_minutes: float | None = None
) -> RollbackResult:
    """Rolls back writers without a heartbeat for `timeout_seconds`, and removable plans older than `delay_minutes`;
    what is not given is as the table has it.
    """
    ledger = opened.ledger
    timeout_ms = silence_ms_max(opened.config) if timeout_seconds is None else int(timeout_seconds * 1000)
    delay_ms = plan_delay_ms(opened.settings, delay_minutes)
    return rescue(ledger, ledger.clock.token(), timeout_ms=timeout_ms, plan_delay_ms=delay_ms)


def roll_back_and_sweep(
    opened: Opened, *, timeout_seconds: float | None = None, delay_minutes: float | None = None
) -> RollbackResult:
    """The same, and then removes files that belong to no write, which takes a listing of the whole table."""
    ledger = opened.ledger
    done = roll_back_dead(opened, timeout_seconds=timeout_seconds, delay_minutes=delay_minutes)
    return replace(done, removed=sweep(ledger))


def plan_delay_ms(settings: ServiceSettings, asked_minutes: float | None = None) -> int:
    """How old a removable plan must be before it is rolled back: as asked for, as the table has it, or an hour."""
    stated = settings.plan_rollback_minutes
    text = stated.text if asked_minutes is None else str(asked_minutes)
    if text is None:
        return limits.PLAN_ROLLBACK_DELAY_MS
    try:
        minutes = float(text)
    except ValueError:
        minutes = -1.0
    if 0 <= minutes < 10**9:
        return int(minutes * 60_000)
    raise InvalidArgument(f"{stated.name}={text!r:.60} is no number of minutes. Nothing was changed. Correct it.")


def withdraw(ledger: Ledger, request_time: str | None) -> RollbackResult:
    """Withdraws a plan that no process executes, so that it stops no writer. Not that of a compaction: writes have been
    sliced by it since. InvalidArgument if there is no such plan, ClaimLost if it has a living executor.
    """
    decider, storage, config = ledger.clock.token(), ledger.storage, ledger.config
    plan = None if request_time is None else ledger.newest().state.plans.get(request_time)
    if request_time is None or plan is None or plan.action not in _WITHDRAWN:
        raise InvalidArgument(
            f"{storage.url} has no pending plan {request_time} that can be withdrawn: plans of a clustering or log compaction can, "
            "as long as they are pending. Nothing was changed. `table.status()` lists them.",
            instant=request_time,
        )

    def is_idle(plan: PendingPlan) -> bool:
        now_ms = storage_now_ms(storage, ledger.clock)
        return not plan.claimant or is_expired(ledger.table, request_time, now_ms, silence_ms_max(config))

    rollback = decide_withdrawal(ledger, decider, request_time, is_idle, is_removable=True)
    if rollback is None:
        raise ClaimLost(
            f"The plan {request_time} of {storage.url} is done, or being executed by a process that is alive. Nothing was changed. "
            "Let it work, or try again later.",
            instant=request_time,
        )
    finish_rollback(ledger, decider, rollback)
    return RollbackResult(plans=(request_time,))


_WITHDRAWN: Final = ("clustering", "logcompaction")
