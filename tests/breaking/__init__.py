# SPDX-License-Identifier: Apache-2.0
"""Tables in memory, broken on purpose: one way at a time, each under the name of what an audit must find."""

from tests.breaking import files, surroundings, timelines
from tests.breaking.table import HOURS, KEYS, WAYS, Broken, archived, fresh, rich

__all__ = ["HOURS", "KEYS", "WAYS", "Broken", "archived", "files", "fresh", "rich", "surroundings", "timelines"]
