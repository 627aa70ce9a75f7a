# SPDX-License-Identifier: Apache-2.0
"""Calls to a store that are made again: how long they wait in between, when they end, and what a write tells of it.

The waits are drawn anew between nothing and a bound that doubles ("full jitter"), so clients that were refused at the same
moment do not come back at the same moment.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final

from lakebraid import limits
from lakebraid.clock import Clock


@dataclass(frozen=True, slots=True)
class StoreRetries:
    """How often a store refused or left unanswered what had to be asked again."""

    requests: int = 0
    """Requests that were sent again, creates under a new name among them."""
    throttled: int = 0
    """Answers of the store that asked to slow down (429 and 503)."""
    seconds: float = 0.0
    """How long threads waited before they sent again, all together: more than has passed if several waited at once."""


class StoreTally:
    """Counts for one write what its calls had to do again, in whichever thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found = StoreRetries()

    @property
    def found(self) -> StoreRetries:
        return self._found

    def add(self, requests: int = 0, throttled: int = 0, seconds: float = 0.0) -> None:
        with self._lock:
            was = self._found
            self._found = StoreRetries(was.requests + requests, was.throttled + throttled, was.seconds + seconds)


_TALLY: Final[ContextVar[StoreTally | None]] = ContextVar("lakebraid_store_tally", default=None)


@contextmanager
def counted_in(tally: StoreTally) -> Iterator[None]:
    """Calls made in the block, and in threads of `storage.parallel` for it, count in this tally."""
    token = _TALLY.set(tally)
    try:
        yield
    finally:
        _TALLY.reset(token)


def note_throttled() -> None:
    """The store has asked to slow down."""
    tally = _TALLY.get()
    if tally is not None:
        tally.add(throttled=1)


class Patience:
    """How often, and after which waits, one call is made again. Without a clock there are few tries, one after the other."""

    def __init__(self, clock: Clock | None, most: int = limits.STORE_TRIES_MAX) -> None:
        self._clock, self._most = clock, most if clock is not None else limits.PLACE_ATTEMPTS_MAX
        self._failed = 0.0
        self.renew()

    def renew(self) -> None:
        """Begins anew, after a try that was answered."""
        self.tries = 1

    def wait(self) -> bool:
        """Whether to try again: at once, for it has waited; False if there were enough tries, or the next would come too late."""
        seconds = self._seconds()
        if self.tries >= self._most or seconds is None:
            return False
        tally = _TALLY.get()
        if tally is not None:
            tally.add(requests=1, seconds=seconds)
        if self._clock is not None:
            self._clock.sleep(seconds)
        self.tries += 1
        return True

    def _seconds(self) -> float | None:
        if self._clock is None:
            return 0.0
        now = self._clock.monotonic()
        if self.tries == 1:
            self._failed = now
        longest = min(limits.STORE_PAUSE_SECONDS * 2**self.tries, limits.STORE_PAUSE_SECONDS_MAX)
        seconds = self._clock.random() * longest
        return seconds if now + seconds - self._failed <= limits.STORE_RETRY_SECONDS_MAX else None


def patience_of(storage: object) -> Patience:
    """That for a create which may be sent again under its name, by the clock of an object store; other storages have none."""
    return Patience(getattr(storage, "retry_clock", None))


def tries(clock: Clock) -> Iterator[None]:
    """One turn for each try of a call, until the caller leaves the loop or there were enough."""
    patience = Patience(clock)
    yield
    while patience.wait():
        yield
