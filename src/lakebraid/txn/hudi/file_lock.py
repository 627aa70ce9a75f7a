# SPDX-License-Identifier: Apache-2.0
"""Hudi's FileSystemBasedLockProvider: the process that creates `.hoodie/lock` holds it until the file is deleted.

Hudi looks only at whether the file is there. Ours says in it who we are, so that the lock of a process of ours that was
killed can be told from one that is held; Hudi's own, and those of other machines, are never broken.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

from lakebraid import limits
from lakebraid.clock import Clock
from lakebraid.errors import CorruptFile, ObjectExists, ObjectNotFound, OutcomeUnknown, StorageError
from lakebraid.storage.protocol import Storage
from lakebraid.txn.hudi.lock_owner import MACHINE, Owner, Processes, format_owner, parse_owner
from lakebraid.txn.ledger.entries import FOLDER

LOCK: Final = ".hoodie/lock"
BREAKING: Final = f"{FOLDER}/breaking"
"""`<token>` in this folder: who alone may remove the lock with that token, whose owner is dead."""


@dataclass(frozen=True, slots=True)
class FileLock:
    """Call it to get one hold of the lock, for one `with`."""

    storage: Storage
    clock: Clock
    processes: Processes = MACHINE

    def __call__(self, stand_in: Callable[[], None] = lambda: None) -> FileHold:
        """`stand_in` does what a dead owner would have done before he gave it back; then his lock is removed."""
        return FileHold(self.storage, self.clock, stand_in, self.processes)


class FileHold:
    """The lock while a `with` block runs. StorageError if it cannot be had in time."""

    def __init__(self, storage: Storage, clock: Clock, stand_in: Callable[[], None], processes: Processes) -> None:
        self._storage, self._clock, self._stand_in, self._processes = storage, clock, stand_in, processes
        self._me = processes.this(clock.token(), clock.now_ms())
        self._claimed: str | None = None
        """The name that gives, if it is ours, the right to remove a dead owner's lock."""

    def __enter__(self) -> Self:
        try:
            self._wait()
        except BaseException:
            self._give_back()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._give_back()

    def check(self) -> bool:
        """Whether the lock is still ours: Hudi's `close()` deletes it, whichever process holds it (FORMAT, trap 32)."""
        return self._is_mine(LOCK)

    def _wait(self) -> None:
        begun = self._clock.monotonic()
        attempt = 0
        while not self._take():
            if self._clock.monotonic() - begun > limits.LOCK_WAIT_SECONDS_MAX:
                raise self._held_too_long()
            pause_s = min(0.002 * 2 ** min(attempt, 10), limits.LOCK_POLL_SECONDS_MAX)
            self._clock.sleep(pause_s * (0.5 + self._clock.random()))
            attempt += 1

    def _take(self) -> bool:
        try:
            self._storage.create(LOCK, format_owner(self._me))
        except (ObjectExists, OutcomeUnknown):
            pass
        else:
            return True
        owner = self._read(LOCK)
        if owner is not None and owner.token == self._me.token:
            return True  # an answer of ours got lost
        if owner is not None and self._processes.is_over(owner):
            self._break(owner)
        return False

    def _break(self, dead: Owner) -> None:
        """Removes a dead owner's lock, as the only one who may: two who saw it must not remove it one after the other,
        since the second would remove that of the next owner.
        """
        names = self._rights(dead.token)
        # Looked at again: the right may have been had, used and given back before we got it.
        if names and self._read(LOCK) == dead:
            self._stand_in()
        if names and self._read(LOCK) == dead:
            self._storage.delete([LOCK])
            self._processes.abandoned.discard(dead.token)
        if names:
            self._storage.delete(names)
            self._claimed = None

    def _rights(self, token: str) -> list[str]:
        """The name that gives the right, ours now, after those of heirs who died with it; empty if a living one has it."""
        names: list[str] = []
        for _ in range(limits.LOCK_HEIRS_MAX):
            self._claimed = f"{BREAKING}/{token}"
            names.append(self._claimed)
            with contextlib.suppress(ObjectExists, OutcomeUnknown):
                self._storage.create(self._claimed, format_owner(self._me))
            heir = self._read(self._claimed)
            if heir is not None and heir.token == self._me.token:
                return names
            if heir is None or not self._processes.is_over(heir):
                return []
            token = heir.token
        return []

    def _give_back(self) -> None:
        """Deletes the lock if it is ours, and does not let a store that says no have the last word (scenario F24)."""
        for attempt in range(limits.UNLOCK_ATTEMPTS_MAX):
            try:
                self._storage.delete([name for name in (self._claimed, LOCK) if name and self._is_mine(name)])
            except StorageError:
                self._clock.sleep(0.05 * 2**attempt)
            else:
                return
        self._processes.abandoned.add(self._me.token)
        warnings.warn(
            f"{self._storage.url}/{LOCK} could not be removed in {limits.UNLOCK_ATTEMPTS_MAX} attempts. What was decided "
            f"stands and data is safe, but Apache Hudi waits until the file is gone. This process removes it with its "
            "next write, any other lakebraid on this machine once this process has ended; or delete the file.",
            RuntimeWarning,
            stacklevel=3,
        )

    def _is_mine(self, name: str) -> bool:
        owner = self._read(name)
        return owner is not None and owner.token == self._me.token

    def _read(self, name: str) -> Owner | None:
        try:
            return parse_owner(self._storage.read(name, limits.LOCK_FILE_BYTES_MAX))
        except (ObjectNotFound, CorruptFile):
            return None

    def _held_too_long(self) -> StorageError:
        owner = self._read(LOCK)
        who = "a writer that does not name itself (Apache Hudi)" if owner is None else str(owner)
        since = None
        with contextlib.suppress(StorageError):
            since = self._storage.info(LOCK).modified_ms
        when = "" if since is None else f" since {dt.datetime.fromtimestamp(since // 1000, dt.UTC):%F %T} UTC"
        return StorageError(
            f"{self._storage.url}/{LOCK} is held by {who}{when}; {limits.LOCK_WAIT_SECONDS_MAX} seconds of waiting did "
            "not help. Nothing was decided, the table is as before. Try again. If that writer is known to be dead, "
            "delete the file; never while it may live, for two writers would then decide at once.",
            path=f"{self._storage.url}/{LOCK}",
            owner=None if owner is None else owner.token,
            since_ms=since,
        )
