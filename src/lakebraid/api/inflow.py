# SPDX-License-Identifier: Apache-2.0
"""A stream's way into a table: batch by batch, each published once."""

from __future__ import annotations

import json
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import quote, unquote

from lakebraid import limits
from lakebraid.clock import SystemClock
from lakebraid.errors import InvalidArgument, LakebraidError
from lakebraid.model.config import MergeMode, parse_config
from lakebraid.model.operations import STREAMED
from lakebraid.reading.plan import Source
from lakebraid.storage import LocalStorage, Storage, open_storage
from lakebraid.txn.actions.batches import named_batch
from lakebraid.txn.ledger.entries import FOLDER
from lakebraid.txn.writer import Writing
from lakebraid.writing.ahead import Series
from lakebraid.writing.operations.deletes import with_ordering
from lakebraid.writing.request import WriteRequest
from lakebraid.writing.retry import Destination, write_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from lakebraid.api.table import Table
    from lakebraid.writing.result import WriteResult

STREAMS: Final = f"{FOLDER}/streams"
"""Where checkpoints of streams lie that were given no other place."""
Inline = Literal["inline"] | None
Trigger = str | Mapping[str, Any] | None
_Opened = tuple["Table", Destination, str, Series]
"""The table of a stream, as readers and as writes know it, the id of the stream, and what it has begun ahead."""


@dataclass(frozen=True)
class Inflow:
    """Who writes what with each batch. Small, and it pickles: Spark Connect calls it in a process of its own."""

    source: Source
    request: WriteRequest
    """With the name of the stream as `writer`."""
    checkpoint: str | None = None
    services: Inline = None
    told: tuple[tuple[str, str], ...] = ()
    """How its writes get along with others, where that is not left to the table."""
    _opened: list[_Opened] = field(default_factory=list, compare=False, repr=False)

    def __call__(self, frame: Any, batch: int) -> None:
        """For `foreachBatch`."""
        self.write(frame, batch)

    def write(self, rows: Any, batch: int) -> WriteResult:
        """Publishes the batch, unless it is published."""
        if not self._opened:
            self._opened.append(self._open())
        table, destination, stream, series = self._opened[0]
        config = destination.config
        if self.request.operation == "delete" and config.merge_mode is MergeMode.EVENT_TIME:
            rows = with_ordering(table.to_arrow, destination.columns(), config, rows)
        afterwards = table.services.run_inline if self.services == "inline" else None
        request = replace(self.request, batch=batch, stream=stream)
        return write_rows(destination, request, rows, None, afterwards, series if afterwards is None else None)

    def _open(self) -> _Opened:
        from lakebraid.api.table import Table, told_table  # noqa: PLC0415  a table knows its streams, so this one comes late

        options, told = dict(self.source.options), dict(self.told)
        table = told_table(Table.open(self.source.url, options), told)
        config = parse_config(table.properties, table.path)
        writing = Writing(open_storage(self.source.url, options), SystemClock(), told)
        series = Series(writing)
        weakref.finalize(self, series.close)  # streams are not told when they end, but their process is
        return table, Destination(writing, self.source, config), stream_of(self.checkpoint), series

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": []}


def start_stream(
    frame: DataFrame,
    table: Destination,
    request: WriteRequest,
    checkpoint: str | None,
    services: Inline,
    *,
    trigger: Trigger,
    output_mode: str | None,
) -> StreamingQuery:
    """Starts the query that writes a streaming data frame, batch by batch; the writer of the request is its name."""
    writer, operation = request.writer or "", request.operation
    check_inflow(writer, operation)
    if request.is_partial and operation != "upsert":
        raise InvalidArgument(f"`columns` goes with upserts, not with {operation}. Nothing was begun.")
    if not frame.isStreaming:
        raise InvalidArgument(
            "This data frame is no stream. Nothing was begun. Write it with "
            f"`table.{operation}(frame, writer=…, batch=…)`, or read it with `spark.readStream`."
        )
    place = checkpoint or _checkpoint(table.writing.storage, writer)
    inflow = Inflow(table.source, request, place, services)
    query = frame.writeStream.queryName(writer).option("checkpointLocation", place).foreachBatch(inflow)
    query = query.outputMode(output_mode) if output_mode is not None else query
    told = trigger_of(trigger)
    return (query.trigger(**told) if told else query).start()


def _checkpoint(storage: Storage, writer: str) -> str:
    """Where Spark keeps the checkpoint of a stream that was given no place: in the table, on a local disk."""
    if not isinstance(storage, LocalStorage):
        raise InvalidArgument(
            f"{storage.url} is no local folder, so the stream {writer!r} needs a checkpoint elsewhere. Nothing was "
            "begun. Give checkpoint=…, a place that Spark can write."
        )
    return f"{storage.url}/{STREAMS}/{quote(writer, safe='')}"


def check_inflow(writer: str, operation: str) -> None:
    """InvalidArgument if a stream has no proper name, or cannot be written so."""
    named_batch(writer, 0)
    if operation not in STREAMED:
        raise InvalidArgument(
            f"A stream cannot be written with operation={operation!r:.40}. Nothing was begun. Use one of {', '.join(STREAMED)}."
        )


def stream_of(checkpoint: str | None) -> str:
    """The id that Spark gave a stream when it made its checkpoint; nothing if it cannot be read from here.

    Another checkpoint numbers its batches from 0 again. Without the id, its first batches would pass for done.
    """
    if checkpoint is None:
        return ""
    try:
        is_url = checkpoint.startswith("file:")
        place = unquote(checkpoint.removeprefix("file://").removeprefix("file:")) if is_url else checkpoint
        storage = open_storage(place)
        told = json.loads(storage.read("metadata", limits.PROPERTIES_BYTES_MAX))
    except (LakebraidError, ValueError):
        return ""
    found = told.get("id") if isinstance(told, dict) else None
    return found if isinstance(found, str) else ""


def trigger_of(trigger: Trigger) -> Mapping[str, Any]:
    """The arguments of Spark's `trigger`: "10 seconds" or "available now" as text, anything else by Spark's names."""
    if isinstance(trigger, str):
        words = trigger.lower().replace("_", " ").strip()
        return {"availableNow": True} if words in ("available now", "availablenow") else {"processingTime": trigger}
    return dict(trigger or {})
