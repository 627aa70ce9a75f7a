# SPDX-License-Identifier: Apache-2.0
"""Where we mean to differ from Apache Hudi, row by row, and how answers are laid side by side.

The lists are exact: a difference that is not listed fails, and so does a listed one that is no longer there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

Row = tuple[tuple[str, Any], ...]
LATER_REQUEST_TIME = (
    "one total order of row versions: the answer does not depend on the slice a version lies in (FORMAT, trap 2)"
)
ANEW = "a row that is written after a delete without ordering value is what was written, not the deleted row"
BY_COLUMN = "of each column the value with the greatest ordering value counts, whatever the row's is"
HIDDEN = "committed rows are shown although a dead writer's file began the group (FORMAT, trap 1)"


@dataclass(frozen=True, slots=True)
class Difference:
    """Per record key: what we show and what Hudi shows in the column `name` (or `c`); None means no such row."""

    why: str
    rows: dict[str, tuple[str | None, str | None]] = field(default_factory=dict)


HUDIS_OWN = {
    "v9_mor_late_writer": Difference(LATER_REQUEST_TIME, {"2": ("fast", "slow"), "6": ("fast", None)}),
    "v9_mor_late_writer_commit_time": Difference(
        LATER_REQUEST_TIME,
        {
            "2": ("fast", "slow"),
            "3": ("fast", "slow"),
            "4": ("fast", "slow"),
            "5": ("fast", None),
            "6": ("fast", None),
            "7": ("fast", None),
        },
    ),
    "v9_mor_hidden_group": Difference(HIDDEN, {"1": ("live", None), "3": ("live", None)}),
    "v9_mor_cdc": Difference(ANEW, {"1": ("back", "u")}),
    "v9_mor_partial_fold": Difference(BY_COLUMN, {"4": ("c3", "c2"), "8": ("c2", "c2")}),
}
"""Snapshots. Keys are unique in these tables, once partitions that agree are left out."""

DIFFERENT_THEN = {
    *("v9_mor_cdc", "v9_mor_fill_unavailable", "v9_mor_ignore_defaults_event_time", "v9_mor_log_compaction_chain"),
    *("v9_mor_partial_compacted", "v9_mor_partial_fold"),
}
"""Tables of whose past the same is true (tests/unit/reading/test_differences.py)."""

RANGE_ONLY = "an incremental query merges the versions of its range only, so what an older row would fill in is missing"
BACK = "a row that was deleted by operation comes back with a lower ordering value"
NOT_CALLED_NEW = {
    "v9_mor_cdc": BACK,
    "v9_mor_fill_unavailable": RANGE_ONLY,
    "v9_mor_ignore_defaults_commit_time": RANGE_ONLY,
    "v9_mor_ignore_defaults_event_time": RANGE_ONLY,
    "v9_mor_late_writer": LATER_REQUEST_TIME,
    "v9_mor_late_writer_commit_time": LATER_REQUEST_TIME,
    "v9_mor_late_writers_two_compactions": LATER_REQUEST_TIME,
    "v9_mor_log_compaction_chain": BACK,
    "v9_mor_partial_fold": BY_COLUMN,
    "v9_mor_partial_merge_into": RANGE_ONLY,
    "v9_mor_partition_encoded": "Hudi's incremental query leaves partition values escaped as in the path",
}
"""Tables in which some row that changed for a reader is not among the rows of Hudi's incremental query."""


def differences(ours: Iterable[Row], hudis: Iterable[Row]) -> dict[str, tuple[str | None, str | None]]:
    """Rows that only one side has, by record key, each told by its column `name`."""
    ours, hudis = list(ours), list(hudis)
    only_ours = {key_of(row): name_of(row) for row in ours if row not in hudis}
    only_hudis = {key_of(row): name_of(row) for row in hudis if row not in ours}
    return {key: (only_ours.get(key), only_hudis.get(key)) for key in sorted({*only_ours, *only_hudis})}


def key_of(row: Row) -> str:
    return str(dict(row)["_hoodie_record_key"])


def name_of(row: Row) -> str:
    """What a row is told by: its column `name`, or the column `c` of those that have none."""
    facts = dict(row)
    return str(facts.get("name", facts.get("c")))
