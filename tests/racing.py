# SPDX-License-Identifier: Apache-2.0
"""Somebody else works on the table exactly between two calls of the reader."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from lakebraid.storage import Storage

T = TypeVar("T")
_READS = frozenset({"read", "read_range", "info", "list", "list_folder", "open_input"})


class RacingStorage:
    """A store whose `at`-th reading call is preceded by `happens`."""

    def __init__(self, storage: Storage, at: int, happens: Callable[[], None]) -> None:
        self._storage, self._at, self._happens = storage, at, happens
        self.calls = 0

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._storage, name)
        if name not in _READS:
            return attribute

        def call(*args: Any, **kwargs: Any) -> Any:
            if self.calls == self._at:
                self._happens()
            self.calls += 1
            return attribute(*args, **kwargs)

        return call


def at_every_call(
    make: Callable[[], Storage], happens: Callable[[Storage], None], read: Callable[[Any], T]
) -> Iterator[tuple[int, T]]:
    """The reader's answers if something happens before its first storage call, before its second, and so on."""
    at = 0
    while True:
        storage = make()
        racing = RacingStorage(storage, at, lambda storage=storage: happens(storage))  # type: ignore[misc]
        answer = read(racing)
        if racing.calls <= at:
            return
        yield at, answer
        at += 1
