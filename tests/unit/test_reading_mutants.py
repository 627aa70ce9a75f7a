# SPDX-License-Identifier: Apache-2.0
"""Planted bugs: for every rule of reading there is a wrong one here, and the model of `tests/oracle.py` notices it.

A checker that has never failed has not been tested. Each mutant must be caught by random histories; the same
histories pass without it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import lakebraid as lb
from lakebraid.format.delete_list import parse_delete_block
from lakebraid.format.names import LogFileName, State
from lakebraid.format.services import parse_clean_plan
from lakebraid.model import log_order, slicing
from lakebraid.model.ordering import order_keys, winners
from lakebraid.model.timeline import Timeline
from lakebraid.table import horizon, loading, view
from lakebraid.tasks import changes, merge, partial, read, versions
from lakebraid.tasks.slice_task import SliceTask
from tests.histories import histories
from tests.oracle import History
from tests.table_builder import build_table, open_table
from tests.unit import test_races_reading as races
from tests.unit.test_reading_oracle import check_changes, check_filters, check_snapshots, end_of, filters_of, moments

pytestmark = [pytest.mark.unit, pytest.mark.slow]

Plant = Callable[[pytest.MonkeyPatch], None]
MUTANTS: dict[str, Plant] = {}


def mutant(plant: Plant) -> Plant:
    MUTANTS[plant.__name__] = plant
    return plant


# --- which version wins ----------------------------------------------------------------------------------------------


@mutant
def ties_among_logs_go_to_the_earlier(patch: pytest.MonkeyPatch) -> None:
    def wrong(codes: Any, order: Any, unconditional: Any, count: int) -> Any:
        back = np.arange(len(codes))[::-1]
        best = winners(codes[back], order.take(back), unconditional[back], count)
        return np.where(best < 0, -1, len(codes) - 1 - best)

    patch.setattr(merge, "winners", wrong)


@mutant
def a_late_log_comes_after_the_base_row_whenever_it_began(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SliceTask, "has_late_log", property(lambda self: False))


@mutant
def a_tie_with_the_base_row_goes_to_the_base(patch: pytest.MonkeyPatch) -> None:
    real = versions.request_times
    patch.setattr(versions, "request_times", lambda batch, rows: real(batch, rows) + 10**17)
    patch.setattr(SliceTask, "has_late_log", property(lambda self: self.base_name is not None))


@mutant
def the_ordering_value_of_a_delete_is_ignored(patch: pytest.MonkeyPatch) -> None:
    def wrong(content: Any, where: str) -> Any:
        found = parse_delete_block(content, where)
        return replace(found, ordering=None, unconditional=pa.array([True] * len(found.record_keys), pa.bool_()))

    patch.setattr(versions, "parse_delete_block", wrong)


@mutant
def a_delete_without_ordering_value_has_the_value_zero(patch: pytest.MonkeyPatch) -> None:
    def wrong(content: Any, where: str) -> Any:
        found = parse_delete_block(content, where)
        return replace(found, unconditional=pa.array([False] * len(found.record_keys), pa.bool_()))

    patch.setattr(versions, "parse_delete_block", wrong)


@mutant
def a_row_that_says_it_is_deleted_is_shown(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(versions, "marked_deleted", lambda rows, rules: np.zeros(rows.num_rows, np.bool_))


@mutant
def only_the_first_ordering_field_counts(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(versions, "order_keys", lambda columns, length: order_keys(columns[:1], length))


@mutant
def a_column_that_a_partial_update_leaves_out_is_null(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(versions, "_present", lambda *args: None)


@mutant
def logs_are_merged_in_the_order_of_their_completion(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(slicing, "merge_order", lambda logs: tuple(sorted(logs, key=lambda f: f.completion_time)))
    patch.setattr(log_order, "_place", lambda time, compacted: "0")


@mutant
def log_files_of_one_instant_are_merged_by_token_before_version(patch: pytest.MonkeyPatch) -> None:
    wrong = property(lambda self: (self.request_time, self.write_token or "", self.version))
    patch.setattr(LogFileName, "sort_key", wrong)


# --- log compaction --------------------------------------------------------------------------------------------------


@mutant
def a_compacted_block_stands_at_its_own_time(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(log_order, "_place", lambda time, compacted: time)


@mutant
def the_blocks_that_a_log_compaction_replaced_count_too(patch: pytest.MonkeyPatch) -> None:
    def wrong(blocks: Any) -> Any:
        return log_order.place_blocks([replace(b, compacted_times=()) for b in blocks])

    patch.setattr(versions, "place_blocks", wrong)


# --- slicing and visibility ------------------------------------------------------------------------------------------


@mutant
def a_pending_first_writer_hides_what_came_after_it(patch: pytest.MonkeyPatch) -> None:
    real = Timeline.completion_of

    def wrong(self: Timeline, start: str) -> str | None:
        waiting = any(i.request_time < start and i.action == "deltacommit" for i in self.pending)
        return None if waiting else real(self, start)

    patch.setattr(Timeline, "completion_of", wrong)


@mutant
def logs_are_sliced_by_their_start(patch: pytest.MonkeyPatch) -> None:
    real = slicing.build_group

    def wrong(group: Any, bases: Any, logs: Any, planned: Any = ()) -> Any:
        return real(group, bases, [replace(f, completion_time=f.request_time) for f in logs], planned)

    patch.setattr(slicing, "build_group", wrong)


@mutant
def a_planned_compaction_hides_the_slice_before_it(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(slicing.FileGroup, "latest", lambda self: self.slices[-1] if self.slices else None)


@mutant
def an_archived_write_counts_as_pending(patch: pytest.MonkeyPatch) -> None:
    real = Timeline.completion_of

    def wrong(self: Timeline, start: str) -> str | None:
        return None if start < (self.first_active_write or "") else real(self, start)

    patch.setattr(Timeline, "completion_of", wrong)


@mutant
def the_completion_of_an_archived_write_is_its_start(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(loading, "load_history", lambda *args, **options: [])


@mutant
def a_replaced_group_stays_visible(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(view, "load_replaced", lambda *args: {})


@mutant
def a_replaced_group_is_gone_for_ever(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(slicing, "outlives", lambda start, replacement: False)


@mutant
def any_of_two_base_files_of_one_instant_will_do(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(view, "_named", lambda storage, config, clock, twins, timeline: max(twins, key=lambda f: f.name))


@mutant
def as_of_goes_by_the_start(patch: pytest.MonkeyPatch) -> None:
    def wrong(self: Timeline, start: str) -> str | None:
        instant = self.write(start)
        done = instant.completion_time if instant is not None and instant.is_completed else None
        return done if done is not None and (self.until is None or start <= self.until) else None

    patch.setattr(Timeline, "completion_of", wrong)


@mutant
def as_of_leaves_out_what_completed_at_that_very_time(patch: pytest.MonkeyPatch) -> None:
    def wrong(self: Timeline, time: str) -> str | None:
        return time if self.until is None or time < self.until else None

    patch.setattr(Timeline, "_within", wrong)


# --- cleaned, filtered, changed --------------------------------------------------------------------------------------


@mutant
def nobody_asks_whether_files_were_cleaned_away(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(view, "check_retained", lambda *args: None)


@mutant
def a_clean_that_is_not_finished_has_removed_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(horizon, "parse_clean_plan", lambda data, where: replace(parse_clean_plan(data, where), files={}))


@mutant
def a_filter_on_any_column_skips_row_groups_below_logs(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(read, "_about_keys", lambda plan: plan.where)


@mutant
def an_unchanged_row_is_reported_as_changed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(changes, "_differs", lambda old, new: np.ones(old.num_rows, np.bool_))


@mutant
def the_last_version_of_partial_updates_wins(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(partial, "_single_rank", lambda order: np.zeros(order.length, np.int64))


# --- reading beside others: caught by the races ----------------------------------------------------------------------


def nobody_looks_whether_something_was_removed_meanwhile(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(loading, "_removals", lambda timeline: set())


def the_first_listing_of_the_timeline_is_believed_alone(patch: pytest.MonkeyPatch) -> None:
    real = loading._timeline_files
    seen: dict[int, Any] = {}

    def wrong(storage: Any, config: Any) -> Any:
        seen.setdefault(id(storage), (storage, real(storage, config)))
        return seen[id(storage)][1]

    patch.setattr(loading, "_timeline_files", wrong)


def files_are_listed_before_the_timeline(patch: pytest.MonkeyPatch) -> None:
    def wrong(storage: Any, config: Any, clock: Any) -> Any:
        while True:
            files, partitions = loading._list_files(storage)
            before, after = (loading._timeline_files(storage, config) for _ in range(2))
            timeline = loading._settled(storage, config, before, after, files)
            if timeline is not None:
                return loading.Loaded(timeline, files, partitions)

    patch.setattr(view, "load_table", wrong)


@pytest.mark.parametrize(
    ("plant", "race"),
    [
        (
            nobody_looks_whether_something_was_removed_meanwhile,
            lambda: races.test_a_compaction_and_a_clean_behind_it_during_the_read_never_make_it_short(is_newest=True),
        ),
        (
            the_first_listing_of_the_timeline_is_believed_alone,
            lambda: races.test_f10_a_listing_torn_by_the_archiver_does_not_turn_a_committed_write_into_a_pending_one(
                [State.INFLIGHT]
            ),
        ),
        (
            files_are_listed_before_the_timeline,
            races.test_f28_consecutive_changes_beside_writers_deliver_every_row_exactly_once,
        ),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_the_races_notice(plant: Plant, race: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        race()


# --- the proof -------------------------------------------------------------------------------------------------------

examples = settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],
)


@examples
@given(histories(), st.data())
def hunt(history: History, data: st.DataObject) -> None:
    now = end_of(history) - data.draw(st.sampled_from([0, 0, 1, 2, 3]))
    archived = data.draw(st.integers(0, 4))
    table = open_table(build_table(history, now=max(now, 2), archived=archived))
    check_snapshots(table, history, max(now, 2))
    check_filters(table, history, max(now, 2), filters_of(history)[data.draw(st.sampled_from([0, 2, 3, 5])) :][:2])
    times = moments(history, max(now, 2))
    for after, until in zip(times, times[1:], strict=False):
        check_changes(table, history, after, until, max(now, 2))


@pytest.mark.parametrize("name", MUTANTS)
def test_the_model_notices(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    MUTANTS[name](monkeypatch)
    with pytest.raises(BaseException) as caught:
        hunt()
    assert is_a_failed_check(caught.value), caught.value


def is_a_failed_check(error: BaseException) -> bool:
    """Whether the model disagreed; a mutant that merely falls over proves nothing about the model."""
    if isinstance(error, BaseExceptionGroup):
        return any(is_a_failed_check(one) for one in error.exceptions)
    return isinstance(error, AssertionError | pytest.fail.Exception | lb.SnapshotExpired)
