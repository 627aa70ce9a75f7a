# SPDX-License-Identifier: Apache-2.0
"""Running tasks in this process: the same functions that Spark's executors run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from lakebraid.errors import EnvironmentProblem
from lakebraid.memory import check_held
from lakebraid.storage.parallel import map_slices
from lakebraid.storage.protocol import Storage

if TYPE_CHECKING:
    import pandas as pd

T = TypeVar("T")


def gather(
    storage: Storage,
    read: Callable[[T], Iterator[pa.Table]],
    tasks: Sequence[T],
    schema: pa.Schema,
    held_bytes: Callable[[T], int],
) -> pa.Table:
    """All rows of all tasks as one table; several tasks run side by side, since Arrow lets go of Python's lock.

    `held_bytes` is what a task holds while it reads: on an object store as many run as together hold little enough.

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

    parts = map_slices(storage, rows_of, tasks, size=held_bytes)
    tables = [table for part in parts for table in part]
    return pa.concat_tables(tables) if tables else schema.empty_table()


def as_pandas(rows: pa.Table) -> pd.DataFrame:
    """The rows as a pandas data frame; EnvironmentProblem where there is no pandas."""
    try:
        return rows.to_pandas()  # type: ignore[no-any-return]
    except ModuleNotFoundError as error:
        raise EnvironmentProblem(
            "A pandas data frame was asked for, and pandas is not installed. Nothing was changed. Run `pip install pandas`, or use "
            "`.to_arrow()`.",
            package="pandas",
        ) from error
