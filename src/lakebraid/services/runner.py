# SPDX-License-Identifier: Apache-2.0
"""Rounds of services: each does what is due, one after the other; what one of them meets stops none of the others.

Any number of runners may work on one table. None is elected: what two of them try at once, one of them decides.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from lakebraid.clock import Clock
from lakebraid.errors import CommitRefused, InvalidArgument

Step = Callable[[], Any]
"""What one service does now; something empty, or None, if nothing was due."""


@dataclass(frozen=True, slots=True)
class Ran:
    """What one service did in a round."""

    service: str
    result: Any = None
    error: str | None = None
    """Why it failed; the others went on."""
    gave_way: str | None = None
    """Another process was at it, or faster."""
    seconds: float = 0.0

    @property
    def did_something(self) -> bool:
        """Whether it found something to do, or failed at it."""
        return bool(self.result) or self.error is not None

    def __str__(self) -> str:
        if self.error is not None:
            return f"{self.service} failed: {self.error}"
        if self.gave_way is not None:
            return f"{self.service} gave way: {self.gave_way}"
        return f"{self.service}: {self.result or 'nothing to do'}"


@dataclass(frozen=True, slots=True)
class ServiceRound:
    """One round of all services, in the order in which they ran."""

    ran: tuple[Ran, ...]
    seconds: float = 0.0

    @property
    def errors(self) -> tuple[Ran, ...]:
        """The services that failed in this round."""
        return tuple(one for one in self.ran if one.error is not None)

    def __bool__(self) -> bool:
        """Whether anything was done, or went wrong."""
        return any(one.did_something for one in self.ran)

    def __str__(self) -> str:
        told = [str(one) for one in self.ran if one.did_something]
        return "; ".join(told) or "nothing to do"


def run_round(steps: Mapping[str, Step], clock: Clock) -> ServiceRound:
    """Runs each step once. No error comes out of it: it is in the round."""
    begun = clock.monotonic()
    ran = tuple(_run(name, step, clock) for name, step in steps.items())
    return ServiceRound(ran, clock.monotonic() - begun)


def run_rounds(
    one_round: Callable[[], ServiceRound],
    clock: Clock,
    *,
    every_seconds: float,
    once: bool = False,
    stop: threading.Event | None = None,
    report: Callable[[ServiceRound], None] | None = None,
) -> ServiceRound:
    """Runs rounds until `stop` is set, or one; `report` is told of each. Gives the last."""
    while True:
        last = one_round()
        if report is not None:
            report(last)
        if once or (stop is not None and stop.is_set()):
            return last
        # Copies that were started together part ways: between half and one and a half of the interval.
        pause_seconds = every_seconds * (0.5 + clock.random())
        if stop is None:
            clock.sleep(pause_seconds)
        elif stop.wait(pause_seconds):
            return last


def chosen(names: Sequence[str], only: Sequence[str] | str | None) -> tuple[str, ...]:
    """Those of the services that are wanted, in their own order; InvalidArgument for one that there is not."""
    if only is None:
        return tuple(names)
    wanted = [only] if isinstance(only, str) else [*only]
    unknown = [name for name in wanted if name not in names]
    if unknown:
        raise InvalidArgument(
            f"There is no service {unknown[0]!r:.40}. Nothing was done. There are: {', '.join(names)}."
        )
    return tuple(name for name in names if name in wanted)


_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


def parse_seconds(value: float | str) -> float:
    """Seconds, from a number or text with a unit.

    >>> parse_seconds(5), parse_seconds("30s"), parse_seconds("1.5m"), parse_seconds("2h")
    (5.0, 30.0, 90.0, 7200.0)
    """
    text = str(value).strip()
    digits = text.rstrip("abcdefghijklmnopqrstuvwxyz").rstrip()
    unit = text[len(digits) :].strip() or "s"
    try:
        seconds = float(digits) * _UNITS[unit]
    except (ValueError, KeyError):
        seconds = -1.0
    if 0 <= seconds < 10**9:
        return seconds
    raise InvalidArgument(
        f"{text!r:.40} is no length of time. Nothing was done. Give seconds, or text as '30s', '5m', '1h'."
    )


def _run(name: str, step: Step, clock: Clock) -> Ran:
    begun = clock.monotonic()
    try:
        result = step()
    except CommitRefused as refused:
        return Ran(name, gave_way=refused.message, seconds=clock.monotonic() - begun)
    except Exception as error:  # noqa: BLE001  whatever it was, the other services go on; the round has it
        return Ran(name, error=f"{type(error).__name__}: {error}", seconds=clock.monotonic() - begun)
    return Ran(name, result, seconds=clock.monotonic() - begun)
