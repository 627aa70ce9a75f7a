# SPDX-License-Identifier: Apache-2.0
"""Storage calls side by side: one bounded pool of threads for each process.

An object store takes tens of milliseconds for each call, and any number of them at once; a local disk takes
microseconds, and a thread costs more than the call. A storage says which it is (`calls_at_once`); where it says
nothing, calls are made one after the other, in the thread that wants them, as they always are in the simulator.

A thread that wants calls made makes them itself, too, and the threads of the pool only help. So work that is done in the pool
may want calls of its own: if no thread is free, it makes them all by itself, and does not wait for one.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import Context, copy_context
from functools import partial
from typing import Any, Final, Generic, TypeVar, cast

from lakebraid.errors import StorageError
from lakebraid.limits import STORE_BYTES_AT_ONCE_MAX, STORE_CALLS_AT_ONCE_MAX
from lakebraid.storage.protocol import Storage

T = TypeVar("T")
R = TypeVar("R")


def calls_at_once(storage: object) -> int:
    """How many calls of this storage are worth making at once: what it says itself, within the limit of a process; else 1."""
    return max(1, min(STORE_CALLS_AT_ONCE_MAX, int(getattr(storage, "calls_at_once", 1))))


def map_calls(
    storage: object, work: Callable[[T], R], items: Iterable[T], *, size: Callable[[T], int] | None = None
) -> list[R]:
    """`work` for each item, in the order of the items: side by side if the storage is one that makes callers wait.

    `size` says how many bytes the work for an item holds in memory; all calls of a process together hold no more than
    the limit, or one item each. If several fail, the error is that of the first in order, as in a plain loop; when it
    is raised no call is under way any more, but some that come after it in order may have been made.
    """
    given = getattr(storage, "side_by_side", None)
    if given is not None:
        return cast("list[R]", given(work, list(items)))
    return map_within(calls_at_once(storage), work, items, size=size)


def map_slices(
    storage: object, work: Callable[[T], R], items: Iterable[T], *, size: Callable[[T], int] | None = None
) -> list[R]:
    """The same for work that computes as well: on a local disk one thread for each core, whatever they hold.

    On an object store many may have begun, and of those that do not wait for the store one for each core goes on.
    """
    width = calls_at_once(storage)
    if width < 2:
        return map_within(os.cpu_count() or 1, work, items)

    def compute(item: T) -> R:
        with _CORES.computing():
            return work(item)

    return map_within(width, compute, items, size=size)


def together(storage: object, *calls: Callable[[], Any]) -> list[Any]:
    """The results of calls that do not need each other's."""
    return map_calls(storage, lambda call: call(), calls)


def map_ahead(
    storage: object, work: Callable[[T], Iterable[R]], items: Sequence[T], size: Callable[[T], int]
) -> Iterator[R]:
    """All that the work gives for the items, in order, for those who take it step by step and do not keep it.

    On an object store several items are worked on at once and what they give is kept so long, as far as `size` allows; a
    large one, and each on a local disk, is worked on alone, as its results are taken.
    """
    for window in windows(storage, items, size):
        if len(window) == 1:
            yield from work(window[0])
            continue
        for found in map_slices(storage, lambda item: list(work(item)), window, size=size):
            yield from found


def windows(storage: object, items: Sequence[T], size: Callable[[T], int]) -> Iterator[Sequence[T]]:
    """The items in order, as many at a time as may be fetched at once and kept together; one by one on a local disk.

    For those who need one after the other and may stop early, or cannot keep them all.
    """
    count, at = calls_at_once(storage), 0
    while at < len(items):
        held, until = size(items[at]), at + 1
        while until < min(len(items), at + count) and held + size(items[until]) <= STORE_BYTES_AT_ONCE_MAX // 4:
            held, until = held + size(items[until]), until + 1
        yield items[at:until]
        at = until


class Behind(Generic[R]):
    """Work that goes on behind the back of its caller; `result` waits for it, and is what the caller makes of it."""

    def __init__(self, storage: object, work: Callable[[], R]) -> None:
        """On a storage that makes callers wait it is done in the pool; elsewhere at once, or as the storage says (`behind`)."""
        self._work = work
        self._taken, self._done = threading.Lock(), threading.Event()
        self._outcome: tuple[R | None, BaseException | None] = (None, None)
        given = getattr(storage, "behind", None)
        self._join: Callable[[], None] | None = None
        if given is not None:
            self._join = given(self._run)
        elif calls_at_once(storage) < 2 or not _POOL.help(partial(copy_context().run, self._run)):
            self._run()

    def result(self) -> R:
        """What the work gives, or its error. If no thread of the pool has begun it, the caller does it."""
        if self._join is not None:
            self._join()
        self._run()
        self._done.wait()
        found, error = self._outcome
        if error is not None:
            raise error
        return cast("R", found)

    def _run(self) -> None:
        if not self._taken.acquire(blocking=False):
            return
        try:
            self._outcome = (self._work(), None)
        except BaseException as error:  # noqa: BLE001 - raised by `result`, in the caller's thread
            self._outcome = (None, error)
        finally:
            self._done.set()


def delete_later(storage: Storage, names: Iterable[str], *, is_far: bool = True) -> None:
    """Removes objects that do no harm if they stay: behind the caller's back where calls take long, and without an error."""
    doomed = list(names)

    def delete() -> None:
        with suppress(StorageError):
            storage.delete(doomed)

    if doomed and is_far:
        Behind(storage, delete)
    elif doomed:
        delete()


def map_within(
    width: int, work: Callable[[T], R], items: Iterable[T], *, size: Callable[[T], int] | None = None
) -> list[R]:
    """The same with so many threads at most, the caller's among them."""
    wanted = items if isinstance(items, Sequence) else list(items)
    if width < 2 or len(wanted) < 2:
        return [work(item) for item in wanted]
    return _Batch(work, wanted, min(width, len(wanted)), size).run()


def waiting() -> AbstractContextManager[None]:
    """For calls to a store inside of the work of `map_slices`: other slices may be computed at the same time."""
    return _CORES.waiting()


class _Cores:
    """Threads that compute: one for each core. More would take Python's lock from each other after every small step,
    which takes longer than the steps. A thread counts from `computing` on, except while it is `waiting`.
    """

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        self._free = threading.Semaphore(os.cpu_count() or 1)
        self._mine = threading.local()

    @contextmanager
    def computing(self) -> Iterator[None]:
        if getattr(self._mine, "is_counted", False):
            yield  # work within work
            return
        free, mine = self._free, self._mine
        with free:
            mine.is_counted = True
            try:
                yield
            finally:
                mine.is_counted = False

    @contextmanager
    def waiting(self) -> Iterator[None]:
        if not getattr(self._mine, "is_counted", False):
            yield
            return
        free, mine = self._free, self._mine
        mine.is_counted = False
        free.release()
        try:
            yield
        finally:
            free.acquire()
            mine.is_counted = True


class _Pool:
    """The threads that help, and the bytes that all work holds at the moment. A forked child begins with its own."""

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        self._lock = threading.Lock()
        self._held = 0
        self._threads: ThreadPoolExecutor | None = None

    def help(self, task: Callable[[], None]) -> bool:
        """Whether a thread will do it; while an interpreter ends there are none any more."""
        with self._lock:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(STORE_CALLS_AT_ONCE_MAX, "lakebraid-io")
            threads = self._threads
        try:
            threads.submit(task)
        except RuntimeError:
            return False
        return True

    def take(self, size: int, *, must: bool) -> bool:
        """Whether so many bytes may be held; who `must` go on holds them anyway."""
        with self._lock:
            if not must and self._held + size > STORE_BYTES_AT_ONCE_MAX:
                return False
            self._held += size
            return True

    def give_back(self, size: int) -> None:
        with self._lock:
            self._held -= size


_POOL: Final = _Pool()
_CORES: Final = _Cores()
os.register_at_fork(after_in_child=_POOL.renew)
os.register_at_fork(after_in_child=_CORES.renew)


class _Batch(Generic[T, R]):
    """Items that are taken in order, by the caller and by those who help it."""

    def __init__(self, work: Callable[[T], R], items: Sequence[T], width: int, size: Callable[[T], int] | None) -> None:
        self._work, self._items, self._width, self._size = work, items, width, size
        self._changed = threading.Condition()
        self._next = 0
        self._busy = 0
        """Threads of the pool that have an item of this batch."""
        self._helpers = 0
        """Threads of the pool that were asked and have not gone yet."""
        self._results: dict[int, R] = {}
        self._failed: dict[int, BaseException] = {}

    def run(self) -> list[R]:
        self._summon()
        try:
            while self._one(must=True):
                pass
        finally:
            # Whatever happens, no thread works behind the caller's back.
            with waiting(), self._changed:
                self._next = len(self._items)
                self._changed.wait_for(lambda: self._busy == 0)
        if self._failed:
            raise self._failed[min(self._failed)]
        return [self._results[at] for at in range(len(self._items))]

    def _summon(self) -> None:
        """Asks for as many threads as may help; those who come late find nothing to do."""
        with self._changed:
            missing = min(self._width - 1 - self._helpers, len(self._items) - self._next)
            self._helpers += max(0, missing)
        for asked in range(missing):
            context = copy_context()
            if not _POOL.help(lambda context=context: self._help(context)):  # type: ignore[misc]
                with self._changed:
                    self._helpers -= missing - asked
                return

    def _help(self, context: Context) -> None:
        try:
            while context.run(self._one, must=False):
                pass
        finally:
            with self._changed:
                self._helpers -= 1

    def _one(self, *, must: bool) -> bool:
        """Does the next item; False if there is none, or no room for it."""
        taken = self._taken(must=must)
        if taken is None:
            return False
        at, size = taken
        try:
            self._results[at] = self._work(self._items[at])
        except BaseException as error:  # noqa: BLE001 - raised by `run`, in the caller's thread
            self._failed[at] = error
        finally:
            _POOL.give_back(size)
            self._ended(must=must, had_size=size > 0)
        return True

    def _taken(self, *, must: bool) -> tuple[int, int] | None:
        with self._changed:
            if self._failed or self._next >= len(self._items):
                return None
            at = self._next
            size = self._size(self._items[at]) if self._size is not None else 0
            if not _POOL.take(size, must=must):
                return None
            self._next += 1
            self._busy += not must
            return at, size

    def _ended(self, *, must: bool, had_size: bool) -> None:
        with self._changed:
            self._busy -= not must
            self._changed.notify_all()
        if had_size:
            self._summon()  # there is room again for those who had gone
