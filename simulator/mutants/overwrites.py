# SPDX-License-Identifier: Apache-2.0
"""Planted bugs in overwrites: whoever comes between, too late, or back from a restore."""

from __future__ import annotations

from typing import Any

from simulator.mutants.planting import Mutant
from simulator.world.faults import Rates

_BASE: dict[str, Any] = {
    "whole": True, "fixed": True, "partitions": 1, "buckets": 1, "keys": 2, "deletes": 0.0, "aborts": 0.0, "refusals": 0.0,
    "rates": Rates(slow=0.03), "actors": (*((("writer", 4),) * 3), ("overwriter", 4), ("overwriter", 4), ("reader", 6)),
}  # fmt: skip

OF_OVERWRITES = (
    Mutant(
        "a late publisher is not held against an overwrite", "F33", "lakebraid.txn.checks.rivalry", "Placement.check",
        "if met:", "if False:", ("1", "2", "5", "13", "14", "19"), _BASE,
    ),
    Mutant(
        "an overwrite drops a concurrent append", "F33", "lakebraid.txn.checks.overwrites", "Overwrite._check_alone",
        "if met:", "if False:", ("17",), _BASE,
    ),
    Mutant(
        "an overwrite puts its rows into the groups that it replaces", "F8", "lakebraid.writing.operations.overwrite",
        "Overwriting.placement", "Replaced(whole=self.overwrite.request_time)", "Replaced()", ("1", "2", "5", "13", "14", "19"), _BASE,
    ),
    Mutant(
        "the next writers do not learn the new ids", "F8", "lakebraid.txn.actions.write", "publish_write",
        "replaced_file=now.replaced_file or now.state.replaced_file", "replaced_file=None",
        ("1", "2", "5", "13", "14", "19"), _BASE,
    ),
    Mutant(
        "a restore leaves the ids of an overwrite that it takes back", "restore", "lakebraid.txn.actions.restore", "_state_after",
        "replaced_file=map_without(now, undo.request_times),", "",
        ("19",), {**_BASE, "actors": (*_BASE["actors"], ("restorer", 4), ("restorer", 4))},
        elsewhere=(("lakebraid.txn.actions.restore_files", "_remove", "remove_maps(storage, request_times)", "pass"),),
    ),
)  # fmt: skip
