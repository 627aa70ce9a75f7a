# SPDX-License-Identifier: Apache-2.0
"""What a caller wants written, as one value that is built once and handed on from attempt to attempt, and who writes its rows.

This is the one place that tells Spark's rows from others, and so chooses the engine of a write.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

import pyarrow as pa

from lakebraid import spark
from lakebraid.errors import InvalidArgument
from lakebraid.model.operations import KINDS, Operation
from lakebraid.storage.protocol import Storage
from lakebraid.tasks.engine import Engine, Evaluated, LocalEngine
from lakebraid.tasks.writing.inputs import as_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

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


class Engines:
    """The engines of one write: a local one, and Spark's as soon as a data frame comes."""

    def __init__(
        self,
        storage: Storage,
        tag: str,
        local: Engine | None = None,
        evaluated: Evaluated | None = None,
        ready: Callable[[], None] = lambda: None,
    ) -> None:
        """Spark's jobs run under `tag`, so that they can be cancelled; `local` writes what is no data frame.

        `ready` returns when data files may be put; until then they may be made, and announced.
        """
        self.ready = ready
        self.local = local or LocalEngine(storage, self.await_ready)
        self._storage, self._tag, self._evaluated = storage, tag, evaluated
        self._frames: Engine | None = None

    def await_ready(self) -> None:
        """Returns when data files may be put; RolledBack if the write has not begun."""
        self.ready()

    def of(self, data: Any) -> Engine:
        """The engine that writes these rows."""
        if not _is_frame(data):
            return self.local
        if self._frames is None:
            self.ready()
            self._frames = spark.engine.SparkEngine(self._storage, self._tag, self._evaluated)
        return self._frames

    @property
    def strongest(self) -> Engine:
        """The engine that writes all rows together that were kept: Spark's, if there was a data frame among them."""
        return self._frames or self.local

    def cancel(self) -> None:
        """Ends work that is under way, from any thread: it then raises."""
        self.strongest.cancel()


def taken(data: Any, columns: pa.Schema | None) -> pa.Table | DataFrame:
    """Rows as one Arrow table, with plain values in the types of `columns`; a Spark data frame stays what it is."""
    return data if _is_frame(data) else as_table(data, columns)


def stated_columns(data: Any) -> pa.Schema | None:
    """The columns of a data frame, which are known before its rows are; None for other rows."""
    return spark.write.arrow_schema_of(data) if _is_frame(data) else None


def arrow_schema(given: Any) -> Any:
    """A schema as the model takes it: Spark's own become Arrow's, everything else passes."""
    return spark.schemas.from_spark(given) if _is_of_spark(given, "StructType") else given


def _is_frame(data: object) -> bool:
    """Whether this is a Spark DataFrame, classic or Connect; pyspark is not imported to find out."""
    return _is_of_spark(data, "DataFrame")


def _is_of_spark(given: object, name: str) -> bool:
    return any(c.__name__ == name and c.__module__.startswith("pyspark.sql") for c in type(given).__mro__)
