# SPDX-License-Identifier: Apache-2.0
"""Which log blocks count, and in which order: log compaction chains, rollback commands, unfinished instants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BlockOrigin:
    """What decides over a block: the instant that wrote it, and the instants it stands for or undoes."""

    instant_time: str
    compacted_times: tuple[str, ...] = ()
    rolls_back: str | None = None
    holds_rows: bool = True
    """Whether it has rows that count: of a data or delete block, by a write that is visible."""


@dataclass(frozen=True, slots=True)
class Ordered:
    """A block that counts: its position among the blocks given, and the request time at which its rows rank."""

    index: int
    request_time: str


def place_blocks(blocks: Sequence[BlockOrigin]) -> list[Ordered]:
    """The blocks that count, in merging order (table versions 8 and 9).

    A log-compacted block replaces the instants it names, at the place of the newest of them; those may be compacted
    blocks themselves.

    >>> t1, t2, t3 = BlockOrigin("1"), BlockOrigin("2"), BlockOrigin("3")
    >>> [(p.index, p.request_time) for p in place_blocks([t1, t2, t3, BlockOrigin("4", ("1", "2"))])]
    [(3, '2'), (2, '3')]
    """
    compacted = {b.instant_time: b.compacted_times for b in blocks if b.compacted_times}
    replaced = {time for times in compacted.values() for time in times}
    placed = [
        Ordered(index, _place(block.instant_time, compacted))
        for index, block in enumerate(blocks)
        if block.holds_rows and block.instant_time not in replaced
    ]
    return sorted(placed, key=lambda p: (p.request_time, p.index))


def _place(time: str, compacted: dict[str, tuple[str, ...]]) -> str:
    """The newest of the plain instants that a block stands for, following chains; a cycle ends where it began."""
    newest, seen, todo = "", set(), [time]
    while todo:
        current = todo.pop()
        if current in seen:
            continue
        seen.add(current)
        if current in compacted:
            todo.extend(compacted[current])
        else:
            newest = max(newest, current)
    return newest or time


def place_blocks_layout1(blocks: Sequence[BlockOrigin]) -> list[Ordered]:
    """The same for table version 6, where instants share a file: in file order, and a rollback command undoes the
    blocks of its target that came before it.
    """
    undone: set[int] = set()
    before: dict[str, list[int]] = {}
    for index, block in enumerate(blocks):
        if block.rolls_back is not None:
            undone.update(before.pop(block.rolls_back, ()))
        before.setdefault(block.instant_time, []).append(index)
    return [
        Ordered(index, block.instant_time)
        for index, block in enumerate(blocks)
        if block.holds_rows and index not in undone
    ]
