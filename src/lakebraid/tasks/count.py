# SPDX-License-Identifier: Apache-2.0
"""Counting the rows of one slice, with as little reading as the answer allows."""

from __future__ import annotations

from lakebraid.storage.protocol import Storage
from lakebraid.tasks.read import open_parquet, read_slice
from lakebraid.tasks.slice_task import ReadPlan, SliceTask


def count_slice(storage: Storage, plan: ReadPlan, task: SliceTask) -> int:
    """The number of matching rows. Without logs and filter the footer knows it."""
    if plan.where is None and not task.log_names and task.base_name is not None:
        return int(open_parquet(storage, task.base_name, task.base_size).metadata.num_rows)
    return sum(rows.num_rows for rows in read_slice(storage, plan, task))
