# SPDX-License-Identifier: Apache-2.0
"""How many calls in a row a commit waits for, where calls take long."""

from __future__ import annotations

from typing import Any, Final

import pytest

import lakebraid as lb
from lakebraid import limits
from lakebraid.errors import RolledBack
from lakebraid.format.properties import format_properties, parse_properties
from lakebraid.storage import MemoryStorage
from tests.kit.depth import DeepStorage, measured
from tests.kit.tables.scene import TickingClock, make_table, table_on

pytestmark = pytest.mark.unit
SCHEMA: Final = "id bigint, ts bigint, note string"
CALLS_IN_A_ROW_MAX: Final = 8
"""properties, ledger, timeline and the ask | entry | look above it | files and the copies of the beginning | ledger, timeline and the ask |
entry | look above it | copy: docs/concepts/follow-one-upsert.md."""


@pytest.fixture(autouse=True)
def every_call_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "ASK_CALL_SECONDS_MIN", 0.0)


def rows(stamp: int) -> list[dict[str, Any]]:
    return [{"id": key, "ts": stamp, "note": f"{key}"} for key in range(300)]


def table_of(buckets: int, **more: Any) -> tuple[DeepStorage, lb.Table]:
    memory = MemoryStorage("memory://depth", TickingClock())
    make_table(memory, memory.clock, SCHEMA, buckets=buckets, **more)
    storage = DeepStorage(memory)
    table = table_on(storage, memory.clock)
    for stamp in (1, 2):  # what a process learns once
        table.upsert(rows(stamp))
    return storage, table


@pytest.mark.parametrize("buckets", [1, 8, 64])
def test_a_commit_waits_for_eight_calls_in_a_row_whatever_the_number_of_buckets(buckets: int) -> None:
    storage, table = table_of(buckets)
    with measured(storage) as depth:
        table.upsert(rows(3))
    assert depth.now <= CALLS_IN_A_ROW_MAX
    assert {row["ts"] for row in table.to_arrow().to_pylist()} == {3}


@pytest.mark.parametrize("buckets", [1, 8, 64])
def test_a_commit_that_was_begun_ahead_waits_for_five_calls_in_a_row(buckets: int) -> None:
    """The data files | ledger, timeline and the ask | entry | look above it | copy."""
    storage, table = table_of(buckets)
    with table.writer("again and again") as writer:
        for stamp in (3, 4):  # only a writer whose writes follow soon begins the next one ahead
            writer.upsert(rows(stamp))
        for stamp in (5, 6):
            with measured(storage) as depth:
                writer.upsert(rows(stamp))
            assert depth.now <= 5
    assert {row["ts"] for row in table.to_arrow().to_pylist()} == {6}
    assert [entry.instant for entry in table.timeline() if not entry.instant.is_completed] == []


def test_settings_that_another_process_has_changed_count_for_the_next_write() -> None:
    """They are read beside the first look; a write that began with older ones begins anew."""
    storage, table = table_of(4)
    name = ".hoodie/hoodie.properties"
    properties = parse_properties(storage.read(name, 1 << 20), name)
    changed = {**properties, "hoodie.heartbeat.interval.in.ms": "45000"}
    storage.replace(name, format_properties(changed))
    table.upsert(rows(4))
    assert {row["ts"] for row in table.to_arrow().to_pylist()} == {4}
    request_times = [entry.instant.request_time for entry in table.timeline() if not entry.instant.is_completed]
    assert request_times == [], "what began with the older settings is not left open"


def test_a_write_whose_place_was_taken_while_its_process_slept_is_rolled_back_not_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The entry of its beginning lies in a slot that was trimmed: found before the first data file is put (LEDGER, H2)."""
    from lakebraid.txn.ledger.watch import Watch

    storage, table = table_of(4)
    before = {info.name for info in storage.list("") if not info.name.startswith(".hoodie")}
    counts = Watch.counts
    monkeypatch.setattr(Watch, "counts", lambda watch, mine: counts(watch, mine) and False)
    with pytest.raises(RolledBack, match="its place was taken"):
        table.upsert(rows(5))
    assert before == {info.name for info in storage.list("") if not info.name.startswith(".hoodie")}
    monkeypatch.undo()
