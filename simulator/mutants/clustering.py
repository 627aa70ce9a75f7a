# SPDX-License-Identifier: Apache-2.0
"""Planted bugs of clusterings beside writers, each with the invariants that may catch it."""

from __future__ import annotations

from typing import Any

from simulator.mutants.planting import Mutant
from simulator.world.faults import Rates

_CLUSTERING = "lakebraid.services.merging.clustering"
_CONFLICTS = "lakebraid.txn.checks.file_groups"
_WORLD: dict[str, Any] = {
    "placed": True,
    "whole": True,
    "executors": False,
    "refusals": 0.0,
    "aborts": 0.0,
    "deletes": 0.0,
    "keys": 4,
    "call_ms": 5,
    "switch": 0.3,
    "depth": 0,
    "actors": (("placer", 5), ("placer", 5), ("clusterer", 4), ("clusterer", 4), ("reader", 4), ("reader", 4)),
}
_POLITE = {**_WORLD, "gives_way": True}
_SLEEPERS = {
    **_WORLD,
    "actors": (("placer", 2), ("clusterer", 4), ("clusterer", 4), ("clusterer", 4)),
    "rates": Rates(pause=0.03, slow=0.05),
}

OF_CLUSTERING = (
    Mutant(
        "a clustering does not give way",
        "RFC-71",
        _CLUSTERING,
        "_Guard.check",
        "if clash is not None:",
        "if False:",
        ("1", "5", "14"),
        _POLITE,
    ),
    Mutant(
        "a writer is not refused by a protected plan",
        "RFC-71",
        "lakebraid.model.conflicts",
        "candidates",
        "if chosen in (Candidacy.YES, allowed):",
        "if chosen is Candidacy.YES:",
        ("20",),
        _WORLD,
    ),
    Mutant(
        "a writer does not mind the groups that a clustering replaced",
        "RFC-71",
        _CONFLICTS,
        "_groups",
        "return written + [GroupId(p, file_id) for p, ids in metadata.replaced.items() for file_id in ids]",
        "return written",
        ("1", "5", "14"),
        _POLITE,
    ),
    Mutant(
        "a clustering is published although its claim was taken over",
        "RFC-79",
        "lakebraid.txn.actions.plans",
        "publish_plan",
        "if plan.epoch != epoch:",
        "if False:",
        ("3", "15"),
        _SLEEPERS,
        elsewhere=(("lakebraid.txn.ledger.wishes", "_finish", "plan.epoch != epoch", "False"),),
    ),
    Mutant(
        "two clusterings of the same groups",
        "7",
        _CLUSTERING,
        "build_clustering",
        "taken=taken",
        "taken=frozenset()",
        ("21", "5"),
        _WORLD,
        elsewhere=((_CLUSTERING, "_Guard.check", "if clash is not None:", "if False:"),),
    ),
    Mutant(
        "a compaction of groups that are clustered",
        "7",
        "lakebraid.services.merging.compaction",
        "_builder",
        "taken=taken",
        "taken=frozenset()",
        ("20",),
        {**_WORLD, "actors": (*_WORLD["actors"], ("compactor", 4), ("compactor", 4))},
    ),
)
