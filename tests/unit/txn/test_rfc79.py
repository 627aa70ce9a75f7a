# SPDX-License-Identifier: Apache-2.0
"""RFC-79's two tables of scenarios, row by row, in every interleaving of the storage calls of the processes named there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest

from lakebraid.errors import CommitRefused
from lakebraid.format.names import BaseFileName, LogFileName, claim_token, parse_data_file
from lakebraid.format.timeline.commit import parse_commit
from lakebraid.format.timeline.plans import (
    ClusteringGroup,
    ClusteringPlan,
    ClusteringSlice,
    CompactionOperation,
    CompactionPlan,
    RequestedReplace,
    format_compaction_plan,
    format_requested_replace,
)
from lakebraid.services.merging.choose_runs import IS_RUN
from lakebraid.services.merging.clustering import ClusteringResult
from lakebraid.services.merging.compaction import CompactionResult
from lakebraid.services.merging.engine import MergeEngine
from lakebraid.services.merging.log_compaction import LogCompactionResult
from lakebraid.services.plans import run_plan
from lakebraid.storage.memory import MemoryStorage
from lakebraid.table.at import TableAt
from lakebraid.table.loading import load_timeline
from lakebraid.tasks.merging.cluster import ClusterTask, output_file_id
from lakebraid.tasks.new_files import place_file
from lakebraid.tasks.staged_file import StagedFile
from lakebraid.txn.actions.plans import claim, decide_plan
from lakebraid.txn.actions.rescue import RollbackResult, rescue, sweep
from lakebraid.txn.ledger.entries import LEDGER, parse_entry
from tests.kit.effort import times
from tests.kit.present import present
from tests.kit.races.enumerating import Actor, Body, Played, every_schedule, objects_of
from tests.kit.tables.scene import TickingClock, files, make_table, row

pytestmark = [pytest.mark.unit, pytest.mark.slow]

TIMEOUT_MS = 120_000
DELAY_MS = 3_600_000
LONG = 2 * DELAY_MS
IMMUTABLE = ("compaction", "logcompaction", "clustering")
REMOVABLE = ("logcompaction", "clustering")


def cases(*kinds: str) -> pytest.MarkDecorator:
    """Kinds of plans, and how many switches at storage calls and deaths before or after a call that changes something:
    one for all, more for the first of them. Of the latter the first schedules.
    """
    slow, some = pytest.mark.slow, {"runs_max": times(900, least=900)}
    return pytest.mark.parametrize(
        ("kind", "bounds"),
        [
            *(pytest.param(kind, {"switches": 1, "kills": 0}, id=kind) for kind in kinds),
            pytest.param(kinds[0], {"switches": 2, "kills": 0, **some}, id=f"{kinds[0]}, two switches", marks=slow),
            pytest.param(kinds[0], {"switches": 1, "kills": 1, **some}, id=f"{kinds[0]}, a death", marks=slow),
        ],
    )


# --- the table and the plan -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Planned:
    """A table with one row and one pending plan P."""

    kind: str
    is_removable: bool
    request_time: str
    objects: Mapping[str, bytes]
    now_ms: int
    inputs: tuple[str, ...]

    def play(self, bodies: Mapping[str, Body], *, age_ms: int = 0, **bounds: Any) -> Iterator[Played]:
        for played in every_schedule(self.objects, self.now_ms + age_ms, bodies, **bounds):
            yield played
            check_invariants(self, played)


@cache
def planned(kind: str, *, is_removable: bool = False, is_inflight: bool = False) -> Planned:
    """P is requested, or inflight with a file of the executor that died on it."""
    clock = TickingClock()
    storage = MemoryStorage("memory://rfc79", clock)
    table = make_table(storage, clock)
    table.upsert([row("a", "1")])
    ledger = table._writing.ledger(table._config)
    base, log = sorted(files(storage), key=lambda name: ".log." in name)
    group = present(parse_data_file(log)).file_id
    if kind == "clustering":
        part = ClusteringSlice(group, "", base, (log,))
        requested = RequestedReplace("CLUSTER", ClusteringPlan((ClusteringGroup((part,)),)))
        content = format_requested_replace(requested, storage.url)
    else:
        operation = CompactionOperation(group, "", present(parse_data_file(base)).request_time, (log,), base)
        extra = {IS_RUN: "true"} if kind == "logcompaction" else {}
        content = format_compaction_plan(CompactionPlan((operation,), extra=extra))
    request_time = present(decide_plan(ledger, "planner", kind, lambda *_: content, is_removable=is_removable))
    if is_inflight:
        epoch = claim(ledger, "the dead one", request_time, seen=None)
        place_file(storage, request_time, "", merged_name(kind, request_time, epoch), b"of the dead one")
    return Planned(kind, is_removable, request_time, objects_of(storage), clock.now_ms(), (base, log))


# --- the processes ----------------------------------------------------------------------------------------------------


def merged_name(kind: str, request_time: str, epoch: int) -> str:
    group, token = "00000000-0000-0000-0000-000000000000-0", claim_token(epoch)
    if kind == "clustering":
        group = output_file_id(request_time, 0, 0)
    if kind == "logcompaction":
        return LogFileName(group, request_time, 1, token, "").format()
    return BaseFileName(group, token, request_time, ".parquet").format()


def tiny_tasks(storage: Any, plan: Any, tasks: Any, _run_task: Any, check: Any) -> list[StagedFile]:
    """The tasks of a compaction, log compaction or clustering, with tiny files."""
    made = []
    for task in tasks:
        check()
        if isinstance(task, ClusterTask):
            name = merged_name("clustering", plan.request_time, plan.epoch)
            place_file(storage, plan.request_time, task.partition, name, b"merged")
            made.append(StagedFile(task.partition, present(parse_data_file(name)).file_id, name, 6, 1, 0, is_base=True))
            continue
        is_base = task.slice.base_name is not None
        log = LogFileName(task.file_id, plan.request_time, 1, plan.token(), "").format()
        name = BaseFileName(task.file_id, plan.token(), plan.request_time, ".parquet").format() if is_base else log
        place_file(storage, plan.request_time, task.slice.partition, name, b"merged")
        made.append(StagedFile(task.slice.partition, task.file_id, name, 6, 1, 0, is_base=is_base))
    return made


TINY = MergeEngine(tiny_tasks)
DONE = CompactionResult | LogCompactionResult | ClusteringResult


def executor(plan: Planned) -> Body:
    return lambda actor: run_plan(actor.opened, plan.request_time, TINY)


def cleaner(actor: Actor) -> RollbackResult:
    return rescue(actor.ledger, actor.process.clock.token(), timeout_ms=TIMEOUT_MS, plan_delay_ms=DELAY_MS)


def time(actor: Actor) -> None:
    """Whoever has not come to its end before this looks dead afterwards, and is not."""
    actor.let_pass(LONG)


# --- what must hold in every one of them ------------------------------------------------------------------------------


def state_of(plan: Planned, played: Played) -> str:
    """P after all: completed, gone, or still there."""

    def look(actor: Actor) -> str:
        actor.ledger.settled()
        instant = load_timeline(TableAt(actor.storage, actor.ledger.config, actor.process.clock)).write(
            plan.request_time
        )
        return "gone" if instant is None else "completed" if instant.is_completed else instant.state.lower()

    return str(played.afterwards(look))


def check_invariants(plan: Planned, played: Played) -> None:
    """One commit at most, of files that are there; who says it is done says the same; nothing is stuck afterwards."""
    for end in played.ends.values():
        assert end is None or isinstance(end, DONE | RollbackResult | CommitRefused), f"an unclear end: {end!r}"
    wins = {end.completion_time for end in played.ends.values() if isinstance(end, DONE)}
    before = state_of(plan, played)
    assert len(wins) <= 1
    assert before == "completed" or not wins, "somebody was told that it is done"
    played.world.now += LONG
    played.afterwards(cleaner)
    after = state_of(plan, played)
    if before in ("completed", "gone"):
        assert after == before
    elif plan.is_removable:
        assert after == "gone", "an old removable plan that nobody executes is rolled back"
    else:
        assert after in ("requested", "inflight"), "others are never rolled back"
        done = played.afterwards(executor(plan))
        assert isinstance(done, DONE), f"whoever comes next can execute it: {done!r}"
        after = "completed"
    played.afterwards(lambda actor: sweep(actor.ledger))
    check_disk(plan, played, is_done=after == "completed")


def check_disk(plan: Planned, played: Played, *, is_done: bool) -> None:
    names = played.world.disk.names
    completed = [n for n in names if n.startswith(f".hoodie/timeline/{plan.request_time}_")]
    assert len(completed) == is_done
    named = {p for n in completed for p in parse_commit(played.world.disk.objects[n][0], n).file_paths}
    own = {n for n in names if not n.startswith(".hoodie/") and plan.request_time in n}
    assert own == named, "its files are there, and no others of it"
    assert {*plan.inputs} <= {*names}, "nothing took away what it reads"
    pending = [n for n in names if n.startswith(f".hoodie/timeline/{plan.request_time}.")]
    assert is_done or pending == []
    assert not [
        n
        for n in names
        if n.startswith((f".hoodie/.temp/{plan.request_time}", f".hoodie/.heartbeat/{plan.request_time}"))
    ]
    rollbacks = [n for n in names if n.endswith(".rollback")]
    assert len(rollbacks) == (0 if is_done else 1), "published and rolled back exclude each other"


def winners(played: Played, *labels: str) -> list[str]:
    return [label for label in labels if isinstance(played.ends.get(label), DONE)]


def claims_of(played: Played) -> int:
    """How often P was claimed, ever."""
    entries = [data for name, (data, _) in played.world.disk.objects.items() if name.startswith(LEDGER)]
    return sum(parse_entry(data, "entry").kind == "claim" for data in entries)


# --- plans that stay --------------------------------------------------------------------------------------------------


@cases(*IMMUTABLE)
def test_A_of_several_executors_of_a_new_plan_one_completes_it_and_the_others_fail_or_get_its_result(
    kind: str, bounds: dict[str, int]
) -> None:
    plan = planned(kind)
    seen = set()
    for played in plan.play({"x": executor(plan), "y": executor(plan)}, **bounds):
        assert state_of(plan, played) == "completed" or bounds["kills"], "nobody died"
        seen.add(frozenset(winners(played, "x", "y")))
    assert seen >= {frozenset("x"), frozenset("y"), frozenset("xy")}, "the second gets the result if it came afterwards"


@pytest.mark.parametrize("kind", IMMUTABLE)
def test_A_holds_for_three_executors(kind: str) -> None:
    plan = planned(kind)
    for played in plan.play({name: executor(plan) for name in "xyz"}, switches=1):
        assert state_of(plan, played) == "completed"
        assert winners(played, "x", "y", "z")


@cases(*IMMUTABLE)
def test_B_whoever_takes_over_from_a_silent_executor_completes_the_plan_and_the_silent_one_does_no_harm(
    kind: str, bounds: dict[str, int]
) -> None:
    plan = planned(kind)
    seen = set()
    for played in plan.play({"x": executor(plan), "time": time, "y": executor(plan)}, **bounds):
        if "x" in played.ends and "y" in played.ends:
            assert winners(played, "x", "y"), "one of them came through"
        seen.add((claims_of(played), *winners(played, "x", "y")))
    assert any(claims == 2 and "y" in names for claims, *names in seen), "taken over"
    assert (1, "x", "y") in seen, "found to be done"


@cases(*IMMUTABLE)
def test_C_a_plan_that_a_dead_executor_left_inflight_is_executed_anew_by_one_of_those_who_come(
    kind: str, bounds: dict[str, int]
) -> None:
    plan = planned(kind, is_inflight=True)
    seen = set()
    for played in plan.play({"x": executor(plan), "y": executor(plan)}, age_ms=LONG, **bounds):
        if not bounds["kills"]:
            assert state_of(plan, played) == "completed"
        seen.add(frozenset(winners(played, "x", "y")))
    assert seen >= {frozenset("x"), frozenset("y")}


@pytest.mark.parametrize("kind", IMMUTABLE)
def test_C_nobody_takes_a_plan_from_an_executor_that_has_just_beaten(kind: str) -> None:
    plan = planned(kind, is_inflight=True)
    for played in plan.play({"x": executor(plan), "y": executor(plan)}, switches=1):
        assert winners(played, "x", "y") == []
        assert state_of(plan, played) == "inflight"


# --- removable plans --------------------------------------------------------------------------------------------------


@cases(*REMOVABLE)
def test_A_of_several_executors_of_a_removable_plan_one_completes_it_and_only_one_ever_tries(
    kind: str, bounds: dict[str, int]
) -> None:
    plan = planned(kind, is_removable=True)
    seen = set()
    for played in plan.play({"x": executor(plan), "y": executor(plan)}, **bounds):
        assert claims_of(played) <= 1
        assert winners(played, "x", "y") or bounds["kills"]
        seen.add(frozenset(winners(played, "x", "y")))
    assert seen >= {frozenset("x"), frozenset("y"), frozenset("xy")}


@cases(*REMOVABLE)
def test_B_nobody_takes_a_removable_plan_over_and_if_its_executor_fails_everybody_fails(
    kind: str, bounds: dict[str, int]
) -> None:
    plan = planned(kind, is_removable=True)
    for played in plan.play({"x": executor(plan), "time": time, "y": executor(plan)}, **bounds):
        assert claims_of(played) <= 1, "never executed twice"
        if state_of(plan, played) != "completed":
            assert winners(played, "x", "y") == []


@pytest.mark.parametrize("kind", REMOVABLE)
@pytest.mark.parametrize("age_ms", [0, TIMEOUT_MS + 1, LONG])
def test_C_a_removable_plan_that_is_inflight_is_executed_by_nobody(kind: str, age_ms: int) -> None:
    plan = planned(kind, is_removable=True, is_inflight=True)
    for played in plan.play({"x": executor(plan), "y": executor(plan)}, age_ms=age_ms, switches=1):
        assert winners(played, "x", "y") == []
        assert claims_of(played) == 1, "that of the dead one"
        assert state_of(plan, played) == "inflight"


@cases(*REMOVABLE)
def test_D_and_E_cleaning_leaves_a_recent_removable_plan_to_its_executor(kind: str, bounds: dict[str, int]) -> None:
    plan = planned(kind, is_removable=True)
    for played in plan.play({"x": executor(plan), "y": cleaner}, **bounds):
        assert played.ends.get("y", RollbackResult()).plans == ()
        assert state_of(plan, played) != "gone"
        assert winners(played, "x") or bounds["kills"]


@cases(*REMOVABLE)
def test_D_cleaning_never_rolls_a_removable_plan_back_that_somebody_executes(kind: str, bounds: dict[str, int]) -> None:
    plan = planned(kind, is_removable=True)
    seen = set()
    for played in plan.play({"x": executor(plan), "y": cleaner}, age_ms=LONG, **bounds):
        if claims_of(played):
            assert played.ends.get("y", RollbackResult()).plans == (), "its heartbeat is fresh"
            assert winners(played, "x") or bounds["kills"]
        seen.add((claims_of(played), state_of(plan, played)))
    assert seen >= {(1, "completed"), (0, "gone")}, "the executor was first, the cleaner was first"


@cases(*REMOVABLE)
def test_D_an_executor_that_was_silent_for_long_and_rolled_back_cannot_complete(
    kind: str, bounds: dict[str, int]
) -> None:
    plan = planned(kind, is_removable=True)
    seen = set()
    for played in plan.play({"x": executor(plan), "time": time, "y": cleaner}, **bounds):
        gone = played.ends.get("y") is not None and played.ends["y"].plans
        assert not (gone and winners(played, "x")), "either rolled back or completed"
        seen.add((claims_of(played), bool(gone)))
    assert (1, True) in seen, "rolled back while it was being executed"


@cases(*REMOVABLE)
def test_E_nobody_executes_an_old_removable_plan_after_its_rollback_was_decided(
    kind: str, bounds: dict[str, int]
) -> None:
    plan = planned(kind, is_removable=True)
    seen = set()
    for played in plan.play({"x": cleaner, "y": executor(plan)}, age_ms=LONG, is_reduced=False, **bounds):
        if played.ended_before("x", "y") and "x" in played.ends:
            assert isinstance(played.ends.get("y", CommitRefused("killed")), CommitRefused)
            assert state_of(plan, played) == "gone"
        seen.add((played.ended_before("x", "y"), "x" in played.ends, state_of(plan, played)))
    assert (True, True, "gone") in seen
    if bounds["kills"]:
        assert (True, False, "completed") in seen, "the cleaner died before it had decided"


@pytest.mark.parametrize("kind", IMMUTABLE)
def test_cleaning_never_rolls_a_plan_back_that_is_not_removable_however_old_it_is(kind: str) -> None:
    for plan in (planned(kind), planned(kind, is_inflight=True)):
        for played in plan.play({"x": executor(plan), "y": cleaner}, age_ms=100 * LONG, switches=1):
            assert played.ends["y"].plans == ()
            assert winners(played, "x")
