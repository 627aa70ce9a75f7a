# SPDX-License-Identifier: Apache-2.0
"""What a key's row is by the rule alone: of each column the value with the highest rank among the versions that name it.

A delete with an ordering value takes what ranks below it, one without whatever began before it. Groups of columns may be
ordered by a column of their own; then deletes go by their beginning. No services, no files, no cleverness.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Row = dict[str, Any]


@dataclass(frozen=True)
class Version:
    """One version of a row: when its write began, its place in that write, and what it brought."""

    time: str
    place: int = 0
    values: Row = field(default_factory=dict)
    is_delete: bool = False
    order: Any = None
    """Of a delete: its ordering value, None for none."""


@dataclass(frozen=True)
class Rule:
    """How a table orders its values: by the row's ordering column, by those of groups, or by nothing but time."""

    ordering: str | None = None
    groups: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def clock(self, column: str) -> str | None:
        return next((by for by, members in self.groups.items() if column in (by, *members)), self.ordering)


def joined(versions: Sequence[Version], columns: Sequence[str], rule: Rule) -> Row | None:
    """The row that these versions of one key make, in whatever order they are given; None if there is none."""

    def began(version: Version) -> tuple[Any, ...]:
        return (version.time, version.place)

    def rank(version: Version, by: str | None) -> tuple[Any, ...]:
        order = () if by is None else (version.order if version.is_delete else version.values[by],)
        return (*order, *began(version))

    without = [v for v in versions if v.is_delete and (rule.ordering is None or v.order is None)]
    last = max(map(began, without), default=None)
    left = [v for v in versions if last is None or began(v) > last]
    line = max((rank(v, rule.ordering) for v in left if v.is_delete), default=None)
    live = [v for v in left if not v.is_delete and (line is None or rank(v, rule.ordering) > line)]
    if not live:
        return None
    row: Row = {}
    for column in columns:
        naming = [v for v in live if column in v.values]
        row[column] = max(naming, key=lambda v: rank(v, rule.clock(column))).values[column] if naming else None
    return row
