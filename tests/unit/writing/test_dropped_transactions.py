# SPDX-License-Identifier: Apache-2.0
"""A transaction that is neither committed nor aborted, and that nobody has any more: it shows no life, so that others may roll it back."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest

from lakebraid.txn.liveness.heartbeat import Heartbeat
from tests.kit.tables.overwriting import rows, table
from tests.kit.waiting import until

pytestmark = pytest.mark.unit

KINDS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "few columns": ({}, {"columns": ["part", "id", "ts", "v"]}),
    "rows in log files": ({}, {}),
    "rows that are kept until the commit": ({"table_type": "cow", "index": "simple"}, {}),
    "an overwrite": ({}, {"operation": "insert_overwrite"}),
}


@pytest.fixture(autouse=True)
def _no_collector() -> Iterator[None]:
    """A process at rest collects no cycles, so nothing here may depend on that."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("has_rows", [False, True], ids=["empty", "with rows"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_transaction_that_nobody_has_any_more_beats_no_more_and_is_rolled_back(kind: str, has_rows: bool) -> None:
    made, asked = KINDS[kind]
    t = table(**made)
    beating = _dropped(t, asked, has_rows=has_rows)
    until(lambda: beating._thread is not None and not beating._thread.is_alive(), "the beating ends")
    assert t.status(beating.request_time) == "open"
    t._clock.sleep(200)
    t.rollback()
    assert t.status(beating.request_time) == "refused"


def test_a_transaction_that_somebody_has_goes_on_beating() -> None:
    transaction = table().begin()
    assert transaction._heartbeat._thread is not None
    assert not transaction._heartbeat._stop.is_set()
    assert transaction._heartbeat.check is not None
    assert transaction._heartbeat.check(), "it has its place"
    transaction.abort()
    assert not transaction._heartbeat.check(), "it has lost it"


def test_a_write_in_a_block_has_the_transaction_until_the_block_ends() -> None:
    t = table()
    with t.begin() as transaction:
        beating = transaction._heartbeat
        transaction.write(rows("p", x="1"))
        del transaction
        assert not beating._stop.is_set()
    assert t.count() == 4


def _dropped(t: Any, asked: dict[str, Any], *, has_rows: bool) -> Heartbeat:
    """The heartbeat of a transaction that was begun and then forgotten."""
    transaction = t.begin(**asked)
    if has_rows:
        columns = asked.get("columns") or ["part", "id", "ts", "v"]
        transaction.write([{name: row[name] for name in columns} for row in rows("p", x="1")])
    beating: Heartbeat = transaction._heartbeat
    return beating
