# SPDX-License-Identifier: Apache-2.0
"""Restore: everything after a moment is taken back, and readers are told what they can no longer have."""

from __future__ import annotations

import pytest

from lakebraid.errors import InvalidArgument, SnapshotExpired
from lakebraid.txn.actions.restore_files import finish_restore
from tests.kit.present import present
from tests.kit.tables.restoring import AFTER, BEFORE, check_restored, decided, ledger_of, scene
from tests.kit.tables.scene import Scene, answer, files, row

pytestmark = pytest.mark.unit


# --- what it does ----------------------------------------------------------------------------------------------------


def test_a_restore_takes_back_what_completed_after_the_savepoint_and_nothing_else() -> None:
    s = scene()
    s.compact()
    undone = [s.services[0], s.writes[2].completion]
    done = s.table.restore(s.writes[1].request_time)
    assert [s.table.status(request_time) for request_time in done.undone] == ["refused", "refused"]
    assert len(done.undone) == len(undone) and done.until == s.writes[1].completion and done.files == 2
    assert done.instant is not None and done.completion_time is not None and done.refused == ()
    check_restored(s)


@pytest.mark.parametrize("by", ["request time", "completion"])
def test_a_restore_goes_to_any_write_that_is_still_readable(by: str) -> None:
    s = scene()
    s.table.delete_savepoint(s.writes[1].request_time)
    first = s.writes[0]
    s.table.restore(first.request_time if by == "request time" else present(first.completion))
    assert answer(s.table) == {"a": "1"}


def test_a_write_that_began_before_the_savepoint_and_completed_after_it_is_taken_back() -> None:
    s = Scene()
    s.write(row("a", "1"))
    slow = s.begin(row("z", "slow"))
    s.write(row("b", "1"))
    kept = s.table.savepoint()
    s.commit(slow)
    assert s.table.restore(kept.instant).undone == (slow.request_time,)
    assert answer(s.table) == AFTER
    assert s.table.status(slow.request_time) == "refused"


def test_a_dry_run_tells_what_would_go_and_changes_nothing() -> None:
    s = scene()
    begun = s.begin(row("z", "1"))
    before = {i.name for i in s.storage.list()}
    would = s.table.restore(s.writes[1].request_time, dry_run=True)
    assert {i.name for i in s.storage.list()} == before
    assert (would.undone, would.refused, would.instant) == ((s.writes[2].request_time,), (begun.request_time,), None)
    s.commit(begun)


def test_there_is_nothing_to_take_back_after_the_last_write() -> None:
    s = scene()
    begun = s.begin(row("z", "1"))
    done = s.table.restore(s.writes[2].request_time)
    assert (done.instant, done.undone) == (None, ())
    s.commit(begun)
    assert answer(s.table) == {**BEFORE, "z": "1"}


def test_a_deleted_row_is_back() -> None:
    s = scene()
    s.table.delete([{"id": "b"}])
    s.compact()
    assert "b" not in answer(s.table)
    s.table.restore(s.writes[1].request_time)
    assert answer(s.table) == AFTER


def test_the_schema_goes_back_and_the_next_writer_uses_it() -> None:
    s = scene()
    s.table.upsert([row("e", "5") | {"extra": 1}])
    assert "extra" in s.table.schema.names
    s.table.restore(s.writes[1].request_time)
    assert "extra" not in s.table.schema.names
    state = ledger_of(s).newest().state
    assert state.schema_file is not None
    s.storage.info(f".hoodie/timeline/{state.schema_file}")
    s.table.upsert([row("e", "6")])
    assert "extra" not in s.table.schema.names and answer(s.table) == {**AFTER, "e": "6"}
    s.table.upsert([row("f", "7") | {"extra": 1}])
    assert answer(s.table) == {**AFTER, "e": "6", "f": "7"}


@pytest.mark.parametrize("is_wide", [False, True])
def test_a_process_that_remembers_the_schema_that_was_taken_back_writes_with_that_of_now(*, is_wide: bool) -> None:
    s = scene()
    other = s.other()
    for version in ("4", "5"):
        other.upsert([row("e", version) | {"extra": 1}])
    s.table.restore(s.writes[1].request_time)
    other.upsert([row("e", "6") | ({"extra": 7} if is_wide else {})])
    assert ("extra" in s.table.schema.names) == is_wide
    (found,) = [r for r in s.table.to_arrow().to_pylist() if r["id"] == "e"]
    assert found["v"] == "6" and found.get("extra") == (7 if is_wide else None)


def test_a_table_that_went_back_to_its_creation_takes_rows_into_base_files_again() -> None:
    s = Scene(arguments={"seed_base": False})
    creation = present(s.instants()[0][2])
    s.table.bulk_insert([row("a", "1")])
    s.table.restore(creation)
    assert answer(s.table) == {} and files(s.storage) == []
    s.table.bulk_insert([row("a", "2")])
    assert answer(s.table) == {"a": "2"} and all(f.endswith(".parquet") for f in files(s.storage))


def test_a_table_that_went_back_to_rows_takes_no_base_files() -> None:
    s = scene()
    s.table.restore(s.writes[1].request_time)
    assert not ledger_of(s).newest().state.is_fresh


# --- what it refuses -------------------------------------------------------------------------------------------------


def test_a_restore_past_a_later_savepoint_is_refused() -> None:
    s = scene()
    later = s.table.savepoint()
    with pytest.raises(InvalidArgument, match=f"savepoint {later.instant} holds on"):
        s.table.restore(s.writes[1].request_time)
    assert answer(s.table) == BEFORE
    s.table.delete_savepoint(later.instant)
    s.table.restore(s.writes[1].request_time)
    check_restored(s)


def test_a_restore_to_what_was_cleaned_away_is_refused() -> None:
    s = scene()
    s.compact()
    s.table.delete_savepoint(s.writes[1].request_time)
    s.table.clean(versions=1)
    with pytest.raises(SnapshotExpired):
        s.table.restore(s.writes[1].request_time)
    assert answer(s.table) == BEFORE


def test_a_restore_to_what_a_clean_in_flight_removes_is_refused() -> None:
    s = scene()
    s.compact()
    s.table.delete_savepoint(s.writes[1].request_time)
    assert s.table.plan_clean(versions=1) is not None
    with pytest.raises(SnapshotExpired, match="not finished yet"):
        s.table.restore(s.writes[1].request_time)
    s.table.clean(versions=1)
    assert answer(s.table) == BEFORE


def test_a_clean_in_flight_that_takes_nothing_of_that_moment_goes_on_beside_the_restore() -> None:
    s = Scene()
    s.write(row("a", "0"))
    s.compact()
    s.write(row("a", "1"))
    s.compact()
    assert s.table.plan_clean(versions=1) is not None
    kept = s.table.savepoint()
    s.write(row("a", "2", 2))
    s.table.restore(kept.instant)
    assert answer(s.table) == {"a": "1"}
    s.table.clean(versions=1)
    assert answer(s.table) == {"a": "1"}
    assert not [i for i in s.table.timeline() if i.instant.action == "clean" and not i.instant.is_completed]


def test_a_restore_to_what_is_archived_is_refused() -> None:
    s = scene()
    s.table.delete_savepoint(s.writes[1].request_time)
    for version in range(3, 12):
        s.write(row("a", str(version), version))
    assert s.table.archive(keep_min=2, keep_max=3).instants
    with pytest.raises(InvalidArgument):
        s.table.restore(present(s.writes[1].completion))
    assert answer(s.table)["a"] == "11"


def test_a_restore_that_would_leave_nothing_older_than_what_it_takes_back_is_refused() -> None:
    s = Scene()
    s.write(row("a", "0"))
    slow = s.begin(row("z", "slow"))
    target = s.write(row("a", "1"))
    s.commit(slow)
    s.write(row("a", "2", 2))
    s.write(row("a", "3", 3))
    assert s.table.archive(keep_min=4, keep_max=4).instants
    assert s.table.timeline()[0].instant.request_time == slow.request_time, "nothing older is left"
    with pytest.raises(InvalidArgument, match="archived past"):
        s.table.restore(present(target.completion))
    assert answer(s.table) == {"a": "3", "z": "slow"}


@pytest.mark.parametrize("to", ["20200101000000000", "20191231235959999"])
def test_a_moment_before_the_table_was_there_is_refused(to: str) -> None:
    with pytest.raises(InvalidArgument, match="cannot return"):
        scene().table.restore(to)


# --- readers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_done", [False, True])
def test_the_times_that_a_restore_took_back_are_refused_and_those_around_it_are_not(*, is_done: bool) -> None:
    s = scene()
    restore = decided(s)
    if is_done:
        finish_restore(ledger_of(s), "x", restore)
    assert answer(s.table, s.writes[0].completion) == {"a": "1"}
    assert answer(s.table, s.writes[1].completion) == AFTER
    with pytest.raises(SnapshotExpired, match=f"restore {restore}") as refused:
        answer(s.table, s.writes[2].completion)
    assert refused.value.readable_from == restore
    assert answer(s.table, restore) == AFTER
    assert present(s.table.snapshot().completion_time) >= restore


def test_changes_from_before_the_restore_never_tell_what_it_took_back() -> None:
    s = scene()
    s.table.restore(s.writes[1].request_time)
    s.write(row("z", "1"))
    told = s.table.changes(after=s.writes[0].completion).to_arrow().to_pylist()
    assert sorted(change["id"] for change in told) == ["b", "z"]
    with pytest.raises(SnapshotExpired, match="restore"):
        s.table.changes(after=s.writes[2].completion)


def test_a_consumer_that_has_read_what_was_taken_back_is_told_and_others_go_on() -> None:
    s = Scene()
    s.write(row("a", "1"))
    kept = s.table.savepoint()
    steady = s.table.consumer("steady")
    s.write(row("a", "2", 2))
    hasty = s.table.consumer("hasty", after="beginning")
    hasty.commit(hasty.changes())
    s.table.restore(kept.instant)
    s.write(row("b", "1"))
    assert [c["id"] for c in steady.changes().to_arrow().to_pylist()] == ["b"]
    with pytest.raises(SnapshotExpired, match="restore"):
        hasty.changes()
    hasty.commit(present(s.table.snapshot().completion_time))
    assert hasty.changes().to_arrow().num_rows == 0
    s.table.clean(versions=1)


def test_a_snapshot_of_what_is_taken_back_ends_with_an_error_and_not_with_fewer_rows() -> None:
    s = scene()
    old = s.table.snapshot()
    s.table.restore(s.writes[1].request_time)
    with pytest.raises(SnapshotExpired):
        old.to_arrow()


def test_the_leases_of_versions_that_are_gone_go_with_them() -> None:
    s = scene()
    kept, gone = present(s.writes[1].completion), present(s.writes[2].completion)
    with s.table._hold(kept), s.table._hold(gone):
        s.table.restore(s.writes[1].request_time)
        assert [lease.time for lease in ledger_of(s).newest().state.leases.values()] == [kept]
    assert ledger_of(s).newest().state.leases == {}


def test_a_restore_that_is_archived_still_says_what_it_took_back() -> None:
    s = scene()
    restore = s.table.restore(s.writes[1].request_time).instant
    s.table.delete_savepoint(s.writes[1].request_time)
    lost = s.writes[2]
    s.clock.ms += 2 * 24 * 60 * 60_000
    for version in range(3, 12):
        s.write(row("a", str(version), version))
    s.table.clean(commits=20)
    s.table.archive(keep_min=2, keep_max=3)
    assert not [i for i in s.table.timeline() if i.instant.request_time == restore], "not archived"
    with pytest.raises(SnapshotExpired, match=f"restore {restore}"):
        answer(s.table, lost.completion)
    assert answer(s.table, s.writes[1].completion) == AFTER
