# SPDX-License-Identifier: Apache-2.0
"""Whether a base file has the table's types as they are now."""

from __future__ import annotations

from lakebraid.storage.protocol import Storage
from lakebraid.tasks.reading.read import open_parquet
from lakebraid.tasks.slice_task import ReadPlan, SliceTask


def has_schema(storage: Storage, plan: ReadPlan, task: SliceTask) -> bool:
    """Whether every column of the table is in the file with the table's own type, or not there at all."""
    if task.base_name is None:
        return False
    found = open_parquet(storage, task.base_name, task.base_size).schema_arrow
    for field in plan.schema:
        at = found.get_field_index(field.name)
        if at >= 0 and not _same(found.field(at).type, field.type):
            return False
    return True


def _same(found: object, wanted: object) -> bool:
    return str(found).replace("item:", "element:").replace("array:", "element:").replace(" not null", "") == str(
        wanted
    ).replace("item:", "element:").replace(" not null", "")
