# SPDX-License-Identifier: Apache-2.0
"""What the ledger no longer needs: staged objects, asks, marks and old entries. What a failure leaves is swept later."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field

from lakebraid import limits
from lakebraid.errors import StorageError
from lakebraid.storage.parallel import delete_later
from lakebraid.txn.ledger.asks import dead_names, mark_name
from lakebraid.txn.ledger.entries import LEDGER, Entry, entry_name
from lakebraid.txn.ledger.timeline_copies import sweep
from lakebraid.txn.ledger.watch import Watch


@dataclass
class Leftovers:
    """Names that are to be removed, together with the next ones."""

    watch: Watch
    held: list[str] = field(default_factory=list)

    def add(self, entry: Entry) -> None:
        """Takes the staged objects of an entry that is not made."""
        self.held += sorted({source for source, _ in entry.files})

    def after(self, before: Entry, mine: Entry, wish: str, *, may_wait: bool, is_far: bool) -> None:
        """Removes what is dead once an entry is applied, and says by a mark that it is, if others have asked in it.

        `wish` is the process's own; what is left of a beginning `may_wait` for the next decision.
        """
        watch, storage = self.watch, self.watch.storage
        dead = [source for source, _ in mine.files]
        dead += dead_names(watch.names, mine.state, mine.number) if watch.names else []
        self.held += sorted({*dead}.difference(self.held))
        if any(told.number == mine.number and other != wish for other, told in mine.state.decided.items()):
            with contextlib.suppress(StorageError):
                storage.create(mark_name(mine.number), b"")
        elif mine.kind == "begin" and len(self.held) < limits.STAGED_HELD_MAX and may_wait:
            return  # together with those of its publishing: one call less
        names, self.held = self.held, []
        if mine.floor > before.floor:
            with contextlib.suppress(StorageError):
                names += [entry_name(number) for number in watch.numbers_below(mine.floor)]
                self.sweep(mine.number, mine)
        delete_later(storage, names, is_far=is_far)

    def sweep(self, below: int, known: Entry) -> None:
        """Removes staged objects of slots below, whose entries are applied or void, and asks that can no longer be decided."""
        storage = self.watch.storage
        sweep(storage, below)
        names = [info.name for info in storage.list(LEDGER, after=entry_name(known.number))]
        # The newest entry need not be applied yet: an ask that it decides is still the source of a copy. (LEDGER, G4)
        doomed = dead_names(names, known.state, min(known.number, below) - 1)
        if doomed:
            storage.delete(doomed)
