# SPDX-License-Identifier: Apache-2.0
"""Archivers that are killed, paused, doubled or not answered, at every single call; readers between any two of them."""

from __future__ import annotations

import contextlib
from functools import cache
from typing import Any

import pytest

from lakebraid import limits
from lakebraid.clock import Clock, SystemClock
from lakebraid.errors import OutcomeUnknown, StorageError
from lakebraid.storage import Storage
from lakebraid.table.at import TableAt
from lakebraid.table.loading import load_timeline
from tests.kit.effort import every
from tests.kit.races.faults import Killed, killing, losing
from tests.kit.races.racing import RacingStorage, Step, copied
from tests.kit.tables.archiving import HISTORY, KEEP, Past, archive, changes_of, check_history_is_tidy, check_past, past
from tests.kit.tables.scene import Call, TickingClock, WatchedStorage, answer, once, row, table_on

pytestmark = [pytest.mark.unit, pytest.mark.slow]


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three batches, and layers of three files, so that a run has everything in it."""
    small(monkeypatch)


def small(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(limits, "ARCHIVE_BATCH_INSTANTS", 4)
    patch.setattr(limits, "HISTORY_MERGE_FILES", 3)


@cache
def calls_of_an_archiving(*, shared: bool = False) -> tuple[Call, ...]:
    with pytest.MonkeyPatch.context() as patch:
        small(patch)
        made = past(shared=shared)
        storage = made.storage()
        watched = WatchedStorage(storage)
        done = archive(watched, storage.clock)
        assert done.instants == 10
        check_past(storage, storage.clock, made)
        check_history_is_tidy(storage)
        assert any("_1.parquet" in info.name for info in storage.list(HISTORY)), "nothing was merged"
        return tuple(watched.calls)


ALL_NUMBERS = range(129)
"""Call numbers of an archiving; more than it makes."""
NUMBERS = ALL_NUMBERS[:: every(3)]
"""Those that are tried."""


@pytest.mark.parametrize("shared", [False, True])
def test_the_numbers_reach_beyond_the_last_call_of_an_archiving(shared: bool) -> None:
    count = len(calls_of_an_archiving(shared=shared))
    assert 50 < count <= (2 * len(ALL_NUMBERS) if shared else len(ALL_NUMBERS))


def _goes_on(storage: Storage, clock: Clock, made: Past) -> None:
    """Whatever happened: nothing has changed for readers, writers go on, and the next archivers finish the work."""
    table = check_past(storage, clock, made, every=8)
    for n in range(2):
        table.upsert([row("later", str(n), n)])
        archive(storage, clock)
    table = check_past(storage, clock, made)
    assert len(table.timeline()) <= 3, "not all was archived that could be"
    check_history_is_tidy(storage)


EFFECTS = [(number, "done" if number % 2 else "not done") for number in NUMBERS]
"""What is done at one call is not done at the next: a call that is done and one that never comes are the same to it."""


@pytest.mark.parametrize(("number", "effect"), EFFECTS)
def test_an_archiver_killed_at_any_call_changes_no_answer_and_the_next_one_goes_on(number: int, effect: str) -> None:
    made = past()
    storage = made.storage()
    hooks, dead = killing(number, effect)
    with contextlib.suppress(Killed):
        archive(WatchedStorage(storage, **hooks), storage.clock)
    if dead:
        _goes_on(storage, storage.clock, made)


@pytest.mark.parametrize("number", range(0, 2 * len(ALL_NUMBERS), every(5)))
def test_an_archiver_killed_beside_hudi_leaves_the_lock_to_the_next_one(number: int) -> None:
    made = past(shared=True)
    storage = made.storage()
    hooks, dead = killing(number, "not done")
    with contextlib.suppress(Killed):
        archive(WatchedStorage(storage, **hooks), storage.clock)
    if dead:
        storage.delete([".hoodie/lock"])  # it never expires; a person removes it
        _goes_on(storage, storage.clock, made)


@pytest.mark.parametrize(("number", "effect"), EFFECTS)
def test_a_call_that_is_not_answered_is_looked_after_or_told(number: int, effect: str) -> None:
    made = past()
    storage = made.storage()
    with contextlib.suppress(OutcomeUnknown, StorageError):
        archive(WatchedStorage(storage, **losing(number, effect)), storage.clock)
    _goes_on(storage, storage.clock, made)


def _others_archive(storage: Storage, clock: Clock) -> None:
    """So much that manifests and files which the sleeper knows are gone."""
    table = table_on(storage, clock)
    table.archive(**KEEP)
    for n in range(5):
        table.upsert([row("later", str(n), n)])
        table.archive(keep_min=2, keep_max=2)


@pytest.mark.parametrize("number", NUMBERS)
def test_an_archiver_that_sleeps_at_any_call_wakes_up_to_the_work_of_others_and_spoils_nothing(number: int) -> None:
    made = past()
    storage = made.storage()
    work = once(lambda call: call.number == number, lambda: _others_archive(storage, storage.clock))
    archive(WatchedStorage(storage, before=work), storage.clock)
    _goes_on(storage, storage.clock, made)


@pytest.mark.parametrize("number", NUMBERS)
def test_a_request_of_a_dead_archiver_that_takes_effect_much_later_spoils_nothing(number: int) -> None:
    made = past()
    storage = made.storage()
    hooks, _ = killing(number, "not done")
    late: list[Call] = []
    kill = hooks["before"]

    def remember(call: Call) -> None:
        if call.number == number:
            late.extend(changes_of([call]))
        kill(call)

    with contextlib.suppress(Killed):
        archive(WatchedStorage(storage, before=remember), storage.clock)
    if not late:
        return
    _others_archive(storage, storage.clock)
    with contextlib.suppress(StorageError):
        getattr(storage, late[0].name)(*late[0].args)
    _goes_on(storage, storage.clock, made)


@pytest.mark.parametrize("number", range(36))
def test_a_writer_that_sleeps_while_its_commit_is_archived_brings_nothing_back(number: int) -> None:
    """Its copy to the timeline comes when the instant has left for the history: it must find no source any more."""
    made = past()
    storage = made.storage()

    def others() -> None:
        table = table_on(storage, storage.clock)
        for n in range(3):
            table.upsert([row("others", str(n), n)])
        table.archive(keep_min=1, keep_max=1)

    watched = WatchedStorage(storage, before=once(lambda call: call.number == number, others))
    result = table_on(watched, storage.clock).upsert([row("own", "1")])
    table = check_past(storage, storage.clock, made)
    assert table.status(result.instant) == "published" and answer(table)["own"] == "1"
    archived = table._writing.ledger(table._config).newest().state.archived
    assert all(i.instant.request_time > archived for i in table.timeline()), "an archived instant is back"


def _steps() -> list[Step]:
    """What an archiving does to timeline and history, change by change."""
    changes = [
        c for c in changes_of(list(calls_of_an_archiving())) if ".hoodie/timeline/" in c.target and c.name != "copy"
    ]
    return [lambda storage, call=call: getattr(storage, call.name)(*call.args) for call in changes]  # type: ignore[misc]


def _reading(made: Past, moment: str | None) -> Any:
    clock = TickingClock(made.now_ms + 10_000)
    return lambda storage: answer(table_on(storage, clock), moment)


@pytest.mark.parametrize("moment", [None, 1, 4])
def test_f10_a_reader_that_starts_while_instants_are_archived_gives_the_same_rows(moment: int | None) -> None:
    made = past()
    time = None if moment is None else sorted(made.answers)[moment]
    steps, read, storage = _steps(), _reading(made, time), made.storage()
    for done in range(1, len(steps) + 1):
        for at in range(100):
            racing = RacingStorage(copied(storage), at, steps[:done])
            assert read(racing) == made.answers[time or max(made.answers)], f"{done} changes before call {at}"
            if racing.calls <= at:
                break


def test_f4_a_compaction_planned_while_instants_are_archived_misses_no_log() -> None:
    """A log whose instant is archived between the planner's looks at the timeline and at the history is not dropped."""
    made = past()
    steps, last = _steps(), made.answers[max(made.answers)]
    for done in range(1, len(steps) + 1, 3):
        for at in range(0, 60, 2):
            storage = made.storage()
            clock = TickingClock(made.now_ms + 100_000)
            racing: Any = RacingStorage(storage, at, steps[:done])
            compacted = table_on(racing, clock).compact()
            if racing.calls <= at:
                break
            assert [c.rows for c in compacted] == [4], f"{done} changes before call {at}"
            assert answer(table_on(storage, clock)) == last


@pytest.mark.parametrize("number", ALL_NUMBERS[:: every(7)])
def test_two_archivers_at_once_move_each_instant_once(number: int) -> None:
    made = past()
    storage = made.storage()
    moved = []
    other = once(lambda call: call.number == number, lambda: moved.append(archive(storage, storage.clock)))
    moved.append(archive(WatchedStorage(storage, before=other), storage.clock))
    check_past(storage, storage.clock, made)
    check_history_is_tidy(storage)
    assert sum(done.instants for done in moved) >= 10


@pytest.mark.parametrize("number", range(50))
def test_an_archiver_never_takes_away_what_another_one_has_just_put_into_the_history(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "ARCHIVE_BATCH_INSTANTS", 1000)  # one manifest each, of the same number
    made = past()
    storage = made.storage()
    more = once(lambda call: call.number == number, lambda: archive(storage, storage.clock, keep_min=1, keep_max=1))
    archive(WatchedStorage(storage, before=more), storage.clock)
    check_past(storage, storage.clock, made, every=8)


def test_a_completed_write_never_looks_pending_while_it_is_archived() -> None:
    """Hudi would roll it back."""
    made = past()
    storage = made.storage()
    config = table_on(storage, storage.clock)._config
    for step in _steps():
        step(storage)
        assert not load_timeline(TableAt(storage, config, SystemClock())).pending


def test_a_dry_run_says_the_same_and_changes_nothing() -> None:
    made = past()
    storage = made.storage()
    watched = WatchedStorage(storage)
    planned = table_on(watched, storage.clock).archive(**KEEP, dry_run=True)
    assert not changes_of(watched.calls)
    assert planned == archive(storage, storage.clock)
