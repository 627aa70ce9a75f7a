# SPDX-License-Identifier: Apache-2.0
"""How many storage calls something makes in a row, if calls that are made side by side count once.

On an object store that is how long it takes, in calls, whatever the machine. The work of the pool is done here item by
item in one thread, and counted as if all items had been begun at once: so the answer is the same each time, and is that
of a store which takes any number of calls.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import pyarrow as pa
import pytest

from lakebraid.storage import ObjectStorage, Storage, parallel
from lakebraid.storage.objects.file import ObjectFile

T = TypeVar("T")
R = TypeVar("R")
_CALLS: Final = frozenset(
    {
        "read",
        "read_listed",
        "read_range",
        "info",
        "list",
        "list_folder",
        "list_names",
        "create",
        "replace",
        "copy",
        "delete",
    }
)


@dataclass
class Depth:
    """Calls that one thread makes; others, as those that beat, do not keep it waiting."""

    thread: int = field(default_factory=threading.get_ident)
    now: int = 0
    """Calls in a row up to here."""
    calls: int = 0
    """Calls in all."""

    def step(self) -> None:
        if threading.get_ident() == self.thread:
            self.now += 1
            self.calls += 1

    def side_by_side(self, work: Callable[[T], R], items: Iterable[T]) -> list[R]:
        """Each item begins where all begin, and they end where the deepest ends."""
        began = deepest = self.now
        results = []
        for item in items:
            self.now = began
            results.append(work(item))
            deepest = max(deepest, self.now)
        self.now = deepest
        return results


class DeepStorage:
    """A store that makes its callers wait, as the pool sees it, and counts their calls."""

    calls_at_once = ObjectStorage.calls_at_once

    def __init__(self, inner: Storage) -> None:
        self._inner = inner
        self.depth = Depth()

    @property
    def url(self) -> str:
        return self._inner.url

    def open_input(self, name: str) -> Any:
        size = self.__getattr__("info")(name).size
        return pa.PythonFile(ObjectFile(self, name, size), mode="r")

    def native_path(self, name: str) -> str | None:
        return None

    def behind(self, work: Callable[[], None]) -> Callable[[], None]:
        """Work behind the caller's back begins where the caller is; who joins it is at least as far as it is."""
        depth, began = self.depth, self.depth.now
        work()
        ended, depth.now = depth.now, began

        def join() -> None:
            depth.now = max(depth.now, ended)

        return join

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._inner, name)
        if name not in _CALLS:
            return attribute

        def call(*args: Any, **kwargs: Any) -> Any:
            self.depth.step()
            return attribute(*args, **kwargs)

        return call


@contextlib.contextmanager
def measured(storage: DeepStorage) -> Iterator[Depth]:
    """What is called in this block."""
    storage.depth = depth = Depth()

    def map_within(_width: int, work: Callable[[T], R], items: Iterable[T], *, size: object = None) -> list[R]:
        return depth.side_by_side(work, items)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parallel, "map_within", map_within)
        yield depth
