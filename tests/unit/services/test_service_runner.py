# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import threading
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest
from benchmarks import sidecars

import lakebraid as lb
from lakebraid.api import services as api_services
from lakebraid.api.table import Table
from lakebraid.errors import ClaimLost, CommitRefused, InvalidArgument, StorageError
from lakebraid.format.names import BaseFileName, LogFileName
from lakebraid.model.timeline.slicing import GroupId
from lakebraid.services.due import GroupLag, Triggers, due_groups, group_lags, parse_triggers
from lakebraid.services.merging import compaction
from lakebraid.services.plans import Plan
from lakebraid.services.runner import Ran, ServiceRound, parse_seconds, run_round, run_rounds
from lakebraid.services.settings import parse_settings
from lakebraid.storage.memory import MemoryStorage
from lakebraid.table.at import TableAt
from lakebraid.table.loading import load_timeline
from lakebraid.table.view import load_view
from lakebraid.txn.actions.plans import claim
from tests.kit.present import present
from tests.kit.tables.scene import TickingClock, answer, make_table, row, table_on

pytestmark = pytest.mark.unit
MIB = 1 << 20
HOUR_MS = 3_600_000


@pytest.fixture
def clock() -> TickingClock:
    return TickingClock()


@pytest.fixture
def storage(clock: TickingClock) -> MemoryStorage:
    return MemoryStorage("memory://runner", clock)


@pytest.fixture
def table(storage: MemoryStorage, clock: TickingClock) -> Table:
    return make_table(storage, clock)


def write(table: Table, count: int, **how: Any) -> lb.WriteResult:
    for n in range(count - 1):
        table.upsert([row("a", str(n), ts=n)])
    return table.upsert([row("a", "last", ts=count)], **how)


def completed(table: Table, kind: str) -> int:
    return sum(i.kind == kind and i.is_completed for i in load_timeline(table._table))


# --- what is due ------------------------------------------------------------------------------------------------------


def lag(logs: int = 1, log_bytes: int = 1, base_bytes: int = 100 * MIB, oldest_ms: int = HOUR_MS) -> GroupLag:
    return GroupLag(GroupId("p", "g"), logs, log_bytes, base_bytes, oldest_ms)


@pytest.mark.parametrize(
    ("one", "is_due"),
    [
        (lag(), False),
        (lag(logs=4), False),
        (lag(logs=5), True),
        (lag(log_bytes=50 * MIB), False),
        (lag(log_bytes=50 * MIB + 1), True),
        (lag(log_bytes=MIB - 1, base_bytes=0), False),
        (lag(log_bytes=MIB, base_bytes=0), True),
        (lag(oldest_ms=1), False),
        (lag(oldest_ms=0), True),
    ],
)
def test_a_group_is_due_by_log_files_by_their_share_of_the_base_or_by_the_age_of_the_oldest(
    one: GroupLag, is_due: bool
) -> None:
    assert due_groups([one], Triggers(), now_ms=HOUR_MS) == ({one.group} if is_due else set())


@pytest.mark.parametrize(
    ("strategy", "by_logs", "by_time", "by_both"),
    [
        ("NUM_COMMITS", True, False, True),
        ("NUM_COMMITS_AFTER_LAST_REQUEST", True, False, True),
        ("TIME_ELAPSED", False, True, True),
        ("NUM_AND_TIME", False, False, True),
        ("NUM_OR_TIME", True, True, True),
    ],
)
def test_the_trigger_strategies_of_hudi_mean_what_they_say(
    strategy: str, by_logs: bool, by_time: bool, by_both: bool
) -> None:
    triggers = parse_triggers(parse_settings({"hoodie.compact.inline.trigger.strategy": strategy.lower()}))
    found = [
        bool(due_groups([one], triggers, HOUR_MS))
        for one in (lag(logs=5), lag(oldest_ms=0), lag(logs=5, oldest_ms=0), lag(log_bytes=900 * MIB))
    ]
    assert found == [by_logs, by_time, by_both, False]


def test_the_settings_of_hudi_say_when_a_group_is_due() -> None:
    properties = {
        "hoodie.compact.inline.max.delta.commits": "2",
        "hoodie.compact.inline.max.delta.seconds": "60",
        "hoodie.lakebraid.compact.log.share": "0.1",
    }
    triggers = parse_triggers(parse_settings(properties))
    assert triggers == Triggers(2, 60.0, 0.1)
    for name in ("max.delta.commits", "max.delta.seconds", "trigger.strategy"):
        with pytest.raises(InvalidArgument, match=name):
            parse_triggers(parse_settings({f"hoodie.compact.inline.{name}": "zero"}))


def test_the_log_of_deletes_that_a_compaction_carried_is_nothing_new(
    table: Table, storage: MemoryStorage, clock: TickingClock
) -> None:
    table.upsert([row("a", "1"), row("b", "1")])
    table.delete([{"id": "a", "ts": 5}])
    table.compact()
    view = load_view(TableAt(storage, table._config, clock))
    assert any(isinstance(log.parsed, LogFileName) for s in view.slices() for log in s.logs), "there is one"
    assert group_lags(view, UTC) == []
    table.upsert([row("c", "1")])
    (found,) = group_lags(load_view(TableAt(storage, table._config, clock)), UTC)
    assert (found.logs, isinstance(present(view.slices()[0].base).parsed, BaseFileName)) == (1, True)


# --- rounds -----------------------------------------------------------------------------------------------------------


def test_an_error_of_one_service_stops_none_of_the_others(clock: TickingClock) -> None:
    def fails() -> None:
        raise StorageError("the disk is full")

    def crashes() -> None:
        raise ZeroDivisionError

    def is_late() -> None:
        raise ClaimLost("another one has it")

    done = run_round({"a": fails, "b": crashes, "c": is_late, "d": lambda: [1], "e": lambda: None}, clock)
    assert [one.service for one in done.errors] == ["a", "b"]
    assert done.ran[2].gave_way == "another one has it"
    assert [one.did_something for one in done.ran] == [True, True, False, True, False]
    assert "full" in str(done) and bool(done)


def test_rounds_go_on_until_they_are_stopped(clock: TickingClock) -> None:
    stop = threading.Event()
    seen: list[ServiceRound] = []

    def report(done: ServiceRound) -> None:
        seen.append(done)
        if len(seen) == 3:
            stop.set()

    run_rounds(lambda: ServiceRound((Ran("x"),)), clock, every_seconds=0, stop=stop, report=report)
    assert len(seen) == 3


def test_copies_that_were_started_together_part_ways() -> None:
    pauses = []

    class Clock(TickingClock):
        def sleep(self, seconds: float) -> None:
            pauses.append(seconds)
            if len(pauses) == 2:
                raise KeyboardInterrupt

        def random(self) -> float:
            return 0.1 + 0.8 * len(pauses)

    with pytest.raises(KeyboardInterrupt):
        run_rounds(lambda: ServiceRound(()), Clock(), every_seconds=10)
    assert pauses == [6.0, 14.0]


def test_lengths_of_time_are_seconds_or_text_with_a_unit() -> None:
    assert [parse_seconds(v) for v in (3, "3", "250ms", " 2 m", "1h", "1d")] == [3, 3, 0.25, 120, 3600, 86400]
    for nonsense in ("", "s", "-1s", "1 parsec", "inf", "nan"):
        with pytest.raises(InvalidArgument, match="length of time"):
            parse_seconds(nonsense)


# --- on a table -------------------------------------------------------------------------------------------------------


def test_a_round_compacts_what_is_due_and_leaves_the_rest(table: Table) -> None:
    write(table, 4)
    assert not table.services.run(once=True)
    write(table, 1)
    done = table.services.run(once=True)
    assert [one.service for one in done.ran if one.did_something] == ["compact"]
    assert completed(table, "compaction") == 1
    assert not table.services.run(once=True)
    assert answer(table) == {"a": "last"}


def test_a_round_in_which_no_group_is_due_does_not_plan_a_compaction(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    def plans(*_: object) -> None:
        raise AssertionError("a decision for nothing")

    monkeypatch.setattr(compaction, "plan_compaction", plans)
    write(table, 4)
    assert table.services.run(once=True).errors == ()
    write(table, 1)
    assert [one.service for one in table.services.run(once=True).errors] == ["compact"]


def test_a_round_does_everything_that_is_due(table: Table, clock: TickingClock) -> None:
    for _ in range(8):
        write(table, 5)
        table.services.run(once=True, only="compact")
    dead = table.begin()
    dead._heartbeat.stop()
    clock.ms += 200_000
    done = table.services.run(once=True)
    assert done.errors == ()
    assert {one.service for one in done.ran if one.did_something} == {"rollback", "clean", "archive"}
    assert not table.services.run(once=True)
    assert table.status(dead.instant) == "refused"
    assert answer(table) == {"a": "last"}


def test_only_the_named_services_run(table: Table) -> None:
    write(table, 5)
    done = table.services.run(once=True, only=["clean", "rollback"])
    assert [one.service for one in done.ran] == ["rollback", "clean"]
    assert completed(table, "compaction") == 0
    with pytest.raises(InvalidArgument, match="no service 'sweeping'"):
        table.services.run(only="sweeping")


def test_a_round_executes_a_plan_whose_executor_died(table: Table, storage: MemoryStorage, clock: TickingClock) -> None:
    write(table, 1)
    plan = present(table.plan_compaction())
    claim(table._writing.ledger(table._config), "the dead one", present(plan.instant), seen=None)
    assert not table.services.run(once=True), "it may live"
    clock.ms += 130_000
    done = table_on(storage, clock).services.run(once=True, only="compact")
    assert [c.instant for c in done.ran[0].result] == [plan.instant]


def test_log_compaction_is_done_where_it_is_asked_for(storage: MemoryStorage, clock: TickingClock) -> None:
    table = make_table(storage, clock, properties={"hoodie.compact.inline.max.delta.commits": "100"})
    write(table, 6)
    assert not table.services.run(once=True)
    done = table.services.run(once=True, only="log_compact")
    assert done.ran[0].result[0].logs >= 5
    assert answer(table) == {"a": "last"}


def test_the_runner_reads_the_settings_of_the_table_in_each_round(storage: MemoryStorage, clock: TickingClock) -> None:
    table = make_table(storage, clock, properties={"hoodie.compact.inline.max.delta.commits": "2"})
    write(table, 2)
    assert table.services.run(once=True)
    assert completed(table, "compaction") == 1


def test_whoever_runs_the_services_may_say_when_a_group_is_due(table: Table) -> None:
    write(table, 2)
    assert not table.services.run(once=True, triggers=Triggers(logs=3))
    assert table.services.run(once=True, triggers=Triggers(logs=2))


# --- plans as values --------------------------------------------------------------------------------------------------


def test_a_plan_is_executed_by_whoever_is_given_its_instant_and_a_second_one_gets_the_same_result(
    table: Table, storage: MemoryStorage, clock: TickingClock
) -> None:
    write(table, 3)
    plan = table.plan_compaction()
    assert isinstance(plan, Plan) and plan.kind == "compaction" and not plan.is_removable
    done = table_on(storage, clock).run(present(plan.instant))
    assert table.run(plan) == done
    assert done.rows == 1 and done.instant == plan.instant


def test_the_result_of_a_plan_is_the_same_when_deletes_are_carried_on(table: Table) -> None:
    table.upsert([row("a", "1"), row("b", "1")])
    table.delete([{"id": "a", "ts": 5}])
    (done,) = table.compact()
    assert done.tombstones == 1
    assert table.run(done.instant) == done


def test_a_dry_run_tells_the_plan_and_decides_nothing(table: Table, storage: MemoryStorage) -> None:
    write(table, 3)
    before = sorted(info.name for info in storage.list())
    plan = present(table.plan_compaction(dry_run=True))
    assert plan.instant is None and "3 log files" in plan.what
    assert sorted(info.name for info in storage.list()) == before
    with pytest.raises(InvalidArgument, match="dry_run"):
        table.run(plan)


def test_what_is_no_plan_is_not_executed(table: Table) -> None:
    done = write(table, 1)
    with pytest.raises(InvalidArgument, match="no plan"):
        table.run(done.instant)
    with pytest.raises(CommitRefused, match="never was"):
        table.run("20200101000000000")


def test_a_planned_clean_is_executed_once_and_gives_its_files_to_everybody(table: Table) -> None:
    for _ in range(4):
        write(table, 5)
        table.compact()
    plan = present(table.plan_clean(commits=1))
    done = table.run(plan)
    assert done.files and done.instants == (plan.instant,)
    assert table.run(present(plan.instant)) == done


# --- after a write ----------------------------------------------------------------------------------------------------


def test_a_write_with_inline_services_compacts_when_that_is_due_and_says_so(table: Table) -> None:
    assert present(write(table, 4, services="inline").services).ran
    assert completed(table, "compaction") == 0
    result = write(table, 1, services="inline")
    assert [one.service for one in present(result.services).ran if one.did_something] == ["compact"]
    assert completed(table, "compaction") == 1
    assert result.seconds["services"] >= 0


def test_a_transaction_with_inline_services_has_committed_before_they_run(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def look(*_: object, **__: object) -> list[Any]:
        seen.append(answer(table))
        return []

    monkeypatch.setattr(api_services, "compact_due", look)
    with table.begin(services="inline") as transaction:
        transaction.write([row("a", "new")])
    assert seen == [{"a": "new"}]


def test_errors_of_inline_services_never_fail_the_write(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise StorageError("the disk is full")

    monkeypatch.setattr(api_services, "compact_due", fails)
    monkeypatch.setattr(api_services, "roll_back_dead", fails)
    result = write(table, 1, services="inline")
    assert [one.service for one in present(result.services).errors] == ["rollback", "compact"]
    assert answer(table) == {"a": "last"}


def test_without_inline_services_nothing_runs_after_a_write(table: Table) -> None:
    assert write(table, 9).services is None
    assert completed(table, "compaction") == 0
    with pytest.raises(InvalidArgument, match="inline"):
        table.upsert([row("a", "1")], services="always")  # type: ignore[arg-type]  # refused


# --- many at once -----------------------------------------------------------------------------------------------------


def test_two_runners_at_once_do_everything_once(table: Table, storage: MemoryStorage, clock: TickingClock) -> None:
    write(table, 5)
    runners = [table_on(storage, clock) for _ in range(2)]
    rounds: list[ServiceRound] = []
    threads = [threading.Thread(target=lambda r=r: rounds.append(r.services.run(once=True))) for r in runners]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [one for done in rounds for one in done.errors] == []
    assert completed(table, "compaction") == 1
    assert answer(table) == {"a": "last"}


@pytest.mark.slow
def test_sidecars_that_are_killed_again_and_again_lose_no_row_and_leave_nothing_stuck(tmp_path: Path) -> None:
    outcome = sidecars.run(tmp_path / "run", 10, sidecars=3, writers=2, kill=0.4)
    assert outcome.problems == []
    assert outcome.kills and outcome.verdict.published
