# SPDX-License-Identifier: Apache-2.0
"""Early detection where rows are placed (copy-on-write, looked-up keys): who is certain to be refused stops before its files
are written, and nobody else does.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from lakebraid import limits
from lakebraid.api.table import Table
from lakebraid.errors import WriteConflict
from lakebraid.storage.memory import MemoryStorage
from lakebraid.txn.checks.file_groups import EARLY, Rivals
from lakebraid.txn.checks.rivalry import Rivalry
from lakebraid.writing import gate
from lakebraid.writing.gate import Gate, Seen
from lakebraid.writing.request import WriteRequest
from lakebraid.writing.transaction import Transaction
from tests.kit.tables.clustering import NEW_GROUPS
from tests.kit.tables.scene import Call, Hook, Scene, TickingClock, WatchedStorage, answer, once, row, table_on

pytestmark = pytest.mark.unit

KINDS: dict[str, dict[str, Any]] = {
    "buckets, copy-on-write": {"buckets": 4, "table_type": "cow", "concurrency": "occ"},
    "simple, copy-on-write": {"index": "simple", "table_type": "cow"},
    "simple, merge-on-read": {"index": "simple"},
    "global, copy-on-write": {"index": "global_simple", "table_type": "cow"},
    "bloom, copy-on-write": {"index": "bloom", "table_type": "cow"},
}
every_kind = pytest.mark.parametrize("kind", KINDS)


@cache
def made(kind: str, *, early: bool) -> tuple[MemoryStorage, list[str]]:
    """A table with four file groups, and a key of each."""
    properties = NEW_GROUPS | {EARLY: str(early).lower()}
    scene = Scene(arguments={**KINDS[kind], "properties": properties})
    for number in range(12 if "buckets" in kind else 4):
        scene.table.insert([row(f"k{number}", "old")])
    found = scene.table.to_arrow(["id", "_hoodie_file_name"], meta_columns=True).to_pylist()
    groups = {line["_hoodie_file_name"][:36]: line["id"] for line in found}
    assert len(groups) == 4
    return scene.storage, sorted(groups.values())


class World:
    """A copy of such a table, for itself."""

    def __init__(self, kind: str, *, early: bool = True) -> None:
        original, self.keys = made(kind, early=early)
        self.clock = TickingClock(original.clock.now_ms() + 1000)
        self.storage = MemoryStorage("memory://early", self.clock)
        for info in original.list():
            self.storage.create(info.name, original.read(info.name, info.size))
        self.table = table_on(self.storage, self.clock)

    def watched(self, **hooks: Hook) -> Table:
        """The table as another process has it open, whose calls are counted."""
        return table_on(WatchedStorage(self.storage, **hooks), self.clock)

    def rows(self, v: str, *numbers: int) -> list[dict[str, Any]]:
        return [row(self.keys[number], v, 2) for number in numbers]

    def publish(self, *numbers: int) -> Callable[[], object]:
        """A rival that comes, writes these groups and is gone."""
        return lambda: self.table.upsert(self.rows("rival", *numbers), retries=0)


def is_data(call: Call) -> bool:
    return call.name == "create" and ".hoodie" not in call.target


def written(table: Table) -> list[int]:
    """The sizes of the data files that were put down by this process."""
    watched: Any = table._storage
    return [len(call.args[1]) for call in watched.calls if is_data(call)]


def after_the_look(monkeypatch: pytest.MonkeyPatch, do: Callable[[], object]) -> None:
    """Does something when a write knows where its rows go, and has not begun to write them."""
    plain = Gate.check
    done: list[bool] = []

    def check(self: Gate, seen: Seen) -> None:
        plain(self, seen)
        if not done:
            done.append(True)
            do()

    monkeypatch.setattr(Gate, "check", check)


def refused(transaction: Transaction) -> bool:
    try:
        transaction.commit()
    except WriteConflict:
        return True
    return False


@every_kind
@pytest.mark.parametrize("early", [True, False], ids=["early", "at the commit"])
def test_a_doomed_write_is_refused_before_its_first_file(
    kind: str, monkeypatch: pytest.MonkeyPatch, *, early: bool
) -> None:
    world = World(kind, early=early)
    table = world.watched()
    with monkeypatch.context() as patch:
        after_the_look(patch, world.publish(2))
        doomed = table.begin()
        doomed.write(world.rows("ours", 0, 1, 2))
        assert refused(doomed)
    assert bool(sum(written(table))) is not early
    assert world.table.status(doomed.instant) == "refused"
    assert "it began after this write and has completed" in str(world.table.why(doomed.instant))
    assert answer(world.table)[world.keys[0]] == "old"


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "copy" in kind])
def test_a_doomed_write_is_refused_before_its_next_file(kind: str) -> None:
    world = World(kind)
    clock = world.clock

    def rival() -> None:
        clock.sleep(limits.EARLY_LOOK_SECONDS)
        world.publish(3)()

    table = world.watched(after=once(is_data, rival))
    doomed = table.begin()
    doomed.write(world.rows("ours", 0, 1, 2, 3))
    assert refused(doomed)
    assert len(written(table)) == 1
    assert [v for _, v in sorted(answer(world.table).items()) if v == "ours"] == []


@every_kind
def test_a_writer_of_other_groups_is_let_through(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(kind)
    after_the_look(monkeypatch, world.publish(3))
    writer = world.watched().begin()
    writer.write(world.rows("ours", 0, 1))
    writer.commit()
    found = answer(world.table)
    assert [found[key] for key in world.keys] == ["ours", "ours", "old", "rival"]


MOMENTS = ("before the look", "after the look", "between two files", "before the decision")
RIVALS = ("comes and goes", "began before", "began before and gives up", "plans a clustering that is taken back")


def strikes(world: World, rival: str, numbers: tuple[int, ...]) -> tuple[Callable[[], object], Callable[[], object]]:
    """What a rival does at its moment, and what becomes of that before our commit is decided."""
    nothing: Callable[[], object] = lambda: None  # noqa: E731  short, and said once
    table = world.table
    if rival == "comes and goes":
        return world.publish(*numbers), nothing
    if rival == "plans a clustering that is taken back":
        plans: list[Any] = []
        return lambda: plans.append(table.plan_clustering()), lambda: table.rollback(plan=plans.pop())
    begun = table.begin()
    begun.write(world.rows("rival", *numbers))
    return (begun.abort if rival == "began before and gives up" else begun.commit), nothing


def is_refused(kind: str, rival: str, moment: str, numbers: tuple[int, ...], *, early: bool, repeats: bool) -> bool:
    """How the write of groups 0 and 1 ends if a rival strikes at groups of its own, at a moment."""
    world = World(kind, early=early)
    strike, take_back = strikes(world, rival, numbers)

    def at_the_moment() -> None:
        world.clock.sleep(2 * limits.EARLY_LOOK_SECONDS)
        strike()

    table = world.watched(after=once(is_data, at_the_moment) if moment == "between two files" else lambda _: None)
    ours = table._destination.begin(WriteRequest("upsert", repeats=repeats))
    ours.write(world.rows("ours", 0, 1))
    publish = Transaction._publish

    def decided(self: Transaction) -> str:
        patch.undo()
        if moment == "before the decision":
            at_the_moment()
        take_back()
        return publish(self)

    patch = pytest.MonkeyPatch()
    with patch.context() as inner:
        patch.setattr(Transaction, "_publish", decided)
        if moment == "after the look":
            after_the_look(inner, at_the_moment)
        if moment == "before the look":
            at_the_moment()
        ended = refused(ours)
    patch.undo()
    return ended


def cases() -> list[Any]:
    """Every kind of table with every rival; the inner loop has one kind."""
    pairs = [(k, r) for k, r in itertools.product(KINDS, RIVALS) if "buckets" not in k or "clustering" not in r]
    return [pytest.param(*pair, marks=() if "simple, copy" in pair[0] else pytest.mark.slow) for pair in pairs]


@pytest.mark.parametrize(("kind", "rival"), cases())
@pytest.mark.parametrize("repeats", [True, False], ids=["repeats itself", "is told"])
def test_early_detection_refuses_exactly_those_whom_the_commit_would(kind: str, rival: str, *, repeats: bool) -> None:
    ends: dict[bool, list[bool]] = {}
    for early in (True, False):
        ends[early] = [
            is_refused(kind, rival, moment, numbers, early=early, repeats=repeats)
            for moment, numbers in itertools.product(MOMENTS[1:] if rival == RIVALS[-1] else MOMENTS, [(1,), (2, 3)])
        ]
    assert ends[True] == ends[False]
    assert any(ends[True]) is (rival in RIVALS[:2])


@pytest.mark.parametrize("early", [True, False], ids=["early", "at the commit"])
def test_groups_in_which_a_write_found_nothing_to_change_count_early_as_they_do_at_the_commit(
    monkeypatch: pytest.MonkeyPatch, *, early: bool
) -> None:
    """Where changes are captured, a write of rows that lose against those that are there has no file in their group."""
    properties = {EARLY: str(early).lower(), "hoodie.table.cdc.enabled": "true"}
    scene = Scene(arguments={"index": "simple", "table_type": "cow", "properties": properties})
    scene.table.insert([row("k", "old", 5)])
    after_the_look(monkeypatch, lambda: scene.table.upsert([row("k", "rival", 6)], retries=0))
    ours = scene.other().begin()
    ours.write([row("k", "late", 1)])
    assert refused(ours)


@every_kind
def test_the_heartbeat_counts_on_the_groups_from_the_last_look_on(kind: str) -> None:
    world, found = World(kind), []

    def beat() -> None:
        found.append(doomed._has_its_place())
        world.publish(1)()
        found.append(doomed._has_its_place())

    table = world.watched(before=once(is_data, beat))
    doomed = table.begin()
    doomed.write(world.rows("ours", 0, 1))
    assert doomed._has_its_place()
    assert refused(doomed)
    assert found == [True, False]


@every_kind
def test_a_write_that_lets_others_end_is_not_stopped_for_what_it_will_see(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looks again afterwards. A heartbeat that falls in between must not hold against it what it waits for."""
    world = World(kind)
    rival = world.table.begin()
    rival.write(world.rows("rival", 0))
    table = world.watched()
    ours = table._destination.begin(WriteRequest("upsert", repeats=True))
    ours.write([row(world.keys[0], "ours", 3)])
    ends: list[bool] = []

    def end(*_: object) -> bool:
        if not ends:
            rival.commit()
            ends.append(ours._has_its_place())
            return True
        return False

    monkeypatch.setattr(gate, "let_earlier_ones_end", end)
    ours.commit()
    assert ends == [True]
    assert answer(world.table)[world.keys[0]] == "ours"


def test_planted_bugs_of_early_detection_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    kind = "simple, copy-on-write"
    checks = {
        "nobody looks before the files": ("check_meanwhile", lambda *_: None),
        "pending ones count as well": ("check_early", Rivals.check),
        "groups count from the first look on": ("check_placed", _too_soon),
    }
    with monkeypatch.context() as patch:
        patch.setattr(Rivalry, *checks["nobody looks before the files"])
        with pytest.raises(AssertionError):
            test_a_doomed_write_is_refused_before_its_first_file(kind, patch, early=True)
        with pytest.raises(AssertionError):
            test_the_heartbeat_counts_on_the_groups_from_the_last_look_on(kind)
    with monkeypatch.context() as patch:
        patch.setattr(Rivals, *checks["pending ones count as well"])
        with pytest.raises(AssertionError):
            test_early_detection_refuses_exactly_those_whom_the_commit_would(kind, RIVALS[-1], repeats=False)
    with monkeypatch.context() as patch:
        patch.setattr(Rivalry, *checks["groups count from the first look on"])
        with pytest.raises((AssertionError, WriteConflict)):
            test_a_write_that_lets_others_end_is_not_stopped_for_what_it_will_see(kind, patch)


_check_placed = Rivalry.check_placed


def _too_soon(self: Rivalry, now: Any, groups: Any, *, is_closed: bool) -> None:
    _check_placed(self, now, groups, is_closed=is_closed)
    self._chosen = groups
