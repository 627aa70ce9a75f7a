# SPDX-License-Identifier: Apache-2.0
"""Hudi's StorageBasedLockProvider: one object that says who holds the lock and until when, changed by conditional puts.

It is a lease: a holder that sleeps longer than it is valid loses it and may not know. So it is asked for again right
before every step that decides, which is as much as Hudi does, and why beside Hudi no more than Hudi's promise is given.
"""

from __future__ import annotations

import datetime as dt
import json
import threading
import uuid
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self

from lakebraid import limits
from lakebraid.clock import Clock
from lakebraid.errors import CorruptFile, ObjectExists, ObjectNotFound, OutcomeUnknown, StorageError
from lakebraid.format.damage import damaged
from lakebraid.storage.protocol import VersionedStorage

LOCK: Final = ".hoodie/.locks/table_lock.json"


@dataclass(frozen=True, slots=True)
class LockLease:
    """What the lock's object says."""

    owner: str
    valid_until_ms: int
    is_expired: bool = False

    def may_be_taken(self, now_ms: int) -> bool:
        return self.is_expired or now_ms > self.valid_until_ms + limits.LOCK_DRIFT_MS


@dataclass(frozen=True, slots=True)
class LeaseLock:
    """Call it to get one hold of the lock, for one `with`."""

    storage: VersionedStorage
    clock: Clock

    def __call__(self, _stand_in: Callable[[], None] = lambda: None) -> LeaseHold:
        """A lease passes from hand to hand: the next holder applies what the one before it decided."""
        return LeaseHold(self.storage, self.clock)


class LeaseHold:
    """The lock while a `with` block runs, renewed in the background. StorageError if it cannot be had in time."""

    def __init__(self, storage: VersionedStorage, clock: Clock) -> None:
        self._storage, self._clock = storage, clock
        self._owner = str(uuid.UUID(hex=clock.token() + clock.token()))
        self._held: tuple[LockLease, Any] | None = None
        self._changing = threading.Lock()
        self._over = threading.Event()

    def __enter__(self) -> Self:
        try:
            self._wait()
        except BaseException:
            self._give_back()
            raise
        threading.Thread(target=self._keep, name="lakebraid-lock", daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._over.set()
        self._give_back()

    def check(self) -> bool:
        """Whether the lock is ours now and for a while to come."""
        with self._changing:
            found = self._load()
            if found is None or found[0].owner != self._owner or found[0].may_be_taken(self._clock.now_ms()):
                return False
            self._held = found
            if found[0].valid_until_ms - self._clock.now_ms() > limits.LOCK_MARGIN_MS:
                return True
            return self._put(found[1])

    def _wait(self) -> None:
        begun = self._clock.monotonic()
        attempt = 0
        while True:
            found = self._load()
            if self._take(found):
                return
            if self._clock.monotonic() - begun > limits.LOCK_WAIT_SECONDS_MAX:
                raise self._held_too_long(found)
            pause_s = min(0.02 * 2 ** min(attempt, 10), 4 * limits.LOCK_POLL_SECONDS_MAX)
            self._clock.sleep(pause_s * (0.5 + self._clock.random()))
            attempt += 1

    def _take(self, found: tuple[LockLease, Any] | None) -> bool:
        if found is not None and found[0].owner == self._owner:
            self._held = found  # an answer of ours got lost
            return not found[0].may_be_taken(self._clock.now_ms())
        if found is not None and not found[0].may_be_taken(self._clock.now_ms()):
            return False
        try:
            if found is not None:
                return self._put(found[1])
            self._storage.create(LOCK, _format(self._new()))
        except (ObjectExists, OutcomeUnknown):
            return False
        self._held = self._load()
        return self._held is not None and self._held[0].owner == self._owner

    def _put(self, version: Any) -> bool:
        lease = self._new()
        mark = self._storage.replace_version(LOCK, _format(lease), version)
        self._held = None if mark is None else (lease, mark)
        return mark is not None

    def _new(self) -> LockLease:
        return LockLease(self._owner, self._clock.now_ms() + limits.LOCK_VALID_MS)

    def _keep(self) -> None:
        while not self._over.wait(limits.LOCK_RENEW_SECONDS):
            with self._changing:
                if self._over.is_set() or self._held is None:
                    return
                try:
                    self._put(self._held[1])
                except StorageError:
                    continue  # `check` looks what is there before anything is decided

    def _give_back(self) -> None:
        with self._changing:
            for attempt in range(limits.UNLOCK_ATTEMPTS_MAX):
                try:
                    found = self._load()
                    if found is None or found[0].owner != self._owner or found[0].is_expired:
                        return
                    expired = LockLease(self._owner, found[0].valid_until_ms, is_expired=True)
                    if self._storage.replace_version(LOCK, _format(expired), found[1]) is not None:
                        return
                except CorruptFile:
                    return  # not ours
                except StorageError:
                    self._clock.sleep(0.05 * 2**attempt)
        seconds = (limits.LOCK_VALID_MS + limits.LOCK_DRIFT_MS) // 1000
        warnings.warn(
            f"{self._storage.url}/{LOCK} could not be given back in {limits.UNLOCK_ATTEMPTS_MAX} attempts. What was "
            f"decided stands and data is safe; other writers wait until the lock expires, at most {seconds} seconds.",
            RuntimeWarning,
            stacklevel=3,
        )

    def _load(self) -> tuple[LockLease, Any] | None:
        try:
            data, version = self._storage.read_version(LOCK, limits.LOCK_FILE_BYTES_MAX)
        except ObjectNotFound:
            return None
        return _parse(data, f"{self._storage.url}/{LOCK}"), version

    def _held_too_long(self, found: tuple[LockLease, Any] | None) -> StorageError:
        lease = found[0] if found else None
        who = "others, one after the other" if lease is None else f"the writer {lease.owner}, {_until(lease)}"
        return StorageError(
            f"{self._storage.url}/{LOCK} is held by {who}; {limits.LOCK_WAIT_SECONDS_MAX} seconds of waiting did not "
            "help. Nothing was decided, the table is as before. Try again: a lock whose holder died expires by itself.",
            path=f"{self._storage.url}/{LOCK}",
            owner=lease and lease.owner,
            valid_until_ms=lease and lease.valid_until_ms,
        )


def _format(lease: LockLease) -> bytes:
    record = {"expired": lease.is_expired, "validUntil": lease.valid_until_ms, "owner": lease.owner}
    return json.dumps(record, separators=(",", ":")).encode()


def _parse(data: bytes, where: str) -> LockLease:
    try:
        record = json.loads(data)
        lease = LockLease(record["owner"], record["validUntil"], is_expired=record["expired"] is True)
        if isinstance(lease.owner, str) and type(lease.valid_until_ms) is int:
            return lease
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    # Whose it is cannot be told, so it is never taken.
    raise damaged(where, "it is no lock of Apache Hudi's StorageBasedLockProvider")


def _until(lease: LockLease) -> str:
    try:
        moment = dt.datetime.fromtimestamp(lease.valid_until_ms / 1000, dt.UTC)
    except (OverflowError, ValueError, OSError):
        return "for ever"
    return f"until {moment:%F %T} UTC unless it is renewed"
