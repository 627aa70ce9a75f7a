# SPDX-License-Identifier: Apache-2.0
"""Planted bugs of batches that are published once."""

from __future__ import annotations

from simulator.mutants.planting import Mutant
from simulator.world.faults import Rates

_WRITE = "lakebraid.txn.actions.write"
_STREAMS = {
    "actors": (("streamer", 4), ("streamer", 3), ("writer", 1), ("rescuer", 3)),
    "rates": Rates(kill_after=0.01, pause=0.02, slow=0.02, lost=0.01),
}

OF_STREAMS = (
    Mutant(
        "a batch is not looked at when it is published", "batches", _WRITE, "publish_write",
        "check_new(now, batch)", "pass",
        ("18",), _STREAMS,
        elsewhere=(("lakebraid.txn.ledger.wishes", "_is_next", "batch is None", "True"),),
    ),
    Mutant(
        "a published batch is not noted", "batches", "lakebraid.txn.ledger.wishes", "published",
        "if batch is not None:", "if False:",
        ("18",), _STREAMS,
    ),
    Mutant(
        "a batch is called done that is only begun", "batches", "lakebraid.txn.actions.batches", "check_new",
        "known = now.state.batches.get(batch.writer)",
        "from lakebraid.txn.ledger.entries import PublishedBatch\n"
        "    known = next((PublishedBatch(w.batch.number, s, s) for s, w in now.state.open.items() if w.batch == batch),"
        " now.state.batches.get(batch.writer))",
        ("18",), _STREAMS,
    ),
)  # fmt: skip
