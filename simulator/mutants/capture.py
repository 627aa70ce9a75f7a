# SPDX-License-Identifier: Apache-2.0
"""Planted bugs of tables that capture changes."""

from __future__ import annotations

from typing import Any

from simulator.mutants.planting import Mutant

_CAPTURING: dict[str, Any] = {
    "captures": True, "whole": True, "executors": False, "refusals": 0.0, "aborts": 0.0, "keys": 4, "partitions": 2,
    "call_ms": 5, "switch": 0.3, "depth": 0,
    "actors": (("writer", 4), ("writer", 4), ("writer", 4), ("compactor", 2), ("reader", 3)),
}  # fmt: skip

OF_CAPTURE = (
    Mutant(
        "a commit names no log files of the slice before", "0020", "lakebraid.txn.cdc_slices", "_of_group",
        "tuple(_file_name(log.name) for log in before.logs)", "()", ("22",), _CAPTURING,
    ),
    Mutant(
        "the slice before a commit is that of the last compaction, though another one is pending", "0020",
        "lakebraid.txn.cdc_slices", "_of_group", "held.latest()", "held.slices[-1]", ("22", "no crash"),
        {**_CAPTURING, "actors": (("writer", 5), ("writer", 5), ("compactor", 5), ("compactor", 5))},
    ),
    Mutant(
        "whoever begins a group beside another hides what that one has published", "0020", "lakebraid.writing.seeds",
        "_is_new", "not bases and all(log.completion_time > request_time for part in held.slices for log in part.logs)",
        "not bases or True", ("1", "2", "5", "14", "22"), _CAPTURING,
    ),
)  # fmt: skip
