# SPDX-License-Identifier: Apache-2.0
"""Compactions of the metadata table: planned and completed through the ledger, and no reader sees another table before or after."""

from __future__ import annotations

import pytest

from lakebraid.errors import ClaimLost, UnsupportedTable
from lakebraid.format.metadata.commits import FOLDER, TIMELINE
from lakebraid.format.timeline.commit import parse_commit
from lakebraid.format.timeline.services import CleanPlan
from lakebraid.model.timeline.timeline import build_timeline
from lakebraid.services.metadata.compaction import compact_metadata, load_metadata_plan, plan_metadata
from lakebraid.services.settings import Opened
from lakebraid.storage import Storage
from lakebraid.storage.memory import MemoryStorage
from lakebraid.table.metadata.lookups import load_column_stats, load_partition_stats
from lakebraid.table.metadata.opening import load_slices
from lakebraid.txn.actions.clean import Removal, decide_clean, finish_clean
from lakebraid.txn.metadata.plans import decide_metadata_plan, publish_metadata_compaction
from lakebraid.txn.writer import Writing
from tests.kit.metadata_tables.writing import Kept
from tests.kit.present import present
from tests.kit.races.faults import Killed, killing
from tests.kit.tables.scene import Call, TickingClock, WatchedStorage

pytestmark = pytest.mark.unit
NUMBERS = range(75)
"""Call numbers of a compaction; more than it makes."""


def opened(table: Kept, storage: Storage | None = None) -> Opened:
    return Opened(Writing(storage or table.storage, table.clock), table.ledger(storage))


def written(name: str = "written") -> Kept:
    """A table with three writes, of which a clean has removed one."""
    table = Kept(MemoryStorage(f"memory://{name}", TickingClock()))
    gone = table.begin("p0", (50, 60))
    table.publish(gone)
    for partition, values in (("p0", (1, 5)), ("p1", (7, 9))):
        table.publish(table.begin(partition, values))
    ledger = table.ledger()
    plan = CleanPlan("KEEP_LATEST_COMMITS", {"p0": (gone.name,)})
    finish_clean(ledger, "cleaner", present(decide_clean(ledger, "cleaner", lambda *_: Removal(plan))))
    return table


def ranges(table: Kept) -> list[tuple[int, int]]:
    """What is known of the column in each file, and in each partition."""
    files, partitions = (present(load(table.opened(), ["v"])) for load in (load_column_stats, load_partition_stats))
    listed = [(path, name) for path, names in sorted(table.by_metadata().items()) for name in sorted(names)]
    found = [files.of_file("v", path, name) for path, name in listed]
    found += [partitions.of_partition("v", path) for path in ("p0", "p1")]
    return [(present(r).min, present(r).max) for r in found]


def test_a_compaction_changes_no_answer_and_leaves_no_log_to_read() -> None:
    table = written()
    files, known = table.by_metadata(), ranges(table)
    result = present(compact_metadata(opened(table), deltas=3))
    assert result.file_groups == 4
    table.check()
    assert (table.by_metadata(), ranges(table)) == (files, known)
    for partition in ("files", "column_stats", "partition_stats"):
        for found in load_slices(table.opened(), partition):
            assert present(found).logs == ()
            assert present(present(found).base).request_time == result.request_time
    table.publish(table.begin("p2", (3, 4)))
    table.check()


def test_its_completed_file_says_what_hudi_says() -> None:
    table = written()
    result = present(compact_metadata(opened(table), deltas=3))
    name = f"{TIMELINE}/{result.request_time}_{result.completion_time}.commit"
    commit = parse_commit(table.storage.read(name, 1 << 20), name)
    assert (commit.operation, commit.compacted) == ("COMPACT", True)
    assert {*commit.file_paths} == {
        f"{partition}/{file_id}_0-0-0_{result.request_time}.hfile"
        for partition, file_id in (
            ("files", "files-0000-0"),
            ("column_stats", "col-stats-0000-0"),
            ("column_stats", "col-stats-0001-0"),
            ("partition_stats", "partition-stats-0000-0"),
        )
    }
    states = {name.partition(".")[2] for name in table.metadata_names() if name.startswith(result.request_time)}
    assert states == {"compaction.requested", "compaction.inflight", "commit"}


def test_it_is_due_after_so_many_delta_commits_and_not_before() -> None:
    table = written()
    assert compact_metadata(opened(table), deltas=6) is None
    assert compact_metadata(opened(table), deltas=5) is not None  # the one that built it counts, too
    table.publish(table.begin())
    assert compact_metadata(opened(table), deltas=2) is None


def test_a_write_that_began_before_a_compaction_and_completes_after_it_is_read_beside_the_new_base_files() -> None:
    """MDT, section 4, point 2."""
    table = written()
    late = table.begin("p0", (100, 200))
    done = opened(table)
    request_time = present(decide_metadata_plan(done.ledger, "p", lambda now, layout: plan_metadata(now, layout, 3)))
    planned = [n for one in load_metadata_plan(table.storage, request_time).operations for n in one.delta_file_names]
    table.publish(late)
    assert not any(late.request_time in name for name in planned)
    present(compact_metadata(opened(table), deltas=3))
    table.check()
    assert (100, 200) in ranges(table)
    assert (1, 200) in ranges(table)


@pytest.mark.slow
@pytest.mark.parametrize("effect", ["done", "not done"])
@pytest.mark.parametrize("number", NUMBERS)
def test_both_readers_see_the_same_wherever_a_compaction_dies_and_the_next_one_completes_it(
    number: int, effect: str
) -> None:
    table = written("dies")
    files, known = table.by_folders(), ranges(table)
    late = table.begin("p1", (0, 1))
    hooks, dead = killing(number, effect)
    try:
        compact_metadata(opened(table, WatchedStorage(table.storage, **hooks)), deltas=3)
    except Killed:
        assert dead
    table.check()
    table.publish(late)
    table.check()
    compact_metadata(opened(table), deltas=3)
    table.check()
    assert table.by_folders() == files | {"p1": files["p1"] | {late.name: late.size}}
    assert {*known[:-1]} <= {*ranges(table)}
    done = [i for i in build_timeline(table.metadata_names()).writes if i.action == "commit"]
    assert 1 <= len(done) <= 2


def test_the_numbers_reach_beyond_the_last_call_of_a_compaction() -> None:
    table = written()
    watched = WatchedStorage(table.storage)
    compact_metadata(opened(table, watched), deltas=3)
    assert 30 < len(watched.calls) <= len(NUMBERS)


def test_both_readers_see_the_same_at_every_call_of_a_compaction_beside_writers() -> None:
    table = written()
    waiting = [table.begin("p2", (n, n + 1)) for n in range(6)]

    def write(call: Call) -> None:
        table.check()
        if waiting and call.number % 5 == 0:
            table.publish(waiting.pop())
            table.check()

    watched = WatchedStorage(table.storage, after=write)
    assert compact_metadata(opened(table, watched), deltas=3) is not None
    assert not waiting
    table.check()


def test_two_processes_execute_one_plan_and_leave_one_base_file_each_group() -> None:
    table = written()
    done = list[object]()

    def overtake(call: Call) -> None:
        if call.name == "create" and call.target.endswith(".hfile") and not done:
            done.append(None)
            done.append(compact_metadata(opened(table), deltas=3))

    slow = WatchedStorage(table.storage, before=overtake)
    assert compact_metadata(opened(table, slow), deltas=3) == done[1]
    bases = [info.name for info in table.storage.list(FOLDER) if info.name.endswith(".hfile")]
    assert len(bases) == 5
    table.check()


# --- what it must not take in ----------------------------------------------------------------------------------------


def test_nothing_is_planned_while_a_write_is_completed_in_the_metadata_table_and_pending_in_the_table() -> None:
    """MDT, M2."""
    table = written()
    dead = table.begin("p2", (70, 80))
    table.put_metadata(dead)
    assert compact_metadata(opened(table), deltas=3) is None
    assert not any("compaction" in name for name in table.metadata_names())
    table.publish(dead)
    assert compact_metadata(opened(table), deltas=3) is not None
    table.check()
    assert (70, 80) in ranges(table)


def test_a_plan_that_was_removed_is_not_completed() -> None:
    table = written()
    ledger = table.ledger()
    request_time = present(decide_metadata_plan(ledger, "p", lambda now, layout: plan_metadata(now, layout, 3)))
    table.storage.delete([f"{TIMELINE}/{request_time}.compaction.requested"])
    with pytest.raises(ClaimLost, match="was removed"):
        publish_metadata_compaction(ledger, "p", request_time, [])


def test_a_plan_that_hudi_has_begun_to_execute_is_left_to_it() -> None:
    """Two base files of one request time: readers could take either."""
    table = written()
    ledger = table.ledger()
    request_time = present(decide_metadata_plan(ledger, "p", lambda now, layout: plan_metadata(now, layout, 3)))
    ledger.settled()
    table.storage.create(f"{FOLDER}/files/files-0000-0_3-283-529_{request_time}.hfile", b"torn")
    with pytest.raises(UnsupportedTable, match="was begun by Apache Hudi"):
        compact_metadata(opened(table), deltas=3)
    table.check()
