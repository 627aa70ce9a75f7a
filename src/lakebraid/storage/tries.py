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


def tries(clock: Clock, most: int = limits.STORE_TRIES_MAX) -> Iterator[int]:
    """The numbers of the tries of one call, from 0, with a wait before each but the first.

    Ends after so many, or before one that would be made too late. Whoever is through leaves the loop.
    """
    begun = clock.monotonic()
    for number in range(most):
        if number:
            seconds = clock.random() * min(limits.STORE_PAUSE_SECONDS * 2**number, limits.STORE_PAUSE_SECONDS_MAX)
            if clock.monotonic() + seconds - begun > limits.STORE_RETRY_SECONDS_MAX:
                return
            tally = _TALLY.get()
            if tally is not None:
                tally.add(requests=1, seconds=seconds)
            clock.sleep(seconds)
        yield number


def tries_of(storage: object) -> Iterator[int]:
    """The same for a create that may be sent again under its name, where no clock is at hand: by the storage's own.

    A storage without one (a local disk, memory) is not asked to wait for: few tries, one after the other.
    """
    clock = getattr(storage, "clock", None)
    return iter(range(limits.PLACE_ATTEMPTS_MAX)) if clock is None else tries(clock)
