# SPDX-License-Identifier: Apache-2.0
"""Planning, claiming and executing compactions, step by step."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow.parquet as pq
import pytest

from lakebraid import limits
from lakebraid.errors import ClaimLost, CorruptFile
from lakebraid.format.log.blocks import BlockType, read_blocks
from lakebraid.format.timeline.commit import CommitMetadata, parse_commit
from lakebraid.format.timeline.plans import (
    CompactionOperation,
    CompactionPlan,
    format_compaction_plan,
    parse_compaction_plan,
)
from lakebraid.services.merging.choose_groups import NEWEST_OPEN, OLDEST_OPEN
from lakebraid.services.merging.compaction import COMPACTION, plan_compaction
from lakebraid.services.merging.run import abandoned_plans
from lakebraid.services.merging.scope import Scope
from lakebraid.services.merging.tasks import compact_tasks
from lakebraid.services.settings import Opened
from lakebraid.tasks.merging import compact
from lakebraid.txn.actions import plans
from lakebraid.txn.actions.write import begin_write
from lakebraid.txn.ledger.ledger import Ledger
from tests.kit.models.oracle import Block, Gone, Instant, Log, Put, Settings
from tests.kit.tables.builder import TIMELINE, open_table, t
from tests.kit.tables.compacting import Bench
from tests.kit.tables.small_histories import BY_COMMIT, BY_EVENT, COLUMNS, G, log, put, shown

pytestmark = pytest.mark.unit


def bench(settings: Settings = BY_EVENT) -> Bench:
    return Bench(settings, COLUMNS)


def begin(table: Bench, *entries: Put | Gone, columns: tuple[str, ...] | None = None) -> Instant:
    blocks = log(1, *entries).blocks
    if columns is not None:
        blocks = tuple(replace(b, columns=columns, partial=True) for b in blocks)
    return table.begin({G: blocks}, columns)


def write(table: Bench, *entries: Put | Gone) -> Instant:
    instant = begin(table, *entries)
    table.publish(instant)
    return instant


def seen(table: Bench) -> dict[str, str]:
    return shown(open_table(table.storage))


# --- deletes ---------------------------------------------------------------------------------------------------------


def test_a_row_stays_deleted_when_an_older_event_arrives_after_the_compaction() -> None:
    table = bench()
    write(table, put("a", "old", ts=1))
    write(table, Gone("a", (5,)))
    done = table.compact()
    assert done is not None and done.tombstones == 1 and done.rows == 0
    write(table, put("a", "late", ts=4))
    assert seen(table) == {}
    write(table, put("a", "newer", ts=5))
    assert seen(table) == {"a": "newer"}


def test_a_carried_delete_is_carried_again_and_keeps_its_own_request_time() -> None:
    table = bench()
    slow = begin(table, put("a", "slow", ts=5))
    delete = write(table, Gone("a", (5,)))
    between = begin(table, put("a", "between", ts=5))
    for _ in range(3):
        write(table, put("b", "b"))
        assert table.compact() is not None
    table.publish(slow)
    assert seen(table) == {"b": "b"}, "it began before the delete, and ties go to the later request time"
    table.publish(between)
    assert seen(table) == {"b": "b", "a": "between"}
    logs = [n for n in table.names() if n.startswith(".") and t(delete.request_time) not in n and "_0-0-" in n]
    blocks = [b for name in logs for b in read_blocks(table.storage.read(name, 10**6), name).blocks]
    assert len(logs) == 3
    assert {(b.type, b.instant_time) for b in blocks} == {(BlockType.DELETE, t(delete.request_time))}


def test_a_delete_that_a_row_outranks_is_not_carried() -> None:
    table = bench()
    late = begin(table, Gone("a", (1,)))
    write(table, put("a", "row", ts=1))
    table.compact()
    table.publish(late)
    assert seen(table) == {"a": "row"}
    done = table.compact()
    assert done is not None and done.tombstones == 0
    assert seen(table) == {"a": "row"}


def test_a_slice_with_nothing_but_carried_deletes_is_not_compacted_again() -> None:
    table = bench()
    write(table, put("a", "a"), Gone("b", (1,)))
    assert table.compact() is not None
    assert table.plan() is None


FORGOTTEN = pytest.mark.parametrize(("settings", "gone"), [(BY_COMMIT, Gone("a", (9,))), (BY_EVENT, Gone("a"))])


@FORGOTTEN
def test_a_delete_that_would_be_forgotten_is_carried_on_while_an_older_write_is_open(
    settings: Settings, gone: Gone
) -> None:
    table = bench(settings)
    write(table, put("a", "first"), put("b", "b"))
    slow = begin(table, put("a", "slow"))
    delete = write(table, gone)
    done = table.compact()
    assert done is not None and done.rows == 2, "the delete is not merged yet"
    (name,) = [n for n in table.names() if f"_{done.instant}.log" in n]
    assert [b.instant_time for b in read_blocks(table.storage.read(name, 10**6), name).blocks] == [
        t(delete.request_time)
    ]
    assert seen(table) == {"b": "b"}
    table.publish(slow)
    assert seen(table) == {"b": "b"}
    again = table.compact()
    assert again is not None and again.rows == 1
    assert seen(table) == {"b": "b"}


@FORGOTTEN
def test_a_group_whose_delete_would_be_forgotten_waits_if_writes_on_both_sides_of_it_are_open(
    settings: Settings, gone: Gone
) -> None:
    table = bench(settings)
    write(table, put("a", "first"))
    slow = begin(table, put("a", "slow"))
    write(table, gone)
    other = begin(table, put("b", "other"))
    assert table.plan() is None
    table.publish(other)
    assert table.compact() is not None
    table.publish(slow)
    assert seen(table) == {"b": "other"}
    assert table.compact() is not None
    assert seen(table) == {"b": "other"}


def test_a_delete_that_is_older_than_all_open_writes_does_not_hold_up_its_group() -> None:
    table = bench(BY_COMMIT)
    write(table, put("a", "first"), put("b", "b"))
    write(table, Gone("a"))
    slow = begin(table, put("a", "slow"))
    assert table.compact() is not None
    assert seen(table) == {"b": "b"}
    table.publish(slow)
    assert seen(table) == {"a": "slow", "b": "b"}


def test_a_row_that_marks_itself_deleted_by_commit_time_holds_up_its_group_too() -> None:
    columns = (*COLUMNS, "_hoodie_is_deleted")
    table = Bench(BY_COMMIT, columns)
    flagged = Block("parquet", (Put("a", {"id": "a", "ts": 1, "v": "x", "w": 0, "_hoodie_is_deleted": True}),), columns)
    slow = begin(table, put("a", "slow"))
    table.publish(table.begin({G: (flagged,)}))
    assert table.plan() is None
    table.publish(slow)
    assert table.compact() is not None
    assert seen(table) == {}


@pytest.mark.parametrize("order_type", ["long", "int", "string"])
def test_deletes_that_no_delete_block_can_tell_are_carried_as_the_rows_they_were(order_type: str) -> None:
    columns = (*COLUMNS, "_hoodie_is_deleted")
    table = Bench(replace(BY_EVENT, order_type=order_type), columns)
    row: dict[str, Any] = {"id": "a", "ts": None, "v": "x", "w": 0, "_hoodie_is_deleted": True}
    slow = table.begin({G: (Block("avro", (Put("a", row | {"v": "slow", "_hoodie_is_deleted": False}),), columns),)})
    table.publish(table.begin({G: (Block("avro", (Put("a", row),), columns),)}))
    done = table.compact()
    assert done is not None and done.tombstones == 1
    table.publish(slow)
    assert seen(table) == {}, "both have no ordering value, and the delete began later"
    write(table, put("a", "fresh", ts=1))
    assert seen(table) == {"a": "fresh"}


# --- partial updates -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [BY_COMMIT, BY_EVENT])
@pytest.mark.parametrize("theirs", [None, ("id", "ts", "w"), ("id", "ts", "v", "w")])
@pytest.mark.parametrize("waits", [True, False])
def test_columns_that_an_older_open_write_may_change_are_not_merged_before_it_ends(
    settings: Settings, theirs: tuple[str, ...] | None, waits: bool
) -> None:
    """A compacted row has one rank, that of its newest column: the older write would lose all of its own."""
    table = bench(settings)
    write(table, put("a", "first"))
    slow = begin(table, Put("a", {"id": "a", "ts": 1, "v": "slow", "w": 7}), columns=theirs)
    table.publish(begin(table, Put("a", {"id": "a", "ts": 1, "v": "part"}), columns=("id", "ts", "v")))
    waits &= settings is BY_COMMIT  # by event time the base file keeps the rank of each column
    if waits:
        other = begin(table, put("b", "other"))
        assert table.plan() is None
        table.give_up(other)
    else:
        assert table.compact() is not None
    table.publish(slow)
    wanted = [{"id": "a", "ts": 1, "v": "part", "w": 7}]
    assert open_table(table.storage).to_arrow().to_pylist() == wanted
    if not waits:
        write(table, put("z", "z"))
        wanted.append({"id": "z", "ts": 1, "v": "z", "w": 0})
    assert table.compact() is not None
    assert open_table(table.storage).to_arrow().sort_by("id").to_pylist() == wanted


def test_an_older_write_of_the_same_columns_by_commit_time_is_not_waited_for() -> None:
    table = bench(BY_COMMIT)
    write(table, put("a", "first"))
    columns = ("id", "ts", "v")
    slow = begin(table, Put("a", {"id": "a", "ts": 1, "v": "slow"}), columns=columns)
    table.publish(begin(table, Put("a", {"id": "a", "ts": 1, "v": "part"}), columns=columns))
    assert table.compact() is not None
    table.publish(slow)
    assert seen(table) == {"a": "part"}


@pytest.mark.parametrize("settings", [BY_COMMIT, BY_EVENT])
def test_a_partial_update_does_not_carry_columns_of_a_late_finisher_over_newer_ones(settings: Settings) -> None:
    """Only when the compaction is over somebody updates partially; nobody could have waited for that."""
    table = bench(settings)
    slow = begin(table, put("a", "slow", ts=1))
    write(table, put("a", "newer", ts=2))
    assert table.compact() is not None
    table.publish(slow)
    table.publish(begin(table, Put("a", {"id": "a", "ts": 3, "w": 7}), columns=("id", "ts", "w")))
    for _ in range(2):
        rows = open_table(table.storage).to_arrow().to_pylist()
        assert rows == [{"id": "a", "ts": 3, "v": "newer", "w": 7}]
        table.compact()


def test_a_late_delete_that_outranks_a_base_row_leaves_nothing_for_a_partial_update() -> None:
    table = bench()
    slow = begin(table, Gone("a", (5,)))
    write(table, put("a", "older", ts=2))
    assert table.compact() is not None
    table.publish(slow)
    table.publish(begin(table, Put("a", {"id": "a", "ts": 4, "w": 7}), columns=("id", "ts", "w")))
    assert seen(table) == {}
    table.publish(begin(table, Put("a", {"id": "a", "ts": 6, "w": 8}), columns=("id", "ts", "w")))
    for _ in range(2):
        rows = open_table(table.storage).to_arrow().to_pylist()
        assert rows == [{"id": "a", "ts": 6, "v": None, "w": 8}]
        table.compact()


# --- plans -----------------------------------------------------------------------------------------------------------


def test_nothing_is_planned_while_a_bulk_load_is_open() -> None:
    table = bench()
    begin_write(table.ledger, "loader", adds_base=False)
    state = table.ledger.newest().state
    assert not state.is_fresh or state.open
    write(table, put("a", "a"))
    request_time, (loader,) = next(iter(state.open)), state.open.values()
    newest = table.ledger.newest()
    loading = replace(newest, state=replace(newest.state, open={request_time: replace(loader, adds_base=True)}))
    table.ledger.watch.known = loading
    assert table.plan() is None


def test_a_group_of_a_pending_plan_gets_no_second_one() -> None:
    table = bench()
    write(table, put("a", "a"))
    first = table.plan()
    write(table, put("a", "b", ts=2))
    assert first is not None
    assert table.plan() is None
    table.run(first)
    assert seen(table) == {"a": "b"}
    assert table.compact() is not None


def test_a_group_of_a_pending_log_compaction_waits() -> None:
    table = bench()
    write(table, put("a", "a"))
    plan = format_compaction_plan(CompactionPlan((CompactionOperation(G[1], "", None),)))
    table.storage.create(f"{TIMELINE}/{t(50)}.logcompaction.requested", plan)
    assert table.plan() is None


def test_a_plan_names_the_files_of_the_slice_and_the_oldest_open_write() -> None:
    table = bench()
    first = write(table, put("a", "a"))
    slow = begin(table, put("a", "slow", ts=2))
    request_time = table.plan()
    assert request_time is not None
    plan = COMPACTION.load(table.ledger, request_time)
    (operation,) = plan.operations
    assert plan.version == 2 and plan.extra == {OLDEST_OPEN: t(slow.request_time), NEWEST_OPEN: t(slow.request_time)}
    assert operation.delta_file_names == (f".{G[1]}_{t(first.request_time)}.log.1_1-0-1",)
    assert (operation.data_file_name, operation.base_instant_time) == (None, t(first.request_time))


def test_groups_with_fewer_logs_than_asked_for_wait() -> None:
    table = bench()
    write(table, put("a", "a"))
    assert plan_compaction(table.ledger, Scope(logs_min=2)) is None
    write(table, put("a", "b"))
    assert plan_compaction(table.ledger, Scope(logs_min=2)) is not None


def test_only_the_partitions_asked_for_are_planned() -> None:
    table = bench()
    write(table, put("a", "a"))
    assert plan_compaction(table.ledger, Scope(partitions=("elsewhere",))) is None
    assert plan_compaction(table.ledger, Scope(partitions=("",))) is not None


# --- execution -------------------------------------------------------------------------------------------------------


def completed_metadata(table: Bench, request_time: str) -> CommitMetadata:
    (name,) = [
        i.name for i in table.storage.list(TIMELINE) if f"/{request_time}_" in i.name and i.name.endswith(".commit")
    ]
    return parse_commit(table.storage.read(name, 10**6), name)


def test_a_finished_compaction_says_what_hudi_wants_to_know() -> None:
    table = bench()
    first = write(table, put("a", "a"), put("b", "b"))
    assert table.compact() is not None
    write(table, put("a", "c", ts=2), Gone("b", (7,)))
    done = table.compact()
    assert done is not None
    metadata = completed_metadata(table, done.instant)
    assert (metadata.operation, metadata.compacted) == ("COMPACT", True)
    assert metadata.schema and '"name": "v"' in metadata.schema.replace('":"', '": "')
    base, tombs = metadata.write_stats[""]
    assert base.path and base.path.endswith(f"_{done.instant}.parquet")
    assert (base.num_writes, base.total_log_files_compacted) == (1, 1)
    assert base.prev_commit == table.compactions[0].instant
    assert base.file_size_in_bytes == table.storage.info(base.path).size
    assert tombs.log_files == (tombs.path,) and tombs.base_file == base.path
    assert (tombs.num_writes, tombs.num_deletes) == (0, 1)
    rows = pq.read_table(table.storage.open_input(base.path))
    assert rows["_hoodie_file_name"].to_pylist() == [base.path]
    assert rows["_hoodie_commit_time"].to_pylist() != [t(first.request_time)]


def test_of_two_executors_only_the_last_claim_publishes_and_the_first_leaves_nothing() -> None:
    table = bench()
    write(table, put("a", "a"), Gone("b", (3,)))
    request_time = table.plan()
    assert request_time is not None
    zombie = Ledger(table.at)
    epoch = plans.claim(zombie, "zombie", request_time, seen=0)
    plan = COMPACTION.load(zombie, request_time)
    work = replace(zombie_plan(table, request_time), epoch=epoch)
    sizes = {i.name: i.size for i in table.storage.list()}
    for task in compact_tasks(plan, table.config, sizes):
        compact.run_compaction_task(table.storage, work, task)
    assert len(table.names(suffix=f"_0-0-{epoch}_{request_time}.parquet")) == 1
    table.ledger.clock.now_ms = lambda: 1_767_225_600_000 + 2 * limits.HEARTBEAT_TIMEOUT_MS  # type: ignore[method-assign]
    table.run(request_time)
    assert table.names(suffix=f"_0-0-{epoch}_{request_time}.parquet") == []
    assert not [n for n in table.names() if n.endswith(f"{request_time}.log.1_0-0-{epoch}")]
    assert plans.publish_plan(zombie, "zombie", request_time, epoch, lambda _: CommitMetadata())
    assert seen(table) == {"a": "a"}


def zombie_plan(table: Bench, request_time: str) -> compact.MergeContext:
    from lakebraid.services.merging.tasks import merge_context

    schema = table.writing.schema(table.ledger)
    assert schema is not None
    return merge_context(table.storage, {}, table.config, schema.columns, request_time, 0)


def test_a_plan_whose_executor_is_alive_is_left_to_it() -> None:
    table = bench()
    write(table, put("a", "a"))
    request_time = table.plan()
    assert request_time is not None
    plans.claim(table.ledger, "alive", request_time, seen=0)
    with pytest.raises(ClaimLost, match="alive"):
        COMPACTION.run(Opened(table.writing, table.ledger), request_time)
    assert abandoned_plans(table.ledger, "compaction", COMPACTION.load) == []


def test_a_plan_that_failed_is_executed_again_with_the_same_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    table = bench()
    write(table, put("a", "a"))
    request_time = table.plan()
    assert request_time is not None
    with monkeypatch.context() as broken:
        broken.setattr(compact, "format_base_file", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            table.run(request_time)
    assert seen(table) == {"a": "a"}
    table.clock.now_ms = lambda: 1_767_225_600_000 + 2 * limits.HEARTBEAT_TIMEOUT_MS  # type: ignore[method-assign]
    assert abandoned_plans(table.ledger, "compaction", COMPACTION.load) == [request_time]
    assert table.run(request_time).rows == 1
    assert seen(table) == {"a": "a"}


def test_a_torn_plan_hinders_nobody() -> None:
    table = bench()
    write(table, put("a", "a"))
    torn = f"{TIMELINE}/{t(1)}.compaction.requested"
    table.storage.create(torn, b"Obj")
    table.clock.now_ms = lambda: 1_767_225_600_000 + 2 * limits.HEARTBEAT_TIMEOUT_MS  # type: ignore[method-assign]
    assert abandoned_plans(table.ledger, "compaction", COMPACTION.load) == []
    assert table.compact() is not None
    assert torn in [info.name for info in table.storage.list()]
    with pytest.raises(CorruptFile):
        table.run(t(1))


def test_a_plan_that_does_not_exist_is_said_so() -> None:
    with pytest.raises(ClaimLost, match="There is no compaction plan"):
        bench().run(t(40))


@pytest.mark.parametrize("folder", ["", "file:/somewhere/else/", "s3://lake/built/"])
def test_a_plan_that_apache_hudi_made_is_executed(folder: str) -> None:
    table = bench()
    write(table, put("a", "a"), put("b", "b"))
    names = [n for n in table.names() if n.startswith(".")]
    operation = CompactionOperation(G[1], "", t(3), tuple(folder + n for n in names))
    request_time = t(50)
    table.storage.create(
        f"{TIMELINE}/{request_time}.compaction.requested", format_compaction_plan(CompactionPlan((operation,)))
    )
    done = COMPACTION.run(Opened(table.writing, table.ledger), request_time)
    assert (done.instant, done.rows) == (request_time, 2)
    assert seen(table) == {"a": "a", "b": "b"}


def test_a_plan_that_names_a_file_of_another_group_is_refused() -> None:
    table = bench()
    operation = CompactionOperation(G[1], "", t(3), (f".other_{t(3)}.log.1_1-0-1",))
    with pytest.raises(CorruptFile, match="which it is not"):
        compact_tasks(CompactionPlan((operation,)), table.config, {})


def test_logs_are_merged_in_their_own_order_whatever_the_plan_says() -> None:
    table = bench(BY_COMMIT)
    first, second = Log(G, 3, ()), Log(G, 4, ())
    names = tuple(f".{G[1]}_{t(x.request_time)}.log.1_1-0-1" for x in (second, first))
    (task,) = compact_tasks(CompactionPlan((CompactionOperation(G[1], "", None, names),)), table.config, {})
    assert task.slice.log_names == names[::-1]


def test_the_plan_is_on_the_timeline_before_anybody_executes_it() -> None:
    table = bench()
    write(table, put("a", "a"))
    request_time = table.plan()
    data = table.storage.read(f"{TIMELINE}/{request_time}.compaction.requested", 10**6)
    assert parse_compaction_plan(data, "").operations
