# SPDX-License-Identifier: Apache-2.0
"""What tests measure by, and wait with: neither depends on the machine, and both can fail."""

from __future__ import annotations

from functools import partial

import pytest
from benchmarks import politeness

from tests.hostile.attack import is_soon
from tests.kit import waiting
from tests.kit.counting import calls_of
from tests.kit.waiting import until

pytestmark = pytest.mark.unit


def test_calls_are_counted_whatever_language_they_are_written_in() -> None:
    def twice() -> None:
        len("")
        len("")

    assert calls_of(twice) - calls_of(lambda: None) == 2


def _work(times: int) -> None:
    for _ in range(times):
        len("")


def test_more_work_is_more_calls() -> None:
    few, many = (calls_of(partial(_work, n)) for n in (10, 1000))
    assert 50 * few < many


def test_waiting_ends_when_it_holds_and_fails_with_what_was_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    left = [False, False]
    until(lambda: not left or left.pop(), "two looks")
    assert not left
    monkeypatch.setattr(waiting, "PATIENCE_SECONDS", 0)
    with pytest.raises(AssertionError, match="still not: a miracle"):
        until(lambda: False, "a miracle")


def test_an_answer_that_takes_many_times_its_bound_is_noticed() -> None:
    assert is_soon(1.9, 2.0)
    assert not is_soon(2.0 * 1000, 2.0), "no machine is so much slower than others"


def test_each_mechanism_that_the_benchmark_of_politeness_turns_off_is_there() -> None:
    assert {name for tried in politeness.TRIED.values() for name in tried} == set(politeness.VARIANTS)
    assert set(politeness.TRIED) == set(politeness.CASES)
    changed = [(home, name) for changes in politeness.VARIANTS.values() for home, name, _ in changes]
    assert [name for home, name in changed if not hasattr(home, name)] == []


def test_the_benchmark_of_politeness_plays_the_same_with_the_same_seed() -> None:
    def played() -> dict[str, list[float]]:
        case = politeness.Case(2, 5, {"buckets": 2}, seconds=1.0, compacts=True)
        with politeness.changed("as it is", case):
            return case.run(1)

    assert played() == played() != {}


def test_of_many_processes_that_come_at_once_none_waits_much_longer_than_the_others() -> None:
    """In simulated time. Before they asked from their first write on, the slowest of 24 took 10.2 s, and a commit 145 calls."""
    case = politeness.Case(24, 10, {"buckets": 4}, seconds=0.1, call_seconds=0.04)
    with politeness.changed("as it is", case):
        found = case.run(0)
    took = sorted(found["write"])
    assert len(took) == 24, "each has made one commit"
    assert took[-1] < 3.5, "2.4 when this was written"
    assert sum(found["calls"]) / len(took) < 45
