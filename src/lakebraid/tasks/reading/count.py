# SPDX-License-Identifier: Apache-2.0
"""Counting the rows of one slice, with as little reading as the answer allows."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from lakebraid.model.ordering import winners
from lakebraid.model.values.arrow_numpy import to_ints
from lakebraid.storage.protocol import Storage
from lakebraid.tasks.reading.read import base_batches, base_keys, merge_slice, open_slice, read_slice
from lakebraid.tasks.reading.versions import Versions
from lakebraid.tasks.slice_task import ReadPlan, SliceTask


def count_slice(storage: Storage, plan: ReadPlan, task: SliceTask) -> int:
    """The number of matching rows. Without a filter the footer knows it, corrected by the keys that the logs add."""
    if plan.where is not None:
        return sum(rows.num_rows for rows in read_slice(storage, plan, task))
    plan = plan.of_columns(())
    schema = plan.read_schema((), task)
    versions, base = open_slice(storage, plan, task, schema)
    in_base = 0 if base is None else int(base.file.metadata.num_rows)
    if versions is None:
        return in_base
    keys = _added_keys(versions)
    if keys is None:
        rows = base_batches(base, plan, task, schema, None, with_ranks=True)
        return sum(merged.num_rows for merged in merge_slice(rows, versions, plan, task))
    known = sum(pc.sum(pc.is_in(found, value_set=keys)).as_py() or 0 for found in base_keys(base, plan, task))
    return in_base + len(keys) - known


def _added_keys(versions: Versions) -> pa.Array | None:
    """The keys of the logs, if every one of them has a row, whichever version wins; None if some may be deleted."""
    encoded = versions.keys.dictionary_encode()
    codes = to_ints(encoded.indices)
    best = winners(codes, versions.order, versions.unconditional, len(encoded.dictionary))
    may_be_deleted = versions.deleted.any() if versions.present is not None else versions.deleted[best].any()
    return None if may_be_deleted else encoded.dictionary
