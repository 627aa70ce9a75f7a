# SPDX-License-Identifier: Apache-2.0
"""The writes of a table: rows, changes of rows that are there, and of the schema."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, cast

from lakebraid.api.inflow import Inline, Trigger, start_stream
from lakebraid.api.maintenance import Maintenance
from lakebraid.api.writer import Writer
from lakebraid.errors import InvalidArgument
from lakebraid.model.config import MergeMode
from lakebraid.model.operations import Operation
from lakebraid.reading.plan import Where
from lakebraid.txn.actions.batches import forget_writer, is_published
from lakebraid.writing.operations.alter import Alteration
from lakebraid.writing.operations.conditional import MergeClauses, delete_rows, merge_part, source_rows, update_rows
from lakebraid.writing.operations.deletes import with_ordering
from lakebraid.writing.operations.overwrite import PartitionLike, check_there, partition_names
from lakebraid.writing.request import SchemaConflicts, WriteRequest
from lakebraid.writing.result import WriteResult
from lakebraid.writing.retry import change_rows, until_unhindered, write_rows
from lakebraid.writing.transaction import Afterwards, Transaction

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

Rows = Any
"""Rows to write: a Spark DataFrame, an Arrow table or reader, a pandas or polars DataFrame, a list of dictionaries."""


class Writes(Maintenance):
    """What a `Table` can be told to hold. No write waits for another one."""

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
        another way after this write began. `services="inline"` does what is due (compaction, cleaning, …) after the commit; errors
        of that are in the result. `writer` is the name that others see of this one; its process, if none is given.

        With `batch`, a number that rises from batch to batch of this `writer`, the write is published once at most,
        whichever process repeats it and however often: see `WriteResult.is_repeated`. All writes take both.
        """
        chosen = _tuple(columns)
        request = WriteRequest(operation, chosen, block_format, evolve, schema_conflict, writer, batch)
        if request.overwrites and columns is not None:
            raise InvalidArgument("An overwrite brings whole rows, so `columns` cannot go with it. Nothing was begun.")
        return self._destination.begin(request, self._afterwards(services))

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
        chosen = _tuple(columns)
        request = WriteRequest("upsert", chosen, block_format, evolve, schema_conflict, writer, batch)
        return write_rows(self._destination, request, rows, retries, self._afterwards(services))

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
        request = WriteRequest("insert", None, block_format, evolve, schema_conflict, writer, batch)
        return write_rows(self._destination, request, rows, retries, self._afterwards(services))

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
        request = WriteRequest("bulk_insert", None, block_format, evolve, schema_conflict, writer, batch)
        return write_rows(self._destination, request, rows, retries, self._afterwards(services))

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

        No reader sees anything in between, and earlier versions stay readable. If another writer publishes into one of
        the partitions before the commit, the overwrite is repeated automatically, up to `retries` times (30), so that it replaces
        those rows, too, and never drops them unseen.
        """
        request = WriteRequest(
            "insert_overwrite", evolve=evolve, schema_conflict=schema_conflict, writer=writer, batch=batch
        )
        return write_rows(self._destination, request, rows, retries, self._afterwards(services))

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
        request = WriteRequest(
            "insert_overwrite_table", evolve=evolve, schema_conflict=schema_conflict, writer=writer, batch=batch
        )
        return write_rows(self._destination, request, rows, retries, self._afterwards(services))

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
        now, table = self.snapshot(), self._destination
        names = partition_names(partitions, table.config, now.schema, table.source.url)
        if not missing_ok and not is_published(table.ledger(), writer, batch):
            check_there(names, (s.group.partition for s in now.slices), table.source.url)
        request = WriteRequest("delete_partition", partitions=names, writer=writer, batch=batch)
        afterwards = self._afterwards(services)
        return until_unhindered(lambda: table.begin(request, afterwards), retries, table.wait)

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
        found on Spark; if another writer changes one of them before the commit, the delete is repeated automatically.
        """
        if (keys is None) == (where is None):
            raise InvalidArgument("Give either keys or `where`. Nothing was deleted.")
        table, afterwards = self._destination, self._afterwards(services)
        request = WriteRequest("delete", writer=writer, batch=batch)
        if where is not None:
            return change_rows(
                table,
                request,
                lambda t, part: delete_rows(t, part.snapshot, table.config, where, None),
                self.snapshot,
                retries,
                afterwards,
            )
        if table.config.merge_mode is MergeMode.EVENT_TIME:
            keys = with_ordering(self.to_arrow, table.columns(), table.config, keys)
        return write_rows(table, request, keys, retries, afterwards)

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
        writer changes one of the rows before the commit, the update is repeated automatically, up to `retries` times.
        """
        config = self._destination.config
        return change_rows(
            self._destination,
            WriteRequest("upsert", writer=writer, batch=batch),
            lambda t, part: update_rows(t, part.snapshot, config, values, where, spark),
            self.snapshot,
            retries,
            self._afterwards(services),
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
        config = self._destination.config
        clauses = MergeClauses(on, matched_update, matched_delete, not_matched_insert)
        rows = source_rows(source, self._destination.columns(), config, clauses)
        return change_rows(
            self._destination,
            WriteRequest("upsert", writer=writer, batch=batch),
            lambda t, part: merge_part(t, part, config, rows, spark, clauses),
            self.snapshot,
            retries,
            self._afterwards(services),
        )

    def alter(self) -> Alteration:
        """Changes of the schema without rows: `t.alter().add("note", "string").widen("n", "bigint").commit()`."""
        table = self._destination
        return Alteration(lambda: table.begin(WriteRequest("alter_schema")), table.config)

    def stream(
        self,
        frame: DataFrame,
        *,
        writer: str,
        operation: str = "upsert",
        columns: Sequence[str] | None = None,
        checkpoint: str | None = None,
        trigger: Trigger = None,
        output_mode: str | None = None,
        evolve: bool = True,
        schema_conflict: SchemaConflicts | None = None,
        services: Inline = None,
    ) -> StreamingQuery:
        """Starts a query that writes a streaming data frame into the table, each batch once, beside any number of others.

        `writer` is the name of the stream; keep it over restarts, and give no two streams the same. The checkpoint of a
        table on a local disk lies in the table if no other place is given. `trigger` is a text, "10 seconds" or
        "available now", or a dictionary of Spark's own arguments. `columns` makes every batch a partial update.
        """
        request = WriteRequest(
            cast("Operation", operation), _tuple(columns), evolve=evolve, schema_conflict=schema_conflict, writer=writer
        )
        return start_stream(
            frame, self._destination, request, checkpoint, services, trigger=trigger, output_mode=output_mode
        )

    def writer(self, name: str, *, evolve: bool = True, schema_conflict: SchemaConflicts | None = None) -> Writer:
        """A writer for many small writes, each a commit: `with t.writer("orders") as w: w.upsert(rows)`.

        `name` is what others see. On an object store writes that follow within five seconds take less time so: each is begun while
        the one before is published, in tables whose writers never wait and in which ordering fields say which row wins. Of two
        rows with equal ordering values that of the write which began later wins, so one of a writer may then lose to another
        writer's that was there before.
        """
        return Writer(self._destination, WriteRequest(evolve=evolve, schema_conflict=schema_conflict, writer=name))

    def writers(self) -> dict[str, int]:
        """The newest batch of every writer that numbers its batches: that one and all before it are in the table."""
        state = self._destination.ledger().newest().state
        return {writer: batch.number for writer, batch in sorted(state.batches.items())}

    def forget_writer(self, name: str) -> bool:
        """Lets the batch numbers of a writer begin again; False if it has published none. Its rows stay.

        A batch that is repeated afterwards is written again: only for writers that never come again, or begin anew.
        """
        return forget_writer(self._destination.ledger(), name)

    def _afterwards(self, services: Inline) -> Afterwards | None:
        if services not in (None, "inline"):
            raise InvalidArgument(
                f"services={services!r:.40} is not known. Nothing was written. Give 'inline', or nothing and run "
                "`table.services.run()` in a process of its own."
            )
        return None if services is None else self.services.run_inline


def _tuple(columns: Sequence[str] | None) -> tuple[str, ...] | None:
    return None if columns is None else tuple(columns)
