# SPDX-License-Identifier: Apache-2.0
"""Apache Hudi's own lock, for tables that are shared with its writers (docs/decisions/0008-beside-hudi.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Final, Protocol

from lakebraid.errors import UnsupportedTable
from lakebraid.model.writable import FILE_LOCK, STORAGE_LOCK
from lakebraid.storage.local import LocalStorage
from lakebraid.storage.memory import MemoryStorage
from lakebraid.storage.protocol import Storage, VersionedStorage
from lakebraid.table.at import TableAt
from lakebraid.txn.hudi.file_lock import FileLock
from lakebraid.txn.hudi.lease_lock import LeaseLock


class Hold(Protocol):
    """A lock that is held."""

    def check(self) -> bool:
        """Whether it still is; asked right before anything is decided under it."""


Lock = Callable[[Callable[[], None]], AbstractContextManager[Hold]]
"""Called with what a holder who died would have done before the lock passes on."""

_OTHERS: Final[Mapping[str, str]] = {
    "InProcessLockProvider": "It holds only within one JVM, so no second process is safe with it",
    "ZookeeperBasedLockProvider": "It needs ZooKeeper",
    "ZookeeperBasedImplicitBasePathLockProvider": "It needs ZooKeeper",
    "DynamoDBBasedLockProvider": "It needs DynamoDB",
    "DynamoDBBasedImplicitPartitionKeyLockProvider": "It needs DynamoDB",
    "HiveMetastoreBasedLockProvider": "It needs a Hive metastore",
}


def hudi_lock(table: TableAt) -> Lock | None:
    """Takes the lock that the table's properties name; None if it is not shared with Apache Hudi writers.

    UnsupportedTable if that lock cannot be taken from here.
    """
    provider = table.config.lock_provider
    if provider is None:
        return None
    if provider == FILE_LOCK:
        if isinstance(table.storage, LocalStorage | MemoryStorage):
            return FileLock(table.storage, table.clock)
        raise _refused(table.storage, provider, "A file is no lock on an object store", STORAGE_LOCK)
    if provider == STORAGE_LOCK:
        if isinstance(table.storage, VersionedStorage):
            return LeaseLock(table.storage, table.clock)
        raise _refused(table.storage, provider, "It needs an object store", FILE_LOCK)
    reason = _OTHERS.get(provider.rpartition(".")[2], "It is not known here")
    raise _refused(
        table.storage, provider, reason, FILE_LOCK if isinstance(table.storage, LocalStorage) else STORAGE_LOCK
    )


def _refused(storage: Storage, provider: str, reason: str, instead: str) -> UnsupportedTable:
    return UnsupportedTable(
        f"{storage.url} is guarded by {provider}. {reason}, and lakebraid cannot take it. Nothing was changed. Stop all "
        f"writers, set hoodie.write.lock.provider to {instead} for all of them and in hoodie.properties; or remove the "
        "line if no Apache Hudi job writes this table any more.",
        path=storage.url,
        provider=provider,
    )
