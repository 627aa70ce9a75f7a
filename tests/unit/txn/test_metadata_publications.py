# SPDX-License-Identifier: Apache-2.0
"""What is published is in the metadata table first, by the same entry of the ledger: no reader sees one without the other."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lakebraid.format.metadata.commits import FOLDER, TIMELINE
from lakebraid.format.metadata.log import format_metadata_log
from lakebraid.format.timeline.commit import parse_commit
from lakebraid.format.timeline.services import CleanPlan
from lakebraid.model.metadata.keys import partition_stats_key
from lakebraid.model.metadata.ranges import ColumnRange
from lakebraid.model.metadata.statistics import stats_of_range
from lakebraid.model.metadata.value_types import LONG, ValueType
from lakebraid.model.timeline.timeline import build_timeline
from lakebraid.storage.memory import MemoryStorage
from lakebraid.table.loading import load_timeline
from lakebraid.table.metadata.lookups import load_column_stats, load_partition_stats
from lakebraid.txn.actions.clean import Removal, decide_clean, finish_clean
from lakebraid.txn.actions.plans import claim, decide_plan, publish_plan
from lakebraid.txn.actions.write import publish_write
from tests.kit.metadata_tables.writing import Kept, Write
from tests.kit.present import present
from tests.kit.races.faults import Killed, killing
from tests.kit.tables.scene import Call, TickingClock, WatchedStorage

pytestmark = pytest.mark.unit


def appeared(calls: list[Call]) -> list[str]:
    """What a publication copied into place, in order."""
    names = [call.target.removeprefix(".hoodie/") for call in calls if call.name == "copy"]
    return [name for name in names if not name.endswith((".requested", ".inflight"))]


def test_logs_appear_before_the_delta_commit_and_that_before_the_commit() -> None:
    """MDT, M1."""
    watched = WatchedStorage(MemoryStorage("memory://order", TickingClock()))
    table = Kept(watched)
    write = table.begin()
    table.publish(write)
    *logs, delta, commit = appeared(watched.calls)
    s = write.request_time
    expected = ["files/.files-0000-0", "column_stats/.col-stats-0000-0", "column_stats/.col-stats-0001-0"]
    expected.append("partition_stats/.partition-stats-0000-0")
    assert {*logs} <= {f"metadata/{name}_{s}.log.1_0-0-0" for name in expected}
    assert {name.split("/")[1] for name in logs} == {"files", "column_stats", "partition_stats"}
    done = build_timeline([delta.rpartition("/")[2]]).completion_of(s)
    completion = load_timeline(table.at()).completion_of(s)
    assert delta == f"metadata/.hoodie/timeline/{s}_{done}.deltacommit"
    assert commit == f"timeline/{s}_{completion}.deltacommit"
    assert present(done) < present(completion)
    table.check()


def test_what_was_published_is_found_by_name_range_and_partition() -> None:
    table = Kept()
    one, two = table.begin("p0", (1, 5)), table.begin("p1", (7, 9))
    table.publish(two)
    table.publish(one)
    table.check()
    assert table.by_metadata() == {"p0": {one.name: one.size}, "p1": {two.name: two.size}}
    files, partitions = (present(load(table.opened(), ["v"])) for load in (load_column_stats, load_partition_stats))
    found = [present(files.of_file("v", w.partition, w.name)) for w in (one, two)]
    assert [(r.min, r.max) for r in found] == [(1, 5), (7, 9)]
    found = [present(partitions.of_partition("v", w.partition)) for w in (one, two)]
    assert [(r.min, r.max) for r in found] == [(1, 5), (7, 9)]


def test_the_delta_commit_names_its_logs_as_hudi_does() -> None:
    table = Kept()
    write = table.begin()
    table.publish(write)
    name = next(n for n in table.metadata_names() if n.startswith(write.request_time))
    commit = parse_commit(table.storage.read(f"{TIMELINE}/{name}", 1 << 20), name)
    assert sorted(commit.file_paths) == table.logs(write.request_time)
    assert (commit.operation, commit.compacted) == ("UPSERT_PREPPED", False)
    for partition, stats in commit.write_stats.items():
        for stat in stats:
            assert stat.partition_path == partition
            assert stat.file_size_in_bytes == table.storage.info(f"{FOLDER}/{stat.path}").size
            assert stat.log_files == (present(stat.path).partition("/")[2],)


def late(table: Kept) -> tuple[Write, Write]:
    early, later = table.begin("p0", (100, 200)), table.begin("p0", (1, 2))
    table.publish(later)
    table.publish(early)
    return early, later


def test_who_completes_after_a_later_one_says_the_ranges_of_partitions_once_more_with_a_time_of_their_own() -> None:
    """MDT, section 4, point 3: a tight record of the later one would replace them."""
    table = Kept()
    early, later = late(table)
    known = {early.request_time, later.request_time, "0" * 17}
    (extra,) = (i for i in build_timeline(table.metadata_names()).writes if i.request_time not in known)
    assert extra.request_time > later.request_time
    assert table.logs(extra.request_time) == [
        f"partition_stats/.partition-stats-0000-0_{extra.request_time}.log.1_0-0-0"
    ]
    assert present(extra.completion_time) < present(load_timeline(table.at()).completion_of(early.request_time))
    table.check()
    found = present(present(load_partition_stats(table.opened(), ["v"])).of_partition("v", "p0"))
    assert (found.min, found.max) == (1, 200)


def test_a_tight_record_of_hudi_does_not_hide_the_values_of_a_write_that_began_before_it() -> None:
    """MDT, section 4, point 3."""
    table = Kept()
    early, later = table.begin("p0", (100, 200)), table.begin("p0", (1, 2))
    table.publish(later)
    (name,) = (n for n in table.logs(later.request_time) if n.startswith("partition_stats"))
    table.storage.replace(f"{FOLDER}/{name}", tight(later))
    table.publish(early)
    found = present(present(load_partition_stats(table.opened(), ["v"])).of_partition("v", "p0"))
    assert (found.min, found.max) == (1, 200)
    table.storage.delete([f"{FOLDER}/{n}" for n in again(table, early, later)])
    found = present(present(load_partition_stats(table.opened(), ["v"])).of_partition("v", "p0"))
    assert (found.min, found.max) == (1, 2), "it is the extra instant that cures it"


def tight(write: Write) -> bytes:
    """The record of the partition as Hudi would have computed it at the commit."""
    least, most = write.values
    known = ColumnRange("v", least, most, 0, 2, ValueType(LONG))
    record = stats_of_range(known, write.partition, is_of_partition=True, is_tight=True)
    return format_metadata_log({partition_stats_key("v", write.partition): record}, write.request_time)


def again(table: Kept, *writes: Write) -> list[str]:
    """The logs that an extra instant wrote."""
    known = {"0" * 17, *(w.request_time for w in writes)}
    others = {i.request_time for i in build_timeline(table.metadata_names()).writes} - known
    return [name for request_time in others for name in table.logs(request_time)]


def test_who_overlaps_no_later_one_says_them_once() -> None:
    table = Kept()
    first = table.begin()
    table.publish(first)
    second = table.begin()
    table.publish(second)
    assert len(build_timeline(table.metadata_names()).writes) == 3


def test_times_are_unique_over_both_timelines_and_those_of_hudi_are_passed() -> None:
    """MDT, M3: a compaction of Hudi's in the metadata table has a time that the table's timeline does not show."""
    table = Kept()
    ahead = "20290101000000000"
    write = table.begin()
    for name in (f"{ahead}.compaction.requested", f"{ahead}_20290101000000007.commit"):
        table.storage.create(f"{TIMELINE}/{name}", b"")
    completion = table.publish(write)
    own = present(build_timeline(table.metadata_names()).completion_of(write.request_time))
    assert "20290101000000007" < own < completion
    assert table.begin().request_time > completion


def calls_of_a_publication() -> list[Call]:
    storage = WatchedStorage(MemoryStorage("memory://calls", TickingClock()))
    table = Kept(storage)
    early, later = table.begin(), table.begin("p1")
    table.publish(later)
    storage.calls.clear()
    table.publish(early)
    return storage.calls


NUMBERS = range(45)
"""Call numbers of a publication; more than it makes."""


def test_the_numbers_reach_beyond_the_last_call_of_a_publication() -> None:
    assert 20 < len(calls_of_a_publication()) <= len(NUMBERS)


@pytest.mark.slow
@pytest.mark.parametrize("effect", ["done", "not done"])
@pytest.mark.parametrize("number", NUMBERS)
def test_both_readers_see_the_same_wherever_a_publication_dies(number: int, effect: str) -> None:
    table = Kept(MemoryStorage("memory://dies", TickingClock()))
    early, later = table.begin(), table.begin("p1")
    table.publish(later)
    before = table.by_folders()
    hooks, dead = killing(number, effect)
    watched = WatchedStorage(table.storage, **hooks)
    try:
        table.publish(early, table.ledger(watched))
    except Killed:
        assert dead
    table.check()
    assert table.by_folders() in (before, before | {"p0": {early.name: early.size}})
    third = table.begin("p2")
    table.check()
    table.publish(third)
    table.check()
    table.publish(early)
    table.check()
    assert table.by_folders() == before | {"p0": {early.name: early.size}, "p2": {third.name: third.size}}
    assert {len(names) for names in names_by_group(table, early).values()} == {1}


def names_by_group(table: Kept, write: Write) -> dict[str, list[str]]:
    """MDT, M0: of one request time a file group has one log."""
    found: dict[str, list[str]] = {}
    for name in table.logs(write.request_time):
        found.setdefault(name.partition(f"_{write.request_time}")[0], []).append(name)
    return found


def test_both_readers_see_the_same_at_every_call_of_a_publication() -> None:
    table = Kept(MemoryStorage("memory://every", TickingClock()))
    early, later = table.begin(), table.begin("p1")
    table.publish(later)
    watched = WatchedStorage(table.storage, after=lambda _: table.check())
    table.publish(early, table.ledger(watched))
    assert len(watched.calls) > 20


def test_two_processes_that_publish_one_write_leave_one_set_of_logs() -> None:
    """The second attempt meets a slot that is taken, and finds the write published."""
    table = Kept(MemoryStorage("memory://twice", TickingClock()))
    write = table.begin()
    done = list[str]()

    def overtake(call: Call) -> None:
        if call.is_entry() and not done:
            done.append(table.publish(write))

    slow = WatchedStorage(table.storage, before=overtake)
    assert table.publish(write, table.ledger(slow)) == done[0]
    assert {len(names) for names in names_by_group(table, write).values()} == {1}
    table.check()


def test_a_commit_that_brings_a_schema_to_a_late_write_and_the_write_are_both_in_the_metadata_table() -> None:
    table = Kept()
    early, later = table.begin("p0", (5, 6)), table.begin("p1")
    table.publish(later)
    stating = replace(early.content, extra={"schema": "{}"})
    publish_write(
        table.ledger(), early.decider, early.request_time, lambda _: stating, states_schema=True, tell=early.tell
    )
    data, metadata = load_timeline(table.at()), build_timeline(table.metadata_names())
    assert {i.request_time for i in data.writes} <= {i.request_time for i in metadata.writes}
    assert len(data.writes) == 3
    table.check()


def test_what_was_made_of_a_plan_is_in_the_metadata_table_first() -> None:
    table = Kept()
    made = table.begin()
    ledger = table.ledger()
    plan = present(decide_plan(ledger, "planner", "compaction", lambda *_: b"plan"))
    epoch = claim(ledger, "executor", plan, seen=None)
    name = made.name.replace(made.request_time, plan)
    table.storage.create(f"p0/{name}", b"##")
    output = Write("executor", plan, "p0", name, 2, (1, 2))
    completion = publish_plan(ledger, "executor", plan, epoch, lambda _: output.content, output.tell)
    assert present(build_timeline(table.metadata_names()).completion_of(plan)) < completion
    table.check()
    assert table.by_folders() == {"p0": {name: 2}}


def test_files_that_a_clean_removes_leave_the_metadata_table_with_its_end() -> None:
    table = Kept()
    kept, gone = table.begin("p0", (1, 2)), table.begin("p0", (3, 4))
    table.publish(kept)
    table.publish(gone)
    ledger = table.ledger()
    plan = CleanPlan("KEEP_LATEST_COMMITS", {"p0": (gone.name,)})
    clean = present(decide_clean(ledger, "cleaner", lambda *_: Removal(plan)))
    assert table.by_metadata()["p0"].keys() == {kept.name, gone.name}
    done = present(finish_clean(ledger, "cleaner", clean))
    assert table.by_metadata() == table.by_folders() == {"p0": {kept.name: kept.size}}
    assert present(build_timeline(table.metadata_names()).completion_of(clean)) < done.completion_time
    files = present(load_column_stats(table.opened(), ["v"]))
    assert files.of_file("v", "p0", gone.name) is None
    assert files.of_file("v", "p0", kept.name) is not None
