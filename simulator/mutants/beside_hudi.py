# SPDX-License-Identifier: Apache-2.0
"""Planted bugs of what is done beside writers of Apache Hudi, each with the invariants that may catch it."""

from __future__ import annotations

from simulator.mutants.planting import Mutant
from simulator.world.faults import Rates

_SHARED = {
    "shared": True, "whole": True, "executors": False, "deletes": 0.0, "drift": 0.0, "skew_ms": 0, "call_ms": 5,
    "switch": 0.3, "depth": 0, "refusals": 0.0,
    "actors": (("writer", 3), ("writer", 3), ("rescuer", 4), ("job", 6), ("job", 6), ("operator", 12)),
}  # fmt: skip

BESIDE_HUDI = (
    Mutant(
        "decisions are made without Hudi's lock", "lock", "lakebraid.txn.ledger.ledger", "Ledger.decide",
        "with self.lock(self._stand_in) as hold:", "with contextlib.nullcontext() as hold:",
        ("6", "1", "2", "9", "3"), _SHARED,
    ),
    Mutant(
        "a write that Hudi is rolling back is published", "9", "lakebraid.txn.hudi.reconcile", "mind_others",
        "if _is_inflight(pending.get(s)) and s not in undone}", "if True}",
        ("9", "3"), {**_SHARED, "rates": Rates(pause=0.03), "timeout_ms": 500},
    ),
    Mutant(
        "a decision that Hudi overtook is made true", "true before next", "lakebraid.txn.ledger.ledger", "Ledger._apply_newest",
        "if greatest_time(load_timeline(self.table)) >= entry.time:", "if False:",
        ("6", "9", "11", "3"), {**_SHARED, "rates": Rates(kill_after=0.02, kill_before=0.02), "timeout_ms": 500},
    ),
    Mutant(
        "the lock is given back before clocks that go behind have passed the time given", "skew", "lakebraid.txn.ledger.ledger",
        "Ledger._let_clocks_pass", "wait_out_skew(self.clock, self.config, attempted.time)", "pass",
        ("6", "1", "2"), {**_SHARED, "skew_ms": 35, "call_ms": 1},
    ),
    Mutant(
        "the lock of the dead is removed before clocks that go behind have passed the time he gave", "skew of the dead",
        "lakebraid.txn.ledger.ledger", "Ledger._stand_in", "wait_out_skew(self.clock, self.config, entry.time)", "pass",
        ("6", "1", "2"), {**_SHARED, "skew_ms": 35, "call_ms": 1, "rates": Rates(kill_after=0.03), "timeout_ms": 500},
        first_seed=1040,
    ),
    Mutant(
        "the lock of the dead is removed before what he decided is true", "restore of the dead",
        "lakebraid.txn.ledger.ledger", "Ledger._stand_in", "entry = self.settled()", "entry = self.newest()",
        ("9",),
        {
            **_SHARED, "rates": Rates(kill_after=0.02), "timeout_ms": 4000,
            "actors": (("writer", 3), ("job", 6), ("job", 6), ("job", 6), ("restorer", 6), ("restorer", 6), ("operator", 12)),
        },
    ),
    Mutant(
        "a store that says no once lets the lock of a restorer pass on", "restore refused",
        "lakebraid.txn.hudi.reconcile", "insist", "limits.INSIST_ATTEMPTS_MAX", "0",
        ("9",),
        {
            **_SHARED, "rates": Rates(refused=0.05), "timeout_ms": 4000,
            "actors": (("writer", 3), ("job", 6), ("job", 6), ("job", 6), ("restorer", 6), ("restorer", 6), ("operator", 12)),
        },
    ),
    Mutant(
        "an executor that Hudi rolled back publishes", "claim", "lakebraid.txn.hudi.reconcile", "mind_others",
        "s not in undone | attempts", "s not in undone",
        ("3",),
        {
            **_SHARED, "rates": Rates(pause=0.05), "timeout_ms": 500,
            "actors": (("writer", 4), ("compactor", 6), ("compactor", 6), ("job", 9), ("job", 9), ("operator", 12)),
        },
        first_seed=60,
    ),
    Mutant(
        "a claim is judged by a void entry", "16", "lakebraid.services.merging.run", "_state",
        "if not ledger.is_shared:", "if True:",
        ("16",),
        {
            **_SHARED, "rates": Rates(kill_after=0.02, kill_before=0.02), "timeout_ms": 500,
            "actors": (("writer", 4), ("compactor", 6), ("compactor", 6), ("job", 9), ("job", 9), ("operator", 12)),
        },
    ),
    Mutant(
        "a living Hudi writer is rolled back", "8", "lakebraid.txn.hudi.dead_jobs", "dead_write",
        "if not is_expired(ledger.table, victim, now_ms, timeout_ms):", "if False:",
        ("8",), {**_SHARED, "call_ms": 20},
        elsewhere=(
            ("lakebraid.txn.hudi.dead_jobs", "find_dead",
             "[s for s in request_times if is_expired(ledger.table, s, now_ms, timeout_ms)]", "[*request_times]"),
        ),
    ),
    Mutant(
        "a job of Hudi may complete after a restore was decided that takes it back", "restore", "lakebraid.txn.ledger.applying",
        "apply_restore", "if is_applied:", "if False:",
        ("9",),
        {
            **_SHARED, "rates": Rates(pause=0.03), "timeout_ms": 4000,
            "actors": (("writer", 3), ("job", 6), ("job", 6), ("job", 6), ("restorer", 6), ("restorer", 6), ("operator", 12)),
        },
        first_seed=95,
    ),
)  # fmt: skip
