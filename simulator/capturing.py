# SPDX-License-Identifier: Apache-2.0
"""Tables that capture changes: what the product writes beside rows, in the simulator's tiny bytes."""

from __future__ import annotations

from typing import Any

from lakebraid.format.names import BaseFileName
from lakebraid.storage.protocol import Storage
from lakebraid.tasks.staged_file import StagedFile
from simulator.tasks import put


def place_seed(storage: Storage, plan: Any, partition: str, file_id: str) -> StagedFile:
    """The empty base file with which a file group begins."""
    name = BaseFileName(file_id, "0-0-0", plan.start, ".parquet").format()
    put(storage, plan.start, partition, name, {"r": []})
    return StagedFile(partition, file_id, name, 100, 0, 0, is_base=True)
