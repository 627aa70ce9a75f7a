# SPDX-License-Identifier: Apache-2.0
"""The columns of one write: the table's as it began, and what its rows have added since."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

from lakebraid.errors import InvalidArgument
from lakebraid.model.config import TableConfig
from lakebraid.model.creation.columns import check_ordering
from lakebraid.model.schema.conform import without_meta
from lakebraid.model.schema.growth import evolved
from lakebraid.model.schema.user_schema import fit_schema
from lakebraid.txn.ledger.rounds import Round
from lakebraid.txn.writer import TableSchema, Writing

SchemaConflicts = Literal["abort", "merge"]
"""What to do if another writer changed the schema, too: refuse by RFC-82, or join changes that fit together."""
SCHEMA_CONFLICT = "hoodie.lakebraid.schema.conflict"


@dataclass
class OwnSchema:
    """Which columns a write has, and what its commit says about the table's."""

    begun: TableSchema | None
    """The table's schema when the write began; None if nobody had stated one."""
    evolves: bool
    merges: bool
    own: pa.Schema | None = None

    @property
    def columns(self) -> pa.Schema | None:
        return self.own if self.own is not None or self.begun is None else self.begun.columns

    def grown(self, incoming: pa.Schema, config: TableConfig) -> pa.Schema:
        """The columns with these rows; whether another writer changed the table's meanwhile is seen at the commit."""
        columns = self.columns
        if columns is None:
            stated = fit_schema(without_meta(incoming))  # the first rows of a table without schema state it
            check_ordering(stated, config, "Nothing was written.")
            return stated
        return evolved(columns, incoming, config) if self.evolves else columns

    def restate(self, change: Callable[[pa.Schema], pa.Schema], url: str) -> None:
        columns = self.columns
        if columns is None:
            raise InvalidArgument(
                f"{url} has no columns yet, so there are none to change. Nothing was changed. Write rows: they state them."
            )
        self.own = change(columns)

    def stated(self, now: Round, writing: Writing) -> dict[str, str]:
        """What the commit says in this round; SchemaConflict if another writer's change is in the way."""
        own = self.columns
        return {} if own is None else {"schema": writing.schema_text(now, self.begun, own, merges=self.merges)}


def check_answer(given: str | None) -> str | None:
    """What to do about conflicting schemas, as given; InvalidArgument if it is no such thing."""
    if given not in (None, "abort", "merge"):
        raise InvalidArgument(f"schema_conflict={given!r} is not known. Nothing was begun. Use 'abort' or 'merge'.")
    return given
