# SPDX-License-Identifier: Apache-2.0
"""Savepoints: a moment that stays, whoever cleans, dies or sleeps meanwhile."""

from __future__ import annotations

from typing import Any

import pytest

from lakebraid.errors import InvalidArgument, ObjectNotFound, SnapshotExpired
from lakebraid.format.timeline.services import parse_savepoint_metadata
from lakebraid.services.settings import open_table
from lakebraid.txn.actions.savepoints import decide_unpinning, remove_unpinned
from tests.kit.races.faults import Killed, killing, losing
from tests.kit.tables.scene import Call, Scene, WatchedStorage, answer, files, once, row, table_on

pytestmark = pytest.mark.unit


def scene() -> Scene:
    """Three versions of a key, each compacted, so that only the last one's files are needed now."""
    made = Scene()
    for version in range(1, 4):
        made.write(row("a", str(version), version))
        made.compact()
    return made


def savepoint_files(s: Scene) -> list[str]:
    return [i.name.rpartition("/")[2] for i in s.storage.list(".hoodie/timeline") if "savepoint" in i.name]


def test_what_a_savepoint_keeps_is_read_after_a_clean_that_takes_everything_else() -> None:
    s = scene()
    first, second = s.writes[0], s.writes[1]
    kept = s.table.savepoint(first.request_time, comment="before the change", user="me")
    assert (kept.instant, kept.completion_time, kept.comment, kept.user) == (
        first.request_time,
        first.completion,
        "before the change",
        "me",
    )
    assert s.table.savepoints() == [kept]
    s.table.clean(versions=1)
    assert answer(s.table, first.completion) == {"a": "1"}
    with pytest.raises(SnapshotExpired):
        answer(s.table, second.completion)
    assert s.table.delete_savepoint(first.request_time)
    s.table.clean(versions=1)
    with pytest.raises(SnapshotExpired):
        answer(s.table, first.completion)
    assert answer(s.table) == {"a": "3"}


def test_a_savepoint_names_exactly_the_files_of_its_moment() -> None:
    s = Scene()
    s.write(row("a", "1"))
    before = {*files(s.storage)}
    kept = s.table.savepoint()
    s.write(row("a", "2", 2))
    s.compact()
    (name,) = savepoint_files(s)
    data = s.storage.read(f".hoodie/timeline/{name}", 1 << 20)
    assert {*parse_savepoint_metadata(data, name).files[""]} == before
    assert kept.files == len(before)


def test_F23_a_savepoint_of_what_a_clean_in_flight_removes_is_refused() -> None:
    s = scene()
    assert s.table.plan_clean(versions=1) is not None, "decided, and nothing of it done yet"
    with pytest.raises(SnapshotExpired, match="not finished yet"):
        s.table.savepoint(s.writes[0].request_time)
    kept = s.table.savepoint()
    s.table.clean()
    assert answer(s.table, kept.completion_time) == {"a": "3"}


def test_F23_a_clean_that_is_decided_just_before_the_savepoint_wins() -> None:
    s = scene()
    clean = once(Call.is_entry, lambda: s.table.plan_clean(versions=1))
    with pytest.raises(SnapshotExpired):
        s.other(before=clean).savepoint(s.writes[0].request_time)
    assert clean.done
    assert s.table.savepoints() == []


def test_F23_a_clean_sees_the_savepoint_that_was_set_just_before_it() -> None:
    s = scene()
    mark = once(Call.is_entry, lambda: s.table.savepoint(s.writes[0].request_time))
    s.other(before=mark).clean(versions=1)
    assert mark.done
    assert answer(s.table, s.writes[0].completion) == {"a": "1"}


def test_a_savepoint_that_is_there_is_given_as_it_is() -> None:
    s = scene()
    assert s.table.savepoint(comment="one") == s.table.savepoint(comment="two")
    assert len(savepoint_files(s)) == 1


def test_deleting_a_savepoint_that_is_not_there_says_so() -> None:
    s = scene()
    assert not s.table.delete_savepoint(s.writes[0].request_time)


@pytest.mark.parametrize("instant", ["20200101000000000", "nonsense"])
def test_only_a_completed_write_can_be_kept(instant: str) -> None:
    s = scene()
    begun = s.begin(row("b", "1"))
    for request_time in (instant, begun.request_time):
        with pytest.raises(InvalidArgument, match="no completed write"):
            s.table.savepoint(request_time)
    begun.transaction.abort()


def test_what_is_being_archived_cannot_be_kept_and_what_a_savepoint_may_take_back_is_not_archived() -> None:
    s = Scene()
    s.write(row("a", "0"))
    slow = s.begin(row("z", "slow"))
    s.write(row("a", "1"))
    kept = s.table.savepoint()
    s.commit(slow)
    for version in range(2, 9):
        s.write(row("a", str(version), version))
    s.table.archive(keep_min=2, keep_max=3)
    assert s.table.restore(kept.instant, dry_run=True).undone[-1] == slow.request_time
    s.table.delete_savepoint(kept.instant)
    assert s.table.archive(keep_min=2, keep_max=3).instants
    with pytest.raises(InvalidArgument):
        s.table.savepoint(kept.instant)


def test_a_late_delete_of_a_savepoint_does_not_hit_the_next_one_of_the_same_write() -> None:
    s = scene()
    request_time = s.writes[0].request_time
    s.table.savepoint(request_time)
    ledger = open_table(s.table._writing).ledger
    assert decide_unpinning(ledger, "sleeper", request_time) is not None
    assert s.table.savepoints() == [], "deleted is deleted, though the file still lies there"
    again = s.table.savepoint(request_time)
    assert len(savepoint_files(s)) == 2
    remove_unpinned(ledger, "sleeper")
    assert s.table.savepoints() == [again]
    assert len(savepoint_files(s)) == 1


def test_a_deleted_savepoint_does_not_come_back_when_the_next_one_is_deleted() -> None:
    s = scene()
    request_time = s.writes[0].request_time
    ledger = open_table(s.table._writing).ledger
    for _ in range(3):
        s.table.savepoint(request_time)
        decide_unpinning(ledger, "sleeper", request_time)  # and its process dies
    assert s.table.savepoints() == []
    assert not s.table.delete_savepoint(request_time)
    assert savepoint_files(s) == []


def test_a_copy_of_a_savepoint_that_arrives_late_does_not_bring_it_back() -> None:
    s = scene()
    copies: list[Call] = []

    def die_before_tidying(call: Call) -> None:
        copies.extend([call] if call.name == "copy" else [])
        if call.name == "delete":
            raise Killed

    with pytest.raises(Killed):
        s.other(before=die_before_tidying).savepoint()
    (kept,) = s.table.savepoints()
    assert s.table.delete_savepoint(kept.instant)
    assert copies
    for copy in copies:
        with pytest.raises(ObjectNotFound):
            s.storage.copy(*copy.args)
    assert s.table.savepoints() == []


def test_the_inflight_file_of_a_savepoint_of_hudi_goes_with_it() -> None:
    s = scene()
    kept = s.table.savepoint()
    s.storage.create(f".hoodie/timeline/{kept.instant}.savepoint.inflight", b"")
    assert s.table.delete_savepoint(kept.instant)
    assert savepoint_files(s) == []


@pytest.mark.parametrize("effect", ["done", "not done"])
@pytest.mark.parametrize("fault", [killing, losing])
@pytest.mark.parametrize("task", ["savepoint", "delete_savepoint"])
def test_whatever_happens_at_any_call_there_is_a_savepoint_or_there_is_none(task: str, fault: Any, effect: str) -> None:
    number = 0
    while True:
        s = Scene()
        request_time = s.write(row("a", "1")).request_time
        if task == "delete_savepoint":
            s.table.savepoint(request_time)
        hooks = fault(number, effect)
        hooks = hooks[0] if isinstance(hooks, tuple) else hooks
        watched = WatchedStorage(s.storage, **hooks)
        error: BaseException | None = None
        try:
            getattr(table_on(watched, s.clock), task)(request_time)
        except (Exception, Killed) as raised:  # noqa: BLE001
            error = raised
        there = [k.instant for k in s.table.savepoints()]
        assert there in ([], [request_time])
        if error is None:
            assert there == ([request_time] if task == "savepoint" else [])
        assert s.table.savepoint(request_time).instant == request_time
        assert s.table.delete_savepoint(request_time)
        assert savepoint_files(s) == [] and answer(s.table) == {"a": "1"}
        if len(watched.calls) <= number:
            break
        number += 1
    assert number > 5
