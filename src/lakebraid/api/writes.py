# SPDX-License-Identifier: Apache-2.0
"""The writes of a table: rows, changes of rows that are there, and of the schema."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from lakebraid import limits
from lakebraid.clock import Clock
from lakebraid.errors import InvalidArgument, SnapshotExpired, WriteConflict
from lakebraid.model.config import MergeMode, TableConfig
from lakebraid.reading.plan import Source, Where
from lakebraid.reading.snapshot import Snapshot
from lakebraid.services.runner import ServiceRound
from lakebraid.table.loading import pause
from lakebraid.txn.actions.batches import named_batch
from lakebraid.txn.checks.single_writer import ALONE
from lakebraid.txn.liveness.waiting import stand_aside
from lakebraid.txn.writer import Writing
from lakebraid.writing.evaluated import Evaluated
from lakebraid.writing.inputs import is_repeatable, is_spark, repeatable
from lakebraid.writing.operations.alter import Alteration
from lakebraid.writing.operations.conditional import delete_rows, merge_part, source_rows, update_rows
from lakebraid.writing.operations.deletes import with_ordering
from lakebraid.writing.operations.overwrite import OVERWRITES, PartitionLike, check_there, partition_names
from lakebraid.writing.result import Operation, WriteResult
from lakebraid.writing.retry import Part, Redoing
from lakebraid.writing.schema import SchemaConflicts
from lakebraid.writing.transaction import Transaction

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
        writer: str | None = None,
        batch: int | None = None,
    ) -> Transaction:
        """A write in steps: `txn.write(rows)` any number of times, then `txn.commit()` or `txn.abort()`.

        `columns` makes it a partial update: columns that are not named stay as they are. Its commit may raise
        WriteConflict, if another writer brought a row for a key that was new; then begin and write again. Rows may
        bring new columns and wider types, unless `evolve=False`; SchemaConflict if another writer changed the schema in
        another way meanwhile. `services="inline"` does what is due (compaction, cleaning, …) after the commit; errors
        of that are in the result. `writer` is the name that others see of this one; its process, if none is given.

        With `batch`, a number that rises from batch to batch of this `writer`, the write is published once at most,
        whoever repeats it and however often: see `WriteResult.is_repeated`. All writes take both.
        """
        if operation in OVERWRITES and columns is not None:
            raise InvalidArgument("An overwrite brings whole rows, so `columns` cannot go with it. Nothing was begun.")
        return Transaction(
            self._writing,
            self._source,
            operation,
            columns=columns,
            block_format=block_format,
            evolve=evolve,
            schema_conflict=schema_conflict,
            writer=writer,
            batch=batch,
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
        writer: str | None = None,
        batch: int | None = None,
    ) -> WriteResult:
        """Inserts rows, or changes those whose key is there; with `columns`, only these columns of them.

        Never waits for other writers, and is never refused because another one touched the same keys. A key that has no
        row yet gets one, with NULL in the columns that are not named; if two partial updates open a row for the same
        key at once, the second is done again by itself, so its rows may be read twice. `evolve` as in `begin`.
        In optimistic tables a refused write is done again up to `retries` times (30).
        """
        how = {"block_format": block_format, "evolve": evolve, "schema_conflict": schema_conflict}
        how |= {"columns": columns, "writer": writer, "batch": batch}
        return self._write("upsert", rows, retries, afterwards=self._afterwards(services), **how)

    def insert(
        self,
        rows: Rows,
        *,
        block_format: str = "parquet",
        evolve: bool = True,
        schema_conflict: SchemaConflicts | None = None,
        retries: int | None = None,
        services: Inline = None,
        writer: str | None = None,
        batch: int | None = None,
    ) -> WriteResult:
        """Inserts rows. One whose key is there already is treated as an update. `evolve` as in `begin`."""
        how = {"block_format": block_format, "evolve": evolve, "schema_conflict": schema_conflict}
        how |= {"writer": writer, "batch": batch}
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
        writer: str | None = None,
        batch: int | None = None,
    ) -> WriteResult:
        """Loads many rows; into a table without rows this writes base files at once, which is the fastest."""
        how = {"block_format": block_format, "evolve": evolve, "schema_conflict": schema_conflict}
        how |= {"writer": writer, "batch": batch}
        return self._write("bulk_insert", rows, retries, afterwards=self._afterwards(services), **how)

    def insert_overwrite(
        self,
        rows: Rows,
        *,
        evolve: bool = True,
        schema_conflict: SchemaConflicts | None = None,
        retries: int | None = None,
        services: Inline = None,
        writer: str | None = None,
        batch: int | None = None,
    ) -> WriteResult:
        """Puts these rows in the place of all rows of the partitions that they belong to; other partitions stay.

        Nobody sees anything in between, and earlier versions stay readable. If another writer publishes into one of the
        partitions meanwhile, the overwrite is done again by itself, up to `retries` times (30), so that it replaces
        those rows, too, and never drops them unseen.
        """
        how = {"evolve": evolve, "schema_conflict": schema_conflict, "afterwards": self._afterwards(services)}
        return self._write("insert_overwrite", rows, retries, writer=writer, batch=batch, **how)

    def insert_overwrite_table(
        self,
        rows: Rows,
        *,
        evolve: bool = True,
        schema_conflict: SchemaConflicts | None = None,
        retries: int | None = None,
        services: Inline = None,
        writer: str | None = None,
        batch: int | None = None,
    ) -> WriteResult:
        """Puts these rows in the place of all rows of the table; no rows empty it. Otherwise as `insert_overwrite`."""
        how = {"evolve": evolve, "schema_conflict": schema_conflict, "afterwards": self._afterwards(services)}
        return self._write("insert_overwrite_table", rows, retries, writer=writer, batch=batch, **how)

    def delete_partitions(
        self,
        partitions: Iterable[PartitionLike],
        *,
        missing_ok: bool = False,
        retries: int | None = None,
        services: Inline = None,
        writer: str | None = None,
        batch: int | None = None,
    ) -> WriteResult:
        """Deletes all rows of these partitions, without reading them: `t.delete_partitions(["town=here"])`.

        A partition is its path, or its values: by name, `{"town": "here"}`, or in the order of the partition columns,
        `("here",)`. One that is not there is an error, unless `missing_ok`. Conflicts are as with `insert_overwrite`.
        """
        now = self.snapshot()
        names = partition_names(partitions, self._config, now.schema, self._source.url)
        if not missing_ok and not self._is_published(writer, batch):
            check_there(names, (s.group.partition for s in now.slices), self._source.url)
        how: dict[str, Any] = {"partitions": names, "afterwards": self._afterwards(services)}
        how |= {"writer": writer, "batch": batch}
        return self._until_unhindered(
            lambda: Transaction(self._writing, self._source, "delete_partition", **how), retries, wait=self._stand_aside
        )

    def delete(
        self,
        keys: Rows = None,
        *,
        where: Where | None = None,
        services: Inline = None,
        retries: int | None = None,
        writer: str | None = None,
        batch: int | None = None,
    ) -> WriteResult:
        """Deletes rows by their key columns, and by the partition columns of a partitioned table; or all that match `where`.

        Give the ordering columns as well to delete only what is not newer. Without them the rows as they are now are
        deleted: a later event may bring a key back, an older one that arrives late does not. With `where` the rows are
        found on Spark; if another writer changes one of them meanwhile, it is done again by itself.
        """
        if (keys is None) == (where is None):
            raise InvalidArgument("Give either keys or `where`. Nothing was deleted.")
        how: dict[str, Any] = {"afterwards": self._afterwards(services), "writer": writer, "batch": batch}
        if where is not None:
            return self._change(
                "delete", lambda t, p: delete_rows(t, p.snapshot, self._config, where, None), retries, how
            )
        if self._config.merge_mode is MergeMode.EVENT_TIME:
            keys = with_ordering(self.to_arrow, self._writing.columns(self._config), self._config, keys)
        return self._write("delete", keys, retries, **how)

    def update(
        self,
        values: Mapping[str, Any],
        where: Where | None = None,
        *,
        spark: SparkSession | None = None,
        retries: int | None = None,
        services: Inline = None,
        writer: str | None = None,
        batch: int | None = None,
    ) -> WriteResult:
        """Gives columns of the matching rows new values, on Spark: `t.update({"n": "n + 1"}, where="town = 'here'")`.

        Values are SQL text, Spark columns or plain values that are no text; they see the row as it was. If another
        writer changes one of the rows meanwhile, it is done again by itself, up to `retries` times.
        """
        named: dict[str, Any] = {"afterwards": self._afterwards(services), "writer": writer, "batch": batch}
        return self._change(
            "upsert", lambda t, p: update_rows(t, p.snapshot, self._config, values, where, spark), retries, named
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
        writer: str | None = None,
        batch: int | None = None,
    ) -> WriteResult:
        """Merges a source, a Spark data frame or rows of any other kind, into the table, on Spark.

        `on` is a column, several, or a condition over `t` (the table) and `s` (the source); without it the keys. Rows of
        the table that meet one are deleted if `matched_delete` holds, else updated: by the source's columns of the same
        name, or by given values (`{"n": "t.n + s.n"}`). Rows of the source that meet none are inserted. None leaves a step out.
        """
        how: dict[str, Any] = {
            "on": on,
            "matched_update": matched_update,
            "matched_delete": matched_delete,
            "not_matched_insert": not_matched_insert,
        }
        named: dict[str, Any] = {"afterwards": self._afterwards(services), "writer": writer, "batch": batch}
        columns = self._writing.columns(self._config)
        rows = source if is_spark(source) else source_rows(source, columns, self._config, how)
        return self._change("upsert", lambda t, p: merge_part(t, p, self._config, rows, spark, **how), retries, named)

    def alter(self) -> Alteration:
        """Changes of the schema without rows: `t.alter().add("note", "string").widen("n", "bigint").commit()`."""
        return Alteration(lambda: Transaction(self._writing, self._source, "alter_schema"), self._config)

    def _write(self, operation: Operation, rows: Any, retries: int | None = None, **how: Any) -> WriteResult:
        """The write, done again by itself if another writer was in the way.

        In optimistic tables, overwrites and partial updates that is to be expected, so rows that can be taken once only
        are kept. Elsewhere only an overwrite can be in the way: then rows that can be taken again are.
        """
        is_likely = (
            self._config.concurrency == "occ"
            or self._config.is_placed
            or how.get("columns") is not None
            or operation in OVERWRITES
        )
        if is_likely and retries != 0:
            rows = repeatable(rows)
        retries = retries if is_likely or is_repeatable(rows) else 0
        how |= {"rows": rows, "repeats": retries != 0}
        evaluated = Evaluated() if is_likely and retries != 0 and is_spark(rows) else None
        try:
            return self._until_unhindered(
                lambda: Transaction(self._writing, self._source, operation, evaluated=evaluated, **how),
                retries,
                wait=self._stand_aside,
            )
        finally:
            if evaluated is not None:
                evaluated.release()

    def _change(
        self,
        operation: Operation,
        compute: Callable[[Transaction, Part], bool],
        retries: int | None,
        named: Mapping[str, Any],
    ) -> WriteResult:
        """A write of what is computed from the rows that are there, done again if others change them meanwhile.

        `compute` says whether the rows of a file group follow from that group alone: then they are kept for the next
        attempt, which computes those of the groups that were touched.
        """
        how: dict[str, Any] = {"is_isolated": True, "evolve": False, "repeats": retries != 0, **named}
        redoing = Redoing(self._config)

        def fill(transaction: Transaction) -> None:
            snapshot = self.snapshot()
            transaction._read(snapshot._view.timeline)  # noqa: SLF001  the other half of one thing
            part = redoing.part(snapshot)
            is_by_group = compute(transaction, part)
            for piece in part.kept:
                transaction._write_again(piece)  # noqa: SLF001  the other half of one thing
            redoing.keep(snapshot, transaction._rows_kept if is_by_group else None)  # noqa: SLF001  the same

        return self._until_unhindered(
            lambda: Transaction(self._writing, self._source, operation, **how), retries, fill, self._stand_aside
        )

    def _until_unhindered(
        self,
        begin: Callable[[], Transaction],
        retries: int | None,
        fill: Callable[[Transaction], None] | None = None,
        wait: Callable[[WriteConflict | SnapshotExpired, int], None] | None = None,
    ) -> WriteResult:
        """Begins, fills and commits; after a `wait` again, up to so many times, if another writer was in the way."""
        again = limits.CONFLICT_RETRIES if retries is None else retries
        if again < 0:
            raise InvalidArgument("retries must not be negative. Nothing was changed.")
        attempt = 0
        while True:
            try:
                with begin() as transaction:
                    if fill is not None and not transaction.is_repeated:
                        fill(transaction)
                    return replace(transaction.commit(), attempts=attempt + 1)
            except (WriteConflict, SnapshotExpired) as error:  # the latter: a clean removed what was read
                if attempt == again or error.facts.get("rule") == ALONE:
                    raise
                if wait is None:
                    pause(self._clock, attempt)
                else:
                    wait(error, attempt)
            attempt += 1

    def _stand_aside(self, error: WriteConflict | SnapshotExpired, attempt: int) -> None:
        """Waits before a refused write is done again."""
        if isinstance(error, WriteConflict) and (self._config.concurrency == "occ" or self._config.is_placed):
            stand_aside(self._writing.ledger(self._config), error, attempt)
        else:
            pause(self._clock, attempt)  # where writers never wait, others are always there and in nobody's way

    def _is_published(self, writer: str | None, batch: int | None) -> bool:
        named = named_batch(writer, batch)
        if named is None:
            return False
        known = self._writing.ledger(self._config).newest().state.batches.get(named.writer)
        return known is not None and named.number <= known.number

    def _afterwards(self, services: Inline) -> Callable[[], ServiceRound] | None:
        if services not in (None, "inline"):
            raise InvalidArgument(
                f"services={services!r:.40} is not known. Nothing was written. Give 'inline', or nothing and run "
                "`table.services.run()` in a process of its own."
            )
        return None if services is None else self.services.run_inline
