# SPDX-License-Identifier: Apache-2.0
"""The writes of a table: rows, changes of rows that are there, and of the schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from lakebraid import limits
from lakebraid.api.altering import Alteration
from lakebraid.api.conditional import delete_rows, merge_rows, update_rows
from lakebraid.api.deleting import with_ordering
from lakebraid.api.inputs import frame_of, is_spark, repeatable
from lakebraid.api.own_schema import SchemaConflicts
from lakebraid.api.planning import Source, Where
from lakebraid.api.snapshot import Snapshot
from lakebraid.api.transaction import Operation, Transaction, WriteResult
from lakebraid.clock import Clock
from lakebraid.errors import InvalidArgument, SnapshotExpired, WriteConflict
from lakebraid.model.config import MergeMode, TableConfig
from lakebraid.services.runner import ServiceRound
from lakebraid.table.loading import pause
from lakebraid.txn.session import Writing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakebraid.api.services import Services

Inline = Literal["inline"] | None
Rows = Any
"""Rows to write: a Spark DataFrame, an Arrow table or reader, a pandas or polars DataFrame, a list of dictionaries."""


class Writes:
    """What a `Table` can be told to hold. No write waits for another one."""

    _source: Source
    _config: TableConfig
    _clock: Clock
    _writing: Writing
    if TYPE_CHECKING:  # the rest of the table, which these methods use

        def snapshot(self) -> Snapshot: ...
        def to_arrow(self, columns: Any) -> Any: ...
        @property
        def services(self) -> Services: ...

    def begin(
        self,
        operation: Operation = "upsert",
        *,
        columns: Sequence[str] | None = None,
        block_format: str = "parquet",
        evolve: bool = True,
        schema_conflict: SchemaConflicts | None = None,
        services: Inline = None,
    ) -> Transaction:
        """A write in steps: `txn.write(rows)` any number of times, then `txn.commit()` or `txn.abort()`.

        `columns` makes it a partial update: columns that are not named stay as they are. Its commit may raise
        WriteConflict, if another writer brought a row for a key that was new; then begin and write again. Rows may
        bring new columns and wider types, unless `evolve=False`; SchemaConflict if another writer changed the schema in
        another way meanwhile. `services="inline"` does what is due (compaction, cleaning, …) after the commit; errors
        of that are in the result.
        """
        return Transaction(
            self._writing,
            self._source,
            operation,
            columns=columns,
            block_format=block_format,
            evolve=evolve,
            schema_conflict=schema_conflict,
            afterwards=self._afterwards(services),
        )

    def upsert(
        self,
        rows: Rows,
        *,
        columns: Sequence[str] | None = None,
        block_format: str = "parquet",
        evolve: bool = True,
        schema_conflict: SchemaConflicts | None = None,
        retries: int | None = None,
        services: Inline = None,
    ) -> WriteResult:
        """Inserts rows, or changes those whose key is there; with `columns`, only these columns of them.

        Never waits for other writers, and is never refused because another one touched the same keys. A key that has no
        row yet gets one, with NULL in the columns that are not named; if two partial updates open a row for the same
        key at once, the second is done again by itself, so its rows may be read twice. `evolve` as in `begin`.
        In optimistic tables a refused write is done again up to `retries` times (30).
        """
        how = {"block_format": block_format, "evolve": evolve, "schema_conflict": schema_conflict}
        return self._write("upsert", rows, retries, columns=columns, afterwards=self._afterwards(services), **how)

    def insert(
        self,
        rows: Rows,
        *,
        block_format: str = "parquet",
        evolve: bool = True,
        schema_conflict: SchemaConflicts | None = None,
        retries: int | None = None,
        services: Inline = None,
    ) -> WriteResult:
        """Inserts rows. One whose key is there already is treated as an update. `evolve` as in `begin`."""
        how = {"block_format": block_format, "evolve": evolve, "schema_conflict": schema_conflict}
        return self._write("insert", rows, retries, afterwards=self._afterwards(services), **how)

    def bulk_insert(
        self,
        rows: Rows,
        *,
        block_format: str = "parquet",
        evolve: bool = True,
        schema_conflict: SchemaConflicts | None = None,
        retries: int | None = None,
        services: Inline = None,
    ) -> WriteResult:
        """Loads many rows; into a table without rows this writes base files at once, which is the fastest."""
        how = {"block_format": block_format, "evolve": evolve, "schema_conflict": schema_conflict}
        return self._write("bulk_insert", rows, retries, afterwards=self._afterwards(services), **how)

    def delete(
        self, keys: Rows = None, *, where: Where | None = None, services: Inline = None, retries: int | None = None
    ) -> WriteResult:
        """Deletes rows by their key columns, and by the partition columns of a partitioned table; or all that match `where`.

        Give the ordering columns as well to delete only what is not newer. Without them the rows as they are now are
        deleted: a later event may bring a key back, an older one that arrives late does not. With `where` the rows are
        found on Spark; if another writer changes one of them meanwhile, the whole is done again by itself.
        """
        if (keys is None) == (where is None):
            raise InvalidArgument("Give either keys or `where`. Nothing was deleted.")
        if where is not None:
            return self._change("delete", lambda t, s: delete_rows(t, s, self._config, where, None), retries, services)
        if self._config.merge_mode is MergeMode.EVENT_TIME:
            keys = with_ordering(self.to_arrow, self._config, keys)
        return self._write("delete", keys, afterwards=self._afterwards(services))

    def update(
        self,
        values: Mapping[str, Any],
        where: Where | None = None,
        *,
        spark: SparkSession | None = None,
        retries: int | None = None,
        services: Inline = None,
    ) -> WriteResult:
        """Gives columns of the matching rows new values, on Spark: `t.update({"n": "n + 1"}, where="town = 'here'")`.

        Values are SQL text, Spark columns or plain values that are no text; they see the row as it was. If another
        writer changes one of the rows meanwhile, the whole is done again by itself, up to `retries` times.
        """
        return self._change(
            "upsert", lambda t, s: update_rows(t, s, self._config, values, where, spark), retries, services
        )

    def merge(
        self,
        source: Any,
        on: str | Sequence[str] | None = None,
        *,
        matched_update: Literal["all"] | Mapping[str, Any] | None = "all",
        matched_delete: str | None = None,
        not_matched_insert: Literal["all"] | Mapping[str, Any] | None = "all",
        spark: SparkSession | None = None,
        retries: int | None = None,
        services: Inline = None,
    ) -> WriteResult:
        """Merges a source, a Spark data frame or rows of any other kind, into the table, on Spark.

        `on` is a column, several, or a condition over `t` (the table) and `s` (the source); without it the keys. Rows of
        the table that meet one are deleted if `matched_delete` holds, else updated: by the source's columns of the same
        name, or by given values (`{"n": "t.n + s.n"}`). Rows of the source that meet none are inserted. None leaves a step out.
        """
        frame = source if is_spark(source) else frame_of(source, spark)
        how: dict[str, Any] = {
            "on": on,
            "matched_update": matched_update,
            "matched_delete": matched_delete,
            "not_matched_insert": not_matched_insert,
        }
        return self._change("upsert", lambda t, s: merge_rows(t, s, self._config, frame, **how), retries, services)

    def alter(self) -> Alteration:
        """Changes of the schema without rows: `t.alter().add("note", "string").widen("n", "bigint").commit()`."""
        return Alteration(lambda: Transaction(self._writing, self._source, "alter_schema"), self._config)

    def _write(self, operation: Operation, rows: Any, retries: int | None = None, **how: Any) -> WriteResult:
        """The write, done again by itself if another writer was in the way: in optimistic tables and partial updates."""
        may_conflict = self._config.concurrency == "occ" or how.get("columns") is not None
        retries = retries if may_conflict else 0
        rows = rows if retries == 0 else repeatable(rows)
        return self._until_unhindered(
            lambda: Transaction(self._writing, self._source, operation, rows=rows, **how), retries
        )

    def _change(
        self,
        operation: Operation,
        compute: Callable[[Transaction, Snapshot], None],
        retries: int | None,
        services: Inline,
    ) -> WriteResult:
        """A write of what is computed from the rows that are there, done again if others change them meanwhile."""
        how: dict[str, Any] = {"is_isolated": True, "evolve": False, "afterwards": self._afterwards(services)}
        return self._until_unhindered(
            lambda: Transaction(self._writing, self._source, operation, **how),
            retries,
            lambda transaction: compute(transaction, self.snapshot()),
        )

    def _until_unhindered(
        self,
        begin: Callable[[], Transaction],
        retries: int | None,
        fill: Callable[[Transaction], None] | None = None,
    ) -> WriteResult:
        """Begins, fills and commits; again, up to so many times, if another writer was in the way."""
        again = limits.CONFLICT_RETRIES if retries is None else retries
        if again < 0:
            raise InvalidArgument("retries must not be negative. Nothing was changed.")
        attempt = 0
        while True:
            try:
                with begin() as transaction:
                    if fill is not None:
                        fill(transaction)
                    return replace(transaction.commit(), attempts=attempt + 1)
            except (WriteConflict, SnapshotExpired):  # the latter: a clean removed what was read
                if attempt == again:
                    raise
            pause(self._clock, attempt)
            attempt += 1

    def _afterwards(self, services: Inline) -> Callable[[], ServiceRound] | None:
        if services not in (None, "inline"):
            raise InvalidArgument(
                f"services={services!r:.40} is not known. Nothing was written. Give 'inline', or nothing and run "
                "`table.services.run()` in a process of its own."
            )
        return None if services is None else self.services.run_inline
