# SPDX-License-Identifier: Apache-2.0
"""Tables with one writer at a time: a write begins only while no other one is open."""

from __future__ import annotations

from lakebraid.errors import WriteConflict
from lakebraid.txn.actions.rollback import roll_back
from lakebraid.txn.hudi.reconcile import pending_writes
from lakebraid.txn.ledger.ledger import Ledger
from lakebraid.txn.ledger.rounds import Round
from lakebraid.txn.liveness.heartbeat import is_expired, silence_ms_max, storage_now_ms
from lakebraid.txn.refusals import silent

ALONE = "one writer at a time"
_WRITES = ("commit", "deltacommit", "replacecommit")


def clear_dead(ledger: Ledger, decider: str) -> None:
    """Rolls back open writes that show no life: their writer has died, and will not end them."""
    timeout_ms = silence_ms_max(ledger.config)
    state = ledger.newest().state
    if not state.open:
        return
    now_ms = storage_now_ms(ledger.storage, ledger.clock)
    for request_time in sorted(state.open):
        if is_expired(ledger.table, request_time, now_ms, timeout_ms):
            story = silent(timeout_ms, state.writer_of(request_time))
            roll_back(ledger, decider, request_time, timeout_ms=timeout_ms, story=story)


def check_alone(now: Round) -> None:
    """WriteConflict if another write is open; to be asked inside of the decision that begins one."""
    others = set(now.state.open)
    if now.ledger.is_shared:
        others |= {s for s, i in pending_writes(now.since(now.time())).items() if i.kind in _WRITES}
    if others:
        other = min(others)
        writer = now.state.writer_of(other)
        raise WriteConflict(
            f"{now.ledger.storage.url} has one writer at a time (concurrency 'single'), and the write {other} "
            f"{f'of {writer} ' if writer else ''}is open: it goes on, or has died less than a heartbeat's patience ago. Nothing was begun. Wait for it "
            "and write again, or `table.rollback(timeout_seconds=…)` if it is dead. A table for several writers has 'occ'.",
            other=other,
            other_writer=writer,
            rule=ALONE,
        )
