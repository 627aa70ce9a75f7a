# SPDX-License-Identifier: Apache-2.0
"""A table with a savepoint, and something written after it that a restore is to take back."""

from __future__ import annotations

from lakebraid.services.settings import open_table
from lakebraid.txn.actions.restore import decide_restore
from lakebraid.txn.ledger.ledger import Ledger
from tests.kit.present import present
from tests.kit.races.faults import not_owned
from tests.kit.tables.scene import Scene, answer, row


def scene(**arguments: object) -> Scene:
    """Two writes, a savepoint of the second, and a third write after it."""
    made = Scene(arguments=dict(arguments))
    made.write(row("a", "1"))
    made.write(row("b", "1"))
    made.table.savepoint()
    made.write(row("a", "2", 2), row("c", "2", 2))
    return made


BEFORE, AFTER = {"a": "2", "b": "1", "c": "2"}, {"a": "1", "b": "1"}


def ledger_of(s: Scene) -> Ledger:
    return open_table(s.table._writing).ledger


def decided(s: Scene) -> str:
    """A restore that was decided by a process which then died."""
    request_time, _ = decide_restore(ledger_of(s), "dead restorer", s.writes[1].request_time)
    assert request_time is not None
    return request_time


def check_restored(s: Scene) -> None:
    last = present(s.writes[1].completion)
    s.writes = [w for w in s.writes if w.completion is not None and w.completion <= last]
    s.services = []
    assert answer(s.table) == AFTER
    s.check()
    s.write(row("d", "new", 9))
    s.compact()
    s.check()
    s.table.rollback(timeout_seconds=0)
    s.check()
    assert not_owned(s.storage, s.table) == []
