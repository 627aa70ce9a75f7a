# SPDX-License-Identifier: Apache-2.0
"""A driver of one stream, in a process of its own, that is killed between the commit of a batch and its checkpoint."""

from __future__ import annotations

import os
import signal
import sys

import lakebraid as lb
from lakebraid.api import inflow


def main(table: str, source: str, last: int) -> None:
    """Writes the files of a folder, one in each batch, and dies right after the batch `last` was published."""
    write = inflow.Inflow.write

    def dying(self: inflow.Inflow, rows: object, batch: int) -> object:
        result = write(self, rows, batch)
        if batch == last:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    inflow.Inflow.write = dying  # type: ignore[method-assign,assignment]
    spark = lb.session(master="local[1]")
    rows = spark.readStream.schema("id string, ts bigint, v string").option("maxFilesPerTrigger", 1).json(source)
    lb.Table.open(table).stream(rows, writer="orders", trigger="available now").awaitTermination()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
