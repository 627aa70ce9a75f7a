# SPDX-License-Identifier: Apache-2.0
"""Failure scenarios of lost locks, lost answers, lost races and torn settings, through the real write path."""

from __future__ import annotations

from datetime import UTC

import pytest

from lakebraid.errors import NotATable, OutcomeUnknown, StorageError
from lakebraid.format.properties import parse_properties
from lakebraid.format.timeline.commit import CommitMetadata, format_commit
from lakebraid.format.times import format_instant_time
from lakebraid.model.writable import FILE_LOCK
from lakebraid.table.loading import PROPERTIES
from lakebraid.txn.hudi.file_lock import LOCK
from lakebraid.txn.ledger.entries import LEDGER
from tests.kit.tables.builder import TIMELINE
from tests.kit.tables.scene import Call, Scene, Write, answer, once, row, table_on

pytestmark = [pytest.mark.unit, pytest.mark.slow]


# --- F24: lost locks, lost answers -----------------------------------------------------------------------------------


def shared() -> Scene:
    # As `shared=True` says it for a folder.
    return Scene(arguments={"properties": {"hoodie.write.lock.provider": FILE_LOCK}})


@pytest.mark.parametrize("shown", ["before the decision", "before it is true"])
def test_f24_a_lock_that_is_lost_during_a_commit_lets_nobody_publish_behind_another(shown: str) -> None:
    """Somebody deletes our lock (Hudi's close() does) and another writer commits in the pause."""
    scene = shared()
    slow: list[Write] = []

    def lose_lock() -> None:
        scene.storage.delete([LOCK])
        scene.write(row("a", "quick"))

    def picks(call: Call) -> bool:
        if shown == "before the decision":
            staged = call.name == "create" and "/staged/" in call.target
            return bool(slow) and staged
        return bool(slow) and call.name == "copy" and f"/{slow[0].request_time}_" in call.target

    hook = once(picks, lose_lock)
    write = scene.begin(row("a", "slow"), row("b", "slow"), table=scene.other(before=hook))
    slow.append(write)
    scene.commit(write)
    quick = scene.writes[-1]
    assert hook.done and quick is not write
    scene.check_times()
    order = sorted([write, quick], key=lambda w: str(w.completion))
    assert order == ([quick, write] if shown == "before the decision" else [write, quick])
    scene.check()
    assert not [info.name for info in scene.storage.list() if info.name == LOCK]


@pytest.mark.parametrize("place", ["/staged/", "/timeline/"])
def test_f24_a_commit_that_lost_its_lock_to_hudi_is_decided_again_after_what_hudi_published(place: str) -> None:
    """Hudi never looks at the ledger: only the lock, and a second look, keep us from publishing behind it."""
    scene = shared()
    slow: list[Write] = []
    theirs: list[str] = []

    def hudi_commits() -> None:
        scene.storage.delete([LOCK])
        request_time, completion = (format_instant_time(scene.clock.now_ms(), UTC) for _ in range(2))
        for name in (f"{request_time}.deltacommit.requested", f"{request_time}.deltacommit.inflight"):
            scene.storage.create(f"{TIMELINE}/{name}", b"")
        scene.storage.create(f"{TIMELINE}/{request_time}_{completion}.deltacommit", format_commit(CommitMetadata()))
        theirs.append(completion)

    def picks(call: Call) -> bool:
        is_next = call.name == "create" if place == "/staged/" else call.is_entry()
        return bool(slow) and is_next and (place in call.target or call.is_entry())

    hook = once(picks, hudi_commits)
    write = scene.begin(
        row("a", "slow"), table=scene.other(None, **{"before" if place == "/staged/" else "after": hook})
    )
    slow.append(write)
    scene.commit(write)
    assert str(write.completion) > theirs[0]
    assert (
        len(
            [1 for request_time, _, completion in scene.instants() if request_time == write.request_time and completion]
        )
        == 1
    )
    scene.check_times()
    assert scene.check() == [{"a": "slow"}]


def test_f24_an_unlock_that_is_refused_for_a_while_leaves_no_lock_behind() -> None:
    scene = shared()
    refusals = iter(range(3))

    def refuse(call: Call) -> None:
        if call.name == "delete" and LOCK in list(call.args[0]) and next(refusals, None) is not None:
            raise StorageError("429: slow down")

    scene.write(row("a", "1"), table=scene.other(before=refuse))
    assert next(refusals, None) is None
    assert LOCK not in [info.name for info in scene.storage.list()]
    scene.write(row("a", "2"))
    assert scene.check() == [{"a": "1"}, {"a": "2"}]


@pytest.mark.parametrize("kind", ["begin", "publish"])
@pytest.mark.parametrize("is_shared", [False, True])
def test_f24_a_decision_that_failed_but_landed_is_recognised_as_ones_own(kind: str, is_shared: bool) -> None:
    scene = shared() if is_shared else Scene()

    def lose() -> None:
        raise OutcomeUnknown("no answer")

    hook = once(lambda call: call.is_entry() and f'"kind":"{kind}"'.encode() in call.args[1], lose)
    scene.write(row("a", "1"), table=scene.other(after=hook))
    assert hook.done
    assert [action for _, action, _ in scene.instants()] == ["deltacommit"] * 2
    assert scene.check() == [{"a": "1"}]


# --- F25: a killed update of hoodie.properties -----------------------------------------------------------------------


@pytest.mark.parametrize("main", ["missing", "empty", "cut", "without its checksum"])
def test_f25_a_table_whose_properties_were_being_updated_opens_from_the_backup_and_takes_writes(main: str) -> None:
    scene = Scene()
    scene.write(row("a", "1"))
    good = scene.storage.read(PROPERTIES, 10**6)
    scene.storage.create(f"{PROPERTIES}.backup", good)
    scene.storage.delete([PROPERTIES])
    unchecked = b"".join(x for x in good.splitlines(keepends=True) if b"checksum" not in x)
    torn = {"empty": b"", "cut": good[: len(good) // 2], "without its checksum": unchecked}
    if main in torn:
        scene.storage.create(PROPERTIES, torn[main])
    reopened = table_on(scene.storage, scene.clock)
    assert reopened.properties == parse_properties(good, "good")
    for table in (scene.table, reopened):
        scene.write(row("a", "2"), row("b", "2"), table=table)
    scene.compact(reopened)
    assert scene.check()[-1] == {"a": "2", "b": "2"}
    scene.storage.replace(PROPERTIES, good)
    scene.storage.delete([f"{PROPERTIES}.backup"])
    scene.write(row("a", "3"))
    assert scene.check()[-1] == {"a": "3", "b": "2"}


def test_f25_without_properties_and_backup_nothing_is_written() -> None:
    scene = Scene()
    scene.storage.delete([PROPERTIES])
    before = [info.name for info in scene.storage.list()]
    with pytest.raises(NotATable, match=r"hoodie\.properties is missing"):
        scene.table.upsert([row("a", "1")])
    assert [info.name for info in scene.storage.list()] == before


# --- F26, F32: two at once -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["insert", "bulk_insert", "upsert"])
@pytest.mark.parametrize("seed_base", [True, False])
def test_f26_two_concurrent_inserts_of_the_same_keys_leave_each_key_once(kind: str, seed_base: bool) -> None:
    scene = Scene(arguments={"buckets": 4, "seed_base": seed_base})
    rows = [row(f"k{n}", "first") for n in range(40)]
    first = scene.begin(*rows, kind=kind)
    second = scene.begin(*(r | {"v": "second"} for r in rows), table=scene.other(), kind=kind)
    scene.commit(second)
    scene.commit(first)
    assert len(scene.check()[-1]) == 40
    assert set(scene.check()[-1].values()) == {"second"}
    scene.compact()
    assert scene.check()[-1] == {f"k{n}": "second" for n in range(40)}


@pytest.mark.parametrize("kind", ["begin", "publish", "plan", "claim", "roll back"])
def test_f32_of_two_who_create_the_same_next_entry_one_wins_and_the_other_looks_again(kind: str) -> None:
    scene = Scene()
    scene.write(row("a", "1"))
    doomed = scene.begin(row("a", "never")) if kind == "roll back" else None
    lost: list[Call] = []

    def win(call: Call) -> None:
        if call.is_entry() and f'"kind":"{kind}"'.encode() in call.args[1] and len(lost) < 3:
            lost.append(call)
            scene.write(row("b", str(len(lost))))

    loser = scene.other(before=win)
    if doomed is not None:
        assert loser.rollback(timeout_seconds=0).rolled_back == (doomed.request_time,)
        scene.kill(doomed)
    elif kind in ("begin", "publish"):
        scene.write(row("c", "loser"), table=loser)
    else:
        assert len(scene.compact(loser)) == 1
    assert len({call.target for call in lost}) == 3, "each time for another number"
    entries = [info.name for info in scene.storage.list(LEDGER)]
    assert entries == [f"{LEDGER}/{n:020d}" for n in range(1, len(entries) + 1)]
    scene.check_times()
    scene.check()


def test_a_scene_notices_a_wrong_answer() -> None:
    scene = Scene()
    scene.write(row("a", "1"))
    scene.writes[0].rows = [row("a", "2")]
    with pytest.raises(AssertionError):
        scene.check()
    assert answer(scene.table) == {"a": "1"}
