# SPDX-License-Identifier: Apache-2.0
"""A folder that answers as slowly as an object store, and notes every request.

`delayed(latencies)` makes every local path that is opened in this process such a folder: `open_storage` looks its class
up when it is called, so one name is exchanged, and tables, services and commands need not be told. A process that
another one starts calls `install` first.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, TypeVar

import pyarrow as pa

from benchmarks.cloud.rig.calls import TALLY, Call
from benchmarks.cloud.rig.latency import PAGE, Latencies, pages
from lakebraid.storage import LocalStorage, ObjectStorage, opening
from lakebraid.storage.objects.file import ObjectFile
from lakebraid.storage.protocol import FolderListing, Names, ObjectInfo, Storage

T = TypeVar("T")
_CLASS = "LocalStorage"


class DelayedStorage:
    """Sends every call on to another storage, in the middle of the time that an object store takes for it.

    In the middle, for that is when a request takes effect: two creates of one name are decided between their starts and
    their ends. No lock is held, so threads sleep side by side. What the object store's client does in several requests
    (further pages, a look before a file is read) takes several here.
    """

    calls_at_once = ObjectStorage.calls_at_once

    def __init__(self, inner: Storage, latencies: Latencies, seed: int = 0) -> None:
        self._inner, self._latencies, self._seed = inner, latencies, seed
        self._chance = random.Random(seed)

    def __reduce__(self) -> tuple[Any, ...]:
        return DelayedStorage, (self._inner, self._latencies, self._seed)

    def __repr__(self) -> str:
        return f"DelayedStorage({self._inner!r})"

    @property
    def url(self) -> str:
        return self._inner.url

    def read(self, name: str, size_max: int) -> bytes:
        return self._sent("get", name, lambda: self._inner.read(name, size_max), len)

    @property
    def reader(self) -> str:
        return ""

    def read_listed(self, name: str, size_max: int) -> tuple[bytes, str]:
        return self._sent("get", name, lambda: self._listed(name, size_max), lambda found: len(found[0]))

    def _listed(self, name: str, size_max: int) -> tuple[bytes, str]:
        before, data, after = self._inner.info(name), self._inner.read(name, size_max), self._inner.info(name)
        return data, _told(after).version if before == after else ""

    def read_range(self, name: str, start: int, length: int) -> bytes:
        kind = "get" if length else "head"
        return self._sent(kind, name, lambda: self._inner.read_range(name, start, length), len)

    def info(self, name: str) -> ObjectInfo:
        return self._sent("head", name, lambda: self._inner.info(name))

    def list(self, prefix: str = "", *, after: str = "") -> list[ObjectInfo]:
        found = self._sent("list", prefix, lambda: self._inner.list(prefix, after=after))
        return self._paged(prefix, [_told(info) for info in found], len(found))

    def list_folder(self, folder: str = "") -> FolderListing:
        found = self._sent("list", folder, lambda: self._inner.list_folder(folder))
        told = ([_told(info) for info in found[0]], found[1])
        return self._paged(folder, told, len(found[0]) + len(found[1]))

    def list_names(self, folder: str) -> Names:
        found = self._sent("list", folder, lambda: self._inner.list_names(folder))
        return self._paged(folder, found, len(found))

    def create(self, name: str, data: bytes) -> None:
        self._sent("put", name, lambda: self._inner.create(name, data), lambda _: len(data))

    def replace(self, name: str, data: bytes) -> None:
        self._sent("put", name, lambda: self._inner.replace(name, data), lambda _: len(data))

    def copy(self, source: str, target: str) -> None:
        self._sent("copy", target, lambda: self._inner.copy(source, target))

    def delete(self, names: Iterable[str]) -> None:
        doomed = [*names]
        for at in range(0, len(doomed), PAGE):
            part = doomed[at : at + PAGE]
            self._sent("delete", part[0], lambda part=part: self._inner.delete(part))  # type: ignore[misc]

    def open_input(self, name: str) -> Any:
        return pa.PythonFile(ObjectFile(self, name, self.info(name).size), mode="r")

    def native_path(self, name: str) -> str | None:
        """None: Spark's own reader would not be delayed."""
        return None

    def _sent(self, kind: str, name: str, request: Callable[[], T], size: Callable[[T], int] | None = None) -> T:
        slept, begin, sent = self._latencies.seconds(kind, self._chance), time.monotonic(), 0
        time.sleep(slept / 2)
        try:
            answer = request()
            sent = size(answer) if size else 0
        finally:
            time.sleep(slept / 2)
            TALLY.calls.append(Call(kind, name, begin, time.monotonic(), sent, slept))
        return answer

    def _paged(self, name: str, found: T, count: int) -> T:
        for _ in range(pages(count) - 1):
            self._sent("list", name, lambda: None)
        return found


def _told(info: ObjectInfo) -> ObjectInfo:
    """With a version, as object stores list it. Files of the rig are written once."""
    return replace(info, version=f"{info.size} {info.modified_ms}")


def install(latencies: Latencies, seed: int = 0) -> None:
    """From now on local paths are opened as delayed folders, for as long as this process lives."""
    _exchange(lambda root: DelayedStorage(LocalStorage(root), latencies, seed))
    if not isinstance(opening.open_storage("."), DelayedStorage):
        raise SystemExit("open_storage no longer looks its class up in lakebraid.storage.opening: adapt `install`.")


@contextlib.contextmanager
def delayed(latencies: Latencies, seed: int = 0) -> Iterator[None]:
    before = vars(opening)[_CLASS]
    install(latencies, seed)
    try:
        yield
    finally:
        _exchange(before)


def _exchange(make: Callable[[str], Storage]) -> None:
    setattr(opening, _CLASS, make)
