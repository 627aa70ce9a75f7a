# SPDX-License-Identifier: Apache-2.0
"""Asking for a turn: a decision that takes long to think about loses every round to decisions that do not.

Whoever has lost some rounds with such a decision puts a mark beside the entries of the ledger, where everybody looks
anyway, and those who are about to decide something else wait a moment. That is politeness and nothing else: no mark, or
one that is ignored, lost or left behind by a dead process, changes what may be decided.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Self

from lakebraid import limits
from lakebraid.clock import Clock
from lakebraid.errors import StorageError
from lakebraid.storage.protocol import ObjectInfo, Storage
from lakebraid.txn.entries import LEDGER, parse_entry_name

_MARK: Final = f"{LEDGER}/turn."
"""Sorts after all entries, so that listing what comes after an entry shows it."""


@dataclass
class Turn:
    """One decision, which may ask for its turn while the `with` block runs."""

    storage: Storage
    clock: Clock
    may_ask: bool
    name: str = ""

    def lost(self, rounds: int) -> None:
        """Asks, once so many rounds were lost."""
        if self.may_ask and rounds == limits.TURN_ROUNDS_LOST:
            self.name = f"{_MARK}{self.clock.token()}"
            with contextlib.suppress(StorageError):
                self.storage.create(self.name, b"")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.name:
            with contextlib.suppress(StorageError):
                self.storage.delete([self.name])


def asking(infos: Iterable[ObjectInfo]) -> tuple[list[str], list[str]]:
    """The marks in a listing of the ledger, and those that dead processes left: older than the newest entry by long."""
    infos = list(infos)
    marks = [info for info in infos if info.name.startswith(_MARK)]
    if not marks:
        return [], []
    newest_ms = max((info.modified_ms for info in infos if parse_entry_name(info.name) is not None), default=0)
    stale = [info.name for info in marks if newest_ms - info.modified_ms > limits.TURN_MS_MAX]
    return [info.name for info in marks if info.name not in stale], stale
