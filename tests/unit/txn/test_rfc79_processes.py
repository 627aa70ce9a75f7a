# SPDX-License-Identifier: Apache-2.0
"""RFC-79's two tables of scenarios with real processes on a real disk, stopped and killed at the calls that matter.

`test_rfc79.py` plays them in every interleaving; here the product does its real work, beats with a real thread, and loses
it in the middle.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import lakebraid as lb
from lakebraid.clock import SystemClock
from lakebraid.format.timeline.commit import parse_commit
from lakebraid.services.settings import ServiceSettings
from lakebraid.storage.local import LocalStorage
from lakebraid.txn.ledger.entries import LEDGER, parse_entry
from tests.kit.races.processes import Body, Child, Failed, Moment, let_pass, none_left, opened, started
from tests.kit.tables.clustering import COLUMNS, NEW_GROUPS
from tests.kit.tables.scene import Call, answer, make_table, row

PLAN_DELAY = ServiceSettings().plan_rollback_minutes.name
pytestmark = [pytest.mark.unit, pytest.mark.slow]

ALL = ("compaction", "logcompaction", "clustering")
REMOVABLE = ("logcompaction", "clustering")
STOPPED, KILLED = signal.SIGSTOP, signal.SIGKILL


# --- the moments ------------------------------------------------------------------------------------------------------


def decides(kind: str) -> Callable[[Call], bool]:
    """The create that makes a decision of this kind."""
    return lambda call: call.is_entry() and parse_entry(call.args[1], "entry").kind == kind


def puts_down_a_file(call: Call) -> bool:
    return call.name == "create" and not call.target.startswith(".hoodie/") and "metadata" not in call.target


CLAIMED: Moment = ("after", lambda call: call.name == "copy" and call.target.endswith(".inflight"))
MERGED: Moment = ("after", puts_down_a_file)
UNDECIDED: Moment = ("before", decides("publish"))
DECIDED: Moment = ("after", decides("publish"))
"""Published, and nobody has made it true on the timeline."""
BEFORE: tuple[Moment, ...] = (CLAIMED, MERGED, UNDECIDED)


# --- the table and the plan -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Planned:
    """A table in a folder with one pending plan P."""

    path: Path
    kind: str
    request_time: str
    rows: dict[str, str]

    @property
    def table(self) -> lb.Table:
        return opened(self.path)

    def run(self, moment: Moment | None = None, how: signal.Signals | None = None) -> Child:
        """A process that executes P, as far as a moment."""
        return started(self.path, self.body, moment, how)

    def stopped(self, moment: Moment) -> Child:
        child = self.run(moment, STOPPED)
        child.wait_until_stopped()
        return child

    def killed(self, moment: Moment) -> None:
        self.run(moment, KILLED).wait_until_killed()

    def body(self, table: lb.Table) -> Any:
        return table.run(self.request_time)

    def together(self, *bodies: Body) -> list[Any]:
        """What processes say that begin at the same moment."""

        def waiting(body: Body) -> Body:
            def stopped_first(table: lb.Table) -> Any:
                signal.raise_signal(STOPPED)
                return body(table)

            return stopped_first

        children = [started(self.path, waiting(body)) for body in bodies]
        for child in children:
            child.wait_until_stopped()
        for child in children:
            child.wake()
        return [child.end() for child in children]

    def claims(self) -> int:
        entries = (self.path / LEDGER).glob("0*")
        return sum(parse_entry(entry.read_bytes(), "entry").kind == "claim" for entry in entries)

    def check(self, *, is_done: bool) -> None:
        """P is done or gone as a whole, its files are there or gone, and every row is as it was."""
        let_pass(self.path)
        self.table.rollback()
        self.check_files(is_done=is_done)
        assert answer(self.table) == self.rows

    def check_files(self, *, is_done: bool = True) -> None:
        completed = [*(self.path / ".hoodie/timeline").glob(f"{self.request_time}_*")]
        pending = [*(self.path / ".hoodie/timeline").glob(f"{self.request_time}.*")]
        assert len(completed) == is_done
        assert is_done or pending == []
        named = {path for file in completed for path in parse_commit(file.read_bytes(), file.name).file_paths}
        assert {file.name for file in self.path.glob(f"*{self.request_time}*")} == named, (
            "its files, and no others of it"
        )


class TenMinutesAgo(SystemClock):
    def now_ms(self) -> int:
        return super().now_ms() - 600_000


@pytest.fixture
def plan(tmp_path: Path) -> Iterator[Callable[..., Planned]]:
    """Makes a table with a plan of ten minutes ago; an old removable one has had its time."""

    def make(kind: str, *, is_removable: bool = False, is_old: bool = True) -> Planned:
        number = len([*tmp_path.iterdir()])
        properties = NEW_GROUPS | {PLAN_DELAY: "5" if is_old else "60"}
        how: dict[str, Any] = {"index": "simple"} if kind == "clustering" else {"buckets": 1}
        storage = LocalStorage(str(tmp_path / str(number)))
        table = make_table(storage, TenMinutesAgo(), COLUMNS, **how, properties=properties)
        for n in range(2):
            table.insert([row(str(n), "old"), row("x", str(n), ts=n)] if kind != "clustering" else [row(str(n), "old")])
        return Planned(tmp_path / str(number), kind, planned(table, kind, is_removable=is_removable), answer(table))

    with none_left():
        yield make


def planned(table: lb.Table, kind: str, *, is_removable: bool) -> str:
    match kind:
        case "compaction":
            made = table.plan_compaction()
        case "logcompaction":
            made = table.plan_log_compaction(logs_min=2, removable=is_removable)
        case _:
            made = table.plan_clustering(removable=is_removable)
    assert made is not None and made.instant is not None
    return made.instant


def _run(request_time: str, table: lb.Table) -> Any:
    return table.run(request_time)


def is_done(answer: Any) -> bool:
    return not isinstance(answer, Failed)


def refused(answer: Any) -> bool:
    return isinstance(answer, Failed) and answer.kind in ("ClaimLost", "RolledBack", "CommitRefused")


# --- plans that stay --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "is_removable"), [*((kind, False) for kind in ALL), *((k, True) for k in REMOVABLE)])
def test_A_of_processes_that_execute_a_new_plan_at_once_one_completes_it(
    plan: Callable[..., Planned], kind: str, is_removable: bool
) -> None:
    made = plan(kind, is_removable=is_removable)
    ends = made.together(*[made.body] * 3)
    assert all(is_done(end) or refused(end) for end in ends), ends
    assert len({end.completion_time for end in ends if is_done(end)}) == 1
    assert made.claims() == 1
    made.check(is_done=True)


@pytest.mark.parametrize("kind", ALL)
def test_B_nobody_takes_a_plan_from_a_process_that_beats_and_everybody_gets_its_result(
    plan: Callable[..., Planned], kind: str
) -> None:
    made = plan(kind)
    x = made.stopped(MERGED)
    y = made.run().end()
    assert refused(y) and "alive" in y.message
    done = x.go_on()
    assert made.run().end() == done
    assert made.claims() == 1
    made.check(is_done=True)


@pytest.mark.parametrize("kind", ALL)
def test_B_whoever_takes_over_from_a_stopped_process_completes_the_plan_and_the_sleeper_does_no_harm(
    plan: Callable[..., Planned], kind: str
) -> None:
    for moment in BEFORE:
        made = plan(kind)
        x = made.stopped(moment)
        let_pass(made.path)
        done = made.run().end()
        assert is_done(done), done
        assert x.go_on().completion_time == done.completion_time, "it is told that the other one did it"
        assert made.claims() == 2
        made.check(is_done=True)


@pytest.mark.parametrize("kind", ALL)
def test_B_a_sleeper_that_wakes_while_another_one_is_at_its_plan_publishes_nothing(
    plan: Callable[..., Planned], kind: str
) -> None:
    made = plan(kind)
    x = made.stopped(UNDECIDED)
    let_pass(made.path)
    y = made.stopped(MERGED)
    late = x.go_on()
    assert refused(late) and "taken over" in late.message
    assert is_done(y.go_on())
    made.check(is_done=True)


@pytest.mark.parametrize("kind", ALL)
def test_B_and_C_a_plan_whose_process_was_killed_is_executed_anew_by_one_of_those_who_come(
    plan: Callable[..., Planned], kind: str
) -> None:
    for moment in (MERGED, UNDECIDED):
        made = plan(kind)
        made.killed(moment)
        let_pass(made.path)
        ends = made.together(made.body, made.body)
        assert all(is_done(end) or refused(end) for end in ends), ends
        assert len({end.completion_time for end in ends if is_done(end)}) == 1
        assert made.claims() == 2
        made.check_files()  # nobody has swept
        made.check(is_done=True)


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("how", [STOPPED, KILLED])
def test_what_a_process_has_decided_before_it_was_stopped_or_killed_is_done_for_everybody(
    plan: Callable[..., Planned], kind: str, how: signal.Signals
) -> None:
    made = plan(kind, is_removable=kind in REMOVABLE)
    x = made.run(DECIDED, how)
    x.wait_until_stopped() if how is STOPPED else x.wait_until_killed()
    let_pass(made.path)
    assert made.table.rollback().plans == ()
    done = made.run().end()
    assert is_done(done), done
    if how is STOPPED:
        assert x.go_on() == done
    assert made.claims() == 1
    made.check(is_done=True)


# --- removable plans --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", REMOVABLE)
def test_B_a_removable_plan_is_not_taken_over_from_a_stopped_process_which_completes_it_when_it_wakes(
    plan: Callable[..., Planned], kind: str
) -> None:
    made = plan(kind, is_removable=True)
    x = made.stopped(MERGED)
    let_pass(made.path)
    y = made.run().end()
    assert refused(y) and "removable" in y.message
    assert is_done(x.go_on())
    assert made.claims() == 1
    made.check(is_done=True)


@pytest.mark.parametrize("kind", REMOVABLE)
def test_C_a_removable_plan_whose_process_was_killed_is_executed_by_nobody_and_rolled_back(
    plan: Callable[..., Planned], kind: str
) -> None:
    for moment in (CLAIMED, UNDECIDED):
        made = plan(kind, is_removable=True)
        made.killed(moment)
        let_pass(made.path)
        assert all(refused(end) for end in made.together(made.body, made.body))
        assert made.claims() == 1
        assert made.table.rollback().plans == (made.request_time,)
        made.check(is_done=False)
        again = planned(made.table, kind, is_removable=True)
        assert is_done(started(made.path, partial(_run, again)).end())
        assert answer(made.table) == made.rows


@pytest.mark.parametrize("kind", REMOVABLE)
def test_D_cleaning_leaves_a_removable_plan_to_a_process_that_beats_and_takes_it_from_a_silent_one_for_ever(
    plan: Callable[..., Planned], kind: str
) -> None:
    for moment in (CLAIMED, UNDECIDED):
        made = plan(kind, is_removable=True)
        x = made.stopped(moment)
        clean: Body = lambda table: table.rollback().plans  # noqa: E731
        assert started(made.path, clean).end() == (), "it has just beaten"
        let_pass(made.path)
        cleaned = made.together(clean, clean)
        assert sorted(cleaned) in ([(), (made.request_time,)], [(made.request_time,), (made.request_time,)])
        assert refused(x.go_on())
        made.check(is_done=False)


@pytest.mark.parametrize("kind", REMOVABLE)
def test_D_and_E_a_removable_plan_that_is_recent_is_left_alone_however_silent_it_is(
    plan: Callable[..., Planned], kind: str
) -> None:
    for moment in (None, MERGED):
        made = plan(kind, is_removable=True, is_old=False)
        x = made.stopped(moment) if moment else None
        let_pass(made.path)
        assert started(made.path, lambda table: table.rollback().plans).end() == ()
        assert is_done(x.go_on() if x else made.run().end())
        made.check(is_done=True)


@pytest.mark.parametrize("kind", REMOVABLE)
def test_E_whether_an_old_removable_plan_is_executed_or_rolled_back_is_decided_once(
    plan: Callable[..., Planned], kind: str
) -> None:
    clean: Body = lambda table: table.rollback().plans  # noqa: E731
    for when, how, ends_done in (("before", KILLED, True), ("after", STOPPED, False), ("after", KILLED, False)):
        made = plan(kind, is_removable=True)
        x = started(made.path, clean, (when, decides("roll back")), how)
        x.wait_until_stopped() if how is STOPPED else x.wait_until_killed()
        y = made.run().end()
        assert is_done(y) if ends_done else refused(y), y
        if how is STOPPED:
            assert x.go_on() == (made.request_time,)
        made.check(is_done=ends_done)


@pytest.mark.parametrize("kind", REMOVABLE)
def test_E_a_cleaner_that_was_about_to_roll_a_plan_back_sees_that_somebody_has_begun_it(
    plan: Callable[..., Planned], kind: str
) -> None:
    made = plan(kind, is_removable=True)
    x = started(made.path, lambda table: table.rollback().plans, ("before", decides("roll back")))
    x.wait_until_stopped()
    y = made.stopped(MERGED)
    assert x.go_on() == ()
    assert is_done(y.go_on())
    made.check(is_done=True)


# --- taking a plan back -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_removable", [False, True])
@pytest.mark.parametrize("kind", REMOVABLE)
def test_a_plan_is_cancelled_unless_the_process_at_it_beats(
    plan: Callable[..., Planned], kind: str, is_removable: bool
) -> None:
    made = plan(kind, is_removable=is_removable, is_old=False)
    x = made.stopped(MERGED)
    cancel: Body = lambda table: table.rollback(plan=made.request_time).plans  # noqa: E731
    answered = started(made.path, cancel).end()
    assert refused(answered) and "alive" in answered.message
    let_pass(made.path)
    assert started(made.path, cancel).end() == (made.request_time,)
    assert refused(x.go_on())
    assert refused(made.run().end())
    made.check(is_done=False)


def test_the_plan_of_a_compaction_is_never_cancelled(plan: Callable[..., Planned]) -> None:
    made = plan("compaction")
    made.killed(MERGED)
    let_pass(made.path)
    answered = started(made.path, lambda table: table.rollback(plan=made.request_time)).end()
    assert answered.kind == "InvalidArgument"
    assert is_done(made.run().end())
    made.check(is_done=True)
