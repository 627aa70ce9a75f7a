# SPDX-License-Identifier: Apache-2.0
"""What must hold between any two steps of a life."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from lakebraid.errors import SnapshotExpired
from tests.kit.models.comparisons import COMPARISONS
from tests.lives.based import check_bases
from tests.lives.captures import check_captured
from tests.lives.kinds import TYPES, Row
from tests.lives.life import Life
from tests.lives.world import World, check_images, check_replayed, check_same, check_upserts

Term = tuple[str, str, Any]
_ALLOWED = {"writer-dead", "hidden-from-hudi", "staged-leftover"}
"""Waiting makes writers look dead here: their beats are of the machine's clock, and the table's goes faster."""
_OF_THE_DEAD = {"orphan-file", "marker-leftover", "heartbeat-leftover"}
"""A writer that learns at its commit that it was rolled back has put files down; the next rollback takes them."""


def check(life: Life, *, is_thorough: bool = False) -> None:
    """The table is what the oracle says, now and as of every moment that is still kept."""
    snapshot = life.other.snapshot()
    assert keyed(life, snapshot.to_arrow()) == life.world.rows()
    told = {name: TYPES[kind] for name, kind in life.world.columns.items()}
    assert {field.name: field.type for field in snapshot.schema} == told
    check_captured(life)
    if life.kind.concurrency == "single":
        life.bury_rolled_back()  # each write that begins there rolls the dead back first
    life.checks += 1
    if is_thorough:
        assert life.other.count() == len(life.world.rows())
        for number, (moment, world) in enumerate(life.past):
            check_past(life, moment, world, is_close=number % 4 == life.checks % 4)
        check_bases(life)
        check_around(life)
    elif life.checks % 3 == 0:
        check_past(life, *life.past[life.checks * 7 % len(life.past)])


def keyed(life: Life, rows: pa.Table) -> dict[Any, Row]:
    """Rows by their identity; each once."""
    found = {life.kind.identity(row): row for row in rows.to_pylist()}
    assert len(found) == rows.num_rows, "a key is there twice"
    return found


def check_past(life: Life, moment: str, world: World, *, is_close: bool = True) -> None:
    """As of a moment, and what has changed since; if it is a close look, in all forms."""
    is_kept = moment >= life.since or moment in life.pins.values()
    try:
        found = keyed(life, life.other.to_arrow(as_of=moment))
    except SnapshotExpired:
        assert not is_kept, f"{moment} should be readable"
        assert life.has_cleaned, f"{moment} should be readable: nothing was cleaned"
        return
    assert found == world.rows(), f"as of {moment}"
    changes = life.other.changes(after=moment)
    check_replayed(life.kind, life.world, world, changes, f"changes after {moment}")
    if is_close:
        _check_other_forms(life, moment, world)
    assert life.other.changes(after=changes.next_position, until=changes.next_position).to_arrow().num_rows == 0


def _check_other_forms(life: Life, moment: str, world: World) -> None:
    """Rows before updates are those of then; without kinds, and until a moment of the past, the changes are the same."""
    later = [past for past in life.past if past[0] > moment]
    until, then = later[life.checks % len(later)] if later else (moment, world)
    if until >= life.since or not life.has_cleaned:
        changes = life.other.changes(after=moment, until=until)
        check_replayed(life.kind, then, world, changes, f"changes after {moment} until {until}")
    check_images(life.kind, life.world, world, life.other.changes(after=moment, images=True), f"images after {moment}")
    check_upserts(life.kind, life.world, world, life.other.changes(after=moment, kinds=False), f"after {moment}")
    names = [*life.world.columns][: 1 + life.checks % 3]
    whole, some = (life.other.changes(after=moment, columns=n).to_arrow().to_pylist() for n in (None, names))
    told = [{n: row[n] for n in (*names, "_change_type", "_commit_completion_time")} for row in whole]
    check_same(some, told, f"some columns after {moment}")
    check_bases(life, moment, world)


def check_around(life: Life) -> None:
    """Looking does not fail, and the audit has nothing to say."""
    audit = life.other.audit(deep=True)
    allowed = _ALLOWED | _OF_THE_DEAD if life.had_dead else _ALLOWED
    assert not [finding for finding in audit if finding.kind not in allowed], audit
    str(life.other.status())
    str(life.other.timeline())
    listed = life.other.timeline(archived=True)
    str(listed)
    for done in life.done[-5:]:
        str(life.other.why(done.request_time))
        assert life.other.status(done.request_time) in ("published", "refused")
    for made in life.open.values():
        str(life.other.why(made.transaction.instant))


def look(life: Life, columns: Sequence[str] | None, where: Sequence[Term] | str, terms: Sequence[Term]) -> None:
    """A filtered read is the filtered oracle."""
    wanted = [row for row in life.world.rows().values() if all(holds(row, term) for term in terms)]
    names = list(life.world.columns) if columns is None else list(columns)
    found = life.table.to_arrow(columns=columns, where=where).to_pylist()
    expected = [{name: row[name] for name in names} for row in wanted]
    assert len(found) == len(expected), where
    left = list(expected)
    for row in found:
        assert row in left, f"{where} gave {row}"
        left.remove(row)
    assert life.table.count(where=where) == len(expected)


def holds(row: Row, term: Term) -> bool:
    name, operator, value = term
    found = row[name]
    if operator == "is null":
        return found is None
    if operator == "is not null":
        return found is not None
    if found is None:
        return False
    return found in value if operator == "in" else COMPARISONS[operator](found, value)
