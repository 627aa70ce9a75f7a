# SPDX-License-Identifier: Apache-2.0
"""The operations of writes: one table that says what each of them does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Operation = Literal[
    "upsert",
    "insert",
    "bulk_insert",
    "delete",
    "alter_schema",
    "insert_overwrite",
    "insert_overwrite_table",
    "delete_partition",
]


@dataclass(frozen=True, slots=True)
class Traits:
    """What an operation does."""

    has_tasks: bool = True
    """Whether tasks write files for it; a change of the schema has none."""
    is_spread: bool = False
    """Whether tasks can write its rows as they lie, without a shuffle."""
    is_streamed: bool = False
    """Whether a stream can do it with each batch of rows."""
    overwrites: bool = False
    """Whether its commit replaces file groups that are there."""
    leaves_none: bool = False
    """Whether no row that is there stays beside rows that it brings."""


KINDS: Final[dict[str, Traits]] = {
    "upsert": Traits(is_spread=True, is_streamed=True),
    "insert": Traits(is_spread=True, is_streamed=True),
    "bulk_insert": Traits(is_spread=True, is_streamed=True),
    "delete": Traits(is_spread=True, is_streamed=True),
    "insert_overwrite": Traits(is_streamed=True, overwrites=True),
    "insert_overwrite_table": Traits(is_streamed=True, overwrites=True, leaves_none=True),
    "delete_partition": Traits(overwrites=True, leaves_none=True),
    "alter_schema": Traits(has_tasks=False),
}
SPREAD: Final = tuple(name for name, kind in KINDS.items() if kind.is_spread)
STREAMED: Final = tuple(name for name, kind in KINDS.items() if kind.is_streamed)
WITH_TASKS: Final = tuple(name for name, kind in KINDS.items() if kind.has_tasks)
