# SPDX-License-Identifier: Apache-2.0
"""Failure scenarios of cleaning: F5, F16, F23 and F34, and what dead tasks leave behind."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

import lakebraid as lb
from lakebraid import limits
from lakebraid.format.names import history_file_name
from lakebraid.format.timeline.history import ArchivedInstant, write_history
from lakebraid.services.merging.compaction import COMPACTION, plan_compaction
from lakebraid.services.settings import Opened
from lakebraid.table.at import TableAt
from lakebraid.table.loading import load_timeline
from lakebraid.txn.ledger.ledger import Ledger
from lakebraid.txn.liveness.leases import take_lease
from tests.kit.tables.builder import TIMELINE, put_history
from tests.kit.tables.scene import Call, Scene, Write, answer, files, once, row

pytestmark = [pytest.mark.unit, pytest.mark.slow]


def ledger_of(table: lb.Table) -> Ledger:
    return table._writing.ledger(table._config)


def at_call(number: int) -> Callable[[Call], bool]:
    return lambda call: call.number == number


def versions(count: int = 3) -> Scene:
    scene = Scene()
    for n in range(count):
        scene.write(row("a", f"v{n}", ts=n + 1))
        scene.compact()
    return scene


def removes_data(call: Call) -> bool:
    return call.name == "delete" and any(not str(name).startswith(".hoodie/") for name in call.args[0])


def decides(call: Call) -> bool:
    return call.is_entry()


# --- F5: the cleaner deletes planned logs ----------------------------------------------------------------------------


def with_late_log() -> tuple[Scene, Write]:
    """A log file that is older than the base file and completed after it."""
    scene = versions(1)
    late = scene.begin(row("late", "of the slow writer"))
    scene.write(row("a", "x", ts=9))
    scene.compact()
    scene.commit(late)
    return scene, late


@pytest.mark.parametrize("policy", [{"commits": 1}, {"versions": 1}, {"hours": 1e-9}])
def test_f5_a_clean_keeps_the_log_that_a_pending_plan_names_though_it_is_older_than_the_base(policy: Any) -> None:
    scene, late = with_late_log()
    ledger = ledger_of(scene.table)
    request_time = plan_compaction(ledger)
    assert request_time is not None
    (operation,) = COMPACTION.load(ledger, request_time).operations
    assert any(late.request_time in name for name in operation.delta_file_names)
    scene.write(row("b", "after the plan"))
    scene.write(row("c", "after the plan"))
    done = scene.table.clean(**policy)
    assert done.files and not {*operation.delta_file_names, operation.data_file_name} & {*done.files}
    COMPACTION.run(Opened(scene.table._writing, ledger), request_time)
    assert answer(scene.table) == {"a": "x", "late": "of the slow writer", "b": "after the plan", "c": "after the plan"}


def test_f5_a_clean_decided_before_the_plan_and_executed_after_it_leaves_the_plan_its_input() -> None:
    scene, _ = with_late_log()
    planned: list[str | None] = []
    hook = once(removes_data, lambda: planned.append(plan_compaction(ledger_of(scene.table))))
    assert scene.other(before=hook).clean(commits=1).files and planned[0] is not None
    COMPACTION.run(Opened(scene.table._writing, ledger_of(scene.table)), planned[0])
    assert answer(scene.table) == {"a": "x", "late": "of the slow writer"}


def test_f5_a_plan_made_while_the_clean_is_being_decided_is_seen_by_it() -> None:
    scene, _ = with_late_log()
    planned: list[str | None] = []
    hook = once(decides, lambda: planned.append(plan_compaction(ledger_of(scene.table))))
    scene.other(before=hook).clean(commits=1)
    assert planned[0] is not None
    COMPACTION.run(Opened(scene.table._writing, ledger_of(scene.table)), planned[0])
    assert answer(scene.table) == {"a": "x", "late": "of the slow writer"}


def test_f5_the_inputs_of_a_torn_plan_stay_as_well() -> None:
    scene, _ = with_late_log()
    request_time = plan_compaction(ledger_of(scene.table))
    name = f"{TIMELINE}/{request_time}.compaction.requested"
    whole = scene.storage.read(name, 10**6)
    scene.storage.replace(name, whole[:20])
    for n in range(3):
        scene.write(row("b", f"b{n}", ts=n))
    scene.other().clean(commits=1)
    scene.storage.replace(name, whole)
    COMPACTION.run(Opened(scene.table._writing, ledger_of(scene.table)), str(request_time))
    assert answer(scene.table) == {"a": "x", "late": "of the slow writer", "b": "b2"}


# --- F16: a completed instant judged expired -------------------------------------------------------------------------


def test_f16_a_write_that_completes_while_its_heartbeat_is_judged_is_not_rolled_back_nor_cleaned() -> None:
    scene = versions(2)
    write = scene.begin(row("a", "just in time", ts=9))
    scene.clock.sleep(3600)
    hook = once(lambda call: call.name == "info" and ".heartbeat/" in call.target, lambda: scene.commit(write))
    other = scene.other(before=hook)
    assert other.rollback(timeout_seconds=0).rolled_back == () and hook.done
    other.clean(commits=1)
    assert answer(scene.table) == {"a": "just in time"}
    assert scene.table.status(write.request_time) == "published"


def test_f16_a_write_that_completes_while_a_clean_is_decided_keeps_its_files() -> None:
    scene = versions(2)
    write = scene.begin(row("b", "late"))
    hook = once(decides, lambda: scene.commit(write))
    scene.other(before=hook).clean(commits=1)
    assert answer(scene.table) == {"a": "v1", "b": "late"}


# --- F23: a savepoint against a clean in flight ----------------------------------------------------------------------


@pytest.mark.parametrize("moment", ["while it is decided", "before its deletes", "after it"])
def test_f23_a_savepoint_beside_a_clean_has_its_files_or_is_refused(moment: str) -> None:
    scene = versions()
    pinned, when = scene.writes[0].request_time, scene.completions()[0]
    outcome: list[str] = []

    def pin() -> None:
        try:
            scene.table.savepoint(pinned)
            outcome.append("set")
        except lb.SnapshotExpired as error:
            outcome.append(str(error.facts["oldest_readable"]))

    if moment == "after it":
        scene.table.clean(commits=1)
        pin()
    else:
        pick = decides if moment == "while it is decided" else removes_data
        scene.other(before=once(pick, pin)).clean(commits=1)
    assert outcome[0] == "set" if moment == "while it is decided" else outcome[0] > when
    scene.other().clean(commits=1)
    if outcome == ["set"]:
        assert answer(scene.table, when) == {"a": "v0"}
        assert any("savepoint" in hold for hold in scene.table.clean(commits=1).held_back)
        scene.table.delete_savepoint(pinned)
        assert scene.table.clean(commits=1).files
    with pytest.raises(lb.SnapshotExpired):
        answer(scene.table, when)


# --- F34: cleaning eats a long write in flight -----------------------------------------------------------------------


@pytest.mark.parametrize("policy", [{"commits": 1}, {"versions": 1}, {"hours": 1e-9}])
def test_f34_what_a_long_write_may_have_read_stays_until_it_is_over(policy: Any) -> None:
    scene = versions(2)
    slow = scene.begin(row("a", "slow", ts=1))
    seen = scene.table.snapshot()
    during: list[str] = []
    for n in range(3):
        scene.write(row("a", f"during{n}", ts=10 + n))
        scene.compact()
        during.append(scene.completions()[-1])
        done = scene.table.clean(**policy)
        assert any(slow.request_time in hold for hold in done.held_back)
    assert seen.to_arrow().to_pylist() == [row("a", "v1", ts=2)]
    assert [answer(scene.table, moment) for moment in during] == [{"a": f"during{n}"} for n in range(3)]
    scene.commit(slow)
    assert answer(scene.table) == {"a": "during2"}
    assert scene.table.clean(**policy).held_back == ()
    with pytest.raises(lb.SnapshotExpired):
        seen.to_arrow()


def test_f34_files_of_a_write_that_is_open_are_no_business_of_a_clean() -> None:
    scene = versions(2)
    slow = scene.begin(row("z", "slow"))
    own = [name for name in files(scene.storage) if slow.request_time in name]
    for n in range(3):
        scene.write(row("a", f"during{n}", ts=10 + n))
        scene.compact()
        scene.other().clean(commits=1)
    assert own and {*own} <= {*files(scene.storage)}
    scene.commit(slow)
    assert answer(scene.table) == {"a": "during2", "z": "slow"}


def test_f34_a_dead_writer_holds_back_no_longer_than_until_it_is_rolled_back() -> None:
    scene = versions(2)
    dead = scene.begin(row("a", "dead"))
    scene.kill(dead)
    scene.write(row("a", "x", ts=9))
    scene.compact()
    assert any(dead.request_time in hold for hold in scene.table.clean(commits=1).held_back)
    scene.table.rollback(timeout_seconds=0)
    done = scene.table.clean(commits=1)
    assert done.files and done.held_back == ()


def test_a_sleeping_cleaner_does_no_harm_to_a_lease_that_was_taken_after_its_decision() -> None:
    scene = versions()
    newest = scene.completions()[-1]
    hook = once(removes_data, lambda: take_lease(ledger_of(scene.table), "reader", "somebody", newest))
    scene.other(before=hook).clean(commits=1)
    scene.write(row("a", "x", ts=50))
    scene.compact()
    scene.table.clean(commits=1)
    assert answer(scene.table, newest) == {"a": "v2"}


# --- what dead tasks leave -------------------------------------------------------------------------------------------


def late_file(scene: Scene, request_time: str) -> str:
    """A task of a write that is over wakes up and puts its file down."""
    source = next(name for name in files(scene.storage) if ".log." in name)
    group, _, rest = source.split("_", 2)
    name = f"{group}_{request_time}.log.1_{rest}"
    scene.storage.create(name, scene.storage.read(source, 10**6))
    return name


def archive_all_before(scene: Scene, request_time: str) -> None:
    """Moves the instants before that one into the history, as an archiver does that has forgotten who was rolled back."""
    config = scene.table._config
    old = [
        i
        for i in load_timeline(TableAt(scene.storage, config, scene.clock))
        if i.request_time < request_time and i.is_completed
    ]
    rows = []
    for instant in old:
        data = scene.storage.read(f"{TIMELINE}/{instant.file_name()}", 10**6)
        rows.append(ArchivedInstant(instant.request_time, instant.completion_time or "", instant.action, data, None))
    name = history_file_name(rows[0].request_time, rows[-1].request_time, 0)
    put_history(scene.storage, {name: write_history(rows)}, 1)
    request_times = {r.request_time for r in rows}
    names = [i.name for i in scene.storage.list_folder(TIMELINE)[0] if i.name.rpartition("/")[2][:17] in request_times]
    scene.storage.delete(names)


def test_a_late_file_of_a_dead_task_is_removed_before_and_after_archival() -> None:
    for archived in (False, True):
        scene = versions(1)
        dead = scene.begin(row("a", "dead", ts=99))
        scene.kill(dead)
        scene.table.rollback(timeout_seconds=0)
        for n in range(3):
            scene.write(row("b", f"b{n}", ts=n + 1))
        right = answer(scene.table)
        zombie = late_file(scene, dead.request_time)
        if archived:
            archive_all_before(scene, scene.writes[-1].request_time)
        removed = scene.other().rollback(timeout_seconds=0).removed
        assert removed == (zombie,), f"archived: {archived}"
        assert answer(scene.table) == right
        assert zombie not in files(scene.storage)


def test_files_of_archived_writes_and_of_a_past_that_the_history_does_not_tell_are_no_orphans() -> None:
    scene = versions(2)
    for n in range(3):
        scene.write(row("b", f"b{n}", ts=n + 1))
    right, before = answer(scene.table), {*files(scene.storage)}
    older = late_file(scene, "20250101000000000")
    archive_all_before(scene, scene.writes[-1].request_time)
    assert scene.other().rollback(timeout_seconds=0).removed == ()
    assert {*files(scene.storage)} == before | {older}
    scene.storage.delete([older])
    assert answer(scene.table) == right


def test_a_write_that_is_archived_while_orphans_are_looked_for_keeps_its_files() -> None:
    """Between the look at the files, the timeline and the history everything may move from the one to the other."""
    number = 0
    while True:
        scene = versions(1)
        for n in range(2):
            scene.write(row("b", f"b{n}", ts=n + 1))
        right, before = answer(scene.table), {*files(scene.storage)}
        last = scene.writes[-1].request_time
        hook = once(at_call(number), partial(archive_all_before, scene, last))
        scene.other(before=hook).rollback(timeout_seconds=0)
        assert {*files(scene.storage)} == before and answer(scene.table) == right, number
        if not hook.done:
            break
        number += 1
    assert number > 10


def test_a_late_twin_of_a_compaction_is_removed_also_when_the_compaction_is_archived() -> None:
    for archived in (False, True):
        scene = versions(1)
        base = next(n for n in files(scene.storage) if n.endswith(".parquet") and "_0-0-0_" not in n)
        twin = base.replace("_0-00-", "_0-00-1", 1)
        assert twin != base
        scene.storage.create(twin, scene.storage.read(base, 10**6))
        for n in range(2):
            scene.write(row("b", f"b{n}", ts=n + 1))
        right = answer(scene.table)
        if archived:
            archive_all_before(scene, scene.writes[-1].request_time)
        assert scene.other().rollback(timeout_seconds=0).removed == (twin,), f"archived: {archived}"
        assert base in files(scene.storage) and answer(scene.table) == right


def test_every_limit_of_leases_is_longer_than_the_beats_that_keep_them() -> None:
    assert limits.LEASE_MS >= 5 * limits.LEASE_INTERVAL_MS
