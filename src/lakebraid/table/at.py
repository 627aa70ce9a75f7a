# SPDX-License-Identifier: Apache-2.0
"""A table as its code looks at it: where it lies, what its properties say, and by which clock."""

from __future__ import annotations

from dataclasses import dataclass

from lakebraid.clock import Clock
from lakebraid.model.config import TableConfig
from lakebraid.storage.protocol import Storage


@dataclass(frozen=True, slots=True)
class TableAt:
    """The three things that every look at a table needs; the configuration is that of one moment."""

    storage: Storage
    config: TableConfig
    clock: Clock
