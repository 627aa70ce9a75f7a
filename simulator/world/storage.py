# SPDX-License-Identifier: Apache-2.0
"""The simulated store: one disk, and for each process a handle at which calls go wrong."""

from __future__ import annotations

import contextlib
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar
from zlib import crc32

import pyarrow as pa

from lakebraid.errors import ObjectExists, ObjectNotFound, OutcomeUnknown, StorageError
from lakebraid.storage import checks
from lakebraid.storage.checks import check_range, check_size
from lakebraid.storage.disk import TEMPORARY_PREFIX, TEMPORARY_SUFFIX
from lakebraid.storage.protocol import FolderListing, ObjectInfo
from simulator.world.violation import Killed

if TYPE_CHECKING:
    from simulator.world.world import Process, World

URL = "memory://sim"
check_name = lru_cache(100_000)(checks.check_name)
folder_name = lru_cache(10_000)(checks.folder_name)
T = TypeVar("T")
R = TypeVar("R")
Infos: TypeAlias = list[ObjectInfo]
Names: TypeAlias = list[str]


class Disk:
    """What really lies there. Every change is shown to `observe(what, name, data)` when it has happened."""

    def __init__(self, now: Callable[[], float], observe: Callable[[str, str, bytes], None]) -> None:
        self.objects: dict[str, tuple[bytes, int]] = {}
        self.names: list[str] = []
        self._infos: dict[str, ObjectInfo] = {}
        self._private: set[str] = set()
        """Temporary files that somebody left; listings do not show them."""
        self._folders: dict[str, FolderListing] = {}
        """Listings that are still true, by the head of their names."""
        self.full_until = 0.0
        self._now, self._observe = now, observe

    def get(self, name: str) -> tuple[bytes, int]:
        try:
            return self.objects[name]
        except KeyError:
            raise ObjectNotFound(f"{URL}/{name} does not exist. Nothing was changed.", name=name) from None

    def scan(self, head: str, after: str = "") -> Infos:
        names = self.names
        first = max(bisect_left(names, head), bisect_right(names, after))
        # '0' follows '/': everything in the folder is below this text.
        last = bisect_left(names, f"{head[:-1]}0") if head else len(names)
        return [self._infos[name] for name in names[first:last] if name not in self._private]

    def folder(self, head: str) -> FolderListing:
        """Objects and folders right below."""
        known = self._folders.get(head)
        if known is None:
            known = self._folders[head] = _split(head, self.scan(head))
        return known

    def create(self, name: str, data: bytes) -> None:
        if name in self.objects:
            raise ObjectExists(f"{URL}/{name} exists already. Nothing was changed.", name=name)
        self._check_space()
        self._put("create", name, data)

    def replace(self, name: str, data: bytes) -> None:
        self._check_space()
        self._put("replace", name, data)

    def copy(self, source: str, target: str) -> None:
        data, _ = self.get(source)
        if target not in self.objects:
            self._put("create", target, data)

    def copy_bytes(self, data: bytes, target: str) -> None:
        """A copy that does not look at its source; only a planted bug makes one."""
        if target not in self.objects:
            self._put("create", target, data)

    def delete(self, name: str) -> None:
        if name in self.objects:
            data, _ = self.objects.pop(name)
            self.names.pop(bisect_left(self.names, name))
            self._forget(name)
            self._observe("delete", name, data)

    def _put(self, what: str, name: str, data: bytes) -> None:
        if name not in self.objects:
            insort(self.names, name)
        if name.endswith(TEMPORARY_SUFFIX):
            self._private.add(name)
        now_ms = int(self._now())
        self.objects[name] = (data, now_ms)
        self._infos[name] = ObjectInfo(name, len(data), now_ms)
        self._forget(name)
        self._observe(what, name, data)

    def _forget(self, name: str) -> None:
        for head in [head for head in self._folders if name.startswith(head)]:
            del self._folders[head]

    def _check_space(self) -> None:
        if self._now() < self.full_until:
            raise StorageError("The disk is full. Nothing was created. Free some space.")


class SimStorage:
    """Satisfies `lakebraid.storage.Storage` for one process."""

    url = URL

    def __init__(self, world: World, process: Process) -> None:
        self._world, self._process, self._disk = world, process, world.disk

    @property
    def side_by_side(self) -> Callable[[Callable[[T], R], Sequence[T]], list[R]] | None:
        """How calls that need not wait for each other are made, in worlds where their order is left to chance."""
        return self._in_any_order if self._world.is_any_order else None

    def _in_any_order(self, work: Callable[[T], R], wanted: Sequence[T]) -> list[R]:
        """What fails does not keep the others from being made."""
        results: dict[int, R] = {}
        failed: dict[int, StorageError] = {}
        for at in self._process.rng.sample(range(len(wanted)), len(wanted)):
            try:
                results[at] = work(wanted[at])
            except StorageError as error:
                failed[at] = error
        if failed:
            raise failed[min(failed)]
        return [results[at] for at in range(len(wanted))]

    def behind(self, work: Callable[[], None]) -> Callable[[], None]:
        """Does the work in a thread of this process; what is given back waits for its end."""
        return self._process.behind(work)

    def read(self, name: str, size_max: int) -> bytes:
        self._reading("read", name)
        data, _ = self._disk.get(name)
        check_size(f"{URL}/{name}", len(data), size_max)
        return data

    def read_range(self, name: str, start: int, length: int) -> bytes:
        check_range(start, length)
        self._reading("read_range", name)
        return self._disk.get(name)[0][start : start + length]

    def info(self, name: str) -> ObjectInfo:
        self._reading("info", name)
        data, modified_ms = self._disk.get(name)
        return ObjectInfo(name, len(data), modified_ms)

    def open_input(self, name: str) -> Any:
        self._reading("open_input", name)
        return pa.BufferReader(self._disk.get(name)[0])

    def list(self, prefix: str = "", *, after: str = "") -> list[ObjectInfo]:
        head = _head(prefix)
        self._process.beside = after
        return self._listing("list", prefix, lambda: self._disk.scan(head, after))

    def list_folder(self, folder: str = "") -> FolderListing:
        head = _head(folder)
        kind, salt = self._reading("list_folder", folder)
        if kind == "split":
            return _split(head, self._listed_twice(folder, lambda: self._disk.scan(head), salt))
        objects, folders = self._disk.folder(head)
        return [*objects], [*folders]

    def list_names(self, folder: str) -> Names:
        return [info.name.rpartition("/")[2] for info in self.list_folder(folder)[0]]

    def create(self, name: str, data: bytes) -> None:
        data = bytes(data)
        self._changing("create", name, lambda: self._disk.create(name, data), partial(self._tear, name, data))

    def replace(self, name: str, data: bytes) -> None:
        data = bytes(data)
        self._changing("replace", name, lambda: self._disk.replace(name, data))

    def copy(self, source: str, target: str) -> None:
        check_name(source)
        self._process.beside = source
        self._changing("copy", target, lambda: self._disk.copy(source, target))

    def delete(self, names: Iterable[str]) -> None:
        for name in list(names):  # one request each: a deletion of many can stop anywhere
            self._changing("delete", name, partial(self._disk.delete, name))

    def _tear(self, name: str, data: bytes) -> None:
        """What a process leaves that dies while it creates an object on a local disk.

        We write under a private name, which no listing shows, and link; Apache Hudi writes under the name itself.
        """
        folder, _, file = name.rpartition("/")
        if self._process.writes_in_place:
            _quietly(lambda: self._disk.create(name, b""))
        else:
            private = f"{folder}/{TEMPORARY_PREFIX}{crc32(file.encode()):08x}{TEMPORARY_SUFFIX}"
            self._disk.replace(private, data[: len(data) // 2])

    def native_path(self, name: str) -> str | None:
        check_name(name)
        return None

    def _reading(self, op: str, name: str) -> tuple[str, int]:
        fault = self._world.point(op, name) or ("", 0)
        match fault[0]:
            case "kill_before":
                self._world.kill(self._process)
                raise Killed
            case "refused":
                raise StorageError(f"{op} {name} was refused. Nothing was changed. Try again.")
        return fault

    def _listing(self, op: str, name: str, scan: Callable[[], Infos]) -> Infos:
        kind, salt = self._reading(op, name)
        return self._listed_twice(name, scan, salt) if kind == "split" else scan()

    def _listed_twice(self, name: str, scan: Callable[[], Infos], salt: int) -> Infos:
        # Each name is looked at in the first or the second moment; whatever exists in both is found.
        is_first = _part(scan(), salt)
        first = [i for i in scan() if is_first(i.name)]
        self._world.point("page", name)
        found = [*first, *(i for i in scan() if not is_first(i.name))]
        found.sort(key=lambda info: info.name)
        return found

    def _changing(self, op: str, name: str, effect: Callable[[], None], tear: Callable[[], None] | None = None) -> None:
        check_name(name)
        kind, length = self._world.point(op, name) or ("", 0)
        world = self._world
        if not kind or kind in ("pause", "slow", "back", "leap", "split"):
            effect()
            return
        match kind:
            case "kill_before" | "kill_after" | "kill_late" | "torn":
                deeds = {"kill_after": effect, "torn": tear or _nothing}
                _quietly(deeds.get(kind, _nothing))
                if kind == "kill_late":
                    world.later(op, name, effect, length)
                world.kill(self._process)
                raise Killed
            case "refused":
                raise StorageError(f"{op} {name} was refused. Nothing was changed. Try again.")
            case "full":
                self._disk.full_until = world.now + length
                effect()
            case "lost":
                _quietly(effect)
                raise _unknown(op, name)
            case "late":
                world.later(op, name, effect, length)
                raise _unknown(op, name)
            case "vanished":
                raise _unknown(op, name)
            case "again":
                effect()
                world.later(op, name, effect, length)
            case "echo":
                effect()
                effect()
            case _:
                raise AssertionError(kind)


def _split(head: str, infos: Infos) -> FolderListing:
    objects: Infos = []
    folders: Names = []
    for info in infos:
        child, slash, _ = info.name[len(head) :].partition("/")
        if not slash:
            objects.append(info)
        elif not folders or folders[-1] != head + child:
            folders.append(head + child)
    return objects, folders


def _part(infos: list[ObjectInfo], salt: int) -> Callable[[str], bool]:
    """Which names are seen in the first of two moments: those before a middle, those after it, or any."""
    names = [info.name for info in infos]
    pivot = names[salt % len(names)] if names else ""
    match salt % 3:
        case 0:
            return lambda name: name <= pivot
        case 1:
            return lambda name: name >= pivot
        case _:
            return lambda name: crc32(name.encode(), salt) & 1 == 0


def _nothing() -> None:
    """What a process that dies before its request was sent has done."""


def _quietly(effect: Callable[[], None]) -> None:
    with contextlib.suppress(StorageError):
        effect()


def _unknown(op: str, name: str) -> OutcomeUnknown:
    return OutcomeUnknown(f"{op} {name} was not answered. It may have happened. Look before trying again.")


def _head(prefix: str) -> str:
    folder = folder_name(prefix)
    return f"{folder}/" if folder else ""
