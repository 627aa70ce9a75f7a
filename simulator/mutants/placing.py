# SPDX-License-Identifier: Apache-2.0
"""Planted bugs of writers that look for their rows: copy-on-write tables, and keys that must not be there twice."""

from __future__ import annotations

from typing import Any

from simulator.mutants.planting import Mutant

_COW: dict[str, Any] = {
    "placed": True, "cow": True, "whole": True, "executors": False, "refusals": 0.0, "aborts": 0.0, "deletes": 0.2,
    "keys": 4, "call_ms": 5, "switch": 0.3, "depth": 0,
    "actors": (("placer", 5), ("placer", 5), ("placer", 5), ("reader", 4), ("reader", 4)),
}  # fmt: skip
_MOR = {**_COW, "cow": False, "deletes": 0.0, "keys": 6}

OF_PLACING = (
    Mutant(
        "a base file is rewritten although another one was since the write began", "RFC-71", "lakebraid.txn.checks.rivalry",
        "Rivalry.check", "if self._rivals is not None:", "if False:", ("1", "2", "5", "14"), _COW,
    ),
    Mutant(
        "of two new rows of one key both are published", "F26", "lakebraid.txn.checks.inserted_keys", "SameKeys.check",
        "if common is not None:", "if False:", ("21",), _MOR,
    ),
    Mutant(
        "a key that came back while it was compacted away is looked for in base files alone", "F26", "lakebraid.writing.placed",
        "_unsure_logs", "if log.request_time < base.completion_time", "if False", ("21", "1", "2"),
        {**_MOR, "by_event": False, "deletes": 0.5, "keys": 1,
         "actors": (("placer", 8), ("placer", 8), ("compactor", 8), ("compactor", 8))},
    ),
    Mutant(
        "new keys in a small file that was there are not looked at", "F26", "lakebraid.tasks.staged_file", "brings_keys",
        "not (is_rewrite and stat.num_inserts == 0)", "not is_rewrite", ("21",), {**_COW, "keys": 6},
        first_seed=5520,
    ),
    Mutant(
        "whoever began earlier and completed since is not looked at", "RFC-71", "lakebraid.model.conflicts",
        "_completed_since", "if begun.met(instant) else None", "if False else None",
        ("1", "2", "5", "14"), _COW,
    ),
    Mutant(
        "of what is completed nothing is looked at, whenever that was", "RFC-71", "lakebraid.model.timeline.timeline", "recent_names",
        " and n <= since and n[18:] <= since", "", ("1", "2", "5", "14"), _COW,
    ),
    Mutant(
        "a base file is rewritten although a clustering has moved its rows", "RFC-71", "lakebraid.txn.checks.file_groups", "_groups",
        "return written + [GroupId(p, file_id) for p, ids in metadata.replaced.items() for file_id in ids]", "return written",
        ("1", "2", "5", "14"),
        {**_COW, "gives_way": True,
         "actors": (("placer", 5), ("placer", 5), ("clusterer", 5), ("clusterer", 5), ("reader", 4))},
    ),
    Mutant(
        "a clean takes base files of a moment that is held", "14", "lakebraid.services.cleaning", "_holds",
        "if token not in expired:", "if False:", ("14", "3"),
        {**_COW, "retained": 1, "actors": (("placer", 6), ("placer", 6), ("cleaner", 6), ("holder", 4), ("holder", 4))},
    ),
)  # fmt: skip
