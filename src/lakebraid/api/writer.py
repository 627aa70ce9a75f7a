# SPDX-License-Identifier: Apache-2.0
"""One writer that writes again and again."""

from __future__ import annotations

import weakref
from dataclasses import replace
from typing import Any, Self

from lakebraid.writing.ahead import Series
from lakebraid.writing.request import WriteRequest
from lakebraid.writing.result import WriteResult
from lakebraid.writing.retry import Destination, write_rows


class Writer:
    """Writes one after the other by one named writer: `with t.writer("orders") as w: w.upsert(rows)`.

    Each is a commit of its own, as by `Table.upsert`. On an object store, where it makes no difference to the answer, each but the
    first ones is begun while the one before is published, so it takes less time. One that is begun and that no rows come for is
    rolled back: at the end of the block, or after five seconds.
    """

    def __init__(self, destination: Destination, request: WriteRequest) -> None:
        """`Table.writer` makes one."""
        self._destination, self._request, self._series = destination, request, Series(destination.writing)
        weakref.finalize(self, self._series.close)  # also when the process ends

    def upsert(self, rows: Any, *, batch: int | None = None, retries: int | None = None) -> WriteResult:
        """Inserts rows, or changes those whose key is there, as `Table.upsert`."""
        return self._write(replace(self._request, operation="upsert", batch=batch), rows, retries)

    def insert(self, rows: Any, *, batch: int | None = None, retries: int | None = None) -> WriteResult:
        """Inserts rows, as `Table.insert`."""
        return self._write(replace(self._request, operation="insert", batch=batch), rows, retries)

    def close(self) -> None:
        """Leaves nothing open. It may write on afterwards."""
        self._series.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _write(self, request: WriteRequest, rows: Any, retries: int | None) -> WriteResult:
        return write_rows(self._destination, request, rows, retries, series=self._series)
