# SPDX-License-Identifier: Apache-2.0
"""What a reader of captured changes gets is what became of the table."""

from __future__ import annotations

from tests.kit.models.cdc_reader import Event, cdc_events, differences
from tests.lives.kinds import Row, fitted
from tests.lives.life import Life
from tests.lives.world import World, check_same


def check_captured(life: Life) -> None:
    """The last write, if nobody has looked at it yet."""
    fresh, life.fresh = life.fresh, None
    if not life.kind.captures or fresh is None:
        return
    request_time, old, new = fresh
    kind = life.kind
    # A key that moves to another partition goes in one and comes in the other.
    told = _fitted(cdc_events(life.other, request_time, kind.identity), new)
    before = World(new.columns, old.versions).rows()
    expected = differences(before, new.rows())
    if kind.table_type == "mor" or kind.captures == "DATA_BEFORE_AFTER":
        check_same(told, expected, f"captured by {request_time}")
    elif not kind.is_global:  # whose moved rows are told in two places, and here not in full
        # Of rows that are told in part nobody can tell whether an update changed anything.
        has_before = kind.captures == "DATA_BEFORE"
        sure = [_part(event, has_before) for event in told if event[0] != "u"]
        check_same(sure, [_part(e, has_before) for e in expected if e[0] != "u"], f"captured by {request_time}")
        updates = [_part(event, has_before) for event in told]
        assert all(_part(event, has_before) in updates for event in expected), f"captured by {request_time}"


def _part(event: Event, has_before: bool) -> Event:
    return event[0], event[1] if has_before else None, None


def _fitted(events: list[Event], world: World) -> list[Event]:
    return [(kind, _row(old, world), _row(new, world)) for kind, old, new in events]


def _row(row: Row | None, world: World) -> Row | None:
    return None if row is None else {name: fitted(row.get(name), kind) for name, kind in world.columns.items()}
