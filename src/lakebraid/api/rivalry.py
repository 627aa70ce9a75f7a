# SPDX-License-Identifier: Apache-2.0
"""What a write must be held against before its commit: file groups in optimistic tables, keys in conditional changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from lakebraid.errors import WriteConflict
from lakebraid.model.conflicts import Begun
from lakebraid.model.slicing import GroupId
from lakebraid.tasks.staged_file import StagedFile
from lakebraid.txn.alone import check_alone
from lakebraid.txn.conflicts import EARLY, Rivals, allows_updates, begun, strategy_of
from lakebraid.txn.rounds import Round
from lakebraid.txn.same_keys import SameKeys
from lakebraid.txn.touched_keys import TouchedKeys

if TYPE_CHECKING:
    from lakebraid.txn.entries import LedgerState
    from lakebraid.txn.ledger import Ledger


class Rivalry:
    """Notes what is under way when a write begins, and asks at its end who was in the way."""

    def __init__(
        self,
        properties: Mapping[str, str],
        writer: str,
        *,
        is_optimistic: bool,
        is_isolated: bool,
        overwrites: bool = False,
        is_alone: bool = False,
        has_unique_keys: bool = False,
    ) -> None:
        self._writer, self._is_optimistic, self._is_isolated = writer, is_optimistic, is_isolated
        self._overwrites, self._is_alone, self._has_unique_keys = overwrites, is_alone, has_unique_keys
        self._strategy, self.updates_allowed = strategy_of(properties), allows_updates(properties)
        self._looks_early = properties.get(EARLY, "").strip().lower() == "true"
        self._noted: dict[str, Begun | TouchedKeys] = {}
        self._rivals: Rivals | None = None
        self.begun: Begun | None = None
        """Of an overwrite: what was under way."""
        self._touched: TouchedKeys | None = None
        self._same_keys: SameKeys | None = None

    @property
    def matters(self) -> bool:
        """Whether there is anything to be noted at the beginning."""
        return self._is_optimistic or self._is_isolated or self._overwrites or self._is_alone

    def note(self, now: Round, start: str) -> None:
        """To be asked inside of the decision that begins the write."""
        if self._is_alone:
            check_alone(now)
        if self._is_optimistic or self._overwrites:
            self._noted[start] = begun(now, start)
        elif self._is_isolated:
            self._noted[start] = TouchedKeys(start, now.since(start).first_active_write)

    def settle(self, start: str) -> None:
        """The write has begun: of the rounds it took, this one counts."""
        noted = self._noted.get(start)
        self._same_keys = SameKeys(start) if self._has_unique_keys else None
        if isinstance(noted, Begun) and self._overwrites:
            self.begun = noted  # held against whole partitions: txn/replacing.py
        elif isinstance(noted, Begun):
            self._rivals = Rivals(noted, self._strategy, self.updates_allowed)
        else:
            self._touched = noted

    def check_groups(self, now: Round, groups: frozenset[GroupId]) -> None:
        """WriteConflict if another one touches these file groups, or is about to."""
        if self._rivals is not None:
            self._rivals.check(now, groups, self._writer)

    def check(self, now: Round, files: Sequence[StagedFile]) -> None:
        """WriteConflict if another writer was in the way."""
        self.check_groups(now, _groups(files))
        if self._rivals is not None and self._same_keys is not None:
            self._same_keys.check(now, self._rivals.completed(now), files, self._writer)
        if self._touched is not None:
            self._touched.check(now, files)

    def early_clash(self, ledger: Ledger, state: LedgerState, files: Sequence[StagedFile]) -> WriteConflict | None:
        """What the check at the commit would find for certain, if the table wants that to be looked for early."""
        if self._rivals is not None and self._looks_early:
            try:
                self._rivals.check_early(Round(ledger, state, 0), _groups(files), self._writer)
            except WriteConflict as clash:
                return clash
        return None


def _groups(files: Sequence[StagedFile]) -> frozenset[GroupId]:
    return frozenset(GroupId(file.partition, file.file_id) for file in files)
