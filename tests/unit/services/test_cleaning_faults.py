# SPDX-License-Identifier: Apache-2.0
"""Cleans that are killed, not answered, or meet other cleaners and readers."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import pytest

import lakebraid as lb
from lakebraid.storage.memory import MemoryStorage
from tests.kit.races.faults import Killed, killing, losing
from tests.kit.races.racing import at_every_call, copied
from tests.kit.tables.cleaning import TIMELINE, _is_data, ledger_of, objects, versions
from tests.kit.tables.scene import Call, TickingClock, WatchedStorage, answer, files, once, row, table_on

pytestmark = pytest.mark.unit


def at_call(number: int) -> Callable[[Call], bool]:
    return lambda call: call.number == number


@cache
def cleanable() -> tuple[tuple[str, bytes], ...]:
    scene = versions(3)
    return tuple(objects(scene.storage).items())


def restored() -> MemoryStorage:
    storage = MemoryStorage("memory://cleaned", TickingClock(1_767_225_700_000))
    for name, data in cleanable():
        storage.create(name, data)
    return storage


@cache
def calls_of_a_clean() -> int:
    storage = restored()
    watched = WatchedStorage(storage)
    assert table_on(watched, storage.clock).clean(commits=1).files
    return len(watched.calls)


def check_aftermath(storage: MemoryStorage) -> None:
    """The answer is as before, the past is right or named as gone, and the next clean ends what is left."""
    table = table_on(storage, storage.clock)
    assert answer(table) == {"a": "v2", "b": "v2"}
    moments = [e.instant.completion_time for e in table.timeline() if e.instant.is_write]
    for n, moment in enumerate(moments[1:]):
        try:
            assert answer(table, moment) == {"a": f"v{n // 2}", "b": f"v{n // 2}"}
        except lb.SnapshotExpired:
            assert n < len(moments) - 2
    table.upsert([row("c", "another")])
    table.clean(versions=1)
    table.compact()
    table.clean(versions=1)
    assert answer(table) == {"a": "v2", "b": "v2", "c": "another"}
    assert len(files(storage)) == 1, "something was left behind"
    assert ledger_of(table).newest().state.cleans == {}
    assert not storage.list(".hoodie/.lakebraid/leases") and not storage.list(".hoodie/.lakebraid/clock")
    completed = [i.name.rpartition("/")[2] for i in storage.list(TIMELINE) if i.name.endswith(".clean")]
    assert len({name[:17] for name in completed}) == len(completed), "a clean ended twice"


@pytest.mark.slow
@pytest.mark.parametrize("effect", ["done", "not done"])
def test_a_clean_that_is_killed_at_any_call_leaves_a_whole_table(effect: str) -> None:
    kills = 0
    for number in range(calls_of_a_clean()):
        storage = restored()
        hooks, dead = killing(number, effect)
        with contextlib.suppress(Killed):
            table_on(WatchedStorage(storage, **hooks), storage.clock).clean(commits=1)
        kills += bool(dead)
        check_aftermath(storage)
    assert kills >= calls_of_a_clean() - 1, "the copy of an entry that is true already fails by itself"


@pytest.mark.slow
@pytest.mark.parametrize("effect", ["done", "not done"])
def test_a_lost_answer_at_any_call_of_a_clean_does_no_harm(effect: str) -> None:
    for number in range(calls_of_a_clean()):
        storage = restored()
        with contextlib.suppress(lb.LakebraidError):
            table_on(WatchedStorage(storage, **losing(number, effect)), storage.clock).clean(commits=1)
        check_aftermath(storage)


@pytest.mark.slow
def test_a_second_cleaner_that_runs_between_any_two_calls_of_the_first_does_no_harm() -> None:
    for number in range(calls_of_a_clean()):
        storage = restored()
        other = table_on(storage, storage.clock)
        hook = once(at_call(number), partial(other.clean, commits=1))
        table_on(WatchedStorage(storage, before=hook), storage.clock).clean(commits=1)
        check_aftermath(storage)


@pytest.mark.slow
def test_a_cleaner_that_sleeps_before_its_deletes_removes_only_what_was_decided() -> None:
    """It wakes up after others wrote, compacted and cleaned on; what it deletes then is dead for ever."""
    scene = versions(3)

    def meanwhile() -> None:
        scene.write(row("a", "during", ts=50))
        scene.compact()
        scene.table.clean(commits=1)
        scene.write(row("b", "after", ts=51))

    hook = once(lambda call: call.name == "delete" and _is_data(call), meanwhile)
    scene.other(before=hook).clean(commits=1)
    assert hook.done
    assert answer(scene.table) == {"a": "during", "b": "after"}
    for moment in scene.completions()[-2:]:
        assert answer(scene.table, moment) == {k: r["v"] for k, r in scene.model(moment).items()}


@pytest.mark.slow
def test_a_reader_beside_a_clean_never_gets_a_short_answer() -> None:
    storage = restored()
    moments = [e.instant.completion_time for e in table_on(storage, storage.clock).timeline() if e.instant.is_write]

    def read(racing: Any) -> Any:
        table = table_on(racing, TickingClock(1_767_225_800_000))
        past = []
        for moment in moments[1:]:
            try:
                past.append(answer(table, moment))
            except lb.SnapshotExpired:
                past.append({})
        return answer(table), past

    def step(given: Any) -> None:
        table_on(given, TickingClock(1_767_225_750_000)).clean(commits=1)

    right = [{"a": f"v{n // 2}", "b": f"v{n // 2}"} for n in range(len(moments) - 1)]
    for when, (now, past) in at_every_call(lambda: copied(storage), [step], read):
        assert now == {"a": "v2", "b": "v2"}, when
        assert all(found in ({}, wanted) for found, wanted in zip(past, right, strict=True)), when
