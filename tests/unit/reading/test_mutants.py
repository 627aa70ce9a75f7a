# SPDX-License-Identifier: Apache-2.0
"""Planted bugs: for every rule of reading there is a wrong one here, and the model of `tests/kit/models/oracle.py` notices it.

A checker that has never failed has not been tested. Each mutant must be caught by random histories; the same
histories pass without it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from lakebraid.errors import SnapshotExpired
from lakebraid.format.log.delete_list import parse_delete_block
from lakebraid.format.names import LogFileName, State
from lakebraid.format.timeline.services import parse_clean_plan
from lakebraid.model import log_order
from lakebraid.model.ordering import order_keys, winners
from lakebraid.model.timeline import slicing
from lakebraid.model.timeline.timeline import Timeline
from lakebraid.table import expiry, loading, view
from lakebraid.table.at import TableAt
from lakebraid.tasks.changes import diff
from lakebraid.tasks.reading import blocks as log_blocks
from lakebraid.tasks.reading import columns, merge, read, versions
from lakebraid.tasks.slice_task import SliceTask
from tests.kit.effort import first_seed, times
from tests.kit.models.oracle import History, Settings
from tests.kit.tables.builder import build_table, open_table
from tests.kit.tables.histories import histories
from tests.unit.reading import test_races_reading as races
from tests.unit.reading.test_oracle import check_changes, check_filters, check_snapshots, end_of, filters_of, moments

pytestmark = [pytest.mark.unit, pytest.mark.slow]

Plant = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True)
class Hunt:
    """Which random histories are read, and how. Each ends with the stories that the mutant is about."""

    name: str
    stories: tuple[str, ...]
    reads: str = "snapshots"
    settings: st.SearchStrategy[Settings] | None = None
    """Where given, versions are whole besides: an order that is wrong shows at once."""
    shows: type[BaseException] = AssertionError
    """How a mutant gives itself away: wrong rows, or an answer where files are gone, or none where they are not.
    One that falls over in another way proves nothing about the model."""

    @property
    def services(self) -> tuple[str, ...]:
        everything = ("compact", "log_compact", "replace", "clean")
        return everything[:-1] if self.shows is AssertionError else everything


BY_COMMIT = st.builds(
    Settings, by_event=st.just(value=False), partitioned=st.booleans(), buckets=st.sampled_from([1, None])
)
BY_EVENT = st.builds(Settings, ordering=st.just(("ts", "ts2")), partitioned=st.just(value=False))

AMONG_LOGS = Hunt("among logs", ("write", "write", "begin", "write"))
BY_ORDER = Hunt("by order", ("write", "write", "write"), settings=BY_EVENT)
BY_LATE_LOGS = Hunt("by late logs", ("finish_late", "finish_late"), settings=BY_COMMIT)
BY_LOG_COMPACTION = Hunt("by log compaction", ("squeeze", "squeeze"), settings=BY_COMMIT)
BY_REPLACEMENT = Hunt("by replacement", ("replace_and_write_on", "replace_and_write_on", "spare"))
BY_FILTER = Hunt("by filter", ("compact_and_clean", "write", "write"), reads="filters", settings=BY_EVENT)
BY_CHANGES = Hunt("by changes", ("write", "write"), reads="changes")
BY_CLEANING = Hunt("by cleaning", ("compact_and_clean", "write"), shows=pytest.fail.Exception)
BY_FALSE_ALARM = Hunt("by false alarm", ("replace_and_write_on", "compact_and_clean", "write"), shows=SnapshotExpired)
HUNTS = (
    *(AMONG_LOGS, BY_ORDER, BY_LATE_LOGS, BY_LOG_COMPACTION, BY_REPLACEMENT, BY_FILTER, BY_CHANGES),
    *(BY_CLEANING, BY_FALSE_ALARM),
)

MUTANTS: dict[str, tuple[Plant, Hunt]] = {}


def mutant(hunt: Hunt) -> Callable[[Plant], Plant]:
    """Plants a wrong rule, which histories of that kind show."""

    def remember(plant: Plant) -> Plant:
        MUTANTS[plant.__name__] = plant, hunt
        return plant

    return remember


# --- which version wins ----------------------------------------------------------------------------------------------


@mutant(AMONG_LOGS)
def ties_among_logs_go_to_the_earlier(patch: pytest.MonkeyPatch) -> None:
    def wrong(codes: Any, order: Any, unconditional: Any, count: int) -> Any:
        back = np.arange(len(codes))[::-1]
        best = winners(codes[back], order.take(back), unconditional[back], count)
        return np.where(best < 0, -1, len(codes) - 1 - best)

    patch.setattr(merge, "winners", wrong)


@mutant(BY_LATE_LOGS)
def a_late_log_comes_after_the_base_row_whenever_it_began(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SliceTask, "has_late_log", property(lambda self: False))


@mutant(BY_LATE_LOGS)
def a_tie_with_the_base_row_goes_to_the_base(patch: pytest.MonkeyPatch) -> None:
    real = versions.request_times
    patch.setattr(versions, "request_times", lambda batch, rows: real(batch, rows) + 10**17)
    patch.setattr(SliceTask, "has_late_log", property(lambda self: self.base_name is not None))


@mutant(AMONG_LOGS)
def the_ordering_value_of_a_delete_is_ignored(patch: pytest.MonkeyPatch) -> None:
    def wrong(content: Any, where: str) -> Any:
        found = parse_delete_block(content, where)
        return replace(found, ordering=None, unconditional=pa.array([True] * len(found.record_keys), pa.bool_()))

    patch.setattr(log_blocks, "parse_delete_block", wrong)


@mutant(AMONG_LOGS)
def a_delete_without_ordering_value_has_the_value_zero(patch: pytest.MonkeyPatch) -> None:
    def wrong(content: Any, where: str) -> Any:
        found = parse_delete_block(content, where)
        return replace(found, unconditional=pa.array([False] * len(found.record_keys), pa.bool_()))

    patch.setattr(log_blocks, "parse_delete_block", wrong)


@mutant(AMONG_LOGS)
def a_row_that_says_it_is_deleted_is_shown(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(versions, "marked_deleted", lambda rows, rules: np.zeros(rows.num_rows, np.bool_))


@mutant(BY_ORDER)
def only_the_first_ordering_field_counts(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(versions, "order_keys", lambda columns, length: order_keys(columns[:1], length))


@mutant(AMONG_LOGS)
def a_column_that_a_partial_update_leaves_out_is_null(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(versions, "_present", lambda *args: None)


@mutant(BY_LATE_LOGS)
def logs_are_merged_in_the_order_of_their_completion(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(slicing, "merge_order", lambda logs: tuple(sorted(logs, key=lambda f: f.completion_time)))
    patch.setattr(log_order, "_place", lambda time, compacted: "0")


@mutant(AMONG_LOGS)
def log_files_of_one_instant_are_merged_by_token_before_version(patch: pytest.MonkeyPatch) -> None:
    wrong = property(lambda self: (self.request_time, self.write_token or "", self.version))
    patch.setattr(LogFileName, "sort_key", wrong)


# --- log compaction --------------------------------------------------------------------------------------------------


@mutant(BY_LOG_COMPACTION)
def a_compacted_block_stands_at_its_own_time(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(log_order, "_place", lambda time, compacted: time)


@mutant(BY_LOG_COMPACTION)
def the_blocks_that_a_log_compaction_replaced_count_too(patch: pytest.MonkeyPatch) -> None:
    def wrong(blocks: Any) -> Any:
        return log_order.place_blocks([replace(b, compacted_times=()) for b in blocks])

    patch.setattr(log_blocks, "place_blocks", wrong)


# --- slicing and visibility ------------------------------------------------------------------------------------------


@mutant(AMONG_LOGS)
def a_pending_first_writer_hides_what_came_after_it(patch: pytest.MonkeyPatch) -> None:
    real = Timeline.completion_of

    def wrong(self: Timeline, request_time: str) -> str | None:
        waiting = any(i.request_time < request_time and i.action == "deltacommit" for i in self.pending)
        return None if waiting else real(self, request_time)

    patch.setattr(Timeline, "completion_of", wrong)


@mutant(BY_LATE_LOGS)
def logs_are_sliced_by_their_start(patch: pytest.MonkeyPatch) -> None:
    real = slicing.build_group

    def wrong(group: Any, bases: Any, logs: Any, planned: Any = ()) -> Any:
        return real(group, bases, [replace(f, completion_time=f.request_time) for f in logs], planned)

    patch.setattr(slicing, "build_group", wrong)


@mutant(BY_LATE_LOGS)
def a_planned_compaction_hides_the_slice_before_it(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(slicing.FileGroup, "latest", lambda self: self.slices[-1] if self.slices else None)


@mutant(AMONG_LOGS)
def an_archived_write_counts_as_pending(patch: pytest.MonkeyPatch) -> None:
    real = Timeline.completion_of

    def wrong(self: Timeline, request_time: str) -> str | None:
        return None if request_time < (self.first_active_write or "") else real(self, request_time)

    patch.setattr(Timeline, "completion_of", wrong)


@mutant(BY_LATE_LOGS)
def the_completion_of_an_archived_write_is_its_start(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(loading, "load_history", lambda *args, **options: [])


@mutant(BY_REPLACEMENT)
def a_replaced_group_stays_visible(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(view, "load_replaced", lambda *args: {})


@mutant(BY_REPLACEMENT)
def a_replaced_group_is_gone_for_ever(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(slicing, "outlives", lambda request_time, replacement: False)


@mutant(BY_REPLACEMENT)
def any_of_two_base_files_of_one_instant_will_do(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(view, "_named", lambda table, twins, timeline: max(twins, key=lambda f: f.name))


@mutant(BY_LATE_LOGS)
def as_of_goes_by_the_start(patch: pytest.MonkeyPatch) -> None:
    def wrong(self: Timeline, request_time: str) -> str | None:
        instant = self.write(request_time)
        done = instant.completion_time if instant is not None and instant.is_completed else None
        return done if done is not None and (self.until is None or request_time <= self.until) else None

    patch.setattr(Timeline, "completion_of", wrong)


@mutant(AMONG_LOGS)
def as_of_leaves_out_what_completed_at_that_very_time(patch: pytest.MonkeyPatch) -> None:
    def wrong(self: Timeline, time: str) -> str | None:
        return time if self.until is None or time < self.until else None

    patch.setattr(Timeline, "_within", wrong)


# --- cleaned, filtered, changed --------------------------------------------------------------------------------------


@mutant(BY_CLEANING)
def nobody_asks_whether_files_were_cleaned_away(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(view, "check_retained", lambda *args: None)


@mutant(BY_CLEANING)
def a_clean_that_is_not_finished_has_removed_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(expiry, "parse_clean_plan", lambda data, where: replace(parse_clean_plan(data, where), files={}))


@mutant(BY_FALSE_ALARM)
def what_an_archived_replacement_took_away_is_missed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(expiry, "_archived_replaced", lambda *args: {})


@mutant(BY_FILTER)
def a_filter_on_any_column_skips_row_groups_below_logs(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(read, "_about_keys", lambda plan: plan.where)


@mutant(BY_CHANGES)
def an_unchanged_row_is_reported_as_changed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(diff, "differing", lambda old, new: np.ones(old.num_rows, np.bool_))


@mutant(AMONG_LOGS)
def the_last_version_of_partial_updates_wins(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(columns, "_places", lambda order: np.arange(order.length))


# --- reading beside others: caught by the races ----------------------------------------------------------------------


def nobody_looks_whether_something_was_removed_meanwhile(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(loading, "_removals", lambda timeline: set())


def the_first_listing_of_the_timeline_is_believed_alone(patch: pytest.MonkeyPatch) -> None:
    real = loading._timeline_files
    seen: dict[int, Any] = {}

    def wrong(table: TableAt) -> Any:
        seen.setdefault(id(table.storage), (table.storage, real(table)))
        return seen[id(table.storage)][1]

    patch.setattr(loading, "_timeline_files", wrong)


def files_are_listed_before_the_timeline(patch: pytest.MonkeyPatch) -> None:
    def wrong(table: TableAt) -> Any:
        while True:
            files, partitions = loading._list_files(table.storage)
            before, after = (loading._timeline_files(table) for _ in range(2))
            timeline = loading._settled(table, before, after, files)
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

EXAMPLES = times(25, least=25)
"""With fewer some planted bugs would not be met."""


def run(hunt: Hunt, first: int = 1) -> None:
    """Reads the same histories each time, until an answer is not the model's."""
    some = histories(
        steps_max=3,
        partial=hunt.settings is None,
        settings=hunt.settings,
        services=hunt.services,
        stories=hunt.stories,
    )

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
        report_multiple_bugs=False,
    )
    @seed(first)
    @given(some, st.data())
    def look(history: History, data: st.DataObject) -> None:
        now = max(end_of(history) - data.draw(st.sampled_from([0, 0, 1, 2, 3])), 2)
        table = open_table(build_table(history, now=now, archived=data.draw(st.sampled_from([0, 1, 3, 99]))))
        if hunt.reads == "snapshots":
            check_snapshots(table, history, now)
        elif hunt.reads == "filters":
            check_filters(table, history, now, filters_of(history))
        else:
            times = moments(history, now)
            for after, until in zip(times, times[1:], strict=False):
                check_changes(table, history, after, until, now)

    look()


@pytest.mark.parametrize("hunt", HUNTS, ids=lambda hunt: hunt.name)
def test_the_model_is_content_with_the_reader_as_it_is(hunt: Hunt) -> None:
    run(hunt, first_seed(1))


@pytest.mark.parametrize("name", MUTANTS)
def test_the_model_notices(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, hunt = MUTANTS[name]
    plant(monkeypatch)
    with pytest.raises(hunt.shows):
        run(hunt)
