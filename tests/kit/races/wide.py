# SPDX-License-Identifier: Apache-2.0
"""A store that says of itself, as object stores do, that calls are worth making side by side."""

from __future__ import annotations

from lakebraid.limits import STORE_CALLS_AT_ONCE_MAX
from lakebraid.storage.memory import MemoryStorage


class WideMemory(MemoryStorage):
    calls_at_once = STORE_CALLS_AT_ONCE_MAX
