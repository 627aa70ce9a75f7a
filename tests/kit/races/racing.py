# SPDX-License-Identifier: Apache-2.0
"""Somebody else works on the table exactly between two calls of the reader."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from lakebraid.storage import Storage
from lakebraid.storage.memory import MemoryStorage

T = TypeVar("T")
Step = Callable[[Storage], None]
_READS = frozenset({"read", "read_range", "info", "list", "list_folder", "list_names", "open_input"})


class RacingStorage:
    """A store in which something happens before the reading call number `at`: `steps`, in one go."""

    def __init__(self, storage: Storage, at: int, steps: Sequence[Step]) -> None:
        self._storage, self._at, self._steps = storage, at, steps
        self._lock = threading.Lock()
        self.calls = 0

    @property
    def url(self) -> str:
        return self._storage.url

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._storage, name)
        if name not in _READS:
            return attribute

        def call(*args: Any, **kwargs: Any) -> Any:
            with self._lock:
                if self.calls == self._at:
                    for step in self._steps:
                        step(self._storage)
                self.calls += 1
                return attribute(*args, **kwargs)

        return call


def at_every_call(
    make: Callable[[], Storage], steps: Sequence[Step], read: Callable[[Any], T]
) -> Iterator[tuple[str, T]]:
    """The reader's answers if the first step, the first two, … or all are done before its first storage call, before
    its second, and so on. Whoever does them dies, or pauses, after the last of them.
    """
    made = make()
    for done in range(1, len(steps) + 1):
        at = 0
        while True:
            racing = RacingStorage(copied(made), at, steps[:done])
            answer = read(racing)
            if racing.calls <= at:
                break
            yield f"{done} of {len(steps)} steps before call {at}", answer
            at += 1


def copied(storage: Storage) -> Storage:
    """The same objects in a store of their own."""
    other = MemoryStorage(storage.url)
    for info in storage.list(""):
        other.create(info.name, storage.read(info.name, info.size))
    return other
