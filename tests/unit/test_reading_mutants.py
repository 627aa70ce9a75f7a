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

from lakebraid.format.names import LogFileName
from lakebraid.model import log_order, slicing
from lakebraid.model.timeline import Timeline
from lakebraid.table import horizon, loading, view
from lakebraid.tasks import changes, merge, partial, read, versions
from lakebraid.tasks.slice_task import SliceTask
from tests.histories import histories
from tests.oracle import History
from tests.table_builder import build_table, open_table
from tests.unit.test_reading_oracle import check_changes, check_filters, check_snapshots, end_of, moments

pytestmark = [pytest.mark.unit, pytest.mark.slow]

Plant = Callable[[pytest.MonkeyPatch], None]
MUTANTS: dict[str, Plant] = {}


def mutant(plant: Plant) -> Plant:
    MUTANTS[plant.__name__] = plant
    return plant


# --- which version wins ----------------------------------------------------------------------------------------------


@mutant
def ties_among_logs_go_to_the_earlier(patch: pytest.MonkeyPatch) -> None:
    real = merge.winners

    def wrong(codes: Any, order: Any, unconditional: Any, count: int) -> Any:
        back = np.arange(len(codes))[::-1]
        best = real(codes[back], order.take(back), unconditional[back], count)
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
    real = versions.parse_delete_block

    def wrong(content: Any, where: str) -> Any:
        found = real(content, where)
        return replace(found, ordering=None, unconditional=pa.array([True] * len(found.record_keys), pa.bool_()))

    patch.setattr(versions, "parse_delete_block", wrong)


@mutant
def a_delete_without_ordering_value_has_the_value_zero(patch: pytest.MonkeyPatch) -> None:
    real = versions.parse_delete_block

    def wrong(content: Any, where: str) -> Any:
        found = real(content, where)
        return replace(found, unconditional=pa.array([False] * len(found.record_keys), pa.bool_()))

    patch.setattr(versions, "parse_delete_block", wrong)


@mutant
def a_row_that_says_it_is_deleted_is_shown(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(versions, "marked_deleted", lambda rows, rules: np.zeros(rows.num_rows, np.bool_))


@mutant
def only_the_first_ordering_field_counts(patch: pytest.MonkeyPatch) -> None:
    real = versions.order_keys
    patch.setattr(versions, "order_keys", lambda columns, length: real(columns[:1], length))


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
    real = versions.place_blocks
    patch.setattr(versions, "place_blocks", lambda blocks: real([replace(b, compacted_times=()) for b in blocks]))


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
    patch.setattr(Timeline, "is_archived_start", lambda self, start: False)


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
    real = horizon.parse_clean_plan
    patch.setattr(horizon, "parse_clean_plan", lambda data, where: replace(real(data, where), files={}))


@mutant
def a_filter_on_any_column_skips_row_groups_below_logs(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(read, "_about_keys", lambda plan: plan.where)


@mutant
def an_unchanged_row_is_reported_as_changed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(changes, "_differs", lambda old, new: np.ones(old.num_rows, np.bool_))


@mutant
def the_last_version_of_partial_updates_wins(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(partial, "_single_rank", lambda order: np.zeros(order.length, np.int64))


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
    check_filters(table, history, max(now, 2))
    times = moments(history, max(now, 2))
    for after, until in zip(times, times[1:], strict=False):
        check_changes(table, history, after, until, max(now, 2))


@pytest.mark.parametrize("name", MUTANTS)
def test_the_model_notices(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    MUTANTS[name](monkeypatch)
    with pytest.raises(BaseException) as caught:
        hunt()
    assert not isinstance(caught.value, KeyboardInterrupt)
    print(f"{name}: {type(caught.value).__name__}: {str(caught.value)[:200]}")
