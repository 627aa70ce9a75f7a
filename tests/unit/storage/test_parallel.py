# SPDX-License-Identifier: Apache-2.0
"""The pool: calls side by side, as if they had been made one after the other."""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Callable
from contextvars import ContextVar
from multiprocessing.queues import SimpleQueue

import pytest

from lakebraid import limits
from lakebraid.storage import LocalStorage, MemoryStorage
from lakebraid.storage.parallel import calls_at_once, map_calls, map_within, together

pytestmark = pytest.mark.unit
NAMED: ContextVar[str] = ContextVar("NAMED", default="")


class Slow:
    calls_at_once = 16


class Width:
    """How many were at work at the same time, at most; the first few wait until so many are there."""

    def __init__(self, meeting: int) -> None:
        self._met = threading.Barrier(meeting)
        self._lock = threading.Lock()
        self.now = self.most = 0

    def __call__(self, item: int) -> int:
        with self._lock:
            self.now += 1
            self.most = max(self.most, self.now)
        if item < self._met.parties:
            self._met.wait(30)
        with self._lock:
            self.now -= 1
        return item * item


def test_results_come_in_the_order_of_the_items_though_all_calls_are_made_at_once() -> None:
    work = Width(meeting=16)
    assert map_calls(Slow(), work, range(16)) == [item * item for item in range(16)]
    assert work.most == 16


def test_no_more_calls_are_made_at_once_than_the_storage_allows() -> None:
    work = Width(meeting=16)
    map_calls(Slow(), work, range(400))
    assert work.most == 16


@pytest.mark.parametrize(
    "storage",
    [LocalStorage("/nowhere"), MemoryStorage(), object()],
    ids=lambda storage: type(storage).__name__,
)
def test_a_disk_or_an_unknown_storage_is_called_by_the_callers_thread_alone(storage: object) -> None:
    assert calls_at_once(storage) == 1
    assert set(map_calls(storage, lambda _: threading.get_ident(), range(20))) == {threading.get_ident()}


def test_no_storage_gets_more_calls_at_once_than_the_limit_of_a_process() -> None:
    class Boasting:
        calls_at_once = 1_000_000

    assert calls_at_once(Boasting()) == limits.STORE_CALLS_AT_ONCE_MAX


def test_the_error_is_that_of_the_first_item_that_fails_and_nothing_is_under_way_any_more() -> None:
    under_way = Width(meeting=8)

    def work(item: int) -> int:
        under_way(item)
        if item in (3, 5):
            raise KeyError(item)
        return item

    with pytest.raises(KeyError) as raised:
        map_within(8, work, range(1000))
    assert raised.value.args == (3,)
    assert under_way.now == 0


def test_work_in_the_pool_that_wants_calls_itself_never_waits_for_a_thread() -> None:
    def inner(item: int) -> int:
        return sum(map_calls(Slow(), lambda other: other, range(item)))

    def outer(item: int) -> list[int]:
        return map_calls(Slow(), inner, range(item))

    found = map_within(limits.STORE_CALLS_AT_ONCE_MAX, outer, [12] * 300)
    assert found == [[sum(range(item)) for item in range(12)]] * 300


def test_threads_of_several_callers_share_the_pool_and_all_come_to_an_end() -> None:
    answers: list[list[int]] = []
    callers = [
        threading.Thread(target=lambda: answers.append(map_calls(Slow(), lambda i: i + 1, range(200))))
        for _ in range(12)
    ]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(60)
    assert answers == [list(range(1, 201))] * 12


def test_large_files_are_handled_by_few_threads_so_that_memory_stays_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakebraid.storage.parallel.STORE_BYTES_AT_ONCE_MAX", 300)
    held, most, lock = 0, 0, threading.Lock()

    def work(size: int) -> int:
        nonlocal held, most
        with lock:
            held += size
            most = max(most, held)
        threading.Event().wait(0.001)
        with lock:
            held -= size
        return size

    sizes = [100] * 100 + [1000] + [1] * 100
    assert map_calls(Slow(), work, sizes, size=lambda size: size) == sizes
    assert most <= 300 + 1000  # the caller itself always goes on, with one item
    assert map_calls(Slow(), work, [1] * 50, size=lambda size: size) == [1] * 50  # everything was given back


def test_threads_that_found_no_room_come_back_when_there_is_room_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakebraid.storage.parallel.STORE_BYTES_AT_ONCE_MAX", 100)
    met = threading.Barrier(8)

    def work(item: int) -> int:
        if item >= 10:
            met.wait(30)  # only if eight are at work at once does anybody get past this
        return item

    assert map_within(8, work, range(10 + 8), size=lambda item: 1 if item >= 10 else 90) == list(range(18))


def test_calls_of_different_kinds_are_made_together() -> None:
    met = threading.Barrier(3)
    ask: list[Callable[[], object]] = [lambda: met.wait(30) >= 0, lambda: met.wait(30) >= 0, lambda: met.wait(30) >= 0]
    assert together(Slow(), *ask) == [True, True, True]
    assert together(Slow()) == []


def test_the_threads_that_help_know_what_the_caller_has_set_for_its_context() -> None:
    NAMED.set("mine")
    assert set(map_calls(Slow(), lambda _: NAMED.get(), range(64))) == {"mine"}


def _in_child(answers: SimpleQueue[list[int]]) -> None:
    answers.put(map_calls(Slow(), lambda item: item * 2, range(100)))


def test_a_child_that_was_forked_after_the_pool_was_used_has_a_pool_of_its_own() -> None:
    assert map_calls(Slow(), Width(meeting=16), range(16)) == [item * item for item in range(16)]
    fork = multiprocessing.get_context("fork")
    answers: SimpleQueue[list[int]] = fork.SimpleQueue()
    child = fork.Process(target=_in_child, args=(answers,))
    child.start()
    child.join(60)
    assert child.exitcode == 0
    assert answers.get() == [item * 2 for item in range(100)]
