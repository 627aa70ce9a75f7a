# SPDX-License-Identifier: Apache-2.0
"""Running tasks in this process: the same functions that Spark's executors run."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import pyarrow as pa

from lakebraid.memory import check_held

T = TypeVar("T")


def gather(read: Callable[[T], Iterator[pa.Table]], tasks: Sequence[T], schema: pa.Schema) -> pa.Table:
    """All rows of all tasks as one table; several tasks run side by side, since Arrow lets go of Python's lock.

    EnvironmentProblem before they take more than half of the memory that there is.
    """
    held = 0

    def rows_of(task: T) -> list[pa.Table]:
        nonlocal held
        rows = []
        for table in read(task):
            held += table.nbytes  # several threads may miss each other's by a batch
            check_held(held, "The result")
            rows.append(table)
        return rows

    if len(tasks) < 2:
        parts = [rows_of(task) for task in tasks]
    else:
        with ThreadPoolExecutor(min(len(tasks), os.cpu_count() or 1), "lakebraid-read") as pool:
            parts = list(pool.map(rows_of, tasks))
    tables = [table for part in parts for table in part]
    return pa.concat_tables(tables) if tables else schema.empty_table()
