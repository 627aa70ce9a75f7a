# SPDX-License-Identifier: Apache-2.0
"""The rows of a data frame as the first attempt of a write found them: evaluated once, however often it is done again."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pyarrow as pa

from lakebraid import limits

if TYPE_CHECKING:
    from lakebraid.spark.place import KeptFrame


class Evaluated:
    """What the attempts of one write hand on to the next.

    Few rows are kept in the driver. Many of a placed write are kept on Spark until all is over; those that tasks have
    put into log files are in no process any more, and are evaluated anew.
    """

    def __init__(self) -> None:
        self.rows: pa.Table | None = None
        self._frame: tuple[pa.Schema, KeptFrame] | None = None

    def keep(self, rows: pa.Table | None) -> None:
        """Takes the rows of a frame, if all of them came to the driver and are not too many."""
        if rows is not None and rows.nbytes <= limits.REDONE_BYTES_MAX:
            self.rows = rows

    def placed(self, schema: pa.Schema, evaluate: Callable[[], KeptFrame | pa.Table]) -> KeptFrame | pa.Table:
        """The rows as columns of this schema; the frame is evaluated if nobody has, or if the table has other columns now."""
        if self.rows is not None:
            return self.rows
        if self._frame is not None and self._frame[0].equals(schema):
            return self._frame[1]
        self.release()
        found = evaluate()
        if isinstance(found, pa.Table):
            self.keep(found)
        else:
            self._frame = (schema, found)
        return found

    def release(self) -> None:
        """Lets go of what is kept on Spark."""
        if self._frame is not None:
            from lakebraid.spark.place import release  # noqa: PLC0415  only those who use Spark pay for it

            release([self._frame[1]])
            self._frame = None
