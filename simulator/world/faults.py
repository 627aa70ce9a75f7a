# SPDX-License-Identifier: Apache-2.0
"""What can go wrong at a storage call, and how often.

kill-before   the process dies, the request was never sent        refused    the store says no
kill-after    it dies when the effect has happened                 vanished   no effect, and no answer
kill-late     it dies, the effect comes later                      lost       the effect happened, no answer
torn          it dies in the midst of a create and leaves a piece   late       no answer, the effect comes later
pause         the whole process stops for a while                  again      answered, and the request comes once more
slow          only this call takes long                            echo       a repeated create meets itself
split         the parts of a listing are of different moments      back       the clock of the process steps back
full          creates are refused for a while, to everybody        leap       world time leaps ahead
"""

from __future__ import annotations

from bisect import bisect
from dataclasses import asdict, dataclass
from itertools import accumulate
from random import Random
from typing import Final

READS: Final = frozenset({"read", "read_range", "info", "list", "list_folder", "open_input", "sleep"})
_FOR_READS: Final = frozenset({"kill_before", "pause", "slow", "refused", "back", "leap"})
_FOR_LISTS: Final = _FOR_READS | {"split"}
_FOR_CREATES: Final = frozenset(
    {"kill_before", "kill_after", "kill_late", "torn", "pause", "slow", "refused", "vanished", "lost", "late", "echo",
     "back", "full", "leap"}
)  # fmt: skip
_FOR_OTHERS: Final = _FOR_CREATES - {"echo", "torn"} | {"again"}
_FOR_SLEEP: Final = frozenset({"kill_before", "pause", "leap"})

Fault = tuple[str, int]
"""Its kind, and how long in milliseconds (or which variant)."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Probability of each fault at a call of a kind that can have it."""

    kill_before: float = 0.0
    kill_after: float = 0.0
    kill_late: float = 0.0
    torn: float = 0.0
    pause: float = 0.0
    slow: float = 0.0
    refused: float = 0.0
    vanished: float = 0.0
    lost: float = 0.0
    late: float = 0.0
    again: float = 0.0
    echo: float = 0.0
    split: float = 0.0
    back: float = 0.0
    full: float = 0.0
    leap: float = 0.0


CALM: Final = Rates()


class FaultTable:
    """Draws faults for calls: one random number per call, however many kinds there are."""

    def __init__(self, rates: Rates, timeout_ms: int) -> None:
        self._timeout_ms = timeout_ms
        given = {kind: p for kind, p in asdict(rates).items() if p > 0}
        self._by_class = {
            name: self._cumulated({k: p for k, p in given.items() if k in kinds})
            for name, kinds in (
                ("read", _FOR_READS), ("list", _FOR_LISTS), ("create", _FOR_CREATES), ("other", _FOR_OTHERS),
                ("sleep", _FOR_SLEEP),
            )
        }  # fmt: skip

    @staticmethod
    def _cumulated(rates: dict[str, float]) -> tuple[list[str], list[float]]:
        return list(rates), list(accumulate(rates.values()))

    def draw(self, op: str, rng: Random) -> Fault | None:
        kinds, sums = self._by_class[_class_of(op)]
        number = rng.random()
        if not sums or number >= sums[-1]:
            return None
        kind = kinds[bisect(sums, number)]
        return kind, self._length(kind, rng)

    def _length(self, kind: str, rng: Random) -> int:
        timeout = self._timeout_ms
        match kind:
            case "pause" | "slow":
                # Shorter than a heartbeat, about one, or far beyond.
                return int(timeout * rng.choice((0.05, 0.3, 1.1, 3, 8)))
            case "late" | "again" | "kill_late":
                return int(timeout * rng.choice((0.01, 0.1, 0.5, 2, 5)))
            case "leap":
                return int(timeout * rng.choice((0.5, 1.2, 3)))
            case "back":
                return rng.choice((1, 20, 500, 5000))
            case "full":
                return int(timeout * rng.choice((0.05, 0.5)))
            case "split":
                return rng.randrange(1, 1 << 16)
            case _:
                return 0


def _class_of(op: str) -> str:
    if op in ("list", "list_folder"):
        return "list"
    if op == "sleep":
        return "sleep"
    if op in READS:
        return "read"
    return "create" if op == "create" else "other"


KINDS: Final = tuple(Rates.__dataclass_fields__)


def drawn_rates(rng: Random) -> Rates:
    """Many histories calm, a few terrible; often only some kinds of fault at all."""
    mood = rng.choice((0.0, 0.15, 0.5, 1.0, 1.0, 2.0, 4.0))
    if mood == 0.0:
        return CALM
    chosen = [k for k in KINDS if rng.random() < rng.choice((0.3, 0.6, 1.0))]
    weights = {
        "kill_before": 0.0015, "kill_after": 0.003, "kill_late": 0.0015, "torn": 0.001, "pause": 0.006, "slow": 0.006,
        "refused": 0.002, "vanished": 0.004, "lost": 0.008, "late": 0.006, "again": 0.006, "echo": 0.004,
        "split": 0.06, "back": 0.002, "full": 0.001, "leap": 0.001,
    }  # fmt: skip
    return Rates(**{k: weights[k] * mood * rng.choice((0.3, 1.0, 2.0)) for k in chosen})
