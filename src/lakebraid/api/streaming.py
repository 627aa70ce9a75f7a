# SPDX-License-Identifier: Apache-2.0
"""Streams into a table, and the writers that number their batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, cast
from urllib.parse import quote

from lakebraid.api.inflow import STREAMS, Inflow, Trigger, check_inflow, trigger_of
from lakebraid.errors import InvalidArgument
from lakebraid.model.config import TableConfig
from lakebraid.model.operations import Operation
from lakebraid.reading.plan import Source
from lakebraid.storage import LocalStorage, Storage
from lakebraid.txn.actions.batches import forget_writer
from lakebraid.txn.writer import Writing
from lakebraid.writing.request import SchemaConflicts, WriteRequest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery


class Streaming:
    """What a `Table` knows of those who write batch after batch."""

    _storage: Storage
    _source: Source
    _config: TableConfig
    _writing: Writing

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
        services: Literal["inline"] | None = None,
    ) -> StreamingQuery:
        """Starts a query that writes a streaming data frame into the table, each batch once, beside any number of others.

        `writer` is the name of the stream; keep it over restarts, and give no two streams the same. The checkpoint of a
        table on a local disk lies in the table if no other place is given. `trigger` is a text, "10 seconds" or
        "available now", or a dictionary of Spark's own arguments. `columns` makes every batch a partial update.
        """
        check_inflow(writer, operation)
        if columns is not None and operation != "upsert":
            raise InvalidArgument(f"`columns` goes with upserts, not with {operation}. Nothing was begun.")
        if not frame.isStreaming:
            raise InvalidArgument(
                "This data frame is no stream. Nothing was begun. Write it with "
                f"`table.{operation}(frame, writer=…, batch=…)`, or read it with `spark.readStream`."
            )
        place = checkpoint or self._checkpoint(writer)
        request = WriteRequest(
            cast("Operation", operation),
            None if columns is None else tuple(columns),
            evolve=evolve,
            schema_conflict=schema_conflict,
            writer=writer,
        )
        inflow = Inflow(self._source, request, place, services)
        query = frame.writeStream.queryName(writer).option("checkpointLocation", place).foreachBatch(inflow)
        query = query.outputMode(output_mode) if output_mode is not None else query
        told = trigger_of(trigger)
        return (query.trigger(**told) if told else query).start()

    def writers(self) -> dict[str, int]:
        """The newest batch of every writer that numbers its batches: that one and all before it are in the table."""
        state = self._writing.ledger(self._config).newest().state
        return {writer: batch.number for writer, batch in sorted(state.batches.items())}

    def forget_writer(self, name: str) -> bool:
        """Lets the batch numbers of a writer begin again; False if it has published none. Its rows stay.

        A batch that is repeated afterwards is written again: only for writers that never come again, or begin anew.
        """
        return forget_writer(self._writing.ledger(self._config), name)

    def _checkpoint(self, writer: str) -> str:
        if not isinstance(self._storage, LocalStorage):
            raise InvalidArgument(
                f"{self._storage.url} is no local folder, so the stream {writer!r} needs a checkpoint elsewhere. Nothing was "
                "begun. Give checkpoint=…, a place that Spark can write."
            )
        return f"{self._storage.url}/{STREAMS}/{quote(writer, safe='')}"
