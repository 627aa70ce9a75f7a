# SPDX-License-Identifier: Apache-2.0
"""How much hostile input was tried in this run, in all its processes together."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass
class Tally:
    """How much was tried, and the slowest answer."""

    tried: Counter[str] = field(default_factory=Counter)
    refused: int = 0
    slowest: tuple[float, str] = (0.0, "")
    peak_bytes: tuple[int, str] = (0, "")

    @property
    def total(self) -> int:
        return sum(self.tried.values())

    def as_plain(self) -> list[object]:
        """What pytest-xdist can carry from a worker."""
        return [dict(self.tried), self.refused, list(self.slowest), list(self.peak_bytes)]

    def add_plain(self, plain: list[object]) -> None:
        tried, refused, slowest, peak = plain
        assert isinstance(tried, dict)
        assert isinstance(refused, int)
        assert isinstance(slowest, list)
        assert isinstance(peak, list)
        self.tried.update(tried)
        self.refused += refused
        self.slowest = max(self.slowest, (float(slowest[0]), str(slowest[1])))
        self.peak_bytes = max(self.peak_bytes, (int(peak[0]), str(peak[1])))


TALLY = Tally()
