# SPDX-License-Identifier: Apache-2.0
"""Writes that were begun ahead, and deletes that were published before their callers had any rows."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import lakebraid as lb
from lakebraid import limits
from lakebraid.storage import MemoryStorage
from tests.kit.races.ahead import begun_ahead, state_of
from tests.kit.tables.scene import TickingClock, answer, make_table, row, table_on

pytestmark = pytest.mark.unit


@pytest.fixture
def storage(monkeypatch: pytest.MonkeyPatch) -> MemoryStorage:
    """Each call is slow."""
    monkeypatch.setattr(limits, "ASK_CALL_SECONDS_MIN", 0.0)
    storage = MemoryStorage("memory://ahead", TickingClock())
    make_table(storage, storage.clock)
    return storage


@pytest.fixture
def begun(storage: MemoryStorage) -> Iterator[tuple[lb.Table, lb.Writer]]:
    with begun_ahead(storage) as both:
        yield both


@pytest.mark.parametrize("another_asks", [False, True])
def test_rows_that_come_after_a_delete_without_ordering_value_are_there(
    storage: MemoryStorage, begun: tuple[lb.Table, lb.Writer], *, another_asks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes whatever began before it: also a write that was begun before it and had no rows yet."""
    if not another_asks:
        monkeypatch.setattr(limits, "ASK_CALL_SECONDS_MIN", 10.0**9)
    with table_on(storage, storage.clock).begin("upsert") as deleting:
        deleting.write_deletes([{"id": "a"}, {"id": "new"}])
    monkeypatch.setattr(limits, "ASK_CALL_SECONDS_MIN", 0.0)
    table, writer = begun
    (instant,) = state_of(storage).open
    assert writer.upsert([row("a", "again", ts=9), row("new", "new", ts=9)]).instant != instant
    assert answer(table) == {"warm": "1", "a": "again", "new": "new"}


def test_deletes_with_an_ordering_value_are_in_the_way_of_nothing_that_was_begun(
    storage: MemoryStorage, begun: tuple[lb.Table, lb.Writer]
) -> None:
    table, writer = begun
    (instant,) = state_of(storage).open
    table_on(storage, storage.clock).delete([{"id": "a"}])
    assert writer.upsert([row("a", "again", ts=9)]).instant == instant
    assert answer(table) == {"warm": "1", "a": "again"}
