# SPDX-License-Identifier: Apache-2.0
"""What only the store in memory promises: it is repeatable, and stays where it is."""

from __future__ import annotations

import itertools
import pickle

import pytest

from lakebraid.clock import SystemClock
from lakebraid.errors import InvalidArgument
from lakebraid.storage import MemoryStorage, ObjectInfo

pytestmark = pytest.mark.unit


class CountingClock(SystemClock):
    def __init__(self) -> None:
        self._ticks = itertools.count(1000)

    def now_ms(self) -> int:
        return next(self._ticks)


def test_times_come_from_the_given_clock() -> None:
    storage = MemoryStorage(clock=CountingClock())
    storage.create("a", b"x")
    storage.copy("a", "b")
    storage.replace("c", b"")
    assert storage.list() == [ObjectInfo("a", 1, 1000), ObjectInfo("b", 1, 1001), ObjectInfo("c", 0, 1002)]


def test_a_copy_onto_an_existing_target_leaves_it_as_it_is() -> None:
    storage = MemoryStorage(clock=CountingClock())
    storage.create("a", b"x")
    storage.copy("a", "b")
    before = storage.info("b")
    storage.copy("a", "b")
    assert storage.info("b") == before


def test_bytes_given_to_a_create_can_be_changed_afterwards_without_effect() -> None:
    storage = MemoryStorage()
    data = bytearray(b"before")
    storage.create("a", data)  # type: ignore[arg-type]  # what a careless caller does
    data[:] = b"after!"
    assert storage.read("a", 10) == b"before"


def test_memory_does_not_travel() -> None:
    with pytest.raises(InvalidArgument, match="cannot travel"):
        pickle.dumps(MemoryStorage("memory://x"))


def test_spark_cannot_address_memory() -> None:
    assert MemoryStorage().native_path("f.parquet") is None
