# SPDX-License-Identifier: Apache-2.0
"""Asking for a turn: a decision that takes long to think about loses every round to decisions that do not.

A process that has lost some rounds with such a decision puts a mark beside the entries of the ledger, which all processes
list anyway, and those that are about to decide something else wait a moment: the longer, the longer its rounds take, for on
a busy machine they take many times what they cost. That is politeness and nothing else: no mark, or one that is ignored,
lost or left behind by a dead process, changes what may be decided. What it is worth: `limits.TURN_ROUNDS_LOST`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Self

from lakebraid import limits
from lakebraid.clock import Clock
from lakebraid.digits import whole_number
from lakebraid.errors import StorageError
from lakebraid.storage.protocol import ObjectInfo, Storage
from lakebraid.txn.ledger.entries import LEDGER

_MARK: Final = f"{LEDGER}/turn."
"""Sorts after all entries, so that listing what comes after an entry shows it."""


@dataclass
class Turn:
    """One decision, which may ask for its turn while the `with` block runs."""

    storage: Storage
    clock: Clock
    name: str = ""
    _since: float = 0.0
    """When the round began."""
    _slowest_seconds: float = 0.0

    def lost(self, rounds: int) -> None:
        """Asks, whenever so many more rounds were lost: a wish of before may be void by now."""
        now = self.clock.monotonic()
        self._slowest_seconds, self._since = max(self._slowest_seconds, now - self._since), now
        if rounds % limits.TURN_ROUNDS_LOST == 0:
            self._withdraw()
            wanted_ms = int(1000 * min(2 * self._slowest_seconds, limits.TURN_LONG_SECONDS_MAX))
            self.name = f"{_MARK}{wanted_ms:05}.{self.clock.token()}"
            with contextlib.suppress(StorageError):
                self.storage.create(self.name, b"")

    def __enter__(self) -> Self:
        self._since = self.clock.monotonic()
        return self

    def __exit__(self, *_: object) -> None:
        self._withdraw()

    def _withdraw(self) -> None:
        if self.name:
            with contextlib.suppress(StorageError):
                self.storage.delete([self.name])


def asking(infos: Iterable[ObjectInfo]) -> tuple[list[str], list[str]]:
    """The marks in a listing of the ledger, and those that dead processes left: older than the newest object by long."""
    infos = list(infos)
    marks = [info for info in infos if info.name.startswith(_MARK)]
    if not marks:
        return [], []
    newest_ms = max(info.modified_ms for info in infos)
    stale = [
        info.name for info in marks if newest_ms - info.modified_ms > max(limits.TURN_MS_MAX, 2 * _wanted_ms(info.name))
    ]
    return [info.name for info in marks if info.name not in stale], stale


def patience_seconds(marks: Iterable[str]) -> float:
    """How long one decision waits for those who asked so."""
    return max([limits.TURN_WAIT_SECONDS_MAX, *(_wanted_ms(name) / 1000 for name in marks)])


def _wanted_ms(name: str) -> int:
    """What a mark asks for; bounded, for any process could have put it there."""
    digits = name.removeprefix(_MARK).partition(".")[0]
    return min(whole_number(digits, 5) or 0, int(1000 * limits.TURN_LONG_SECONDS_MAX))
