# SPDX-License-Identifier: Apache-2.0
"""Who may be refused, and who must be: by the rules of conflicts, overwrites, partial updates and schemas."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from lakebraid.errors import LakebraidError
from lakebraid.writing.result import WriteResult
from lakebraid.writing.transaction import Transaction
from tests.lives.kinds import Columns, Kind
from tests.lives.world import Change, World

if TYPE_CHECKING:
    from tests.lives.life import Life

OVERWRITES: Final = ("insert_overwrite", "insert_overwrite_table", "delete_partition")


@dataclass
class Open:
    """A transaction as its user knows it."""

    transaction: Transaction
    operation: str
    partial: tuple[str, ...] | None
    began: World
    seen: int
    """How many writes had completed when it began."""
    planned: int
    """How many plans had been made."""
    archivings: int = 0
    """How often the timeline had been archived."""
    changes: list[Change] = field(default_factory=list)
    columns: Columns = field(default_factory=dict)
    is_dead: bool = False
    calls: int = 0
    """How often it was given rows."""


@dataclass(frozen=True)
class Done:
    """A completed write."""

    request_time: str
    completion: str
    operation: str
    partitions: frozenset[Any] | None
    """None: all of them."""
    keys: frozenset[Any]


def done_of(kind: Kind, made: Open, result: WriteResult, partitions: set[Any] | None) -> Done:
    """A write that completed; of an overwrite, also which partitions it emptied."""
    touched: set[Any] | None = {kind.partition(change.row) for change in made.changes}
    if made.operation in ("insert_overwrite_table", "alter"):
        touched = None
    reached = touched if partitions is None else partitions
    keys = frozenset(kind.identity(change.row) for change in made.changes)
    where = None if reached is None else frozenset(reached)
    return Done(result.instant, result.completion_time, made.operation, where, keys)


def justified(refused: LakebraidError, reason: object) -> None:
    """Nobody is refused without a reason."""
    assert reason, f"refused without reason: {refused} {refused.facts}"


def is_excused(life: Life, made: Open) -> bool:
    """Whether somebody was in the way."""
    rivals = [done for done in life.done[made.seen :] if _meet(life, made, done)]
    plans = life.planned[made.planned :]
    kind = life.kind
    if kind.concurrency == "single" and life.living():
        return True
    if made.operation in OVERWRITES:
        return bool(rivals or plans or life.has_clusterings())
    if kind.is_placed or kind.concurrency == "occ":
        return bool(rivals or plans or life.has_clusterings())
    if any(done.operation in OVERWRITES for done in rivals):
        return True
    keys = {kind.identity(change.row) for change in made.changes}
    # Where changes are captured, a first write puts an empty base file into each new partition: nobody looks what is in it.
    # What was archived since it looked is not looked into: one of them may have brought the same keys.
    is_blind = life.archivings > made.archivings
    return made.partial is not None and (is_blind or any(keys & done.keys or kind.captures for done in rivals))


def _meet(life: Life, made: Open, done: Done) -> bool:
    """Whether a completed write may have touched the file groups of another; of services nobody knows."""
    if done.partitions is None or life.kind.is_global or made.operation in OVERWRITES:
        return True
    return any(life.kind.partition(change.row) in done.partitions for change in made.changes)


def must_be_refused(life: Life, made: Open) -> bool:
    if life.kind.concurrency != "occ" or life.kind.is_placed or made.operation in OVERWRITES:
        return False
    keys = {life.kind.identity(change.row) for change in made.changes}
    return any(keys & done.keys for done in life.done[made.seen :])


def schemas_clash(life: Life, made: Open) -> bool:
    began, now = made.began.columns, life.world.columns
    own = {**began, **made.columns}
    return own != began and list(now.items()) != list(began.items()) and own != now
