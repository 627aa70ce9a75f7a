# SPDX-License-Identifier: Apache-2.0
"""What a compaction plans, and who executes its plans."""

from __future__ import annotations

from dataclasses import replace

import pyarrow.parquet as pq
import pytest

from lakebraid import limits
from lakebraid.errors import ClaimLost, CorruptFile
from lakebraid.format.names import claim_token
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
from tests.kit.models.oracle import Gone, Instant, Log, Put, Settings
from tests.kit.tables.builder import TIMELINE, open_table
from tests.kit.tables.built_files import t
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
    assert len(table.names(suffix=f"_{claim_token(epoch)}_{request_time}.parquet")) == 1
    table.ledger.clock.now_ms = lambda: 1_767_225_600_000 + 2 * limits.HEARTBEAT_TIMEOUT_MS  # type: ignore[method-assign]
    table.run(request_time)
    assert table.names(suffix=f"_{claim_token(epoch)}_{request_time}.parquet") == []
    assert not [n for n in table.names() if n.endswith(f"{request_time}.log.1_{claim_token(epoch)}")]
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
