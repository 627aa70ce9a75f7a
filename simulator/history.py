# SPDX-License-Identifier: Apache-2.0
"""What the history holds, straight from the disk: the greatest manifest counts, and the files it names."""

from __future__ import annotations

import re
from functools import lru_cache

from lakebraid.format.timeline.history import parse_manifest, read_history
from simulator.world.storage import Disk

FOLDER = ".hoodie/timeline/history/"
_MANIFEST = re.compile(r"manifest_(\d+)")


def archived_instants(disk: Disk) -> set[tuple[str, str]]:
    """Request time and action of every instant that is in the history."""
    numbers = [int(m[1]) for i in disk.scan(FOLDER) if (m := _MANIFEST.fullmatch(i.name[len(FOLDER) :]))]
    if not numbers:
        return set()
    data, _ = disk.objects[f"{FOLDER}manifest_{max(numbers)}"]
    found: set[tuple[str, str]] = set()
    for file in parse_manifest(data, "the manifest"):
        found |= _instants(disk.objects[FOLDER + file.name][0])
    return found


@lru_cache(10_000)
def _instants(data: bytes) -> frozenset[tuple[str, str]]:
    return frozenset((row.request_time, row.action) for row in read_history(data, "a file of the history"))
