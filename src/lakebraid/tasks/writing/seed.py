# SPDX-License-Identifier: Apache-2.0
"""Empty base files, with which a file group begins."""

from __future__ import annotations

from lakebraid.format.names import BaseFileName
from lakebraid.storage.protocol import Storage
from lakebraid.tasks.data_files import place_file
from lakebraid.tasks.staged_file import StagedFile
from lakebraid.tasks.writing.base_file import format_base_file
from lakebraid.tasks.writing.rows import WritePlan


def place_seed(storage: Storage, plan: WritePlan, partition: str, file_id: str) -> StagedFile:
    """An empty base file of that group, placed but not visible. Its name and content are the same at every attempt."""
    name = BaseFileName(file_id, "0-0-0", plan.start, ".parquet").format()
    content = format_base_file([], plan.schema, name)
    place_file(storage, plan.start, partition, name, content.data)
    return StagedFile(partition, file_id, name, len(content.data), 0, 0, is_base=True)
