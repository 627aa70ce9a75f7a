# SPDX-License-Identifier: Apache-2.0
"""Restore against everybody else who is at work: nobody who slept, no zombie, brings forth again what it took back."""

from __future__ import annotations

import pytest

from lakebraid.errors import ClaimLost, InvalidArgument, ObjectNotFound, OutcomeUnknown, RolledBack, SnapshotExpired
from lakebraid.services.merging.compaction import COMPACTION, plan_compaction
from lakebraid.services.settings import Opened, open_table
from lakebraid.txn.actions.plans import claim
from lakebraid.txn.actions.rescue import sweep
from lakebraid.txn.actions.restore_files import finish_restore
from lakebraid.txn.actions.rollback import decide_rollback, finish_rollback
from tests.kit.races.faults import Killed
from tests.kit.tables.restoring import AFTER, BEFORE, check_restored, decided, ledger_of, scene
from tests.kit.tables.scene import Call, answer, files, once, row

pytestmark = pytest.mark.unit


# --- against writers -------------------------------------------------------------------------------------------------


def test_F23_a_writer_in_flight_is_refused_and_told_by_what() -> None:
    s = scene()
    begun = s.begin(row("z", "1"))
    done = s.table.restore(s.writes[1].request_time)
    assert done.refused == (begun.request_time,)
    with pytest.raises(RolledBack, match=f"restore {done.instant}"):
        s.commit(begun)
    assert s.table.status(begun.request_time) == "refused"
    s.writes.remove(begun)
    check_restored(s)


def test_F23_a_writer_that_still_writes_after_the_restore_leaves_nothing_behind() -> None:
    s = scene()
    begun = s.begin(row("z", "1"))
    s.table.restore(s.writes[1].request_time)
    begun.transaction.write([row("y", "late")])
    assert any(begun.request_time in name for name in files(s.storage))
    with pytest.raises(RolledBack):
        s.commit(begun)
    s.writes.remove(begun)
    check_restored(s)


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_publisher_that_sleeps_at_its_decision_is_either_refused_or_taken_back(moment: str) -> None:
    s = scene()
    decisions: list[Call] = []

    def hook(call: Call) -> None:
        if call.is_entry():
            decisions.append(call)
            if len(decisions) == 2:  # the first began the write
                s.table.restore(s.writes[1].request_time)

    other = s.other(None, **{moment: hook})
    if moment == "before":
        with pytest.raises(RolledBack, match="restore"):
            other.upsert([row("z", "1")])
    else:
        other.upsert([row("z", "1")])
    assert len(decisions) >= 2
    check_restored(s)


def test_a_copy_of_a_commit_that_arrives_after_the_restore_does_not_bring_it_back() -> None:
    s = scene()
    copies: list[Call] = []

    def hook(call: Call) -> None:
        copies.extend([call] if call.name == "copy" else [])
        if call.name == "delete":
            raise Killed  # before the staged objects go

    with pytest.raises(Killed):
        s.other(before=hook).upsert([row("z", "1")])
    assert answer(s.table) == {**BEFORE, "z": "1"}
    s.table.restore(s.writes[1].request_time)
    assert len(copies) >= 3
    for copy in copies:
        with pytest.raises(ObjectNotFound):
            s.storage.copy(*copy.args)
    check_restored(s)


def test_a_write_begins_after_an_unfinished_restore_by_finishing_it() -> None:
    s = scene()
    restore = decided(s)
    assert answer(s.table) == AFTER, "decided is enough for readers"
    s.table.upsert([row("z", "1")])
    assert ledger_of(s).newest().state.restores == {}
    assert [i.instant.is_completed for i in s.table.timeline() if i.instant.request_time == restore] == [True]
    assert answer(s.table) == {**AFTER, "z": "1"}


@pytest.mark.parametrize("task", ["compact", "rollback", "restore"])
def test_every_service_finishes_a_restore_that_was_left(task: str) -> None:
    s = scene()
    decided(s)
    getattr(s.table, task)(*((s.writes[1].request_time,) if task == "restore" else ()))
    assert ledger_of(s).newest().state.restores == {}
    check_restored(s)


def test_files_of_a_commit_stay_until_the_restore_has_unpublished_it() -> None:
    s = scene()
    decided(s)
    ledger = ledger_of(s)
    before = files(s.storage)
    sweep(ledger)
    assert files(s.storage) == before


# --- against services ------------------------------------------------------------------------------------------------


def test_an_executor_that_claimed_before_the_restore_cannot_publish_after_it() -> None:
    s = scene()
    other = s.other(before=once(lambda c: c.name == "create" and c.target.endswith(".parquet"), lambda: decided(s)))
    with pytest.raises((RolledBack, ClaimLost)):
        other.compact()
    check_restored(s)


def test_an_executor_that_sleeps_at_its_publishing_is_refused_and_its_files_go() -> None:
    s = scene()
    entries: list[Call] = []

    def hook(call: Call) -> None:
        entries.extend([call] if call.is_entry() else [])
        if call.is_entry() and len(entries) == 3:  # planned, claimed, and now to be published
            s.table.restore(s.writes[1].request_time)

    with pytest.raises((RolledBack, ClaimLost)):
        s.other(before=hook).compact()
    assert len(entries) >= 3
    check_restored(s)


def test_a_plan_that_a_restore_takes_back_cannot_be_claimed_while_its_file_still_lies_there() -> None:
    s = scene()
    ledger = ledger_of(s)
    plan = plan_compaction(ledger)
    assert plan is not None
    restore = decided(s)
    s.storage.info(f".hoodie/timeline/{plan}.compaction.requested")
    with pytest.raises(ClaimLost):
        claim(ledger, "late", plan, seen=0)
    with pytest.raises(ClaimLost):
        COMPACTION.run(Opened(s.table._writing, ledger), plan)
    finish_restore(ledger, "another", restore)
    with pytest.raises(ClaimLost):
        claim(ledger, "late", plan, seen=0)
    check_restored(s)


def test_a_compaction_that_was_published_is_taken_back_with_its_plan_and_its_groups_can_be_compacted_again() -> None:
    s = scene()
    (compacted,) = s.compact()
    s.write(row("e", "1"))
    s.table.restore(s.writes[1].request_time)
    assert s.table.status(compacted.instant) == "refused"
    assert not [i for i in s.storage.list(".hoodie/timeline") if compacted.instant in i.name]
    check_restored(s)


def test_a_rollback_that_was_decided_before_the_restore_ends_after_it() -> None:
    s = scene()
    begun = s.begin(row("z", "1"))
    s.kill(begun)
    ledger = ledger_of(s)
    rollback = decide_rollback(ledger, "slow", begun.request_time)
    assert rollback is not None
    assert begun.request_time not in s.table.restore(s.writes[1].request_time).refused
    finish_rollback(ledger, "slow", rollback)
    finish_rollback(ledger, "slower", rollback)
    check_restored(s)


def test_a_rollback_that_comes_too_late_finds_nothing_to_do() -> None:
    s = scene()
    begun = s.begin(row("z", "1"))
    s.kill(begun)
    decided(s)
    assert decide_rollback(ledger_of(s), "late", begun.request_time) is None
    check_restored(s)


# --- against other restores ------------------------------------------------------------------------------------------


def test_of_two_restores_at_once_the_second_is_refused_and_takes_nothing_back() -> None:
    s = scene()

    def first() -> None:
        s.table.restore(s.writes[1].request_time)
        s.table.upsert([row("z", "since")])

    other = s.other(before=once(Call.is_entry, first))
    with pytest.raises(InvalidArgument, match="Another process has just restored"):
        other.restore(s.writes[1].request_time)
    assert answer(s.table) == {**AFTER, "z": "since"}


def test_a_restorer_whose_answer_got_lost_does_not_take_back_what_was_written_since() -> None:
    s = scene()

    def others_go_on(call: Call) -> None:
        if call.is_entry() and not done:
            done.append(call)
            s.table.upsert([row("z", "since")])  # finishes the restore first
            raise OutcomeUnknown("no answer: nothing is known")

    done: list[Call] = []
    result = s.other(after=others_go_on).restore(s.writes[1].request_time)
    assert result.undone == (s.writes[2].request_time,)
    assert answer(s.table) == {**AFTER, "z": "since"}


def test_a_sleeper_that_finishes_a_restore_a_day_later_harms_nobody() -> None:
    s = scene()
    restore = decided(s)
    slept: list[Call] = []

    def meanwhile(call: Call) -> None:
        if call.name == "delete" and "/timeline/" in str(call.args) and not slept:
            slept.append(call)
            s.table.rollback()
            s.write(row("d", "new", 9))
            s.compact()

    table = s.other(before=meanwhile)
    finish_restore(open_table(table._writing).ledger, "sleeper", restore)
    assert slept and answer(s.table) == {**AFTER, "d": "new"}


def test_one_restore_after_the_other_goes_back_further_each_time() -> None:
    s = scene()
    s.table.restore(s.writes[1].request_time)
    s.table.delete_savepoint(s.writes[1].request_time)
    lost = s.write(row("e", "1"))
    s.table.restore(s.writes[0].request_time)
    assert answer(s.table) == {"a": "1"} == answer(s.table, s.writes[0].completion)
    for write in (s.writes[1], s.writes[2], lost):
        with pytest.raises(SnapshotExpired, match="restore"):
            answer(s.table, write.completion)


def test_what_completes_while_its_files_go_is_taken_back_before_the_restore_is_done() -> None:
    s = scene()
    begun = s.begin(row("z", "1"))
    restore = decided(s)
    name = f".hoodie/timeline/{begun.request_time}_{int(restore) + 1}.deltacommit"

    def complete() -> None:
        s.storage.create(name, b"")  # as a writer of Hudi would whose lock had passed on

    gone = once(lambda c: c.name == "delete" and any(n.endswith(".requested") for n in c.args[0]), complete)
    finish_restore(open_table(s.other(after=gone)._writing).ledger, "slow", restore)
    assert gone.done
    assert not [i for i in s.storage.list(".hoodie/timeline") if begun.request_time in i.name]
    s.writes.remove(begun)
    check_restored(s)
