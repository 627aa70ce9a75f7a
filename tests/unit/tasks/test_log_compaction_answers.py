# SPDX-License-Identifier: Apache-2.0
"""Random histories of overlapping writers with log compactions and compactions between them: no answer ever changes.

What a table answers at every moment is compared with the same writes in a table that nobody ever compacted.
"""

from __future__ import annotations

from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from lakebraid.services.merging import choose_runs
from lakebraid.services.merging.log_compaction import LOG_COMPACTION, LogCompactionResult, plan_log_compaction
from lakebraid.services.merging.scope import Scope
from lakebraid.services.settings import Opened
from tests.kit.tables.builder import build_table, open_table
from tests.kit.tables.built_files import t
from tests.unit.tasks.test_compaction_answers import (
    COMMIT,
    COMMIT_PARTIAL,
    EVENT,
    EVENT_ANY_DELETE,
    EVENT_PARTIAL,
    KEYS,
    Kind,
    World,
    by_key,
    check,
    pytestmark,
    thorough,
)

__all__ = ["pytestmark"]

ANY_ORDER = Kind(unconditional=True)
"""Deletes without ordering value, and nothing arrives in order."""
ANY_ORDER_PARTIAL = Kind(unconditional=True, partial=True)


class LogWorld(World):
    """A table whose log files are put together now and then."""

    def __init__(self, draw: st.DrawFn, kind: Kind) -> None:
        super().__init__(draw, kind)
        self.log_plans: list[str] = []
        self.log_compactions: list[LogCompactionResult] = []

    def plan_logs(self) -> None:
        # Some runs begin behind other logs, as if these weighed too much to be written again.
        heavy = self.draw(st.integers(0, 2))
        with patch.object(choose_runs, "_is_heavy", lambda run: len(run) > 4 - heavy):
            request_time = plan_log_compaction(self.bench.ledger, Scope(logs_min=2))
        if request_time is not None:
            self.log_plans.append(request_time)

    def run_logs(self) -> None:
        if self.log_plans:
            request_time = self.log_plans.pop(self.draw(st.integers(0, len(self.log_plans) - 1)))
            self.log_compactions.append(LOG_COMPACTION.run(Opened(self.bench.writing, self.bench.ledger), request_time))

    def log_compact(self) -> None:
        self.plan_logs()
        self.run_logs()

    def write_twice_and_log_compact(self) -> None:
        self.write()
        self.write()
        self.log_compact()

    def overtake(self) -> None:
        """A slow writer comes between others on one key; the others' logs are put together; the slow one finishes."""
        key, other = self.draw(st.permutations(KEYS[:2]))
        self.same = [key]
        self.write()
        slow = self.begin()
        self.same = [self.draw(st.sampled_from([key, other, other]))]
        self.write()
        self.same = []
        self.log_compact()
        if self.draw(st.sampled_from([True, True, False])):
            self.finish(slow)

    def overtake_base(self) -> None:
        """A slow writer finishes behind a compaction of its key; then logs are put together over the base file."""
        key, other = self.draw(st.permutations(KEYS[:2]))
        self.same = [key]
        slow = self.begin()
        self.write_and_compact()
        self.finish(slow)
        self.same = [self.draw(st.sampled_from([key, other, other]))]
        self.write()
        self.same = []
        self.log_compact()

    def rewrite(self) -> None:
        """A partial update, then whole rows of the same key."""
        key = self.draw(st.sampled_from(KEYS[2:]))
        if self.kind.partial:
            self.finish(self.begin_partial(self.next_request_time(), (key,)))
        for _ in range(2):
            files = self.by_group([self.row(key, self.next_request_time())])
            self.finish(self.begun(self.bench.begin(files)))
        self.log_compact()

    def next_request_time(self) -> int:
        return int(self.bench.ledger.newest().state.last[-5:]) + 1


LOGS = (
    "write", "begin", "begin", "finish", "give_up", "plan_logs", "run_logs",
    *["write_twice_and_log_compact"] * 3, *["overtake"] * 3, *["rewrite"] * 2,
)  # fmt: skip
BOTH = (*LOGS, "write_and_compact", "finish_late", "plan", "run", *["overtake_base"] * 3)


@st.composite
def worlds(draw: st.DrawFn, kind: Kind, steps: tuple[str, ...] = BOTH, steps_max: int = 8) -> LogWorld:
    world = LogWorld(draw, kind)
    for step in draw(st.lists(st.sampled_from(steps), min_size=3, max_size=steps_max)):
        getattr(world, step)()
    while bool(world.plans) and draw(st.booleans()):
        world.run()
    while bool(world.log_plans) and draw(st.booleans()):
        world.run_logs()
    for _ in range(draw(st.integers(0, 3))):
        world.finish()
    return world


def check_logs(world: LogWorld) -> None:
    """As `check`, but against the same writes alone, since what arrives out of order is merged logs first."""
    bench = world.bench
    compacted, plain = open_table(bench.storage), open_table(build_table(bench.history))
    for moment in [*bench.moments(), *(int(done.completion_time[-5:]) for done in world.log_compactions)]:
        seen = by_key(compacted.to_arrow(as_of=t(moment), meta_columns=True))
        unchanged = by_key(plain.to_arrow(as_of=t(moment), meta_columns=True))
        assert seen == unchanged, (moment, bench.history, bench.compactions, world.log_compactions)


@thorough(2)
@given(worlds(EVENT))
def test_log_compaction_changes_no_answer_by_event_time_whatever_the_order_of_arrival(world: LogWorld) -> None:
    check(world)


@thorough()
@given(worlds(EVENT_ANY_DELETE))
def test_log_compaction_changes_no_answer_by_event_time_with_deletes_that_have_no_ordering_value(
    world: LogWorld,
) -> None:
    check(world)


@thorough()
@given(worlds(ANY_ORDER, LOGS))
def test_log_compaction_changes_no_answer_where_deletes_without_ordering_value_arrive_in_any_order(
    world: LogWorld,
) -> None:
    check_logs(world)


@thorough()
@given(worlds(COMMIT))
def test_log_compaction_changes_no_answer_by_commit_time(world: LogWorld) -> None:
    check(world)


@thorough()
@given(worlds(COMMIT_PARTIAL))
def test_log_compaction_changes_no_answer_by_commit_time_with_partial_updates(world: LogWorld) -> None:
    check(world)


@thorough()
@given(worlds(EVENT_PARTIAL))
def test_log_compaction_changes_no_answer_by_event_time_with_partial_updates_in_order(world: LogWorld) -> None:
    check(world)


@thorough()
@given(worlds(ANY_ORDER_PARTIAL, LOGS))
def test_log_compaction_changes_no_answer_where_partial_updates_arrive_in_any_order(world: LogWorld) -> None:
    check_logs(world)
