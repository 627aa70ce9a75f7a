# SPDX-License-Identifier: Apache-2.0
"""A write that is rolled back takes with it what it says in the metadata table, before it leaves the table's own timeline."""

from __future__ import annotations

import pytest

from lakebraid.errors import UnsupportedTable
from lakebraid.format.metadata.commits import TIMELINE
from lakebraid.storage.memory import MemoryStorage
from lakebraid.txn.actions.rollback import roll_back
from tests.kit.metadata_tables.writing import Kept, Write
from tests.kit.races.faults import Killed, killing
from tests.kit.tables.scene import TickingClock, WatchedStorage

pytestmark = pytest.mark.unit
NUMBERS = range(45)
"""Call numbers of a rollback; more than it makes."""


def dead(table: Kept) -> Write:
    """A write that has died between the two completions, beside one that is published."""
    table.publish(table.begin("p1"))
    write = table.begin()
    table.put_metadata(write)
    table.check()
    return write


def traces(table: Kept, write: Write) -> list[str]:
    metadata = [name for name in table.metadata_names() if name.startswith(write.request_time)]
    data = [n for n in table.storage.list_names(".hoodie/timeline") if n.startswith(write.request_time)]
    return [*metadata, *table.logs(write.request_time), *data]


def test_nothing_of_it_is_left_in_either_table_and_the_metadata_table_goes_first() -> None:
    """MDT, M5."""
    watched = WatchedStorage(MemoryStorage("memory://first", TickingClock()))
    table = Kept(watched)
    write = dead(table)
    assert len(traces(table, write)) > 6
    assert roll_back(table.ledger(), "other", write.request_time)
    assert traces(table, write) == []
    gone = [name for call in watched.calls if call.name == "delete" for name in call.args[0]]
    own = [
        name for name in gone if f"{write.request_time}" in name and name.startswith(".hoodie/") and ".lake" not in name
    ]
    completed = next(n for n in own if n.startswith(f"{TIMELINE}/{write.request_time}_"))
    assert own[0] == completed
    first_data = next(i for i, n in enumerate(own) if n.startswith(".hoodie/timeline/"))
    assert all(".hoodie/metadata/" in name for name in own[:first_data])
    assert not any(".hoodie/metadata/" in name for name in own[first_data:])
    table.check()


@pytest.mark.slow
@pytest.mark.parametrize("effect", ["done", "not done"])
@pytest.mark.parametrize("number", NUMBERS)
def test_both_readers_see_the_same_wherever_a_rollback_dies(number: int, effect: str) -> None:
    table = Kept(MemoryStorage("memory://dies", TickingClock()))
    write = dead(table)
    before = table.by_folders()
    hooks, killed = killing(number, effect)
    try:
        roll_back(table.ledger(WatchedStorage(table.storage, **hooks)), "other", write.request_time)
    except Killed:
        assert killed
    table.check()
    roll_back(table.ledger(), "third", write.request_time)
    table.check()
    assert traces(table, write) == []
    assert table.by_folders() == before


def test_the_numbers_reach_beyond_the_last_call_of_a_rollback() -> None:
    watched = WatchedStorage(MemoryStorage("memory://count", TickingClock()))
    table = Kept(watched)
    write = dead(table)
    watched.calls.clear()
    roll_back(table.ledger(), "other", write.request_time)
    assert 20 < len(watched.calls) <= len(NUMBERS)


def test_a_write_that_a_compaction_of_the_metadata_table_has_taken_in_is_not_rolled_back() -> None:
    """MDT, section 5: Hudi could not either, and would fail at each later write."""
    table = Kept()
    write = dead(table)
    later = f"{int(write.request_time) + 500}"
    table.storage.create(f"{TIMELINE}/{later}_{int(later) + 1}.commit", b"")
    before = traces(table, write)
    with pytest.raises(UnsupportedTable, match="has taken in what it says there"):
        roll_back(table.ledger(), "other", write.request_time)
    assert traces(table, write) == before


def test_an_own_write_has_nothing_in_the_metadata_table_until_the_entry_that_publishes_it() -> None:
    table = Kept()
    write = table.begin()
    assert table.logs(write.request_time) == []
    assert roll_back(table.ledger(), write.decider, write.request_time)
    assert traces(table, write) == []
    table.check()
