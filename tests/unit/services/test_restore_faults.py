# SPDX-License-Identifier: Apache-2.0
"""A restore to which something happens at any of its calls, and readers who look at any moment of it.

Readers see the table before, and then the table after: never anything between, whoever dies and whoever resumes.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, partial
from typing import Any

import pytest

from lakebraid.api.table import Table
from lakebraid.errors import CommitRefused, LakebraidError, SnapshotExpired, StorageError
from lakebraid.model.writable import FILE_LOCK
from lakebraid.services.merging.compaction import plan_compaction
from lakebraid.services.settings import open_table
from lakebraid.storage import Storage
from lakebraid.storage.memory import MemoryStorage
from tests.kit.races.faults import Killed, killing, losing, not_owned
from tests.kit.races.racing import RacingStorage
from tests.kit.tables.scene import CHANGES, Call, TickingClock, WatchedStorage, answer, make_table, row, table_on

pytestmark = pytest.mark.unit

AFTER = {"a": "1", "b": "1"}
BEFORE = {"a": "3", "c": "2", "e": "5"}


@cache
def prepared(*, shared: bool) -> tuple[tuple[tuple[str, bytes], ...], str, str]:
    """The objects of a table with everything that a restore meets, the savepoint to go back to, and an open write."""
    storage = MemoryStorage("memory://restoring", TickingClock())
    properties = {"hoodie.write.lock.provider": FILE_LOCK} if shared else {}
    table = make_table(storage, storage.clock, properties=properties)
    table.upsert([row("a", "1"), row("b", "1")])
    table.compact()
    kept = table.savepoint()
    table.upsert([row("a", "2", 2), row("c", "2", 2)])
    table.compact()
    table.delete([{"id": "b"}])
    table.upsert([row("a", "3", 3), row("e", "5", 3)])
    assert plan_compaction(open_table(table._writing).ledger) is not None
    begun = table.begin()
    begun.write([row("z", "never")])
    begun._heartbeat.stop()
    assert answer(table) == BEFORE
    objects = tuple((info.name, storage.read(info.name, info.size)) for info in storage.list())
    return objects, kept.instant, begun.instant


def fresh(*, shared: bool = False) -> MemoryStorage:
    storage = MemoryStorage("memory://restoring", TickingClock(1_767_225_700_000))
    for name, data in prepared(shared=shared)[0]:
        storage.create(name, data)
    return storage


def restore(storage: Any, clock: Any, *, shared: bool) -> BaseException | None:
    try:
        table_on(storage, clock).restore(prepared(shared=shared)[1])
    except (LakebraidError, Killed) as error:
        return error
    return None


@cache
def calls(*, shared: bool) -> tuple[Call, ...]:
    storage = fresh(shared=shared)
    watched = WatchedStorage(storage)
    assert restore(watched, storage.clock, shared=shared) is None
    assert answer(table_on(storage, storage.clock)) == AFTER
    return tuple(watched.calls)


def check_aftermath(storage: Storage, clock: Any, error: BaseException | None, *, shared: bool) -> None:
    table = table_on(storage, clock)
    seen = answer(table)
    assert seen in (BEFORE, AFTER)
    assert error is not None or seen == AFTER
    state = open_table(table._writing).ledger.newest().state
    ends = AFTER if state.restores or state.restored else BEFORE  # decided, it comes true, whoever does it
    if shared:
        storage.delete([".hoodie/lock"])  # of the dead one; nobody takes it over before it expires
    table.upsert([row("d", "another", 9)])  # finishes what was begun
    assert not open_table(table._writing).ledger.newest().state.restores
    assert answer(table) == {**ends, "d": "another"}
    if isinstance(error, LakebraidError) and not isinstance(error, StorageError):
        assert ends == BEFORE, f"restored, though its user was told {error!r}"
    if ends == AFTER:
        assert table.status(prepared(shared=shared)[2]) == "refused"
    table.rollback(timeout_seconds=0)
    clock.ms += 600_000  # so that nobody is waited for who might execute the plan, if it is still there
    table.compact()
    table.rollback(timeout_seconds=0)
    assert answer(table) == {**ends, "d": "another"}
    assert not_owned(storage, table) == []


@pytest.mark.slow
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("effect", ["done", "not done"])
def test_a_restorer_killed_at_any_call_leaves_the_table_before_or_after_and_others_go_on(
    effect: str, *, shared: bool
) -> None:
    for call in calls(shared=shared):
        storage = fresh(shared=shared)
        hooks, dead = killing(call.number, effect)
        error = restore(WatchedStorage(storage, **hooks), storage.clock, shared=shared)
        assert dead or error is None, "a call that found nothing is not answered, and nobody dies of it"
        check_aftermath(storage, storage.clock, error, shared=shared)


@pytest.mark.slow
@pytest.mark.parametrize("effect", ["done", "not done"])
def test_a_restore_that_gets_no_answer_to_any_one_call_ends_well_or_says_that_it_did_not(effect: str) -> None:
    for call in calls(shared=False):
        storage = fresh()
        error = restore(WatchedStorage(storage, **losing(call.number, effect)), storage.clock, shared=False)
        check_aftermath(storage, storage.clock, error, shared=False)


@pytest.mark.parametrize("shared", [False, True])
def test_at_every_moment_of_a_restore_a_reader_sees_the_table_before_or_after_it(*, shared: bool) -> None:
    storage = fresh(shared=shared)
    seen: list[dict[str, str]] = []
    reader = table_on(storage, storage.clock)
    hook = lambda call: seen.append(answer(reader)) if call.name in CHANGES else None  # noqa: E731
    assert restore(WatchedStorage(storage, before=hook, after=hook), storage.clock, shared=shared) is None
    first = seen.index(AFTER)
    assert seen == [BEFORE] * first + [AFTER] * (len(seen) - first)
    assert len(seen) - first > 10, "the deletes come after the moment of the restore"


def test_a_commit_is_unpublished_before_any_of_its_files_goes_and_the_last_one_first() -> None:
    deleted = [name for call in calls(shared=False) if call.name == "delete" for name in call.args[0]]
    commits = [n for n in deleted if n.startswith(".hoodie/timeline/") and "_" in n]
    data = [n for n in deleted if not n.startswith(".hoodie/")]
    pending = [n for n in deleted if n.endswith((".deltacommit.inflight", ".deltacommit.requested"))]
    assert len(commits) == 4 and len(data) >= 4 and len(pending) == 8
    assert max(map(deleted.index, commits)) < min(map(deleted.index, data))
    assert max(map(deleted.index, data)) < min(map(deleted.index, pending))
    completions = [n.rpartition("_")[2] for n in commits]
    assert completions == sorted(completions, reverse=True)


def test_a_plan_goes_with_its_commit_and_before_every_older_commit() -> None:
    deleted = [name for call in calls(shared=False) if call.name == "delete" for name in call.args[0]]
    plans = [n for n in deleted if n.endswith((".compaction.inflight", ".compaction.requested"))]
    commits = [n for n in deleted if n.startswith(".hoodie/timeline/") and "_" in n]
    assert plans, "the story has a compaction"
    for plan in plans:
        request_time = plan.rpartition("/")[2].partition(".")[0]
        older = [n for n in commits if n.rpartition("_")[2] < request_time]
        own = [n for n in commits if f"/{request_time}_" in n]
        assert all(deleted.index(n) < deleted.index(plan) for n in own)
        assert older and all(deleted.index(plan) < deleted.index(n) for n in older)


def steps() -> list[Any]:
    """What a restore does to the store, one change after the other."""
    return [
        partial(lambda call, storage: getattr(storage, call.name)(*call.args), call)
        for call in calls(shared=False)
        if call.name in CHANGES
    ]


def racing(read: Any) -> Iterator[Any]:
    """The reader's answers if the first steps, or all, are done before its first call, its second, and so on."""
    made = fresh()
    changes = steps()
    for done in range(1, len(changes) + 1):
        at = 0
        while True:
            storage = RacingStorage(_copied(made), at, changes[:done])
            yield read(storage)
            if storage.calls <= at:
                break
            at += 3  # every third call: the others are of the same kind
        yield read(storage)


def _copied(made: MemoryStorage) -> MemoryStorage:
    other = MemoryStorage(made.url, TickingClock(1_767_225_800_000))
    for info in made.list():
        other.create(info.name, made.read(info.name, info.size))
    return other


@pytest.mark.slow
def test_a_reader_that_is_overtaken_by_a_restore_between_any_two_calls_sees_before_or_after() -> None:
    answers = [{*found.items()} for found in racing(lambda s: answer(table_on(s, TickingClock(1_767_225_900_000))))]
    assert {frozenset(found) for found in answers} == {frozenset(BEFORE.items()), frozenset(AFTER.items())}


@pytest.mark.slow
def test_a_reader_of_the_past_that_is_overtaken_by_a_restore_gets_that_past_or_is_told() -> None:
    storage = fresh()
    past = table_on(storage, storage.clock).snapshot().completion_time

    def read(racing_storage: Any) -> str:
        table: Table = table_on(racing_storage, TickingClock(1_767_225_900_000))
        try:
            return "before" if answer(table, past) == BEFORE else "wrong"
        except SnapshotExpired:
            return "told"

    assert {*racing(read)} == {"before", "told"}


@pytest.mark.slow
def test_a_writer_that_publishes_at_any_moment_of_a_restore_is_refused_or_taken_back() -> None:
    for call in calls(shared=False):
        storage = fresh()
        writer = table_on(storage, storage.clock)
        transaction = writer.begin()
        transaction.write([row("w", "1")])
        ended: list[str] = []

        def publish(made: Call, number: int = call.number, transaction: Any = transaction, ended: Any = ended) -> None:
            if made.number == number and not ended:
                ended.append("published")
                try:
                    transaction.commit()
                except CommitRefused:
                    ended[0] = "refused"

        watched = WatchedStorage(storage, before=publish)
        error = restore(watched, storage.clock, shared=False)
        assert error is None and ended
        seen = answer(table_on(storage, storage.clock))
        assert seen == AFTER, f"{seen} after {ended} at {call}"
        assert table_on(storage, storage.clock).status(transaction.instant) == "refused"
