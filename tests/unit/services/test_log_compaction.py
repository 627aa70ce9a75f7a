# SPDX-License-Identifier: Apache-2.0
"""Planning, executing and reading log compactions, step by step."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lakebraid import limits
from lakebraid.errors import ClaimLost
from lakebraid.format.log.blocks import BlockType, LogBlock, read_blocks
from lakebraid.format.timeline.commit import parse_commit
from lakebraid.format.timeline.plans import CompactionOperation, CompactionPlan, format_compaction_plan
from lakebraid.services.merging import log_compaction
from lakebraid.services.merging.log_compaction import LOG_COMPACTION, LogCompactionResult, plan_log_compaction
from lakebraid.services.merging.run import abandoned_plans
from lakebraid.services.merging.scope import Scope
from lakebraid.services.plans import run_plan
from lakebraid.services.settings import Opened
from lakebraid.txn.actions.rescue import sweep
from tests.kit.models.oracle import Block, Gone, Instant, Put, Settings
from tests.kit.tables.builder import TIMELINE, open_table
from tests.kit.tables.built_files import ORDER_TYPES, t
from tests.kit.tables.compacting import Bench
from tests.kit.tables.small_histories import BY_COMMIT, BY_EVENT, COLUMNS, G, log, put, shown

pytestmark = pytest.mark.unit

TWO = Scope(logs_min=2)


def bench(settings: Settings = BY_EVENT) -> Bench:
    return Bench(settings, COLUMNS)


def begin(table: Bench, *entries: Put | Gone, columns: tuple[str, ...] | None = None, form: str = "avro") -> Instant:
    blocks = log(1, *entries, form=form).blocks
    if columns is not None:
        blocks = tuple(replace(b, columns=columns, partial=True) for b in blocks)
    return table.begin({G: blocks}, columns)


def write(table: Bench, *entries: Put | Gone, columns: tuple[str, ...] | None = None, form: str = "avro") -> Instant:
    instant = begin(table, *entries, columns=columns, form=form)
    table.publish(instant)
    return instant


def log_compact(table: Bench) -> LogCompactionResult | None:
    request_time = plan_log_compaction(table.ledger, TWO)
    return None if request_time is None else LOG_COMPACTION.run(Opened(table.writing, table.ledger), request_time)


def seen(table: Bench) -> dict[str, str]:
    return shown(open_table(table.storage))


def blocks_of(table: Bench, done: LogCompactionResult) -> list[LogBlock]:
    (name,) = [n for n in table.names() if f"_{done.instant}.log" in n]
    return list(read_blocks(table.storage.read(name, 1 << 20), name).blocks)


def compacted(table: Bench) -> LogCompactionResult:
    done = log_compact(table)
    assert done is not None
    return done


# --- what is written -------------------------------------------------------------------------------------------------


def test_many_log_files_become_one_that_names_the_instants_it_stands_for() -> None:
    table = bench()
    request_times = [t(write(table, put("a", v, ts=n), put(v, v)).request_time) for n, v in enumerate("xyz")]
    before = seen(table)
    done = compacted(table)
    (block,) = blocks_of(table, done)
    assert block.compacted_times == tuple(request_times)
    assert (done.groups, done.logs, done.rows, done.deletes) == (1, 3, 4, 0)
    assert seen(table) == before == {"a": "z", "x": "x", "y": "y", "z": "z"}
    name = next(i.name for i in table.storage.list(TIMELINE) if i.name.endswith(f"{done.completion_time}.deltacommit"))
    told = parse_commit(table.storage.read(name, 1 << 20), name)
    (stat,) = told.write_stats[""]
    assert (told.operation, told.compacted, stat.total_log_files_compacted) == ("LOG_COMPACT", True, 3)


def test_rows_keep_the_commit_time_of_their_own_write() -> None:
    table = bench()
    first, second = write(table, put("a", "a")), write(table, put("b", "b"))
    compacted(table)
    rows = open_table(table.storage).to_arrow(meta_columns=True).to_pylist()
    assert {r["id"]: r["_hoodie_commit_time"] for r in rows} == {
        "a": t(first.request_time),
        "b": t(second.request_time),
    }


@pytest.mark.parametrize(
    ("forms", "wanted"), [("avro avro", "AVRO"), ("parquet parquet", "PARQUET"), ("avro parquet", "PARQUET")]
)
def test_the_new_file_has_the_format_of_the_old_ones(forms: str, wanted: str) -> None:
    table = bench()
    for n, form in enumerate(forms.split()):
        write(table, put("a", form, ts=n), form=form)
    assert [block.type.name for block in blocks_of(table, compacted(table))] == [wanted]
    assert list(seen(table)) == ["a"]


@pytest.mark.parametrize("order_type", sorted(ORDER_TYPES))
def test_deletes_keep_their_ordering_values_of_every_type(order_type: str) -> None:
    table = bench(replace(BY_EVENT, order_type=order_type))
    write(table, Gone("a", (1,)), Gone("b", (2,)))
    write(table, put("c", "c"))
    done = compacted(table)
    assert done.deletes == 2
    write(table, put("a", "back", ts=1), put("b", "late", ts=1))
    assert seen(table) == {"a": "back", "c": "c"}


def test_a_delete_without_ordering_value_still_makes_way_for_what_came_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "LOG_COMPACT_SMALL_BYTES", 0)
    table = bench()
    write(table, put("a", "high", ts=9), *(put(f"k{n}", "x" * 200) for n in range(50)))
    write(table, Gone("a"))
    write(table, put("a", "low", ts=1))
    assert seen(table)["a"] == "low"
    done = compacted(table)
    assert (done.logs, done.deletes) == (2, 1), "the heavy log before them is left alone"
    assert seen(table)["a"] == "low"


def test_a_delete_without_ordering_value_is_written_before_its_successor() -> None:
    table = bench()
    write(table, Gone("a"))
    write(table, put("a", "low", ts=1))
    kinds = [block.type for block in blocks_of(table, compacted(table))]
    assert kinds == [BlockType.DELETE, BlockType.AVRO]


def test_deletes_carried_by_a_compaction_are_left_out_and_still_count() -> None:
    """What a compaction carries ranks before rows of its base file; the next compaction takes it in."""
    table = bench()
    delete = write(table, Gone("a", (5,)))
    table.compact()
    write(table, put("b", "b"))
    write(table, put("c", "c"))
    done = compacted(table)
    times = {time for block in blocks_of(table, done) for time in block.compacted_times}
    assert t(delete.request_time) not in times
    write(table, put("a", "late", ts=4))
    assert seen(table) == {"b": "b", "c": "c"}
    table.compact()
    write(table, put("a", "later", ts=4))
    assert seen(table) == {"b": "b", "c": "c"}


def test_partial_updates_of_the_same_columns_are_merged_by_commit_time() -> None:
    table = bench(BY_COMMIT)
    write(table, put("a", "first"))
    some = ("id", "ts", "v")
    for v in "xyz":
        write(table, Put("a", {"id": "a", "ts": 1, "v": v}), columns=some, form="parquet")
    done = compacted(table)
    assert [block.is_partial for block in blocks_of(table, done)] == [False, True]
    assert done.rows == 2
    assert open_table(table.storage).to_arrow().to_pylist() == [{"id": "a", "ts": 1, "v": "z", "w": 0}]


def test_partial_updates_are_copied_block_by_block_by_event_time() -> None:
    table = bench()
    write(table, put("a", "first", ts=1))
    for n, v in ((6, "x"), (3, "y"), (5, "z")):
        write(table, Put("a", {"id": "a", "ts": n, "v": v}), columns=("id", "ts", "v"), form="parquet")
    before = open_table(table.storage).to_arrow().to_pylist()
    done = compacted(table)
    assert done.rows == 4
    assert open_table(table.storage).to_arrow().to_pylist() == before


# --- what is chosen --------------------------------------------------------------------------------------------------


def test_only_logs_older_than_every_open_write_are_put_together() -> None:
    table = bench(BY_COMMIT)
    write(table, put("a", "one"))
    write(table, put("b", "two"))
    slow = begin(table, put("a", "slow"))
    write(table, put("b", "three"))
    done = compacted(table)
    assert done.logs == 2
    table.publish(slow)
    assert seen(table) == {"a": "slow", "b": "three"}


def test_a_log_that_finished_behind_a_compaction_is_left_out() -> None:
    table = bench(BY_COMMIT)
    slow = begin(table, put("a", "slow"))
    write(table, put("a", "fast"))
    table.compact()
    table.publish(slow)
    assert seen(table) == {"a": "fast"}
    write(table, put("b", "b"))
    assert log_compact(table) is None  # one log alone is left
    write(table, put("c", "c"))
    assert compacted(table).logs == 2
    assert seen(table) == {"a": "fast", "b": "b", "c": "c"}


def test_a_log_compacted_file_is_put_together_with_later_logs() -> None:
    table = bench()
    for v in "ab":
        write(table, put(v, v))
    first = compacted(table)
    assert log_compact(table) is None, "one file that counts is nothing to put together"
    write(table, put("a", "c", ts=2))
    second = compacted(table)
    assert second.logs == 2
    assert first.instant in blocks_of(table, second)[0].compacted_times
    assert seen(table) == {"a": "c", "b": "b"}


def test_a_late_writer_keeps_its_place_among_log_compacted_files() -> None:
    table = bench(BY_COMMIT)
    write(table, put("a", "one"))
    write(table, put("b", "two"))
    slow = begin(table, put("a", "slow"), put("b", "slow"))
    log_compact(table)
    write(table, put("b", "four"))
    table.publish(slow)
    write(table, put("c", "five"))
    compacted(table)
    assert seen(table) == {"a": "slow", "b": "four", "c": "five"}


def test_a_heavy_log_file_is_not_written_again_for_a_light_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LOG_COMPACT_SMALL_BYTES", 0)
    table = bench()
    write(table, *(put(f"k{n}", "x" * 200) for n in range(50)))
    write(table, put("a", "a"))
    write(table, put("b", "b"))
    assert compacted(table).logs == 2
    assert len(seen(table)) == 52


def test_by_event_time_a_run_does_not_begin_behind_a_partial_update(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LOG_COMPACT_SMALL_BYTES", 0)
    table = bench()
    write(table, Put("a", {"id": "a", "ts": 6, "v": "p" * 4000}), columns=("id", "ts", "v"), form="parquet")
    write(table, Put("a", {"id": "a", "ts": 3, "v": "y", "w": 3}))
    write(table, Put("a", {"id": "a", "ts": 5, "v": "z", "w": 5}))
    before = open_table(table.storage).to_arrow().to_pylist()
    assert compacted(table).logs == 3
    assert open_table(table.storage).to_arrow().to_pylist() == before


def test_a_group_of_a_pending_plan_is_left_alone() -> None:
    table = bench()
    write(table, put("a", "a"))
    write(table, put("b", "b"))
    assert table.plan() is not None
    assert plan_log_compaction(table.ledger, TWO) is None


def test_a_compaction_leaves_groups_of_a_pending_log_compaction_alone() -> None:
    table = bench()
    write(table, put("a", "a"))
    write(table, put("b", "b"))
    assert plan_log_compaction(table.ledger, TWO) is not None
    assert table.plan() is None


def test_a_compaction_need_not_wait_because_of_a_log_compaction() -> None:
    table = bench(BY_COMMIT)
    write(table, put("a", "a"))
    write(table, put("b", "b"))
    begin(table, put("a", "slow"))
    compacted(table)
    assert table.compact() is not None


# --- execution -------------------------------------------------------------------------------------------------------


def test_a_plan_that_fails_stays_and_can_be_executed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    table = bench()
    write(table, put("a", "a"))
    write(table, put("b", "b"))
    request_time = plan_log_compaction(table.ledger, TWO)
    assert request_time is not None
    with monkeypatch.context() as patch:
        patch.setattr(log_compaction, "run_log_compaction_task", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            LOG_COMPACTION.run(Opened(table.writing, table.ledger), request_time)
    assert seen(table) == {"a": "a", "b": "b"}
    assert abandoned_plans(table.ledger, "logcompaction", LOG_COMPACTION.load) == [request_time]
    done = LOG_COMPACTION.run(Opened(table.writing, table.ledger), request_time)
    assert run_plan(Opened(table.writing, table.ledger), request_time) == done
    with pytest.raises(ClaimLost):
        LOG_COMPACTION.run(Opened(table.writing, table.ledger), request_time)


def test_a_late_twin_of_the_log_compacted_file_is_no_input_of_a_plan_and_is_swept() -> None:
    table = bench()
    write(table, put("a", "a"))
    write(table, put("b", "b"))
    done = compacted(table)
    (name,) = [n for n in table.names() if f"_{done.instant}.log" in n]
    twin = f"{name.rpartition('-')[0]}-1"
    table.storage.create(twin, table.storage.read(name, 1 << 20))
    write(table, put("c", "c"))
    assert seen(table) == {"a": "a", "b": "b", "c": "c"}
    request_time = table.plan()
    assert request_time is not None
    assert sweep(table.ledger) == (twin,)
    table.run(request_time)
    assert seen(table) == {"a": "a", "b": "b", "c": "c"}


def foreign_plan(table: Bench, *request_times: int) -> str:
    """A plan that Apache Hudi made: it names every log file of the slice and knows nothing of runs."""
    table.ledger.newest()
    request_time = t(int(table.ledger.newest().state.last[-5:]) + 1)
    names = tuple(sorted(n for n in table.names() if any(f"_{t(s)}.log" in n for s in request_times)))
    plan = CompactionPlan((CompactionOperation(G[1], G[0], t(request_times[0]), names),))
    table.storage.create(f"{TIMELINE}/{request_time}.logcompaction.requested", format_compaction_plan(plan))
    return request_time


def test_a_plan_of_apache_hudi_is_executed() -> None:
    table = bench()
    one, two = write(table, put("a", "a")), write(table, put("b", "b"))
    done = LOG_COMPACTION.run(
        Opened(table.writing, table.ledger), foreign_plan(table, one.request_time, two.request_time)
    )
    assert (done.groups, done.logs) == (1, 2)
    assert seen(table) == {"a": "a", "b": "b"}


@pytest.mark.parametrize("finishes", [True, False])
def test_a_group_of_a_plan_of_hudi_is_passed_over_if_a_write_may_come_between(finishes: bool) -> None:
    table = bench(BY_COMMIT)
    one = write(table, put("a", "one"))
    slow = begin(table, put("a", "slow"))
    two = write(table, put("b", "two"))
    request_time = foreign_plan(table, one.request_time, two.request_time)
    table.ledger.clock.now_ms()
    if finishes:
        table.publish(slow)
    done = LOG_COMPACTION.run(Opened(table.writing, table.ledger), request_time)
    assert done.groups == 0
    if not finishes:
        table.publish(slow)
    assert seen(table) == {"a": "slow", "b": "two"}


def test_an_empty_table_and_a_single_log_need_no_log_compaction() -> None:
    table = bench()
    assert log_compact(table) is None
    write(table, put("a", "a"))
    assert log_compact(table) is None


def test_blocks_of_nothing_are_not_worth_a_file() -> None:
    table = bench()
    for _ in range(2):
        table.publish(table.begin({G: (Block("avro", (), COLUMNS),)}))
    done = compacted(table)
    assert (done.groups, done.rows) == (0, 0)
    assert seen(table) == {}
