# SPDX-License-Identifier: Apache-2.0
"""What a table is, and whether it can be written: the result of an adoption."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lakebraid.table.grid import Grid, printable


class Verdict(enum.StrEnum):
    """What one aspect of a table means for writing it."""

    AS_IS = "as it is"
    CHANGE = "to be stated"
    IMPOSSIBLE = "in the way"


@dataclass(frozen=True, slots=True)
class Aspect:
    """One thing that matters to writers: what was found, what that means, and why or what to do."""

    topic: str
    found: str
    verdict: Verdict = Verdict.AS_IS
    why: str = ""


@dataclass(frozen=True, slots=True)
class Adoption:
    """What a table is, aspect by aspect, and what it must state so that it may be written; prints well."""

    path: str
    name: str
    aspects: tuple[Aspect, ...]
    lines: Mapping[str, str]
    """The lines of hoodie.properties that must be stated, each with its value; nothing if there are none."""
    keys: int
    """How many keys were looked at,"""
    slices: int
    """in so many file slices"""
    slices_all: int
    """of so many,"""
    partitions: int
    """in so many partitions"""
    partitions_all: int
    """of so many."""
    is_done: bool = False
    """Whether the lines were put into hoodie.properties."""
    undone: Mapping[str, str | None] = field(default_factory=dict)
    """Lines of an earlier adoption that were set back, each with its value now; None where there is none."""
    left: tuple[str, ...] = ()
    """Lines of it that another process has changed since, and that stayed as they are."""

    @property
    def is_possible(self) -> bool:
        """Whether nothing is in the way of writing the table, once the lines are stated."""
        return all(aspect.verdict is not Verdict.IMPOSSIBLE for aspect in self.aspects)

    @property
    def is_writable(self) -> bool:
        """Whether the table may be written now."""
        return self.is_possible and (self.is_done or not self.lines)

    @property
    def obstacles(self) -> tuple[Aspect, ...]:
        """What is in the way."""
        return tuple(aspect for aspect in self.aspects if aspect.verdict is Verdict.IMPOSSIBLE)

    def to_dict(self) -> dict[str, Any]:
        """The same in plain values, for JSON."""
        return {
            "path": self.path,
            "writable": self.is_writable,
            "possible": self.is_possible,
            "adopted": self.is_done,
            "aspects": [
                {"topic": a.topic, "found": a.found, "verdict": a.verdict.value, "why": a.why} for a in self.aspects
            ],
            "lines": dict(self.lines),
            "looked_at": {
                "keys": self.keys,
                "slices": self.slices,
                "slices_all": self.slices_all,
                "partitions": self.partitions,
                "partitions_all": self.partitions_all,
            },
            "undone": dict(self.undone),
            "left": list(self.left),
        }

    def __repr__(self) -> str:
        rows = [(a.topic, a.found, a.verdict.value) for a in self.aspects]
        parts = [f"Adoption of {printable(self.name)!r} at {printable(self.path)}", str(Grid(("", "found", ""), rows))]
        parts.append(
            f"Looked at: {self.keys:,} keys in {self.slices:,} of {self.slices_all:,} file slices, in "
            f"{self.partitions:,} of {self.partitions_all:,} partitions."
        )
        parts += [printable(f"{a.topic}: {a.why}") for a in self.aspects if a.why]
        if self.undone or self.left:
            parts.append(self._set_back())
        parts.append(self._outcome())
        return "\n\n".join(parts)

    def _outcome(self) -> str:
        if not self.is_possible:
            return "It cannot be written, and nothing was changed."
        if not self.lines:
            return "It can be written as it is."
        lines = "".join(f"\n  {printable(f'{key}={value}')}" for key, value in self.lines.items())
        if self.is_done:
            return f"It can be written now. Put into hoodie.properties (`lakebraid adopt --undo` takes them out again):{lines}"
        return f"It can be written once hoodie.properties state, as `lakebraid adopt` does:{lines}"

    def _set_back(self) -> str:
        set_back = [f"{key} (was {value})" if value is not None else key for key, value in self.undone.items()]
        text = f"Set back in hoodie.properties: {', '.join(set_back) or 'nothing'}."
        left = f" Changed by another process since, and left as they are: {', '.join(self.left)}." if self.left else ""
        return printable(text + left)
