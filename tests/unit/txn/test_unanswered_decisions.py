# SPDX-License-Identifier: Apache-2.0
"""Decisions while the store does not answer: they end, after waits that grow, and nothing is taken for refused."""

from __future__ import annotations

import pytest

from lakebraid import limits
from lakebraid.errors import DecisionUnknown, OutcomeUnknown
from lakebraid.model.config import parse_config
from lakebraid.storage.memory import MemoryStorage
from lakebraid.table.at import TableAt
from lakebraid.txn.actions.write import begin_write
from lakebraid.txn.ledger.entries import LEDGER, parse_entry_name
from lakebraid.txn.ledger.ledger import Ledger
from tests.kit.tables.scene import Call, TickingClock, WatchedStorage, make_table

pytestmark = pytest.mark.unit


class Waiting(TickingClock):
    slept = 0.0

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        self.slept += seconds


def ledger_that_loses(unanswered: list[str], *, asks: bool) -> Ledger:
    """A ledger of a table in a store that does not answer creates of entries, or of asks; it notes them."""
    memory = MemoryStorage("memory://unanswered", Waiting())
    table = make_table(memory, memory.clock)

    def lose(call: Call) -> None:
        is_of_ledger = call.name == "create" and call.target.startswith(f"{LEDGER}/")
        if is_of_ledger and (parse_entry_name(call.target) is None) == asks:
            unanswered.append(call.target)
            raise OutcomeUnknown("no answer: nothing is known")

    config = parse_config(table.properties, "t")
    return Ledger(TableAt(WatchedStorage(memory, before=lose), config, memory.clock))


def test_a_decision_of_which_no_create_is_answered_is_unknown_after_a_bounded_number_of_them() -> None:
    unanswered: list[str] = []
    ledger = ledger_that_loses(unanswered, asks=False)
    with pytest.raises(DecisionUnknown, match="may or may not have been made"):
        begin_write(ledger, "a")
    assert len(unanswered) == limits.STORE_TRIES_MAX
    assert ledger.clock.slept > 10  # type: ignore[attr-defined]


def test_an_ask_that_is_never_answered_is_put_under_fresh_names_and_ends_as_well(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "ASK_CALL_SECONDS_MIN", 0.0)
    unanswered: list[str] = []
    ledger = ledger_that_loses(unanswered, asks=True)
    with pytest.raises(DecisionUnknown, match="may or may not have been made"):
        begin_write(ledger, "a")
    assert len(set(unanswered)) == len(unanswered) <= limits.STORE_TRIES_MAX**2
