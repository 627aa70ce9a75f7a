# SPDX-License-Identifier: Apache-2.0
"""A store in memory: the same promises, for tests, examples and the simulator."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from lakebraid.clock import Clock, SystemClock
from lakebraid.errors import InvalidArgument, ObjectExists, ObjectNotFound
from lakebraid.storage.checks import check_name, check_names, check_range, check_size, folder_name
from lakebraid.storage.protocol import FolderListing, Names, ObjectInfo

_WRITES: Final = itertools.count(1)
"""Of all stores of this process: so two objects are never of one version."""


@dataclass(frozen=True, slots=True)
class MemoryStorage:
    """Objects in a dictionary, safe to use from many threads; gone with the process.

    The times of objects come from `clock`, so a simulated clock makes everything repeatable.
    """

    url: str = "memory://"
    clock: Clock = field(default_factory=SystemClock, repr=False)
    _objects: dict[str, tuple[bytes, int]] = field(default_factory=dict, repr=False)
    _changes: dict[str, int] = field(default_factory=dict, repr=False)
    """Which write of the process was the last of each name."""
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def read(self, name: str, size_max: int) -> bytes:
        data, _ = self._get(name)
        check_size(f"{self.url}/{name}", len(data), size_max)
        return data

    @property
    def reader(self) -> str:
        return ""

    def read_listed(self, name: str, size_max: int) -> tuple[bytes, str]:
        version = self._changes.get(name)
        data = self.read(name, size_max)
        return data, str(version) if version == self._changes[name] else ""

    def read_range(self, name: str, start: int, length: int) -> bytes:
        check_range(start, length)
        data, _ = self._get(name)
        return data[start : start + length]

    def info(self, name: str) -> ObjectInfo:
        data, modified_ms = self._get(name)
        return ObjectInfo(name, len(data), modified_ms)

    def list(self, prefix: str = "", *, after: str = "") -> list[ObjectInfo]:
        head = _head(prefix)
        with self._lock:
            found = [
                ObjectInfo(name, len(data), modified_ms, str(self._changes[name]))
                for name, (data, modified_ms) in self._objects.items()
                if name.startswith(head) and name > after
            ]
        return sorted(found, key=lambda info: info.name)

    def list_folder(self, folder: str = "") -> FolderListing:
        head = _head(folder)
        objects, folders = [], set()
        for info in self.list(folder):
            child, slash, _ = info.name[len(head) :].partition("/")
            if slash:
                folders.add(head + child)
            else:
                objects.append(info)
        return objects, sorted(folders)

    def list_names(self, folder: str) -> Names:
        return [info.name.rpartition("/")[2] for info in self.list_folder(folder)[0]]

    def create(self, name: str, data: bytes) -> None:
        check_name(name)
        with self._lock:
            if name in self._objects:
                raise ObjectExists(f"{self.url}/{name} exists already. Nothing was changed.", name=name)
            self._put(name, data)

    def replace(self, name: str, data: bytes) -> None:
        check_name(name)
        with self._lock:
            self._put(name, data)

    def read_version(self, name: str, size_max: int) -> tuple[bytes, Any]:
        check_name(name)
        with self._lock:
            if name not in self._objects:
                raise self._absent(name)
            data, version = self._objects[name][0], self._changes[name]
        check_size(f"{self.url}/{name}", len(data), size_max)
        return data, version

    def replace_version(self, name: str, data: bytes, version: Any) -> Any | None:
        check_name(name)
        with self._lock:
            if name not in self._objects or self._changes[name] != version:
                return None
            self._put(name, data)
            return self._changes[name]

    def copy(self, source: str, target: str) -> None:
        check_name(source)
        check_name(target)
        with self._lock:
            if source not in self._objects:
                raise self._absent(source)
            if target not in self._objects:
                self._put(target, self._objects[source][0])

    def delete(self, names: Iterable[str]) -> None:
        doomed = check_names(names)
        with self._lock:
            for name in doomed:
                self._objects.pop(name, None)

    def open_input(self, name: str) -> Any:
        return pa.BufferReader(self._get(name)[0])

    def native_path(self, name: str) -> str | None:
        """None: no other process can see into this one's memory."""
        check_name(name)
        return None

    def _put(self, name: str, data: bytes) -> None:
        self._objects[name] = (bytes(data), self.clock.now_ms())
        self._changes[name] = next(_WRITES)

    def _get(self, name: str) -> tuple[bytes, int]:
        check_name(name)
        with self._lock:
            if name not in self._objects:
                raise self._absent(name)
            return self._objects[name]

    def _absent(self, name: str) -> ObjectNotFound:
        return ObjectNotFound(f"{self.url}/{name} does not exist. Nothing was changed.", name=name)

    def __reduce__(self) -> tuple[Any, ...]:
        raise InvalidArgument(
            f"{self.url} lives in the memory of one process and cannot travel to another. Nothing was changed. "
            "Use a folder or an object store for tables that Spark's executors must reach."
        )


def _head(prefix: str) -> str:
    folder = folder_name(prefix)
    return f"{folder}/" if folder else ""
