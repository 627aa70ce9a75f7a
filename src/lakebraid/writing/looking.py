# SPDX-License-Identifier: Apache-2.0
"""The keys of a table at one moment, for partial updates that must know which of theirs are new."""

from __future__ import annotations

from lakebraid.reading.plan import Source, read_plan, slice_task
from lakebraid.table.view import View
from lakebraid.tasks.writing.skeletons import KnownKeys
from lakebraid.txn.checks.opened_keys import Looked


def look(view: View, source: Source, start: str) -> tuple[KnownKeys, Looked]:
    """Where tasks of the write that began at `start` find the keys of this view, and what its end is held against."""
    plan = read_plan(view, source)
    plan = plan.of_columns(plan.rules.key_columns)
    visible = view.timeline.visibility()
    slices = {(s.group.partition, s.group.file_id): slice_task(s, view.config, visible) for s in view.slices()}
    younger = tuple(i for i in view.timeline.writes if i.request_time > start and i.action == "deltacommit")
    return KnownKeys(plan, slices), Looked(view.completion_time, view.timeline.first_active_write, younger)
