# SPDX-License-Identifier: Apache-2.0
"""Bytes under names: the only I/O of the library."""

from lakebraid.storage.local import LocalStorage
from lakebraid.storage.memory import MemoryStorage
from lakebraid.storage.objects.store import ObjectStorage
from lakebraid.storage.opening import open_storage
from lakebraid.storage.protocol import ObjectInfo, Storage, VersionedStorage

__all__ = [
    "LocalStorage",
    "MemoryStorage",
    "ObjectInfo",
    "ObjectStorage",
    "Storage",
    "VersionedStorage",
    "open_storage",
]
