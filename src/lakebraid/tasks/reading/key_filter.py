# SPDX-License-Identifier: Apache-2.0
"""Looking up a few keys: with the simple bucket index each is in one bucket, even if no file says how many there are.

Apache Hudi keeps the number of buckets in the writers' settings, not in the table. If a partition's file ids are the
buckets 0 … n-1, then n is most likely it. The bucket that holds the key by that number is read first, and its other keys
are the test: they all must hash to it. By chance that happens once in n^64 tries; if it does not hold, or there are too
few keys to tell, all other slices are read as well.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import partial

import pyarrow as pa

from lakebraid.model.keys.buckets import bucket_ids
from lakebraid.model.keys.keys import render_values
from lakebraid.storage.parallel import map_calls
from lakebraid.storage.protocol import Storage
from lakebraid.tasks.reading.base_rows import base_of
from lakebraid.tasks.reading.read import base_keys, read_slice
from lakebraid.tasks.slice_task import ReadPlan, SliceTask

WITNESSES = 64
"""How many keys must agree before a number of buckets is believed."""


def read_lookup(storage: Storage, plan: ReadPlan, tasks: Sequence[SliceTask]) -> Iterator[pa.Table]:
    """The rows with the plan's keys in these slices."""
    by_partition: dict[str, list[SliceTask]] = defaultdict(list)
    for task in tasks:
        by_partition[task.partition].append(task)
    needed = map_calls(storage, partial(_needed, storage, plan), list(by_partition.values()))
    found = map_calls(
        storage,
        lambda task: list(read_slice(storage, plan, task)),
        [task for group in needed for task in group],
        size=lambda task: task.held_bytes,
    )
    for rows in found:
        yield from rows


def _needed(storage: Storage, plan: ReadPlan, tasks: list[SliceTask]) -> list[SliceTask]:
    """The slices of one partition that must be read."""
    buckets = {task.bucket: task for task in tasks}
    count = len(tasks)
    if plan.keys is None or count < 2 or set(buckets) != set(range(count)):
        return tasks
    wanted = set(bucket_ids(render_values(plan.keys), plan.rules.identity_columns[:-1], count).tolist())
    chosen = [buckets[bucket] for bucket in sorted(wanted)]
    return chosen if all(_is_proven(storage, plan, task, count) for task in chosen) else tasks


def _is_proven(storage: Storage, plan: ReadPlan, task: SliceTask, count: int) -> bool:
    """Whether enough keys of the bucket's base file hash to it."""
    for keys in base_keys(base_of(storage, task), plan, task):
        some = render_values(keys.slice(0, 16 * WITNESSES))
        found = bucket_ids(some, plan.rules.identity_columns[:-1], count)
        return len(found) >= WITNESSES and bool((found == task.bucket).all())
    return False
