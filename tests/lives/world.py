# SPDX-License-Identifier: Apache-2.0
"""What must be in a table, from the documented rules alone: a dictionary of the versions of each row.

A version ranks by its ordering values (if there are any), then by the request time of its writer, then by its place in the
write. A delete is a version like any other; a partial update lies on top of what ranks below it. Where writes look at the
table before they write (copy-on-write, looked-up keys), nothing is left of a row but what it is now.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tests.lives.kinds import SOFT, Columns, Kind, Row, fitted

Identity = tuple[Any, ...]


@dataclass(frozen=True)
class Version:
    """One write of one row."""

    order: tuple[Any, ...]
    request_time: str
    place: int
    values: Row | None
    """None: a delete."""
    is_partial: bool = False


@dataclass(frozen=True)
class Change:
    """A row or a delete as a writer brought it."""

    row: Row
    is_delete: bool = False
    is_partial: bool = False


@dataclass(frozen=True)
class World:
    """The table at one completion; never changed, only followed by another one."""

    columns: Columns
    versions: Mapping[Identity, tuple[Version, ...]] = field(default_factory=dict)
    batches: Mapping[str, int] = field(default_factory=dict)

    def rows(self) -> dict[Identity, Row]:
        """What a reader sees."""
        found = ((key, _folded(versions)) for key, versions in self.versions.items())
        return {key: self._full(row) for key, row in found if row is not None}

    def after(self, kind: Kind, changes: Iterable[Change], request_time: str) -> World:
        """The table after a write that began at `request_time`."""
        versions = dict(self.versions)
        made = [(_version(kind, c, request_time, place), kind.identity(c.row)) for place, c in enumerate(changes)]
        for new, key in sorted(made, key=lambda one: (one[0].order, one[0].place)):
            old = versions.get(key, ())
            if kind.is_global and _stays(kind, old, new):
                continue
            versions[key] = _placed(old, new) if kind.is_placed else _kept(old, new)
        return replace(self, versions={key: found for key, found in versions.items() if found})

    def without(self, kind: Kind, partitions: Iterable[tuple[Any, ...]] | None) -> World:
        """The table without all rows and deletes of these partitions, or of all."""
        gone = None if partitions is None else set(partitions)
        if gone is None:
            return replace(self, versions={})
        at = len(kind.partitions)
        kept = {}
        for key, found in self.versions.items():
            row = _folded(found) or {}
            place = kind.partition(row) if kind.is_global and row else key[:at]
            if place not in gone:
                kept[key] = found
        return replace(self, versions=kept)

    def _full(self, row: Row) -> Row:
        return {name: fitted(row.get(name), kind) for name, kind in self.columns.items()}


def check_replayed(kind: Kind, now: World, seen: World, changes: Any, what: str) -> None:
    """Changes lead from what was seen to what is now."""
    # A key that moves to another partition goes in one and comes in the other.
    identity = replace(kind, index="simple").identity
    rows = {identity(row): row for row in replace(now, versions=seen.versions).rows().values()}
    for row in changes.to_arrow().to_pylist():
        change = row.pop("_change_type")
        row.pop("_commit_completion_time")
        key = identity(row)
        if change == "delete":
            assert rows.pop(key, None) is not None, f"{what}: {key} was deleted and had not been there"
        else:
            assert (change == "insert") == (key not in rows), f"{what}: {change} of {key}"
            assert rows.get(key) != row, f"{what}: {key} did not change"
            rows[key] = row
    assert rows == {identity(row): row for row in now.rows().values()}, what


def check_images(kind: Kind, now: World, seen: World, changes: Any, what: str) -> None:
    """Each change with the row as it was seen, and as it is now."""
    identity = replace(kind, index="simple").identity
    old = {identity(row): row for row in replace(now, versions=seen.versions).rows().values()}
    new = {identity(row): row for row in now.rows().values()}
    told = [(row.pop("_change_type"), row) for row in _untimed(changes)]
    expected = [("insert", new[key]) for key in new.keys() - old.keys()]
    expected += [("delete", old[key]) for key in old.keys() - new.keys()]
    both = [key for key in old.keys() & new.keys() if old[key] != new[key]]
    expected += [("update_preimage", old[key]) for key in both] + [("update_postimage", new[key]) for key in both]
    check_same(told, expected, what)


def check_upserts(kind: Kind, now: World, seen: World, changes: Any, what: str) -> None:
    """Without kinds: rows that are there now and were not there so, and those that are gone."""
    identity = replace(kind, index="simple").identity
    old = {identity(row): row for row in replace(now, versions=seen.versions).rows().values()}
    new = {identity(row): row for row in now.rows().values()}
    told = [(row.pop("_change_type"), row) for row in _untimed(changes)]
    expected = [("upsert", row) for key, row in new.items() if old.get(key) != row]
    expected += [("delete", old[key]) for key in old.keys() - new.keys()]
    check_same(told, expected, what)


def check_same(found: Iterable[Any], expected: Iterable[Any], what: str) -> None:
    """The same values, as often, in any order."""
    left, more = list(expected), []
    for value in found:
        if value in left:
            left.remove(value)
        else:
            more.append(value)
    assert not left and not more, f"{what}: missing {left}, not expected {more}"


def _untimed(changes: Any) -> list[Row]:
    return [{n: v for n, v in row.items() if n != "_commit_completion_time"} for row in changes.to_arrow().to_pylist()]


def _version(kind: Kind, change: Change, request_time: str, place: int) -> Version:
    order = tuple(change.row.get(name) for name in kind.ordering)
    is_delete = change.is_delete or bool(change.row.get(SOFT))
    return Version(order, request_time, place, None if is_delete else dict(change.row), change.is_partial)


def _kept(old: tuple[Version, ...], new: Version) -> tuple[Version, ...]:
    return tuple(sorted((*old, new), key=lambda v: (v.order, v.request_time, v.place)))


def _stays(kind: Kind, old: tuple[Version, ...], new: Version) -> bool:
    """Whether a row that would move to another partition loses against the one that is there: then it is dropped whole."""
    there = _folded(old)
    moves = there is not None and new.values is not None and kind.partition(there) != kind.partition(new.values)
    return moves and bool(kind.ordering) and new.order < max(version.order for version in old)


def _placed(old: tuple[Version, ...], new: Version) -> tuple[Version, ...]:
    """Where writers look at the rows that are there, a row that is gone leaves nothing behind."""
    found = _kept(old, new)
    return () if _folded(found) is None else found


def _folded(versions: Iterable[Version]) -> Row | None:
    row: Row | None = None
    for version in versions:
        on_top = version.is_partial and version.values is not None
        row = {**(row or {}), **(version.values or {})} if on_top else version.values
    return row
