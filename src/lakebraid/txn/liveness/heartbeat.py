# SPDX-License-Identifier: Apache-2.0
"""Heartbeats: how others see that a writer is alive, and what they call it. They say when to try a rollback, never whether
it is safe.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from lakebraid import limits
from lakebraid.clock import Clock
from lakebraid.errors import AccessDenied, ObjectNotFound, StorageError
from lakebraid.format.times import parse_instant_time
from lakebraid.model.config import TableConfig
from lakebraid.storage.parallel import Behind
from lakebraid.storage.protocol import Storage
from lakebraid.table.at import TableAt
from lakebraid.tasks.new_files import MARKERS
from lakebraid.txn.ledger.entries import FOLDER

HEARTBEATS = ".hoodie/.heartbeat"


def beat_interval_ms(config: TableConfig) -> int:
    """How often to beat. The judge has settings of its own, and a beat may be slow: so three times as often as the table
    demands.
    """
    return min((config.heartbeat_interval_ms or limits.HEARTBEAT_TIMEOUT_MS) // 3, limits.HEARTBEAT_INTERVAL_MS)


def silence_ms_max(config: TableConfig) -> int:
    """After which silence a writer may be rolled back: Hudi's own settings of the table, or two minutes."""
    if config.heartbeat_interval_ms is None:
        return limits.HEARTBEAT_TIMEOUT_MS
    return config.heartbeat_interval_ms * (config.heartbeat_misses or 2)


def heartbeat_name(request_time: str) -> str:
    return f"{HEARTBEATS}/{request_time}"


def beat(storage: Storage, request_time: str) -> bool:
    """Shows that the writer lives; False if the store did not take it. One missed beat is no harm."""
    try:
        storage.replace(heartbeat_name(request_time), b"")
    except StorageError:
        return False
    return True


def beat_first(storage: Storage, request_time: str) -> bool:
    """The same before others see what they are to take for alive: Hudi takes it for dead at once without."""
    return any(beat(storage, request_time) for _ in range(limits.FIRST_BEAT_ATTEMPTS_MAX))


def forget(storage: Storage, request_time: str, *, is_far: bool = False) -> None:
    """Removes the markers and the heartbeat of a write that is over; what is left behind does no harm.

    Where calls take long no caller waits for it.
    """

    def remove() -> None:
        with contextlib.suppress(StorageError):
            markers = [info.name for info in storage.list(f"{MARKERS}/{request_time}")]
            storage.delete([*markers, heartbeat_name(request_time)])

    if is_far:
        Behind(storage, remove)
    else:
        remove()


def process_name() -> str:
    """This very process, as people call it."""
    return f"process {os.getpid()} of lakebraid on {socket.gethostname()}"


@dataclass
class Heartbeat:
    """Beats in the background until it is stopped; `on_lost` is called once if the write was rolled back."""

    storage: Storage
    request_time: str
    interval_s: float = limits.HEARTBEAT_INTERVAL_MS / 1000
    check: Callable[[], bool] | None = None
    """Asked after each beat whether the write still has its place; False ends the beating."""
    on_lost: Callable[[], None] | None = None
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def run(self) -> None:
        """Starts the thread; the first beat comes after one interval, since beginning has beaten already."""
        self._thread = threading.Thread(target=self._loop, name=f"lakebraid-beat-{self.request_time}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()

    def _loop(self) -> None:
        while not self._stop.wait(self.interval_s):
            beat(self.storage, self.request_time)
            if self.check is not None and self._is_lost(self.check):
                if self.on_lost is not None:
                    self.on_lost()
                return

    @staticmethod
    def _is_lost(check: Callable[[], bool]) -> bool:
        with contextlib.suppress(StorageError):
            return not check()
        return False


def storage_now_ms(storage: Storage, clock: Clock) -> int:
    """The storage's own time, by which beats are dated: the judge's clock may be wrong.

    A process that may only read gets this machine's: it looks, and decides nothing by it.
    """
    name = f"{FOLDER}/clock/{clock.token()}"
    try:
        storage.replace(name, b"")  # no other process has the name, and a replacement may be tried again
    except AccessDenied:
        return clock.now_ms()
    try:
        return storage.info(name).modified_ms
    finally:
        with contextlib.suppress(StorageError):
            storage.delete([name])


def is_expired(table: TableAt, request_time: str, now_ms: int, timeout_ms: int) -> bool:
    """Whether the last beat, or without any the request time, is `timeout_ms` or more before the storage's `now_ms`."""
    try:
        last_ms = table.storage.info(heartbeat_name(request_time)).modified_ms
    except ObjectNotFound:
        last_ms = parse_instant_time(request_time, table.config.zone)
    return now_ms - last_ms >= timeout_ms
