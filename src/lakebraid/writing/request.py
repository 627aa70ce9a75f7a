# SPDX-License-Identifier: Apache-2.0
"""What a caller wants written, as one value: it is built once, and handed on from attempt to attempt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from lakebraid.errors import InvalidArgument
from lakebraid.model.operations import KINDS, Operation

SchemaConflicts = Literal["abort", "merge"]
"""What to do if another writer changed the schema, too: refuse by RFC-82, or join changes that fit together."""
SCHEMA_CONFLICT: Final = "hoodie.lakebraid.schema.conflict"


@dataclass(frozen=True, slots=True)
class WriteRequest:
    """One write, without its rows. It pickles: streams and Spark's data source carry it to other processes."""

    operation: Operation = "upsert"
    columns: tuple[str, ...] | None = None
    """For a partial update: the only columns that are written."""
    block_format: str = "parquet"
    evolve: bool = True
    """Whether rows may bring new columns and wider types."""
    schema_conflict: SchemaConflicts | None = None
    """None leaves it to the table's properties."""
    writer: str | None = None
    """The name that others see; None for that of the process."""
    batch: int | None = None
    """The number of the batch, for a writer that publishes each batch once."""
    stream: str = ""
    """The id of the stream that numbers the batches."""
    token: str | None = None
    """Writes with the same token are the same write, as long as it is open; None for a new one."""
    partitions: frozenset[str] = frozenset()
    """The partitions of a `delete_partition`."""
    is_isolated: bool = False
    """Whether its rows are computed from rows that are read after it began: its commit is refused if another writer has
    changed those."""
    repeats: bool = False
    """Whether the caller does it again when it is refused: then it is not refused where that would change nothing."""

    @property
    def overwrites(self) -> bool:
        """Whether its commit replaces file groups that are there."""
        kind = KINDS.get(self.operation)
        return kind is not None and kind.overwrites

    @property
    def is_partial(self) -> bool:
        """Whether it leaves some columns of its rows as they are."""
        return self.columns is not None


def check_schema_conflict(given: str | None) -> None:
    """InvalidArgument if this is no answer to a conflict of schemas."""
    if given not in (None, "abort", "merge"):
        raise InvalidArgument(f"schema_conflict={given!r} is not known. Nothing was begun. Use 'abort' or 'merge'.")
