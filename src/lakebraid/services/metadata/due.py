# SPDX-License-Identifier: Apache-2.0
"""What is due on a table's metadata table, if it has one: a compaction, then the removal of what lies behind older ones."""

from __future__ import annotations

from dataclasses import dataclass

from lakebraid.services.metadata.compaction import MetadataCompactionResult, compact_metadata
from lakebraid.services.metadata.tidying import MetadataTidied, tidy_metadata
from lakebraid.services.settings import Opened


@dataclass(frozen=True, slots=True)
class MetadataTended:
    """What one round did to a metadata table."""

    compaction: MetadataCompactionResult | None = None
    tidied: MetadataTidied | None = None


def tend_metadata(opened: Opened) -> MetadataTended:
    """Compacts the metadata table if that is due, and removes what no reader needs any more."""
    return MetadataTended(compact_metadata(opened), tidy_metadata(opened) or None)
