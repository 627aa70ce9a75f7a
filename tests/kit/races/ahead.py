# SPDX-License-Identifier: Apache-2.0
"""Tables of processes that go on writing, and what of their writes is open."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import lakebraid as lb
from lakebraid.storage import MemoryStorage
from lakebraid.table.at import TableAt
from lakebraid.table.loading import load_config
from lakebraid.txn.ledger.entries import LedgerState
from lakebraid.txn.ledger.ledger import Ledger
from tests.kit.tables.scene import row, table_on

NAME = "again and again"


def state_of(storage: Any) -> LedgerState:
    return ledger_of(storage).newest().state


def ledger_of(storage: Any) -> Ledger:
    return Ledger(TableAt(storage, load_config(storage)[0], storage.clock))


def warm(storage: Any, **more: Any) -> lb.Table:
    """A table of a process that asks for its wishes, and has made some writes."""
    table = table_on(storage, storage.clock)
    for number in range(2):
        table.upsert([row("warm", f"{number}", ts=number, **more)])
    return table


@contextmanager
def begun_ahead(storage: MemoryStorage) -> Iterator[tuple[lb.Table, lb.Writer]]:
    """A writer that has begun its next write, and its table."""
    table = warm(storage)
    with table.writer(NAME) as writer:
        for number in range(2):
            writer.upsert([row("a", f"{number}", ts=number)])
        assert [write.writer for write in state_of(storage).open.values()] == [NAME]
        yield table, writer


def ended(storage: MemoryStorage) -> None:
    """Nothing is open, neither by the ledger nor on the timeline, and nothing is asked for that could still be decided."""
    assert state_of(storage).open == {}
    assert [e.instant for e in table_on(storage, storage.clock).timeline() if not e.instant.is_completed] == []
    assert not [info.name for info in storage.list(".hoodie/.heartbeat")]
