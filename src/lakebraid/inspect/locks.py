# SPDX-License-Identifier: Apache-2.0
"""Who holds Hudi's locks, and whether he still lives."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass

from lakebraid import limits
from lakebraid.clock import Clock
from lakebraid.errors import CorruptFile, ObjectNotFound
from lakebraid.storage.protocol import Storage
from lakebraid.txn.hudi.file_lock import LOCK as FILE_LOCK
from lakebraid.txn.hudi.lease_lock import LOCK as LEASE_LOCK
from lakebraid.txn.hudi.lock_owner import is_dead, parse_owner


@dataclass(frozen=True, slots=True)
class HeldLock:
    """One lock file."""

    name: str
    holder: str
    age_ms: int
    """How long it has been held; of a lease, since its object was written last."""
    is_stale: bool = False
    why: str = ""
    """Why it counts as stale."""


def load_locks(storage: Storage, clock: Clock) -> list[HeldLock]:
    """The locks that are held now; Hudi removes a lock to give it back, or marks its lease as expired."""
    return [*_file_lock(storage, clock), *_lease(storage, clock)]


def _file_lock(storage: Storage, clock: Clock) -> Iterator[HeldLock]:
    with contextlib.suppress(ObjectNotFound, CorruptFile):
        age_ms = max(clock.now_ms() - storage.info(FILE_LOCK).modified_ms, 0)
        owner = parse_owner(storage.read(FILE_LOCK, limits.LOCK_FILE_BYTES_MAX))
        holder = "an Apache Hudi writer" if owner is None else str(owner)
        why = ""
        if owner is not None and is_dead(owner):
            why = "That process runs no more."
        elif age_ms > limits.AUDIT_LEFTOVER_MS:
            why = f"It has been held for {age_ms // 60_000:,} minutes."
        yield HeldLock(FILE_LOCK, holder, age_ms, bool(why), why)


def _lease(storage: Storage, clock: Clock) -> Iterator[HeldLock]:
    with contextlib.suppress(ObjectNotFound, CorruptFile, ValueError, KeyError, TypeError):
        age_ms = max(clock.now_ms() - storage.info(LEASE_LOCK).modified_ms, 0)
        lease = json.loads(storage.read(LEASE_LOCK, limits.LOCK_FILE_BYTES_MAX))
        late_ms = clock.now_ms() - int(lease["validUntil"])
        if lease["expired"]:
            return
        why = ""
        if late_ms > limits.AUDIT_LEFTOVER_MS:
            why = f"Its lease ended {late_ms // 60_000:,} minutes ago and was not given back."
        yield HeldLock(LEASE_LOCK, f"the owner {lease['owner']!s:.60}", age_ms, bool(why), why)
