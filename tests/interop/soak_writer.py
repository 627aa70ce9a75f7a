# SPDX-License-Identifier: Apache-2.0
"""One of several writer processes on one table: `python -m tests.interop.soak_writer TABLE NUMBER LOG STOP`.

Every row tells what it must be: its name is made of its writer and its ordering value, and no two rows of a key have the
same ordering value. What was acknowledged is appended to LOG, one line a commit. It ends when the file STOP is there.
"""

from __future__ import annotations

import itertools
import json
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lakebraid as lb

WRITERS = 4
KEYS = 40
ROWS = 6
COMMITS_MIN = 65
PAUSE_SECONDS = 0.5
COMPACTS_EVERY = 20


def main(path: str, number: int, log: Path, stop: Path) -> None:
    table = lb.Table.open(path)
    with log.open("w") as acknowledged:
        for turn, batch in enumerate(batches(number)):
            if stop.exists() and turn >= COMMITS_MIN:
                break
            write(table, batch, turn)
            acknowledged.write(json.dumps(batch) + "\n")
            acknowledged.flush()
            # Hudi looks at its lock once a second and waits in no queue: busier writers would keep it out for long.
            time.sleep(PAUSE_SECONDS)
            if number == 0 and turn % COMPACTS_EVERY == COMPACTS_EVERY - 1:
                table.compact()


def write(table: lb.Table, batch: list[dict[str, Any]], turn: int) -> None:
    if batch[0]["name"] is None:
        table.delete([{"id": row["id"], "ts": row["ts"]} for row in batch])
    else:
        table.upsert(batch, block_format="avro" if turn % 3 == 0 else "parquet")


def batches(number: int) -> Iterator[list[dict[str, Any]]]:
    """Rows of keys that all writers share, some late and some early; now and then a delete of a key of one's own.

    Only one's own are deleted, and not written by an older event after that: where Hudi compacts it forgets deletes
    (FORMAT, trap 23).
    """
    dice, count = random.Random(number), itertools.count()

    def row(key: int, event: int, *, deleted: bool = False) -> dict[str, Any]:
        # The last digits belong to this writer and this row, so that no two ordering values are equal.
        ts = event * 100_000 + next(count) * WRITERS + number
        return {"id": key, "name": None if deleted else f"{number}:{ts}", "ts": ts}

    for turn in itertools.count(1):
        own = 1000 + number * 100 + turn % 7
        shared = dice.sample(range(KEYS), ROWS)
        yield [*(row(key, 10 * turn + dice.randint(0, 60)) for key in shared), row(own, 10 * turn)]
        if turn % 5 == 0:
            yield [row(own, 10 * turn, deleted=True)]


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]), Path(sys.argv[4]))
