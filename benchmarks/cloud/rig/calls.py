# SPDX-License-Identifier: Apache-2.0
"""The requests that a process sent, noted as they end; what they were in number, bytes and round trips."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple


class Call(NamedTuple):
    """One request; times are of the machine's monotonic clock, which all processes share."""

    kind: str
    name: str
    begin: float
    end: float
    size: int = 0
    slept: float = 0.0
    """How much of it was injected."""


class Tally:
    """What this process sent. Appending to a list is atomic, so threads need no lock; a forked child begins anew."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        os.register_at_fork(after_in_child=self.calls.clear)

    def since(self, mark: int) -> list[Call]:
        return self.calls[mark:]

    def mark(self) -> int:
        return len(self.calls)


TALLY = Tally()


@dataclass(frozen=True, slots=True)
class Sum:
    """Requests and bytes by kind, and how many round trips came one after the other."""

    requests: dict[str, int]
    bytes: dict[str, int]
    round_trips: int
    slept_s: float = 0.0
    """What was injected, of all requests together: a lone writer without parallel requests waits as long at any load."""

    def per(self, times: int) -> dict[str, Any]:
        """For each of so many commits, or queries."""
        each = {f"{kind}_requests": count / times for kind, count in sorted(self.requests.items())}
        return {
            "requests": sum(self.requests.values()) / times,
            "round_trips": self.round_trips / times,
            "slept_s": self.slept_s / times,
            "kilobytes": sum(self.bytes.values()) / times / 1000,
            **each,
        }


def summed(calls: Sequence[Call]) -> Sum:
    """Of one process: the round trips of several at once would mean nothing."""
    requests, sizes = Counter[str](), Counter[str]()
    for call in calls:
        requests[call.kind] += 1
        sizes[call.kind] += call.size
    return Sum(dict(requests), dict(sizes), round_trips(calls), sum(call.slept for call in calls))


def added(sums: Iterable[Sum]) -> Sum:
    requests, sizes, trips, slept = Counter[str](), Counter[str](), 0, 0.0
    for one in sums:
        requests.update(one.requests)
        sizes.update(one.bytes)
        trips, slept = trips + one.round_trips, slept + one.slept_s
    return Sum(dict(requests), dict(sizes), trips, slept)


def round_trips(calls: Iterable[Call]) -> int:
    """The most requests of which each began after the one before had ended: what cannot be had in parallel as it is sent.

    >>> round_trips([Call("get", "a", 0, 2), Call("get", "b", 1, 3), Call("put", "c", 4, 5)])
    2
    """
    count, free = 0, float("-inf")
    for call in sorted(calls, key=lambda call: call.end):
        if call.begin >= free:
            count, free = count + 1, call.end
    return count
