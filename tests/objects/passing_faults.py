# SPDX-License-Identifier: Apache-2.0
"""What holds of every store while requests are refused, cut off or not answered; imported by the tests of each, with its
fixture `behind`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import pytest

from lakebraid.clock import SystemClock
from lakebraid.errors import ObjectExists, OutcomeUnknown
from lakebraid.storage import ObjectStorage
from lakebraid.storage.tries import StoreRetries, StoreTally, counted_in
from tests.objects.faults import Relay

PASSING: Final = ("503", "500", "429", "cut", "lost", "torn")


class Hurried(SystemClock):
    """Sleeps a part of what it is told, and notes it."""

    def __init__(self, times: int = 100) -> None:
        self.slept: list[float] = []
        self._times = times

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        super().sleep(seconds / self._times)


@dataclass
class Behind:
    """A store behind a relay, with the two objects `a` and `folder/b`."""

    storage: ObjectStorage
    relay: Relay


def behind_relay(url: str, options: dict[str, str], relay: Relay) -> Behind:
    storage = ObjectStorage(url, {**options, "timeout": "2s"}, Hurried())
    storage.create("a", b"0123456789")
    storage.create("folder/b", b"")
    return Behind(storage, relay)


# Each takes one request if all goes well.
REPEATABLE: Final[dict[str, Callable[[ObjectStorage], object]]] = {
    "read": lambda storage: storage.read("a", 10),
    "range": lambda storage: storage.read_range("a", 2, 3),
    "info": lambda storage: storage.info("a").size,
    "list": lambda storage: [info.name for info in storage.list()],
    "folder": lambda storage: [info.name for info in storage.list_folder()[0]],
    "replace": lambda storage: storage.replace("c", b"x"),
    "copy": lambda storage: storage.copy("a", "d"),
}
ANSWERS: Final = {"read": b"0123456789", "range": b"234", "info": 10, "list": ["a", "folder/b"], "folder": ["a"]}


@pytest.mark.parametrize(
    ("call", "fault"), [*itertools.product(REPEATABLE, PASSING), ("read", "hang"), ("list", "hang"), ("copy", "hang")]
)
def test_a_call_that_may_be_repeated_is_sent_again_once_after_one_fault_and_is_right(
    behind: Behind, call: str, fault: str
) -> None:
    tally = StoreTally()
    behind.relay.breaks(fault)
    with counted_in(tally):
        assert REPEATABLE[call](behind.storage) == ANSWERS.get(call)
    if (call, fault) == ("copy", "torn") and behind.relay.sent == 1:
        return  # Google's client takes the status for the answer and reads no further
    assert behind.relay.sent == 2
    assert (tally.found.requests, tally.found.throttled) == (1, fault in ("503", "429"))


@pytest.mark.parametrize("fault", [*PASSING, "409", "hang"])
def test_a_create_is_sent_once_whatever_happens_and_what_became_of_it_is_unknown(behind: Behind, fault: str) -> None:
    behind.relay.breaks(fault)
    with pytest.raises(OutcomeUnknown):
        behind.storage.create("ledger/1", b"x")
    assert behind.relay.sent == 1
    if fault in ("lost", "torn"):
        with pytest.raises(ObjectExists):
            behind.storage.create("ledger/1", b"x")


@pytest.mark.parametrize("fault", ["503", "lost", "torn"])
def test_deletes_are_sent_again_until_the_objects_are_gone(behind: Behind, fault: str) -> None:
    behind.relay.breaks(fault)
    behind.storage.delete(["a", "folder/b"])
    assert behind.storage.list() == []


def test_a_storm_without_end_ends_for_the_caller_after_a_bounded_number_of_requests(behind: Behind) -> None:
    behind.relay.breaks()
    behind.relay.storm = lambda: "503"
    tally = StoreTally()
    with counted_in(tally), pytest.raises(OutcomeUnknown, match="slow down"):
        behind.storage.replace("a", b"x")
    assert behind.relay.sent == 10
    slept = behind.storage.retry_clock.slept  # type: ignore[attr-defined]
    assert tally.found == StoreRetries(9, 10, sum(slept))
