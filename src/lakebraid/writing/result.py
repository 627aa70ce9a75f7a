# SPDX-License-Identifier: Apache-2.0
"""How a write ended."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lakebraid.storage.tries import StoreRetries

if TYPE_CHECKING:
    from lakebraid.services.runner import ServiceRound


@dataclass(frozen=True, slots=True)
class WriteResult:
    """How a write ended."""

    instant: str
    completion_time: str
    operation: str
    rows_written: int
    rows_deleted: int
    files: int
    seconds: dict[str, float] = field(default_factory=dict, compare=False)
    """How long each phase took."""
    attempts: int = 1
    """How often it was written until no other writer was in the way."""
    groups_replaced: int = 0
    """File groups that an overwrite took away."""
    services: ServiceRound | None = field(default=None, compare=False)
    """What was done after the commit, and what of it failed, with `services="inline"`. The write is published anyway."""
    is_repeated: bool = False
    """Whether the batch was published before: then nothing was written, and instant and time are the earlier commit's (for
    an old batch those of its writer's newest)."""
    store_retries: StoreRetries = field(default_factory=StoreRetries, compare=False)
    """What an object store refused for a while or left unanswered, and how long this process waited for it. Heartbeats and
    tasks on Spark's executors do not count."""
