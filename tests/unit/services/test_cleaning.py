# SPDX-License-Identifier: Apache-2.0
"""Cleaning real tables: what stays readable, what is told of the rest, and what happens if somebody dies on the way."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import lakebraid as lb
from lakebraid import limits
from lakebraid.format.timeline.services import (
    CleanMetadata,
    format_clean_metadata,
    parse_clean_metadata,
    parse_clean_plan,
)
from lakebraid.model.writable import FILE_LOCK
from lakebraid.services import cleaning, retention
from lakebraid.services.retention import Retention
from tests.kit.effort import times
from tests.kit.models.oracle import AT, History, Oracle
from tests.kit.tables.builder import build_table, open_table
from tests.kit.tables.built_files import t
from tests.kit.tables.cleaning import TIMELINE, _is_data, ledger_of, objects, versions
from tests.kit.tables.compacting import CountingClock
from tests.kit.tables.histories import histories
from tests.kit.tables.scene import Call, TickingClock, answer, files, row, table_on
from tests.unit.reading.test_oracle import found_rows, model_rows

pytestmark = pytest.mark.unit


# --- answers ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@settings(
    max_examples=times(12),
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.generate, Phase.shrink],
)
@given(
    histories(steps_max=12, services=("compact", "log_compact", "replace")),
    st.sampled_from([{"commits": 1}, {"commits": 3}, {"versions": 1}, {"versions": 2}, {"hours": 1e-9}]),
    st.integers(0, 6),
)
def test_a_clean_changes_no_answer_from_its_horizon_on_and_is_named_before_it(
    history: History, policy: dict[str, Any], archived: int
) -> None:
    storage = build_table(history, archived=archived)
    before = table_on(storage, CountingClock())
    last = max(i.completion or i.request_time for i in history.instants)
    newest = found_rows(before.to_arrow())
    done = before.clean(**policy)
    table = open_table(storage)
    assert found_rows(table.to_arrow()) == newest
    assert not {*done.files} & {info.name for info in storage.list()}
    oracle = Oracle(history)
    for moment in range(1, last + 1):
        try:
            rows = found_rows(table.to_arrow(as_of=t(moment)))
        except lb.SnapshotExpired as expired:
            told = expired.facts
            assert told["removed_by"] in done.instants, f"{history}\n{moment}"
            assert t(moment) < told["oldest_readable"] <= (done.readable_since or ""), f"{history}\n{moment}"
            table.snapshot(as_of=told["oldest_readable"])
        else:
            model = ({k: v for k, v in r.items() if k != AT} for r in oracle.rows(moment).values())
            assert rows == model_rows(model, history.settings), f"{history}\nas of {moment}"


def test_every_version_from_the_retained_one_on_stays_and_the_error_names_the_oldest() -> None:
    scene = versions()
    moments = scene.completions()
    done = scene.table.clean(commits=3)
    assert done.readable_since == moments[-3] and len(done.instants) == 1
    for moment in moments[-3:]:
        assert answer(scene.table, moment) == {k: r["v"] for k, r in scene.model(moment).items()}
    with pytest.raises(lb.SnapshotExpired, match=done.instants[0]) as error:
        scene.table.to_arrow(as_of=moments[1])
    assert error.value.facts["oldest_readable"] in error.value.message
    answer(scene.table, error.value.facts["oldest_readable"])


def test_a_clean_tells_hudi_in_its_own_words_what_it_did() -> None:
    scene = versions()
    before = {*files(scene.storage)}
    done = scene.table.clean(commits=2)
    request_time = done.instants[0]
    names = [i.name.rpartition("/")[2] for i in scene.storage.list(TIMELINE) if f"/{request_time}" in i.name]
    assert names[:2] == [f"{request_time}.clean.inflight", f"{request_time}.clean.requested"] and names[2].endswith(
        ".clean"
    )
    plan = parse_clean_plan(scene.storage.read(f"{TIMELINE}/{request_time}.clean.requested", 10**6), request_time)
    metadata = parse_clean_metadata(scene.storage.read(f"{TIMELINE}/{names[2]}", 10**6), request_time)
    assert {*plan.files[""]} == {*done.files} == before - {*files(scene.storage)} == {*metadata.deleted_files[""]}
    assert plan.policy == "KEEP_LATEST_COMMITS" and plan.earliest_to_retain is not None
    assert metadata.earliest_commit_to_retain == plan.earliest_to_retain.request_time
    request_times = sorted(i[0] for i in scene.instants() if i[1] in ("commit", "deltacommit"))
    assert metadata.earliest_commit_to_retain == request_times[-2] and metadata.last_completed == request_times[-1]


def test_what_an_earlier_clean_left_to_hudi_never_grows_again() -> None:
    scene = versions()
    first = scene.table.clean(commits=1)
    scene.write(row("c", "more"))
    scene.compact()
    second = scene.table.clean(versions=1)
    told = [
        parse_clean_plan(scene.storage.read(f"{TIMELINE}/{s}.clean.requested", 10**6), s).earliest_to_retain
        for s in (*first.instants, *second.instants)
    ]
    assert len(told) == 2 and told[0] is not None and told[1] is not None
    assert told[0].request_time <= told[1].request_time


def test_a_dry_run_tells_what_would_go_and_changes_nothing() -> None:
    scene = versions()
    before = objects(scene.storage)
    told = scene.table.clean(commits=1, dry_run=True)
    assert objects(scene.storage) == before
    assert told.is_dry_run and told.instants == ()
    assert scene.table.clean(commits=1).files == told.files


def test_there_is_nothing_to_clean_in_a_young_table() -> None:
    scene = versions(2)
    before = objects(scene.storage)
    assert scene.table.clean() == cleaning.CleanResult()
    assert objects(scene.storage) == before
    assert scene.table.plan_clean() is None


def test_the_settings_of_the_table_count_unless_arguments_do() -> None:
    scene = versions(
        properties={"hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS", "hoodie.clean.fileversions.retained": 2}
    )
    assert len([n for n in scene.table.clean(dry_run=True).files if n.endswith(".parquet")]) == 3
    assert len([n for n in scene.table.clean(versions=1).files if n.endswith(".parquet")]) == 4


def test_hours_are_counted_by_the_clock_of_the_storage() -> None:
    scene = versions(2)
    scene.clock.sleep(7200)
    scene.write(row("a", "late", ts=9))
    scene.compact()
    behind = scene.other(TickingClock(scene.clock.ms - 24 * 3_600_000))
    done = behind.clean(hours=1)
    assert done.files and done.readable_since == scene.completions()[-2]
    ahead = scene.other(TickingClock(scene.clock.ms + 24 * 3_600_000))
    assert ahead.clean(hours=3, dry_run=True).files == ()


def test_a_table_with_a_metadata_table_is_left_alone() -> None:
    scene = versions()
    name = ".hoodie/hoodie.properties"
    text = scene.storage.read(name, 10**6) + b"hoodie.table.metadata.partitions=files\n"
    scene.storage.replace(name, text)
    before = objects(scene.storage)
    with pytest.raises(lb.UnsupportedTable, match="metadata table"):
        scene.table.clean(commits=1)
    assert objects(scene.storage) == before


# --- plans and unfinished cleans -------------------------------------------------------------------------------------


def test_a_planned_clean_is_executed_by_whoever_cleans_next() -> None:
    scene = versions()
    plan = scene.table.plan_clean(commits=1)
    assert plan is not None and plan.kind == "clean" and "files" in plan.what
    before = {*files(scene.storage)}
    done = scene.other().clean(commits=1)
    assert done.finished == (plan.instant,) and done.files == ()
    assert len(before - {*files(scene.storage)}) == 8
    assert ledger_of(scene.table).newest().state.cleans == {}
    assert {action for _, action, completion in scene.instants() if completion is None} == set()


def test_a_planned_clean_is_run_once_and_its_result_is_told_again() -> None:
    scene = versions()
    would = scene.table.plan_clean(commits=1, dry_run=True)
    plan = scene.table.plan_clean(commits=1)
    assert plan is not None and would is not None and would.what == plan.what and would.instant is None
    done = scene.other().run(plan)
    assert len(done.files) == 8 and not {*done.files} & {*files(scene.storage)}
    assert scene.table.run(str(plan.instant)) == done
    assert scene.table.plan_clean(commits=1, dry_run=True) is None


def test_a_clean_that_was_decided_is_read_around_before_a_file_is_gone() -> None:
    scene = versions()
    moments = scene.completions()
    assert answer(scene.table, moments[0])
    scene.table.plan_clean(commits=1)
    assert answer(scene.table, moments[0]), "its files are still there"
    scene.storage.delete([files(scene.storage)[0]])
    with pytest.raises(lb.SnapshotExpired, match="unfinished"):
        answer(scene.table, moments[0])


def test_hudi_may_finish_our_clean_and_we_do_not_finish_it_twice() -> None:
    scene = versions()
    plan = scene.table.plan_clean(commits=1)
    assert plan is not None
    hudis = f"{TIMELINE}/{plan.instant}_{int(scene.instants()[-1][0]) + 500}.clean"
    scene.storage.create(hudis, format_clean_metadata(CleanMetadata(str(plan.instant), "")))
    scene.table.clean(commits=1)
    done = [i.name for i in scene.storage.list(TIMELINE) if i.name.endswith(".clean") and str(plan.instant) in i.name]
    assert done == [hudis]
    assert ledger_of(scene.table).newest().state.cleans == {}


def test_more_than_one_clean_holds_is_taken_by_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = versions()
    monkeypatch.setattr(limits, "CLEAN_FILES_MAX", 3)
    done = scene.table.clean(commits=1)
    assert len(done.instants) == 3 and len(done.files) == 8
    assert len(files(scene.storage)) == 1


def test_beside_hudi_writers_a_clean_is_decided_under_their_lock_and_deletes_without_it() -> None:
    scene = versions(3, properties={"hoodie.write.lock.provider": FILE_LOCK})
    moment = scene.completions()[1]
    held: list[bool] = []

    def look(call: Call) -> None:
        if call.is_entry() or (call.name == "delete" and _is_data(call)):
            held.append(any(info.name == ".hoodie/lock" for info in scene.storage.list(".hoodie")))

    with scene.table.snapshot(as_of=moment) as snapshot:
        done = scene.other(before=look).clean(commits=1)
        assert done.files and held == [True, False, True]
        assert snapshot.to_arrow()["v"].to_pylist() == ["v0", "v0"]
    assert scene.table.clean(commits=1).files
    assert answer(scene.table) == {"a": "v2", "b": "v2"}


def test_nothing_is_cleaned_while_a_restore_is_unfinished() -> None:
    scene = versions()
    request_time = "20990101000000000"
    scene.storage.create(f"{TIMELINE}/{request_time}.restore.requested", b"")
    done = scene.table.clean(commits=1, dry_run=True)
    assert done.files == () and "restore" in done.held_back[0]


# --- planted bugs ----------------------------------------------------------------------------------------------------


def test_a_rule_that_forgets_who_holds_on_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = versions()
    moment = scene.completions()[1]
    choose = retention.choose_files
    monkeypatch.setattr(cleaning, "choose_files", lambda *a, **k: choose(*a, **(k | {"holds": ()})))
    with scene.table.snapshot(as_of=moment) as held:
        scene.table.clean(commits=1)
        with pytest.raises(lb.SnapshotExpired):
            held.to_arrow()


def test_the_result_prints_who_holds_what() -> None:
    scene = versions()
    scene.table.consumer("nightly", after=scene.completions()[2])
    text = str(cleaning.clean(ledger_of(scene.table), Retention(amount=1), dry_run=True))
    assert "would remove" in text and "'nightly'" in text and "everything since" in text
