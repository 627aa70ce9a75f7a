# SPDX-License-Identifier: Apache-2.0
"""How long an object store takes for one request, by its kind."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

MEDIAN_MS: Final[Mapping[str, float]] = MappingProxyType(
    {"get": 25.0, "head": 20.0, "list": 40.0, "put": 45.0, "copy": 45.0, "delete": 30.0}
)
"""Of small objects, within one region."""
KINDS: Final = tuple(MEDIAN_MS)
TAIL: Final = 4.0
"""p99 of the lognormal, as a multiple of the median: as the design of asks reckons."""
_Z99: Final = 2.3263478740408408
"""99 % of a normal distribution lie below so many standard deviations."""
PAGE: Final = 1000
"""Objects in one answer to a list, and names in one multi-delete: those of S3."""


@dataclass(frozen=True)
class Latencies:
    """Seconds of a request by its kind: constant, or lognormal with a p99 of `tail` medians. Plain values: it travels."""

    median_ms: Mapping[str, float] = field(default_factory=lambda: dict(MEDIAN_MS))
    tail: float = 1.0
    """1 is constant."""

    def scaled(self, factor: float) -> Latencies:
        return Latencies({kind: ms * factor for kind, ms in self.median_ms.items()}, self.tail)

    def seconds(self, kind: str, chance: random.Random) -> float:
        median = self.median_ms[kind] / 1000
        if self.tail <= 1:
            return median
        return median * math.exp(math.log(self.tail) / _Z99 * chance.normalvariate(0.0, 1.0))


def pages(count: int) -> int:
    """How many requests a list takes, or a delete, one after the other; an empty list takes one.

    >>> pages(0), pages(1000), pages(1001)
    (1, 1, 2)
    """
    return max(1, math.ceil(count / PAGE))
