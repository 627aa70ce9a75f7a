# SPDX-License-Identifier: Apache-2.0
"""What this process read last, for the next read: so many bytes of it, and the longest unused goes first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

T = TypeVar("T")


class Kept(Generic[T]):
    """Values by what they were made from, which must say all that decides what they are."""

    def __init__(self, bytes_max: int, size: Callable[[T], int]) -> None:
        self._bytes_max, self._size = bytes_max, size
        self._values: OrderedDict[Hashable, T] = OrderedDict()
        self._taken = 0
        self._lock = Lock()

    def get(self, origin: Hashable) -> T | None:
        """What was kept, if it still is."""
        with self._lock:
            found = self._values.get(origin)
            if found is not None:
                self._values.move_to_end(origin)
            return found

    def keep(self, origin: Hashable, value: T) -> None:
        """Keeps a value, unless few bytes unfolded to so many that all others would have to go."""
        taken = self._size(value)
        with self._lock:
            if origin in self._values or taken > self._bytes_max // 4:
                return  # another thread was faster, or it is too large
            self._values[origin] = value
            self._taken += taken
            while self._taken > self._bytes_max:
                _, dropped = self._values.popitem(last=False)
                self._taken -= self._size(dropped)

    @property
    def taken(self) -> int:
        """Bytes in memory of what is kept."""
        return self._taken
