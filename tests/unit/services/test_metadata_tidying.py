# SPDX-License-Identifier: Apache-2.0
"""What no reader needs any more leaves the metadata table, and what one may need stays; the timeline of the table waits for it."""

from __future__ import annotations

import pytest

from lakebraid import limits
from lakebraid.format.metadata.commits import FOLDER
from lakebraid.model.timeline.timeline import build_timeline
from lakebraid.services.archiving import Keep, choose, choose_instants
from lakebraid.services.metadata.compaction import MetadataCompactionResult, compact_metadata
from lakebraid.services.metadata.tidying import archivable_until, tidy_metadata
from lakebraid.services.settings import Opened
from lakebraid.storage import Storage
from lakebraid.storage.memory import MemoryStorage
from lakebraid.table.loading import load_timeline
from lakebraid.txn.ledger.rounds import Round
from lakebraid.txn.writer import Writing
from tests.kit.metadata_tables.writing import Kept
from tests.kit.present import present
from tests.kit.races.faults import Killed, killing
from tests.kit.tables.scene import TickingClock, WatchedStorage

pytestmark = pytest.mark.unit
NUMBERS = range(55)
"""Call numbers of a tidying; more than it makes."""


def opened(table: Kept, storage: Storage | None = None) -> Opened:
    return Opened(Writing(storage or table.storage, table.clock), table.ledger(storage))


def compacted(times: int = 4) -> tuple[Kept, list[MetadataCompactionResult]]:
    """A table whose metadata table was compacted so many times, two writes before each, and an hour has passed."""
    table, done = Kept(MemoryStorage("memory://tidied", TickingClock())), []
    for _ in range(times):
        table.publish(table.begin("p0"))
        table.publish(table.begin("p1"))
        done.append(present(compact_metadata(opened(table), deltas=2)))
    table.clock.ms += limits.METADATA_KEPT_MS
    table.publish(table.begin("p2"))
    return table, done


def names(table: Kept) -> set[str]:
    return {info.name for info in table.storage.list(FOLDER) if f"{FOLDER}/." not in info.name}


def test_files_that_two_compactions_have_taken_in_leave_after_an_hour() -> None:
    table, done = compacted()
    before = names(table)
    assert tidy_metadata(opened(table)).files > 0
    gone = before - names(table)
    bases = [name for name in gone if name.endswith(".hfile")]
    assert {name.rpartition("_")[2] for name in bases} == {f"{'0' * 17}.hfile", f"{done[0].request_time}.hfile"}
    timeline = build_timeline(table.metadata_names())
    for name in gone - {*bases}:
        request_time = name.rpartition(".log.")[0].rpartition("_")[2]
        assert present(timeline.completion_of(request_time)) < done[1].request_time
    table.check()
    assert not tidy_metadata(opened(table)).files


def test_nothing_leaves_before_an_hour_has_passed() -> None:
    table, _ = compacted()
    table.clock.ms -= limits.METADATA_KEPT_MS - 1000
    before = names(table)
    assert tidy_metadata(opened(table)).files == 0
    assert names(table) == before


def test_a_savepoint_keeps_the_compaction_before_it() -> None:
    """MDT, M10: else Hudi's restore deletes the metadata table."""
    table, done = compacted()
    first = load_timeline(table.at()).writes[0].request_time
    table.storage.create(f".hoodie/timeline/{first}_{done[0].completion_time}.savepoint", b"")
    assert tidy_metadata(opened(table)).files == 0


def test_instants_leave_the_timeline_for_the_history_once_the_table_itself_begins_later() -> None:
    """MDT, M9."""
    table, done = compacted()
    assert tidy_metadata(opened(table)).instants == 1, "the one that built it is older than the table"
    shed(table, before=done[1].request_time)
    moved = tidy_metadata(opened(table)).instants
    assert moved > 3
    left = build_timeline(table.metadata_names())
    assert present(left.first_active_write) >= done[1].request_time
    assert {i.request_time for i in left.writes if i.action == "commit"} == {one.request_time for one in done[1:]}
    table.check()
    table.publish(table.begin())
    table.check()


def shed(table: Kept, *, before: str) -> None:
    """The table's own timeline begins later, as if it had been archived."""
    folder = ".hoodie/timeline"
    old = [name for name in table.storage.list_names(folder) if name[:17] < before]
    table.storage.delete([f"{folder}/{name}" for name in old])


def test_an_instant_whose_log_is_read_beside_the_newest_base_stays() -> None:
    """MDT, M9: it began before the compactions and completed after them."""
    table = Kept()
    late = table.begin("p2")
    for _ in range(4):
        table.publish(table.begin())
        compact_metadata(opened(table), deltas=1)
    table.publish(late)
    timeline = build_timeline(table.metadata_names())
    assert archivable_until(build_timeline(["20300101000000000_20300101000000001.deltacommit"]), timeline) == "0" * 17
    table.check()


@pytest.mark.slow
@pytest.mark.parametrize("effect", ["done", "not done"])
@pytest.mark.parametrize("number", NUMBERS)
def test_both_readers_see_the_same_wherever_a_tidying_dies(number: int, effect: str) -> None:
    table, done = compacted(3)
    shed(table, before=done[0].request_time)
    hooks, dead = killing(number, effect)
    try:
        tidy_metadata(opened(table, WatchedStorage(table.storage, **hooks)))
    except Killed:
        assert dead
    table.check()
    tidy_metadata(opened(table))
    table.check()
    table.publish(table.begin())
    table.check()
    assert not tidy_metadata(opened(table))


def test_the_numbers_reach_beyond_the_last_call_of_a_tidying() -> None:
    table, done = compacted(3)
    shed(table, before=done[0].request_time)
    watched = WatchedStorage(table.storage)
    assert tidy_metadata(opened(table, watched)).instants
    assert 15 < len(watched.calls) <= len(NUMBERS)


# --- the table's own timeline ----------------------------------------------------------------------------------------


def test_writes_that_the_metadata_table_has_not_compacted_stay_on_the_timeline_of_the_table() -> None:
    table, done = compacted()
    ledger = table.ledger()
    now, keep = Round(ledger, ledger.newest().state, 0), Keep(1, 1)
    chosen = choose(now, keep)
    assert present(chosen.until) < done[-1].request_time
    assert chosen.held_back_by == "the metadata table was not compacted since"
    freely = choose_instants(load_timeline(table.at()), ledger.newest().state, keep, "9")
    assert present(freely.until) > present(chosen.until)


def test_nothing_is_archived_while_the_metadata_table_was_never_compacted() -> None:
    table = Kept()
    for _ in range(4):
        table.publish(table.begin())
    ledger = table.ledger()
    assert choose(Round(ledger, ledger.newest().state, 0), Keep(1, 1)).until is None
