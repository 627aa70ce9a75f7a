# SPDX-License-Identifier: Apache-2.0
"""A stream's way into a table: batch by batch, each published once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from lakebraid import limits
from lakebraid.errors import InvalidArgument, LakebraidError
from lakebraid.model.config import MergeMode
from lakebraid.storage import open_storage
from lakebraid.txn.actions.batches import named_batch
from lakebraid.txn.ledger.entries import FOLDER
from lakebraid.writing.operations.deletes import with_ordering

if TYPE_CHECKING:
    from lakebraid.api.table import Table
    from lakebraid.writing.result import WriteResult

STREAMS: Final = f"{FOLDER}/streams"
"""Where checkpoints of streams lie that were given no other place."""
STREAMED: Final = ("upsert", "insert", "bulk_insert", "delete", "insert_overwrite", "insert_overwrite_table")
"""What can be done with a batch of rows."""


@dataclass(frozen=True)
class Inflow:
    """Who writes what with each batch. Small, and it pickles: Spark Connect calls it in a process of its own."""

    url: str
    options: tuple[tuple[str, str], ...]
    writer: str
    operation: str = "upsert"
    how: tuple[tuple[str, Any], ...] = ()
    checkpoint: str | None = None
    services: Any = None
    told: tuple[tuple[str, str], ...] = ()
    """How its writes get along with others, where that is not left to the table."""
    _opened: list[Any] = field(default_factory=list, compare=False, repr=False)

    def __call__(self, frame: Any, batch: int) -> None:
        """For `foreachBatch`."""
        self.write(frame, batch)

    def write(self, rows: Any, batch: int) -> WriteResult:
        """Publishes the batch, unless it is published."""
        if not self._opened:
            self._opened.append(self._open())
        table, stream = self._opened[0]
        if self.operation == "delete" and table._config.merge_mode is MergeMode.EVENT_TIME:  # noqa: SLF001  its friend
            columns = table._writing.columns(table._config)  # noqa: SLF001  the same
            rows = with_ordering(table.to_arrow, columns, table._config, rows)  # noqa: SLF001  the same
        how = dict(self.how)
        how |= {"writer": self.writer, "batch": batch, "stream": stream}
        afterwards = table._afterwards(self.services)  # noqa: SLF001  the same
        done: WriteResult = table._write(self.operation, rows, afterwards=afterwards, **how)  # noqa: SLF001  the same
        return done

    def _open(self) -> tuple[Table, str]:
        from lakebraid.api.table import Table  # noqa: PLC0415  a table knows its streams, so this one comes late

        table = Table.open(self.url, dict(self.options))
        return table._writing_as(dict(self.told)), stream_of(self.checkpoint)  # noqa: SLF001  its friend

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": []}


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


Trigger = str | Mapping[str, Any] | None


def trigger_of(trigger: Trigger) -> Mapping[str, Any]:
    """The arguments of Spark's `trigger`: "10 seconds" or "available now" as text, anything else by Spark's names."""
    if isinstance(trigger, str):
        words = trigger.lower().replace("_", " ").strip()
        return {"availableNow": True} if words in ("available now", "availablenow") else {"processingTime": trigger}
    return dict(trigger or {})
