# SPDX-License-Identifier: Apache-2.0
"""Planted bugs in what is published in the metadata table: too late, too early, too little, or taken away too soon."""

from __future__ import annotations

from typing import Any

from simulator.mutants.planting import Mutant
from simulator.world.faults import Rates

_BASE: dict[str, Any] = {
    "metadata": True, "whole": False, "keys": 4, "buckets": 2, "aborts": 0.0, "refusals": 0.0, "timeout_ms": 300,
    "actors": (("writer", 5), ("writer", 5), ("writer", 5), ("tender", 6), ("tender", 6), ("lister", 6)),
}  # fmt: skip
_COMPACTION, _TIDYING = "lakebraid.services.metadata.compaction", "lakebraid.services.metadata.tidying"

OF_THE_METADATA_TABLE = (
    Mutant(
        "a commit appears before its delta commit", "P1", "lakebraid.txn.ledger.rounds", "Round.wished",
        "files = (*first.files, *((parts[part], name) for part, name in applied.files))",
        "files = (*((parts[part], name) for part, name in applied.files), *first.files)", ("25",), _BASE,
    ),
    Mutant(
        "the files of an entry appear in groups", "P1", "lakebraid.txn.ledger.timeline_copies", "since_of",
        " or config.metadata_partitions", "", ("25",), {**_BASE, "grouped": True},
    ),
    Mutant(
        "a publication is asked for, and nothing tells the metadata table", "P4", "lakebraid.txn.ledger.rounds", "Round.wished",
        "if self._is_uncovered or first.files else", "if False else", ("25",), {**_BASE, "eager": True},
        elsewhere=(
            ("lakebraid.txn.ledger.asking", "carry", "and table.config.metadata_partitions", "and False"),
            ("lakebraid.txn.ledger.rounds", "Round._looks", "self._is_uncovered = True", "pass"),
        ),
    ),
    Mutant(
        "an executor merges less than is planned", "P9", _COMPACTION, "_inputs",
        "*sorted(one.delta_file_names)", "*sorted(one.delta_file_names)[:-1]", ("25",), _BASE,
    ),
    Mutant(
        "files of the newest slice are removed", "P10", _TIDYING, "_is_before",
        "completion < base", "completion < '9'", ("25",), _BASE,
    ),
    Mutant(
        "an instant leaves whose log is still read", "P10", _TIDYING, "archivable_until",
        'is_needed = (instant.completion_time or "9") >= compacted', "is_needed = False", ("25",),
        {**_BASE, "call_ms": 60, "rates": Rates(slow=0.03)}, first_seed=50,
    ),
)  # fmt: skip
