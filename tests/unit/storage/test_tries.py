# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import threading

import pytest

from lakebraid import limits
from lakebraid.storage.parallel import map_calls
from lakebraid.storage.tries import Patience, StoreRetries, StoreTally, counted_in, note_throttled, patience_of, tries
from tests.kit.tables.scene import TickingClock

pytestmark = pytest.mark.unit


class Waits(TickingClock):
    """Notes how long it slept; chance is what it is told."""

    def __init__(self, chance: float = 0.999) -> None:
        super().__init__()
        self.chance, self.slept = chance, list[float]()

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        self.slept.append(seconds)

    def random(self) -> float:
        return self.chance


def test_the_longest_waits_double_up_to_a_bound_and_make_half_a_minute_in_all() -> None:
    clock = Waits()
    assert len(list(tries(clock))) == limits.STORE_TRIES_MAX == 10
    assert clock.slept == pytest.approx([0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 8, 8, 8], rel=0.01)
    assert 30 < sum(clock.slept) < 37


def test_a_wait_may_be_of_any_length_below_its_bound_so_that_clients_do_not_come_back_together() -> None:
    for chance in (0.0, 0.3):
        clock = Waits(chance)
        list(tries(clock))
        assert clock.slept[:3] == pytest.approx([0.2 * chance, 0.4 * chance, 0.8 * chance])


def test_no_try_comes_later_than_a_minute_after_the_first_failure() -> None:
    clock = Waits()
    patience = Patience(clock)
    clock.sleep(300)  # the first try
    while patience.wait():
        clock.sleep(30)  # each further one, until its timeout
    assert patience.tries == 3


def test_after_an_answer_patience_begins_anew() -> None:
    clock = Waits()
    patience = Patience(clock, 3)
    assert [patience.wait(), patience.wait(), patience.wait()] == [True, True, False]
    patience.renew()
    clock.slept.clear()
    assert patience.wait()
    assert clock.slept == pytest.approx([0.2], rel=0.01)


def test_a_storage_without_waits_is_asked_a_few_times_one_after_the_other() -> None:
    patience = patience_of(object())
    assert [patience.wait() for _ in range(3)] == [True, True, False]


class Wide:
    calls_at_once = 8


def test_a_tally_counts_what_threads_of_the_pool_do_for_its_block_and_nothing_else() -> None:
    tally, outside, all_there = StoreTally(), Waits(), threading.Barrier(4)

    def fail_once(_: int) -> None:
        all_there.wait()
        note_throttled()
        Patience(Waits(0.5)).wait()

    list(tries(outside))
    with counted_in(tally):
        map_calls(Wide(), fail_once, range(4))
    note_throttled()
    assert tally.found == StoreRetries(4, 4, 0.4)
