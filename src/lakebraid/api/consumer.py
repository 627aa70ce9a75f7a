# SPDX-License-Identifier: Apache-2.0
"""A named reader of changes, whose position is kept in the table."""

from __future__ import annotations

from typing import Protocol

from lakebraid.reading.changes import Changes
from lakebraid.txn.ledger.ledger import Ledger
from lakebraid.txn.liveness.leases import NEVER, advance_consumer


class Changing(Protocol):
    """What a consumer needs of its table."""

    def changes(self, after: str | None = None, until: str | None = None, *, images: bool = False) -> Changes:
        """What changed between two completion times."""


class Consumer:
    """Reads each change once, over any number of processes and restarts: read, do your work, then `commit`.

    As long as it is registered, no clean of lakebraid removes a version from its position on; `Table.drop_consumer`
    ends that. Apache Hudi's own cleaner knows nothing of it.
    """

    def __init__(self, table: Changing, ledger: Ledger, name: str, position: str) -> None:
        self._table, self._ledger, self._name, self._position = table, ledger, name, position

    @property
    def name(self) -> str:
        """The name under which its position is kept in the table."""
        return self._name

    @property
    def position(self) -> str | None:
        """Everything completed up to this time was read; None: nothing yet."""
        return None if self._position == NEVER else self._position

    def changes(self, until: str | None = None, *, images: bool = False) -> Changes:
        """What changed since its position. Reading moves nothing: commit it when it has been dealt with."""
        return self._table.changes(self.position, until, images=images)

    def commit(self, read: Changes | str) -> str:
        """Moves on behind changes that were read, or to their `next_position`; never back. Gives the position then."""
        position = read.next_position if isinstance(read, Changes) else read
        self._position = advance_consumer(self._ledger, self._name, position)
        return self._position

    def __repr__(self) -> str:
        return f"Consumer {self._name!r} at {self.position or 'the beginning'}"
